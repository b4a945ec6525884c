"""The roles of the database, and the two logins that DATABASE_URL and DATABASE_WORKER_URL name."""

from __future__ import annotations

from django.db import connection
from psycopg import sql

from portal import env
from portal.tenancy.rls import CREATE_GROUPS

GROUP_OF_URL = {"DATABASE_URL": "portal_app", "DATABASE_WORKER_URL": "portal_worker"}

# What a login has and must not have, as the words that take it away. They are said where they are needed alone: an owner who is
# no superuser may not say NOSUPERUSER of a role that is none.
FORBIDDEN = """
SELECT array_remove(ARRAY[
    CASE WHEN rolsuper THEN 'NOSUPERUSER' END, CASE WHEN rolbypassrls THEN 'NOBYPASSRLS' END,
    CASE WHEN rolcreaterole THEN 'NOCREATEROLE' END, CASE WHEN rolcreatedb THEN 'NOCREATEDB' END,
    CASE WHEN rolreplication THEN 'NOREPLICATION' END], NULL)
FROM pg_roles WHERE rolname = %s
"""
OTHER_GROUPS = """
SELECT r.rolname FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.roleid JOIN pg_roles l ON l.oid = m.member
WHERE l.rolname = %s AND r.rolname IN ('portal_app', 'portal_worker', 'portal_search', 'portal_identity') AND r.rolname <> %s
"""


class OneLoginTwice(Exception):
    """Two of the three database URLs name one login, whose rights would then add up."""


def ensure_logins() -> list[str]:
    """Makes what is missing, sets the passwords of the settings, and takes away what a login may not be.

    Returns the names. Safe to repeat. OneLoginTwice is raised before anything is changed.
    """
    logins = {group: env.database_login(url) for url, group in GROUP_OF_URL.items()}
    names = [str(login["USER"]) for login in logins.values()]
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_user")
        if len({*names, cursor.fetchone()[0]}) < 3:
            raise OneLoginTwice(
                "DATABASE_URL, DATABASE_WORKER_URL and DATABASE_ADMIN_URL must name three logins: row-level security binds "
                "the first two and not the third."
            )
        cursor.execute(CREATE_GROUPS)
        for group, login in logins.items():
            name = str(login["USER"])
            cursor.execute(FORBIDDEN, [name])
            row = cursor.fetchone()
            cursor.execute(
                sql.SQL("{} ROLE {} LOGIN {} PASSWORD {}").format(
                    sql.SQL("ALTER" if row else "CREATE"),
                    sql.Identifier(name),
                    sql.SQL(" ".join(row[0] if row else [])),
                    sql.Literal(login["PASSWORD"]),
                )
            )
            cursor.execute(OTHER_GROUPS, [name, group])
            for (other,) in cursor.fetchall():
                cursor.execute(
                    sql.SQL("REVOKE {} FROM {}").format(sql.Identifier(other), sql.Identifier(name))
                )
            cursor.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(group), sql.Identifier(name)))
    return names
