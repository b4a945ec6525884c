"""What PostgreSQL itself says of the isolation of tenants: read from its catalogue, so that a new table is judged too."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pghistory.models
import psycopg
import pytest
from django.db import IntegrityError, connection, transaction
from django.db.utils import ProgrammingError

from portal.tenancy.context import NoTenant, tenant_context
from portal.tenancy.keys import create_api_key
from portal.tenancy.models import Scope, Tenant
from tools.models import Endpoint, Source, SourceKind, Tool

Owner = psycopg.Connection[Any]

# The tables that tenants share, and why each may.
SHARED = {
    "auth_group", "auth_group_permissions", "auth_permission", "auth_user", "auth_user_groups",
    "auth_user_user_permissions",  # people, who may belong to several tenants
    "django_session", "django_admin_log",  # of a person
    "django_content_type", "django_migrations",  # of the code
    "tenancy_tenant",  # isolated by its own id
    "embeddings_embeddingmodel",  # which models the installation has vectors of
    "embeddings_embeddingcircuit",  # whether their providers answer
    "embeddings_embeddingtally",  # sums of what workers did
    "jobs_workerheartbeat",  # which processes of the installation live
    "pghistory_context",  # unused, and closed to both logins
}  # fmt: skip
UNIQUE_WITHOUT_TENANT = {
    # Looked up before a tenant is known, by 256 random bits that tell nothing of anybody.
    "tenancy_apikey": {("digest",), ("previous_digest",)},
    "tenancy_tenant": {("slug",)},
}
RULE = "(tenant_id = (current_setting('portal.tenant'::text))::uuid)"
TENANT_TABLES = """
SELECT c.relname, c.relrowsecurity, c.relforcerowsecurity, c.relowner::regrole::text, c.oid
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace ORDER BY 1
"""


def logins() -> list[str]:
    return [str(urlsplit(os.environ[name]).username) for name in ("DATABASE_URL", "DATABASE_WORKER_URL")]


def test_sec_1_every_table_with_a_tenant_has_forced_row_level_security_and_a_policy(
    admin_database: Owner,
) -> None:
    tables = admin_database.execute(TENANT_TABLES).fetchall()
    assert {row[0] for row in tables} >= {
        "tools_tool",
        "tools_endpoint",
        "tools_toolevent",
        "embeddings_embeddingtask",
    }
    for name, enabled, forced, owner, oid in tables:
        assert enabled, f"{name} has no row-level security"
        assert forced, f"{name}: row-level security is not forced"
        assert owner not in logins(), f"{name} belongs to a login"
        policies = admin_database.execute(
            "SELECT polname, pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid), polroles::regrole[]::text[] "
            "FROM pg_policy WHERE polrelid = %s",
            [oid],
        ).fetchall()
        assert policies, f"{name} has no policy"
        for policy, using, check, roles in policies:
            if policy == "prune":  # of the tenant's own rows the old ones, and for the worker alone
                assert (name, roles) == ("tenancy_signin", ["portal_worker"])
                assert using == check == f"({RULE} AND (at < (now() - '30 days'::interval)))"
                continue
            if policy == "worker":  # the queues, which the worker reads across tenants, and nobody else
                assert name in {"embeddings_embeddingtask", "jobs_job"}
                assert roles == ["portal_worker"]
                continue
            assert (using, check) == (RULE, RULE), f"{name}: the policy {policy} lets more through"


def test_sec_1_a_table_without_a_tenant_is_on_the_list_of_shared_ones(admin_database: Owner) -> None:
    rows = admin_database.execute(
        "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p', 'm') AND relnamespace = 'public'::regnamespace"
    ).fetchall()
    tenants = {row[0] for row in admin_database.execute(TENANT_TABLES).fetchall()}
    assert {row[0] for row in rows} - tenants - SHARED == set()
    for login in logins():
        closed = admin_database.execute(
            "SELECT has_table_privilege(%s, 'pghistory_context', 'SELECT, INSERT')", [login]
        )
        assert closed.fetchone() == (False,)


def test_sec_1_views_over_tenant_tables_run_as_their_reader(admin_database: Owner) -> None:
    views = admin_database.execute(
        "SELECT relname, coalesce(reloptions::text, '') FROM pg_class WHERE relkind = 'v' AND relnamespace = 'public'::regnamespace"
    ).fetchall()
    assert [name for name, options in views if "security_invoker=true" not in options] == []


def test_sec_1_the_logins_bypass_nothing_and_own_nothing(admin_database: Owner) -> None:
    for login in logins():
        row = admin_database.execute(
            "SELECT rolsuper, rolbypassrls, rolcreaterole, rolcreatedb FROM pg_roles WHERE rolname = %s",
            [login],
        ).fetchone()
        assert row == (False, False, False, False), login
        owned = admin_database.execute(
            "SELECT count(*) FROM pg_class WHERE relowner = %s::regrole", [login]
        ).fetchone()
        assert owned == (0,), login
        bypassing = admin_database.execute(
            "SELECT r.rolname FROM pg_roles r WHERE (r.rolbypassrls OR r.rolsuper) AND pg_has_role(%s, r.oid, 'MEMBER')",
            [login],
        ).fetchall()
        assert bypassing == [], f"{login} may become a role that row-level security does not bind"
        created = admin_database.execute(
            "SELECT has_schema_privilege(%s, 'public', 'CREATE')", [login]
        ).fetchone()
        assert created == (False,), f"{login} may create in the schema that functions search"


def test_sec_1_the_suite_itself_runs_as_the_application(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_user, rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"
        )
        assert cursor.fetchone() == (logins()[0], False)


def test_sec_1_every_foreign_key_between_tenant_tables_is_composite(admin_database: Owner) -> None:
    keys = admin_database.execute(
        """
        SELECT con.conrelid::regclass::text, con.conname,
            (SELECT array_agg(a.attname::text ORDER BY k.place) FROM unnest(con.conkey) WITH ORDINALITY AS k(number, place)
             JOIN pg_attribute a ON a.attrelid = con.conrelid AND a.attnum = k.number),
            (SELECT array_agg(a.attname::text ORDER BY k.place) FROM unnest(con.confkey) WITH ORDINALITY AS k(number, place)
             JOIN pg_attribute a ON a.attrelid = con.confrelid AND a.attnum = k.number)
        FROM pg_constraint con
        WHERE con.contype = 'f'
            AND con.conrelid IN (SELECT attrelid FROM pg_attribute WHERE attname = 'tenant_id')
            AND con.confrelid IN (SELECT attrelid FROM pg_attribute WHERE attname = 'tenant_id')
        """
    ).fetchall()
    assert len(keys) >= 6
    for table, name, columns, referenced in keys:
        assert columns[0] == "tenant_id", f"{table}: {name} lets a row point into another tenant"
        assert referenced == ["tenant_id", "id"], f"{table}: {name}"


def test_sec_1_every_reference_of_a_model_has_its_foreign_key_in_the_database(admin_database: Owner) -> None:
    from django.apps import apps

    from portal.tenancy.fields import CompositeForeignKey, TenantForeignKey

    for model in apps.get_models():
        if issubclass(model, pghistory.models.Event):
            continue  # history outlives what it tells of
        references = {field.column for field in model._meta.fields if isinstance(field, TenantForeignKey)}
        kept = {one.column for one in model._meta.constraints if isinstance(one, CompositeForeignKey)}
        assert references == kept, model


def test_sec_1_every_unique_constraint_holds_the_tenant(admin_database: Owner) -> None:
    indexes = admin_database.execute(
        """
        SELECT i.indrelid::regclass::text,
            (SELECT array_agg(a.attname::text ORDER BY k.place) FROM unnest(i.indkey[:i.indnkeyatts - 1]) WITH ORDINALITY AS k(number, place)
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number)
        FROM pg_index i
        WHERE i.indisunique AND NOT i.indisprimary  -- primary keys are UUIDs, made by us and telling nothing
            AND (i.indrelid IN (SELECT attrelid FROM pg_attribute WHERE attname = 'tenant_id') OR i.indrelid = 'tenancy_tenant'::regclass)
            AND i.indrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace)
        """
    ).fetchall()
    assert len(indexes) >= 10
    for table, columns in indexes:
        if tuple(columns) in UNIQUE_WITHOUT_TENANT.get(table, set()):
            continue
        assert "tenant_id" in columns, (
            f"{table} has a unique index over {columns}: it tells one tenant what another has"
        )


def test_sec_1_functions_that_run_as_their_owner_are_closed(admin_database: Owner) -> None:
    functions = admin_database.execute(
        """
        SELECT p.oid::regprocedure::text, p.proconfig, p.proowner::regrole::text, coalesce(p.proacl::text, ''), r.rolcanlogin, r.rolsuper
        FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner
        WHERE p.prosecdef AND p.pronamespace = 'public'::regnamespace
        """
    ).fetchall()
    names = {row[0].partition("(")[0] for row in functions}
    assert names >= {
        "portal_find_key",
        "portal_memberships",
        "portal_invitations",
        "portal_tenant",
        "search_candidates",
        "tools_search_candidates",
    }
    for name, settings, owner, acl, can_login, superuser in functions:
        path = next((one for one in settings or [] if one.startswith("search_path=")), None)
        assert path is not None, f"{name} has no search_path of its own"
        assert path.startswith("search_path=pg_catalog,") or path == "search_path=pg_catalog", (name, path)
        assert path.replace('"', "").endswith("pg_temp"), (
            f"{name}: a temporary object could stand in for ours"
        )
        assert acl, f"{name} has its default rights, which let PUBLIC run it"
        assert not any(entry.startswith(("=", "{=")) for entry in acl.strip("{}").split(",")), (
            f"PUBLIC may run {name}"
        )
        if name == "tools_analyze()":
            continue  # only the tables' owner may ANALYZE them; it takes nothing and is one fixed statement
        assert not can_login, f"{name} runs as {owner}, which may log in"
        assert not superuser, f"{name} runs as {owner}, a superuser"


def test_sec_1_the_owners_of_those_functions_read_a_few_tables_and_write_none(admin_database: Owner) -> None:
    allowed = {
        "portal_identity": {"tenancy_tenant", "tenancy_membership", "tenancy_apikey", "tenancy_invitation"},
        "portal_search": {"tools_tool", "tools_toolembedding", "tools_posting"},
    }
    for role, tables in allowed.items():
        rights = admin_database.execute(
            "SELECT table_name, privilege_type FROM information_schema.role_table_grants WHERE grantee = %s",
            [role],
        ).fetchall()
        assert {privilege for _, privilege in rights} == {"SELECT"}
        assert {table for table, _ in rights} == tables


def test_sec_1_the_application_cannot_make_tenants_nor_list_them(
    tenant: Tenant, make_tenant: Any, rows: Any
) -> None:
    make_tenant()
    assert rows("SELECT count(*) FROM tenancy_tenant") == [(1,)]
    with pytest.raises(ProgrammingError, match="permission denied"), transaction.atomic():
        Tenant.objects.create(slug="mine", name="Mine")


@pytest.mark.parametrize("statement", ["UPDATE {} SET pgh_label = 'forged'", "DELETE FROM {}", "TRUNCATE {}"])
@pytest.mark.parametrize("table", ["tools_toolevent", "tools_sourceevent", "tools_manualoverrideevent"])
def test_cat_8_history_can_be_neither_changed_nor_removed(
    tenant: Tenant, rows: Any, table: str, statement: str
) -> None:
    with pytest.raises(ProgrammingError, match="permission denied"), transaction.atomic():
        rows(statement.format(table))


def make_source(slug: str = "s") -> Source:
    source: Source = Source.objects.create(slug=slug, kind=SourceKind.OPENAPI)
    return source


def test_sec_1_a_reference_to_another_tenants_row_is_refused_by_the_database(
    tenant: Tenant, make_tenant: Callable[..., Tenant]
) -> None:
    with tenant_context(make_tenant().pk):
        foreign = make_source()
    mine = make_source()
    constraints = "SET CONSTRAINTS ALL IMMEDIATE"
    endpoint = {
        "key": "/a@get",
        "method": "get",
        "path": "/a",
        "name": "a",
        "input_schema": {},
        "content_hash": "0",
    }
    with transaction.atomic(), connection.cursor() as cursor:
        Endpoint.objects.create(source=mine, **endpoint)
        cursor.execute(constraints)  # a reference to the tenant's own row is good
    for make in (
        lambda: Endpoint.objects.create(source=foreign, **{**endpoint, "key": "/b@get"}),
        lambda: Tool.objects.create(tool_id="t", name="t", source=foreign),
        lambda: Tool.objects.create(tool_id="t", name="t", source_id=foreign.pk),
    ):
        with (
            pytest.raises(IntegrityError, match="foreign key"),
            transaction.atomic(),
            connection.cursor() as cursor,
        ):
            make()
            cursor.execute(constraints)


def test_sec_1_a_row_cannot_be_written_into_another_tenant(
    tenant: Tenant, make_tenant: Any, rows: Any
) -> None:
    other = make_tenant()
    with pytest.raises(ProgrammingError, match="row-level security"), transaction.atomic():
        Tool.objects.create(tenant_id=other.pk, tool_id="t", name="t")
    mine = Tool.objects.create(tool_id="t", name="t")
    with pytest.raises(ProgrammingError, match="row-level security"), transaction.atomic():
        Tool.objects.filter(pk=mine.pk).update(tenant=other)


@pytest.mark.parametrize("statement", ["SELECT count(*) FROM {}", "DELETE FROM {}"])
def test_sec_1_without_a_tenant_every_table_is_an_error_and_not_an_empty_page(
    committed: Tenant, admin_database: Owner, rows: Any, statement: str
) -> None:
    # A policy is only asked about rows, so each table gets one.
    from tools.catalogue.tools import create_tool

    with tenant_context(committed.pk):
        create_tool(actor="a", tool_id="t", name="t", description="Reads.")
        make_source()
        create_api_key(name="k", scopes=[Scope.SEARCH_READ])
    for table in (
        "tools_tool",
        "tools_source",
        "tenancy_apikey",
        "tools_toolembedding",
        "tools_toolevent",
        "tools_posting",
    ):
        if statement.startswith("DELETE") and table.endswith("event"):
            continue
        with (
            pytest.raises(Exception, match=r"portal\.tenant|invalid input syntax for type uuid"),
            transaction.atomic(),
        ):
            rows(statement.format(table))


def test_sec_1_without_a_tenant_the_orm_says_so(db: None) -> None:
    with pytest.raises(NoTenant, match="outside of tenant_context"):
        Tool.objects.count()
    with pytest.raises(NoTenant):
        Tool.objects.filter(name="x").update(name="y")


def test_sec_1_the_worker_sees_and_syncs_the_tools_of_its_tenant_only(
    committed: Tenant, make_tenant: Any
) -> None:
    from tools.catalogue.tools import create_tool

    other = make_tenant()
    for one in (committed, other):
        with tenant_context(one.pk):
            create_tool(actor="a", tool_id=f"of {one.slug}", name="t", description="Reads.")
    with psycopg.connect(os.environ["DATABASE_WORKER_URL"]) as worker:
        assert worker.execute("SELECT count(*) FROM embeddings_embeddingtask").fetchone() == (2,)
        worker.execute("SELECT set_config('portal.tenant', %s, true)", [str(committed.pk)])
        assert worker.execute("SELECT tool_id FROM tools_tool").fetchall() == [(f"of {committed.slug}",)]
        worker.execute("UPDATE tools_tool SET name = 'mine'")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            worker.execute("UPDATE tools_toolevent SET name = 'mine'")
    with tenant_context(other.pk):
        assert Tool.objects.get().name == "t"
