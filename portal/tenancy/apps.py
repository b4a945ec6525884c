from __future__ import annotations

from django.apps import AppConfig
from django.contrib.auth.signals import user_logged_in


class TenancyConfig(AppConfig):
    name = "portal.tenancy"
    label = "tenancy"
    verbose_name = "Tenants and keys"

    def ready(self) -> None:
        from portal.tenancy.middleware import pin_session

        # Django's flow, not ours: the portal's login and the admin's have nothing else in common.
        user_logged_in.connect(pin_session, dispatch_uid="pin_session")
