"""Who may do what in the database: what the code wants (access.sql), what is there, and the way from one to the other.

Migrations grant rights when they run. A restored dump has run them elsewhere: the roles of its cluster are missing here, and with
them the policies; `--no-owner --no-acl` leaves out the grants and the functions' owners. So every right is a statement, in the
catalogue as in the file, and what differs can be carried out as it stands. `make access` writes the file from the migrations.

Compared is what concerns the portal's own roles and PUBLIC on the objects that the file names. An operator's own tables and
roles, and what those were given, are left alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from django.db import ProgrammingError, connection, transaction
from django.db.backends.utils import CursorWrapper

FILE = Path(__file__).with_name("access.sql")
HEAD = "-- Written by `make access` from the migrations; portal/ops/access.py says what for.\n"
# The figure of the oldest snapshot needs it, which an owner who is no superuser cannot grant (embeddings/migrations/0008_figures.py).
OPTIONAL = frozenset({"GRANT pg_read_all_stats TO portal_search;"})
# A right that another one hides shows once that is gone: a table's REVOKE takes the columns' grants along.
ROUNDS = 3

# The objects and the statements that would give them the access that they have. No parameters, so `%` is format's own.
FOUND = """
WITH grantee AS (
    SELECT oid, quote_ident(rolname) AS name FROM pg_roles
    WHERE rolname IN ('portal_app', 'portal_worker', 'portal_search', 'portal_identity')
    UNION ALL SELECT 0::oid, 'PUBLIC'
), relation AS (
    SELECT *, format(CASE relkind WHEN 'S' THEN 'SEQUENCE %I' ELSE 'TABLE %I' END, relname) AS object
    FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'S')
), routine AS (
    SELECT *, format('FUNCTION %s', oid::regprocedure) AS object
    FROM pg_proc p WHERE pronamespace = 'public'::regnamespace AND NOT EXISTS (
        SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')
), acl AS (
    SELECT object, coalesce(relacl, acldefault((CASE relkind WHEN 'S' THEN 's' ELSE 'r' END)::"char", relowner)) AS items FROM relation
    UNION ALL SELECT object, coalesce(proacl, acldefault('f', proowner)) FROM routine WHERE prosecdef
    UNION ALL SELECT 'SCHEMA public', coalesce(nspacl, acldefault('n', nspowner)) FROM pg_namespace WHERE nspname = 'public'
)
SELECT object, format('GRANT %s ON %s TO %s', string_agg(privilege_type, ', ' ORDER BY privilege_type), object, name)
FROM acl, aclexplode(items) given JOIN grantee ON grantee.oid = given.grantee GROUP BY object, name
UNION ALL
SELECT object, format('GRANT %s (%s) ON %s TO %s',
    privilege_type, string_agg(quote_ident(attname), ', ' ORDER BY attname), object, name)
FROM relation JOIN pg_attribute ON attrelid = relation.oid, aclexplode(attacl) given JOIN grantee ON grantee.oid = given.grantee
GROUP BY object, privilege_type, name
UNION ALL
SELECT 'SCHEMA public', format('ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT %s ON %s TO %s',
    string_agg(privilege_type, ', ' ORDER BY privilege_type),
    CASE defaclobjtype WHEN 'r' THEN 'TABLES' WHEN 'S' THEN 'SEQUENCES' WHEN 'f' THEN 'FUNCTIONS' ELSE 'TYPES' END, name)
FROM pg_default_acl, aclexplode(defaclacl) given JOIN grantee ON grantee.oid = given.grantee
WHERE defaclnamespace = 'public'::regnamespace AND defaclrole = quote_ident(current_user)::regrole
GROUP BY defaclobjtype, name
UNION ALL
SELECT object, format('ALTER %s OWNER TO %s', object,
    CASE pg_get_userbyid(owner) WHEN current_user THEN 'CURRENT_USER' ELSE quote_ident(pg_get_userbyid(owner)) END)
FROM (
    SELECT object, relowner FROM relation WHERE relkind <> 'S'
    UNION ALL SELECT object, proowner FROM routine
) AS owned (object, owner)
UNION ALL
SELECT object, format('ALTER %s ENABLE ROW LEVEL SECURITY', object) FROM relation WHERE relrowsecurity
UNION ALL
SELECT object, format('ALTER %s FORCE ROW LEVEL SECURITY', object) FROM relation WHERE relforcerowsecurity
UNION ALL
SELECT format('TABLE %I', tablename), format('CREATE POLICY %I ON %I AS %s FOR %s TO %s', policyname, tablename, permissive, cmd,
    (SELECT string_agg(CASE role WHEN 'public' THEN 'PUBLIC' WHEN current_user THEN 'CURRENT_USER' ELSE quote_ident(role) END,
        ', ' ORDER BY role) FROM unnest(roles) role))
    || coalesce(' USING (' || qual || ')', '') || coalesce(' WITH CHECK (' || with_check || ')', '')
FROM pg_policies
WHERE schemaname = 'public'
    AND roles && ('{portal_app,portal_worker,portal_search,portal_identity,public}'::name[] || current_user::name)
UNION ALL
SELECT 'ROLE ' || name, format('ALTER ROLE %s %s', name, attribute)
FROM grantee JOIN pg_roles USING (oid), unnest(ARRAY[
    CASE WHEN rolsuper THEN 'SUPERUSER' ELSE 'NOSUPERUSER' END, CASE WHEN rolcanlogin THEN 'LOGIN' ELSE 'NOLOGIN' END,
    CASE WHEN rolcreaterole THEN 'CREATEROLE' ELSE 'NOCREATEROLE' END, CASE WHEN rolcreatedb THEN 'CREATEDB' ELSE 'NOCREATEDB' END,
    CASE WHEN rolbypassrls THEN 'BYPASSRLS' ELSE 'NOBYPASSRLS' END]) attribute
UNION ALL
SELECT 'ROLE ' || name, format('GRANT %I TO %s', pg_get_userbyid(roleid), name) FROM pg_auth_members JOIN grantee ON grantee.oid = member
"""


# The roles that must read every tenant's rows and that row-level security binds all the same, because this login cannot free them.
BOUND = """
SELECT CASE rolname WHEN current_user THEN 'CURRENT_USER' ELSE rolname END FROM pg_roles
WHERE rolname IN (current_user, 'portal_search', 'portal_identity') AND NOT rolsuper AND NOT rolbypassrls
    AND NOT (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user)
"""


@dataclass(frozen=True, slots=True)
class Mended:
    """What was carried out, and what could not be: each statement with PostgreSQL's reason."""

    done: list[str]
    left: dict[str, str]


def wanted() -> list[str]:
    """The statements of access.sql, in its order: owners and roles come before grants.

    Where nobody gives BYPASSRLS (a managed PostgreSQL), policies stand in for it, on the tables that the role may read.
    """
    lines = _lines()
    with connection.cursor() as cursor:
        cursor.execute(BOUND)
        bound = [row[0] for row in cursor.fetchall()]
    freed = {f"ALTER ROLE {role} BYPASSRLS;" for role in bound}
    return [
        *(line for line in lines if line not in freed),
        *(policy for role in bound for policy in _policies_instead(role)),
    ]


def _policies_instead(role: str) -> list[str]:
    """What lets a role that cannot bypass row-level security read what it is granted, or the owner do everything."""
    text = "\n".join(_lines())
    tables = set(re.findall(r"^ALTER TABLE (\S+) ENABLE ROW LEVEL SECURITY;$", text, re.MULTILINE))
    name, does, rule = "owner", "ALL", "USING (true) WITH CHECK (true)"
    if role != "CURRENT_USER":
        granted = rf"^GRANT SELECT(?: \(.*\))? ON TABLE (\S+) TO {role};$"
        tables &= set(re.findall(granted, text, re.MULTILINE))
        name, does, rule = role, "SELECT", "USING (true)"
    return [
        f"CREATE POLICY {name} ON {table} AS PERMISSIVE FOR {does} TO {role} {rule};"
        for table in sorted(tables)
    ]


@cache
def _lines() -> list[str]:
    text = FILE.read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("--")]


