"""Row-level security as migration operations, and the roles that it is written for.

Group roles without login: `portal_app` (web and commands), `portal_worker` (embedding worker), `portal_search` (owner of
the candidate functions) and `portal_identity` (owner of the functions that answer before a tenant is known).
The last two bypass row-level security and can read the few tables granted to them, nothing else; no login has them.
Where nobody can let them bypass it, policies on those few tables do (portal/ops/access.py).
"""

from __future__ import annotations

from django.db.migrations import RunSQL

CREATE_GROUPS = """
DO $$
DECLARE role_name text;
BEGIN
    FOREACH role_name IN ARRAY ARRAY['portal_app', 'portal_worker', 'portal_search', 'portal_identity'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role_name) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN NOSUPERUSER', role_name);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL;  -- roles belong to the cluster: another database's migration was faster
            END;
        END IF;
    END LOOP;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname IN ('portal_search', 'portal_identity') AND NOT rolbypassrls) THEN
        BEGIN
            ALTER ROLE portal_search BYPASSRLS;
            ALTER ROLE portal_identity BYPASSRLS;
        EXCEPTION WHEN insufficient_privilege THEN
            NULL;  -- portal/ops/access.py gives them policies instead, or says what is missing
        END;
    END IF;
    -- To hand a function to a role one must be its member, which an owner who is no superuser is not by itself.
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        EXECUTE format('GRANT portal_search, portal_identity TO %I', current_user);
    END IF;
END $$;
"""

# What Django's own apps made or will make (users, sessions, admin log) has no tenant and serves the web alone.
GRANT_DJANGO_TABLES = """
GRANT USAGE ON SCHEMA public TO portal_app, portal_worker, portal_search, portal_identity;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO portal_app;
GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO portal_app;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO portal_app;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE, SELECT ON SEQUENCES TO portal_app;
REVOKE INSERT, UPDATE, DELETE ON django_migrations FROM portal_app;
"""


def isolate(
    table: str, *, column: str = "tenant_id", worker: str = "SELECT, INSERT, UPDATE, DELETE"
) -> RunSQL:
    """Forced row-level security on `table`: rows of the current tenant only; without a tenant, an error.

    `worker` is what the embedding worker may do, in the same tenant's rows; without it, a policy of its own decides.
    `current_setting` without its missing_ok makes a forgotten context loud instead of an empty page.
    """
    rule = f"{column} = current_setting('portal.tenant')::uuid"
    roles = "portal_app, portal_worker" if worker else "portal_app"
    grant = f"GRANT {worker} ON {table} TO portal_worker;" if worker else ""
    return RunSQL(
        f"""
        ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
        ALTER TABLE {table} FORCE ROW LEVEL SECURITY;
        CREATE POLICY tenant ON {table} TO {roles} USING ({rule}) WITH CHECK ({rule});
        {grant}
        """,
        f"""
        DROP POLICY tenant ON {table};
        ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY;
        ALTER TABLE {table} DISABLE ROW LEVEL SECURITY;
        REVOKE ALL ON {table} FROM portal_worker;
        """,
    )


def prunable(table: str, *, column: str, days: int) -> RunSQL:
    """History of which the worker may delete what is older than `days`, by the time in `column`; nobody else may delete anything."""
    old = f"tenant_id = current_setting('portal.tenant')::uuid AND {column} < now() - interval '{days} days'"
    return RunSQL(
        f"""
        CREATE POLICY prune ON {table} TO portal_worker USING ({old}) WITH CHECK ({old});
        GRANT SELECT (tenant_id, {column}), DELETE ON {table} TO portal_worker;
        """,
        f"""
        DROP POLICY prune ON {table};
        REVOKE ALL ON {table} FROM portal_worker;
        """,
    )


def append_only(table: str) -> RunSQL:
    """History: the application adds events and reads them, and can neither change nor remove one."""
    return RunSQL(
        f"REVOKE UPDATE, DELETE ON {table} FROM portal_app, portal_worker;",
        f"GRANT UPDATE, DELETE ON {table} TO portal_app, portal_worker;",
    )
