"""Creates a tenant, with its first admin where one is named."""

from __future__ import annotations

import pghistory
from django.core.exceptions import ValidationError
from django.core.management.base import CommandParser
from django.db import transaction

from portal.tenancy.commands import REFUSED, Options, PortalCommand
from portal.tenancy.context import tenant_context
from portal.tenancy.members import add_member
from portal.tenancy.models import Role, Tenant


class Command(PortalCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("slug", metavar="SLUG", help="letters, digits, dashes and underscores")
        parser.add_argument("--name", default="", help="as shown on pages; the slug without it")

        parser.add_argument("--admin", metavar="USERNAME", help="a user that exists, who becomes its admin")

    def run(self, options: Options) -> None:
        admin = self.user(options["admin"]) if options["admin"] else None
        tenant = Tenant(slug=options["slug"], name=options["name"] or options["slug"])
        try:
            tenant.full_clean()
        except ValidationError as error:
            self.stop(REFUSED, " ".join(error.messages))
        with transaction.atomic():
            tenant.save()
            if admin:
                with tenant_context(tenant.pk), pghistory.context(actor="manage.py create_tenant"):
                    add_member(admin, Role.ADMIN)
        self.show(
            options,
            {"tenant": tenant.slug, "id": str(tenant.pk), "admin": admin.get_username() if admin else None},
            f"Tenant {tenant.slug} created. Its admin is {admin.get_username()}."
            if admin
            else f"Tenant {tenant.slug} created. It has no members yet: "
            f"manage.py add_member USERNAME --tenant {tenant.slug} --role admin",
        )
