"""Creates the two logins that DATABASE_URL and DATABASE_WORKER_URL name, with their passwords; safe to repeat."""

from __future__ import annotations

from django.db import connection
from psycopg import sql

from portal import env
from portal.tenancy.commands import Options, PortalCommand
from portal.tenancy.rls import CREATE_GROUPS

GROUP_OF_URL = {"DATABASE_URL": "portal_app", "DATABASE_WORKER_URL": "portal_worker"}


class Command(PortalCommand):
    help = __doc__

    def run(self, options: Options) -> None:
        made = []
        with connection.cursor() as cursor:
            cursor.execute(CREATE_GROUPS)
            for url, group in GROUP_OF_URL.items():
                login = env.database_login(url)
                name, password = sql.Identifier(str(login["USER"])), sql.Literal(login["PASSWORD"])
                cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [str(login["USER"])])
                verb = sql.SQL("ALTER" if cursor.fetchone() else "CREATE")
                cursor.execute(
                    sql.SQL(
                        "{} ROLE {} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS PASSWORD {}"
                    ).format(verb, name, password)
                )
                cursor.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(group), name))
                made.append(str(login["USER"]))
        self.show(options, {"logins": made}, f"Logins ready: {', '.join(made)}")
