"""Creates an API key and prints it once."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pghistory
from django.core.exceptions import ValidationError
from django.core.management.base import CommandParser

from portal.tenancy.commands import REFUSED, Options, TenantCommand, add_key_lifetime, whole_number
from portal.tenancy.context import tenant_context
from portal.tenancy.keys import create_api_key
from portal.tenancy.models import MAX_RATE, Scope, Sensitivity


class Command(TenantCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("name", metavar="NAME", help="what the key is for; unique in the tenant")
        parser.add_argument(
            "--scope", action="append", choices=Scope.values, required=True, help="may be given several times"
        )
        parser.add_argument("--max-sensitivity", choices=Sensitivity.values, default=Sensitivity.RESTRICTED)
        add_key_lifetime(parser)
        parser.add_argument(
            "--rate",
            type=whole_number(1, MAX_RATE),
            metavar="N",
            help="requests per minute; unlimited without it",
        )

    def run_for(self, tenant_id: UUID, options: Options) -> None:
        try:
            with tenant_context(tenant_id), pghistory.context(actor="manage.py create_api_key"):
                row, key = create_api_key(
                    name=options["name"],
                    scopes=options["scope"],
                    max_sensitivity=options["max_sensitivity"],
                    expires_in=timedelta(days=options["expires_in_days"]),
                    requests_per_minute=options["rate"],
                )
        except ValidationError as error:
            self.stop(REFUSED, " ".join(error.messages))
        self.show(
            options,
            {
                "name": row.name,
                "tenant": options["tenant"],
                "scopes": row.scopes,
                "expires_at": row.expires_at,
                "api_key": key,
            },
            f"{key}\nThis is shown once. Keep it safe. It expires on {row.expires_at:%d %B %Y}.",
        )
