from __future__ import annotations

from django.apps import AppConfig


class TenancyConfig(AppConfig):
    name = "portal.tenancy"
    label = "tenancy"
    verbose_name = "Tenants and keys"
