"""The version of a tenant's catalogue, and the trigger function that raises it. The tables that count call it by triggers of their own
apps (`raises_catalogue_version` of portal/tenancy/catalogue_version.py)."""

from __future__ import annotations

from django.db import migrations, models

# Deferred to the commit, because whoever has raised the version keeps every other writer of the tenant waiting until it is over. The
# tenant is the row's and not the setting's: a command may change several. One transaction raises it once; what it changes after that is
# seen with the same commit.
RAISE = """
CREATE FUNCTION portal_raise_catalogue_version() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    changed CONSTANT uuid := CASE WHEN TG_OP = 'DELETE' THEN OLD.tenant_id ELSE NEW.tenant_id END;
    mark CONSTANT text := pg_current_xact_id()::text || ' ' || changed::text;
BEGIN
    IF current_setting('portal.catalogue_version_raised', true) IS DISTINCT FROM mark THEN
        UPDATE public.tenancy_tenant SET catalogue_version = catalogue_version + 1 WHERE id = changed;
        PERFORM set_config('portal.catalogue_version_raised', mark, true);
    END IF;
    RETURN NULL;
END;
$$;

GRANT SELECT (catalogue_version) ON tenancy_tenant TO portal_worker;
GRANT UPDATE (catalogue_version) ON tenancy_tenant TO portal_identity;
DO $$
BEGIN
    GRANT CREATE ON SCHEMA public TO portal_identity;
    ALTER FUNCTION portal_raise_catalogue_version() OWNER TO portal_identity;
    REVOKE ALL ON FUNCTION portal_raise_catalogue_version() FROM PUBLIC;
    REVOKE CREATE ON SCHEMA public FROM portal_identity;
END $$;
"""
BACK = """
DROP FUNCTION portal_raise_catalogue_version();
REVOKE UPDATE (catalogue_version) ON tenancy_tenant FROM portal_identity;
REVOKE SELECT (catalogue_version) ON tenancy_tenant FROM portal_worker;
"""


class Migration(migrations.Migration):
    dependencies = [("tenancy", "0012_verbose_names")]

    operations = [
        migrations.AddField(
            model_name="tenant",
            name="catalogue_version",
            field=models.BigIntegerField(db_default=0, default=0, editable=False),
        ),
        migrations.RunSQL(RAISE, BACK),
    ]
