"""The roles, the isolation of tenancy's own tables, and the questions answered before a tenant is known.

Raw SQL, because roles, policies and functions have no counterpart in the ORM.
"""

from __future__ import annotations

from django.db import migrations

from portal.tenancy.rls import CREATE_GROUPS, GRANT_DJANGO_TABLES, isolate

# Each answers one question from one table, with a fixed search_path, as a role that can read nothing else.
IDENTITY_FUNCTIONS = """
GRANT SELECT ON tenancy_tenant, tenancy_membership, tenancy_apikey TO portal_identity;

CREATE FUNCTION portal_find_key(key_digest bytea)
RETURNS TABLE (key_id uuid, name text, tenant_id uuid, scopes text[], max_sensitivity text, use_is_stale boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT id, name, tenant_id, scopes, max_sensitivity, coalesce(last_used_at < now() - interval '1 minute', true)
    FROM public.tenancy_apikey
    WHERE digest = key_digest AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())
$$;

CREATE FUNCTION portal_memberships(member_id integer)
RETURNS TABLE (tenant_id uuid, slug text, name text, role text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT t.id, t.slug, t.name, m.role FROM public.tenancy_membership m JOIN public.tenancy_tenant t ON t.id = m.tenant_id
    WHERE m.user_id = member_id ORDER BY t.slug
$$;

-- For commands with --tenant, run by whoever runs the machine. A slug is no secret and its UUID opens nothing.
CREATE FUNCTION portal_tenant(tenant_slug text) RETURNS uuid
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT id FROM public.tenancy_tenant WHERE slug = tenant_slug
$$;

DO $$
DECLARE signature text;
BEGIN
    -- A new owner needs the right to create in the schema at that moment, and not afterwards.
    GRANT CREATE ON SCHEMA public TO portal_identity;
    FOREACH signature IN ARRAY ARRAY['portal_find_key(bytea)', 'portal_memberships(integer)', 'portal_tenant(text)'] LOOP
        EXECUTE format('ALTER FUNCTION %s OWNER TO portal_identity', signature);
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', signature);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO portal_app, portal_worker', signature);
    END LOOP;
    REVOKE CREATE ON SCHEMA public FROM portal_identity;
END $$;
"""

DROP_IDENTITY_FUNCTIONS = """
DROP FUNCTION portal_find_key(bytea), portal_memberships(integer), portal_tenant(text);
REVOKE ALL ON tenancy_tenant, tenancy_membership, tenancy_apikey FROM portal_identity;
"""

# The worker draws up which tenants there are (reconcile), and sees no more of them than that.
WORKER_LISTS_TENANTS = """
GRANT SELECT (id) ON tenancy_tenant TO portal_worker;
CREATE POLICY worker ON tenancy_tenant FOR SELECT TO portal_worker USING (true);
REVOKE INSERT, UPDATE, DELETE ON tenancy_tenant FROM portal_app;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("tenancy", "0001_initial"),
        ("admin", "0003_logentry_add_action_flag_choices"),
        ("sessions", "0001_initial"),
    ]

    operations = [
        # Roles belong to the cluster and other databases may use them, so the reverse leaves them.
        migrations.RunSQL(CREATE_GROUPS, migrations.RunSQL.noop),
        migrations.RunSQL(GRANT_DJANGO_TABLES, migrations.RunSQL.noop),
        isolate("tenancy_tenant", column="id", worker=""),
        isolate("tenancy_membership", worker=""),
        isolate("tenancy_apikey", worker=""),
        migrations.RunSQL(WORKER_LISTS_TENANTS, "DROP POLICY worker ON tenancy_tenant"),
        migrations.RunSQL(IDENTITY_FUNCTIONS, DROP_IDENTITY_FUNCTIONS),
    ]
