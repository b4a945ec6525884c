"""What the portal's commands share: the tenant they act for, `--json`, and exit codes that mean something."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping
from typing import Any, NoReturn
from uuid import UUID

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandParser
from django.core.serializers.json import DjangoJSONEncoder
from django.db import OperationalError, connection

from portal.tenancy.keys import DEFAULT_LIFETIME, MAX_LIFETIME

DONE, SOME_FAILED, USAGE, REFUSED, DEPENDENCY_DOWN = 0, 1, 2, 3, 4
DEFAULT_TENANT = "default"
Options = dict[str, Any]
"""The options of a command by name, as argparse made them."""


def whole_number(low: int, high: int) -> Callable[[str], int]:
    """The type of an argument that is a whole number within [low, high]."""

    def parse(text: str) -> int:
        number = int(text)
        if not low <= number <= high:
            raise ArgumentTypeError(f"must lie between {low} and {high}")
        return number

    return parse


def add_key_lifetime(parser: CommandParser) -> None:
    """The option `expires_in_days` of the commands that make the secret of an API key."""
    parser.add_argument(
        "--expires-in-days",
        type=whole_number(1, MAX_LIFETIME.days),
        metavar="DAYS",
        default=DEFAULT_LIFETIME.days,
        help=f"default: %(default)s; {MAX_LIFETIME.days} at most",
    )


class PortalCommand(BaseCommand):
    """A command whose errors are one sentence on stderr and an exit code. Subclasses define `run`."""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--json", action="store_true", help="print one JSON object on stdout, all else on stderr"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            code = self.run(options) or DONE
        except OperationalError as error:
            self.stop(DEPENDENCY_DOWN, f"The database does not answer: {str(error).strip().splitlines()[0]}")
        if code:
            sys.exit(code)

    def run(self, options: Options) -> int | None:
        raise NotImplementedError

    def stop(self, code: int, sentence: str) -> NoReturn:
        self.stderr.write(sentence)
        sys.exit(code)

    def user(self, username: str) -> User:
        """The user of that name; a name that nobody has ends the command."""
        try:
            return User.objects.get_by_natural_key(username)
        except User.DoesNotExist:
            self.stop(
                REFUSED,
                f"There is no user {username!r}. Make one in the admin, or with: manage.py createsuperuser",
            )

    def show(self, options: Options, data: Mapping[str, object], text: str) -> None:
        self.stdout.write(
            json.dumps(data, ensure_ascii=False, cls=DjangoJSONEncoder) if options["json"] else text
        )


class TenantCommand(PortalCommand):
    """A command that acts for one tenant: `--tenant SLUG`, the default tenant without it."""

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--tenant", default=DEFAULT_TENANT, metavar="SLUG", help="default: %(default)s")

    def run(self, options: Options) -> int | None:
        return self.run_for(self.tenant_id(options["tenant"]), options)

    def run_for(self, tenant_id: UUID, options: Options) -> int | None:
        raise NotImplementedError

    def tenant_id(self, slug: str) -> UUID:
        with connection.cursor() as cursor:
            cursor.execute("SELECT portal_tenant(%s)", [slug])
            row = cursor.fetchone()
        if row is None or row[0] is None:
            self.stop(USAGE, f"There is no tenant {slug!r}. Make it with: manage.py create_tenant {slug}")
        found: UUID = row[0]
        return found
