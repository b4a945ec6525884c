"""Creates a tenant."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.core.management.base import CommandParser

from portal.tenancy.commands import REFUSED, Options, PortalCommand
from portal.tenancy.models import Tenant


class Command(PortalCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("slug", metavar="SLUG", help="letters, digits, dashes and underscores")
        parser.add_argument("--name", default="", help="as shown on pages; the slug without it")

    def run(self, options: Options) -> None:
        tenant = Tenant(slug=options["slug"], name=options["name"] or options["slug"])
        try:
            tenant.full_clean()
        except ValidationError as error:
            self.stop(REFUSED, " ".join(error.messages))
        tenant.save()
        self.show(options, {"tenant": tenant.slug, "id": str(tenant.pk)}, f"Tenant {tenant.slug} created.")
