"""Makes a user a member of a tenant, without an invitation, or gives a member another role."""

from __future__ import annotations

from uuid import UUID

import pghistory
from django.core.management.base import CommandParser

from portal.tenancy.commands import REFUSED, Options, TenantCommand
from portal.tenancy.context import tenant_context
from portal.tenancy.members import LastAdmin, add_member
from portal.tenancy.models import Role


class Command(TenantCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("username", metavar="USERNAME", help="of a user that exists")
        parser.add_argument("--role", choices=Role.values, required=True)

    def run_for(self, tenant_id: UUID, options: Options) -> None:
        user = self.user(options["username"])
        try:
            with tenant_context(tenant_id), pghistory.context(actor="manage.py add_member"):
                member = add_member(user, options["role"])
        except LastAdmin as error:
            self.stop(REFUSED, str(error))
        self.show(
            options,
            {"tenant": options["tenant"], "username": user.get_username(), "role": member.role},
            f"{user.get_username()} is now {member.role} of the tenant {options['tenant']}.",
        )
