"""Brings a database, a restored one too, to the portal's present state: logins, migrations, and who may do what in it.

Safe to repeat: where nothing is missing, nothing changes. What the owner's login may not do is said, with the statements that
somebody else must run (docs/backup.md).
"""

from __future__ import annotations

from django.core.management import call_command
from django.db import ProgrammingError, connection
from psycopg.errors import InsufficientPrivilege

from portal.ops import access
from portal.ops.logins import OneLoginTwice, ensure_logins
from portal.tenancy.commands import REFUSED, Options, PortalCommand
from tools.search.sql import load

MANUAL = "docs/backup.md says what the owner's login must be allowed."


class Command(PortalCommand):
    help = __doc__

    def run(self, options: Options) -> None:
        try:
            logins = ensure_logins()
            lost = [*_restore_search(), *access.restore_policies()]
            call_command("migrate", interactive=False, verbosity=0)
            mended = access.mend()
        except OneLoginTwice as error:
            self.stop(REFUSED, str(error))
        except ProgrammingError as error:
            if not isinstance(error.__cause__, InsufficientPrivilege):
                raise
            self.stop(
                REFUSED,
                f"The login {_owner()} lacks a right that the database needs: {' '.join(str(error).split())} {MANUAL}",
            )
        if mended.left:
            statements = "\n".join(f"  {statement}  -- {why}" for statement, why in mended.left.items())
            self.stop(
                REFUSED,
                f"The database lacks rights without which the portal would not be safe or not work, and the login {_owner()} could "
                f"not mend them, for the reasons beside them. Let somebody who may run them, then run this again. {MANUAL}\n{statements}",
            )
        done = [*lost, *mended.done]
        self.show(
            options,
            {"logins": logins, "mended": done},
            f"Database ready; logins: {', '.join(logins)}."
            + (f" {len(done)} rights were missing or wrong and are as they should be now." if done else ""),
        )


def _restore_search() -> list[str]:
    """Makes tools_search_candidates where pg_restore could not, in dumps of before migration tools.0020: it set parameters of pgvector,
    and PostgreSQL lets an owner who is no superuser do so in a session that has used pgvector. Before `migrate`, which replaces it.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT to_regclass('public.tools_posting'), to_regproc('public.tools_search_candidates')"
        )
        table, function = cursor.fetchone()
        if table is None or function is not None:
            return []
        cursor.execute("SELECT '[1]'::vector")
        cursor.execute(load("0017_candidates.sql"))
    return ["CREATE FUNCTION tools_search_candidates"]


def _owner() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_user")
        name: str = cursor.fetchone()[0]
    return name
