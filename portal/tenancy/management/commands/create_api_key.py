"""Creates an API key and prints it once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.core.management.base import CommandParser

from portal.tenancy.commands import REFUSED, TenantCommand
from portal.tenancy.context import tenant_context
from portal.tenancy.keys import create_api_key
from portal.tenancy.models import ApiKey, Scope, Sensitivity


class Command(TenantCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("name", metavar="NAME", help="what the key is for; unique in the tenant")
        parser.add_argument(
            "--scope", action="append", choices=Scope.values, required=True, help="may be given several times"
        )
        parser.add_argument("--max-sensitivity", choices=Sensitivity.values, default=Sensitivity.RESTRICTED)
        parser.add_argument("--expires-in-days", type=int, help="never without it")

    def run_for(self, tenant_id: UUID, options: dict[str, Any]) -> None:
        days = options["expires_in_days"]
        with tenant_context(tenant_id):
            if ApiKey.objects.filter(name=options["name"]).exists():
                self.stop(REFUSED, f"A key named {options['name']!r} exists in tenant {options['tenant']}.")
            row, key = create_api_key(
                name=options["name"],
                scopes=options["scope"],
                max_sensitivity=options["max_sensitivity"],
                expires_in=timedelta(days=days) if days else None,
            )
        self.show(
            options,
            {"name": row.name, "tenant": options["tenant"], "scopes": row.scopes, "api_key": key},
            f"{key}\nThis is shown once. Keep it safe.",
        )
