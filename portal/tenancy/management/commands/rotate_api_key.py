"""Gives an API key a new secret and prints it once. The old one works for a while longer."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pghistory
from django.core.exceptions import ValidationError
from django.core.management.base import CommandParser

from portal.tenancy.commands import REFUSED, Options, TenantCommand, add_key_lifetime, whole_number
from portal.tenancy.context import tenant_context
from portal.tenancy.keys import MAX_OVERLAP, rotate_api_key
from portal.tenancy.models import ApiKey

MAX_OVERLAP_HOURS = MAX_OVERLAP // timedelta(hours=1)


class Command(TenantCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("name", metavar="NAME", help="the key's name")
        add_key_lifetime(parser)
        parser.add_argument(
            "--overlap-hours",
            type=whole_number(0, MAX_OVERLAP_HOURS),
            metavar="HOURS",
            default=MAX_OVERLAP_HOURS,
            help="how long the old secret still works; default and most: %(default)s, 0 ends it at once",
        )

    def run_for(self, tenant_id: UUID, options: Options) -> None:
        try:
            with tenant_context(tenant_id), pghistory.context(actor="manage.py rotate_api_key"):
                row, key = rotate_api_key(
                    name=options["name"],
                    expires_in=timedelta(days=options["expires_in_days"]),
                    overlap=timedelta(hours=options["overlap_hours"]),
                )
        except ApiKey.DoesNotExist:
            self.stop(REFUSED, f"There is no key {options['name']!r} in this tenant.")
        except ValidationError as error:
            self.stop(REFUSED, " ".join(error.messages))
        self.show(
            options,
            {
                "name": row.name,
                "tenant": options["tenant"],
                "expires_at": row.expires_at,
                "previous_expires_at": row.previous_expires_at,
                "api_key": key,
            },
            f"{key}\nThis is shown once. Keep it safe. It expires on {row.expires_at:%d %B %Y}; "
            f"the old secret ends on {row.previous_expires_at:%d %B %Y at %H:%M} UTC.",
        )