def found() -> dict[str, str]:
    """The statements that describe the database's access, each with its object. Needs the owner's login."""
    with transaction.atomic(), connection.cursor() as cursor:
        # Names are written as this path finds them, whatever the login's own path is.
        cursor.execute("SET LOCAL search_path = public")
        cursor.execute(FOUND)
        return {f"{statement};": object_ for object_, statement in cursor.fetchall()}


def as_file() -> str:
    """The text of access.sql for a database that has run all migrations and nothing else."""
    return HEAD + "".join(f"{line}\n" for line in sorted(found()))


def differences() -> list[str]:
    """The statements that bring the database to what is wanted, in their order; none if nothing differs."""
    there, right = found(), wanted()
    named = "\n".join(right)
    surplus = [
        statement for statement, its in there.items() if statement not in right and f" {its} " in named
    ]
    return [
        *filter(None, map(_undoing, surplus)),
        *(statement for statement in right if statement not in there),
    ]


def restore_policies() -> list[str]:
    """Gives tables whose row-level security has lost all policies theirs again; returns what was done.

    For before `migrate`: migrations change policies, and a dump that was restored without the roles has none.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT format(' ON %I ', relname) FROM pg_class c WHERE relrowsecurity AND relnamespace = 'public'::regnamespace "
            "AND NOT EXISTS (SELECT FROM pg_policy WHERE polrelid = c.oid)"
        )
        bare = [row[0] for row in cursor.fetchall()]
    lost = [
        one for one in wanted() if one.startswith("CREATE POLICY") and any(table in one for table in bare)
    ]
    with transaction.atomic():
        return [one for one in lost if _carry_out(one) is None]


def mend() -> Mended:
    """Brings the database to what is wanted, in one transaction, as far as the login may."""
    done: list[str] = []
    left: dict[str, str] = {}
    with transaction.atomic():
        for _ in range(ROUNDS):
            left, tried = {}, differences()
            for statement in tried:
                if reason := _carry_out(statement):
                    left[statement] = reason
                else:
                    done.append(statement)
            if len(left) == len(tried):
                break
        # A REVOKE of what another role granted does nothing, and PostgreSQL calls it no error.
        for statement in differences():
            left.setdefault(statement, "it has no effect for this login")
        if done:
            # A restored table has no statistics, and the first searches would be planned without any.
            with connection.cursor() as cursor:
                cursor.execute("ANALYZE")
    return Mended(done, {statement: why for statement, why in left.items() if statement not in OPTIONAL})


def _carry_out(statement: str) -> str | None:
    """Runs one statement; returns PostgreSQL's words if it refuses, and then nothing is changed."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL search_path = public")
            _run(cursor, statement)
    except ProgrammingError as error:
        return str(error).splitlines()[0]
    return None


def _run(cursor: CursorWrapper, statement: str) -> None:
    # A new owner must be allowed to create in the schema, which it is for this moment only.
    role = re.fullmatch(r"ALTER FUNCTION .* OWNER TO (portal_\w+);", statement)
    if role:
        cursor.execute(f"GRANT CREATE ON SCHEMA public TO {role[1]}")
    cursor.execute(statement)
    if role:
        cursor.execute(f"REVOKE CREATE ON SCHEMA public FROM {role[1]}")


def _undoing(statement: str) -> str | None:
    """What takes a right back; None for an owner or an attribute of a role, which its wanted statement replaces."""
    if statement.startswith("CREATE POLICY"):
        return re.sub(r"^CREATE (POLICY \S+ ON \S+) .*", r"DROP \1;", statement)
    if " ROW LEVEL SECURITY" in statement:
        return statement.replace(" ENABLE ", " DISABLE ").replace(" FORCE ", " NO FORCE ")
    if "GRANT " in statement:
        return re.sub(r" TO (\S+)$", r" FROM \1", statement.replace("GRANT ", "REVOKE ", 1))
    return None
