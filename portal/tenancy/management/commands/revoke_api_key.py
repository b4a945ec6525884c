"""Revokes an API key: its secret, and the old one of a rotated key, end at once and for ever."""

from __future__ import annotations

from uuid import UUID

import pghistory
from django.core.management.base import CommandParser

from portal.tenancy.commands import REFUSED, Options, TenantCommand
from portal.tenancy.context import tenant_context
from portal.tenancy.keys import revoke_api_key
from portal.tenancy.models import ApiKey


class Command(TenantCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("name", metavar="NAME", help="the key's name")

    def run_for(self, tenant_id: UUID, options: Options) -> None:
        try:
            with tenant_context(tenant_id), pghistory.context(actor="manage.py revoke_api_key"):
                row = revoke_api_key(name=options["name"])
        except ApiKey.DoesNotExist:
            self.stop(REFUSED, f"There is no key {options['name']!r} in this tenant.")
        self.show(
            options,
            {"name": row.name, "tenant": options["tenant"], "revoked_at": row.revoked_at},
            f"The key {row.name} was revoked on {row.revoked_at:%d %B %Y at %H:%M} UTC and no longer works.",
        )
