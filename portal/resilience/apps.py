from __future__ import annotations

from django.apps import AppConfig


class ResilienceConfig(AppConfig):
    name = "portal.resilience"
    label = "resilience"
    verbose_name = "Resilience"
