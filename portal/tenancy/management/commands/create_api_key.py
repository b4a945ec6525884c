"""Creates an API key and prints it once."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pghistory
from django.core.exceptions import ValidationError
from django.core.management.base import CommandParser

from portal.tenancy.commands import REFUSED, Options, TenantCommand
from portal.tenancy.context import tenant_context
from portal.tenancy.keys import create_api_key
from portal.tenancy.models import MAX_RATE, Scope, Sensitivity

MAX_DAYS = 3650


def _up_to(highest: int) -> Callable[[str], int]:
    def whole_number(text: str) -> int:
        number = int(text)
        if not 1 <= number <= highest:
            raise ArgumentTypeError(f"must lie between 1 and {highest}")
        return number

    return whole_number


class Command(TenantCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("name", metavar="NAME", help="what the key is for; unique in the tenant")
        parser.add_argument(
            "--scope", action="append", choices=Scope.values, required=True, help="may be given several times"
        )
        parser.add_argument("--max-sensitivity", choices=Sensitivity.values, default=Sensitivity.RESTRICTED)
        parser.add_argument(
            "--expires-in-days", type=_up_to(MAX_DAYS), metavar="DAYS", help="never without it"
        )
        parser.add_argument(
            "--rate", type=_up_to(MAX_RATE), metavar="N", help="requests per minute; unlimited without it"
        )

    def run_for(self, tenant_id: UUID, options: Options) -> None:
        days = options["expires_in_days"]
        try:
            with tenant_context(tenant_id), pghistory.context(actor="manage.py create_api_key"):
                row, key = create_api_key(
                    name=options["name"],
                    scopes=options["scope"],
                    max_sensitivity=options["max_sensitivity"],
                    expires_in=timedelta(days=days) if days else None,
                    requests_per_minute=options["rate"],
                )
        except ValidationError as error:
            self.stop(REFUSED, " ".join(error.messages))
        self.show(
            options,
            {"name": row.name, "tenant": options["tenant"], "scopes": row.scopes, "api_key": key},
            f"{key}\nThis is shown once. Keep it safe.",
        )
