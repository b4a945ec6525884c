"""Every key expires, and a rotated one has two secrets for a while.

A key that never expired, or later than any key may now, gets its expiry counted from this upgrade.
"""

import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models


# The event of this change names its author, as every event does.
GIVE_KEYS_AN_EXPIRY = """
SELECT set_config('pghistory.context_metadata', '{"actor": "upgrade"}', true);
UPDATE tenancy_apikey
SET expires_at = LEAST(COALESCE(expires_at, now() + interval '90 days'), now() + interval '365 days')
WHERE expires_at IS NULL OR expires_at > now() + interval '365 days';
SELECT set_config('pghistory.context_metadata', '', true);
"""

# The function of 0003 with the second secret. The same type of answer, so the function keeps its owner and its grants.
FIND_KEY = """
CREATE OR REPLACE FUNCTION portal_find_key(key_digest bytea)
RETURNS TABLE (
    key_id uuid, name text, tenant_id uuid, scopes text[], max_sensitivity text, requests_per_minute integer,
    use_is_stale boolean
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT id, name, tenant_id, scopes, max_sensitivity, requests_per_minute,
           coalesce(last_used_at < now() - interval '1 minute', true)
    FROM public.tenancy_apikey
    WHERE (digest = key_digest {or_previous}) AND revoked_at IS NULL AND expires_at > now()
$$;
"""
OR_PREVIOUS = "OR previous_digest = key_digest AND previous_expires_at > now()"


class Migration(migrations.Migration):
    dependencies = [
        ("tenancy", "0007_invitations"),
    ]

    operations = [
        pgtrigger.migrations.RemoveTrigger(
            model_name="apikey",
            name="insert_insert",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="apikey",
            name="update_update",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="apikey",
            name="delete_delete",
        ),
        migrations.AddField(
            model_name="apikey",
            name="previous_digest",
            field=models.BinaryField(max_length=32, null=True, unique=True),
        ),
        migrations.AddField(
            model_name="apikey",
            name="previous_expires_at",
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name="apikeyevent",
            name="previous_expires_at",
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="apikey",
            trigger=pgtrigger.compiler.Trigger(
                name="insert_insert",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func='INSERT INTO "tenancy_apikeyevent" ("created_at", "expires_at", "id", "max_sensitivity", "name", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "prefix", "previous_expires_at", "requests_per_minute", "revoked_at", "scopes", "tenant_id") VALUES (NEW."created_at", NEW."expires_at", NEW."id", NEW."max_sensitivity", NEW."name", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'insert\', NEW."id", NEW."prefix", NEW."previous_expires_at", NEW."requests_per_minute", NEW."revoked_at", NEW."scopes", NEW."tenant_id"); RETURN NULL;',
                    hash="0c87ab97f1fff0221fc8a86ba39ee5c68009bda0",
                    operation="INSERT",
                    pgid="pgtrigger_insert_insert_8b9e6",
                    table="tenancy_apikey",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="apikey",
            trigger=pgtrigger.compiler.Trigger(
                name="update_update",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition='WHEN (OLD."created_at" IS DISTINCT FROM (NEW."created_at") OR OLD."expires_at" IS DISTINCT FROM (NEW."expires_at") OR OLD."id" IS DISTINCT FROM (NEW."id") OR OLD."max_sensitivity" IS DISTINCT FROM (NEW."max_sensitivity") OR OLD."name" IS DISTINCT FROM (NEW."name") OR OLD."prefix" IS DISTINCT FROM (NEW."prefix") OR OLD."previous_expires_at" IS DISTINCT FROM (NEW."previous_expires_at") OR OLD."requests_per_minute" IS DISTINCT FROM (NEW."requests_per_minute") OR OLD."revoked_at" IS DISTINCT FROM (NEW."revoked_at") OR OLD."scopes" IS DISTINCT FROM (NEW."scopes") OR OLD."tenant_id" IS DISTINCT FROM (NEW."tenant_id"))',
                    func='INSERT INTO "tenancy_apikeyevent" ("created_at", "expires_at", "id", "max_sensitivity", "name", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "prefix", "previous_expires_at", "requests_per_minute", "revoked_at", "scopes", "tenant_id") VALUES (NEW."created_at", NEW."expires_at", NEW."id", NEW."max_sensitivity", NEW."name", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'update\', NEW."id", NEW."prefix", NEW."previous_expires_at", NEW."requests_per_minute", NEW."revoked_at", NEW."scopes", NEW."tenant_id"); RETURN NULL;',
                    hash="326904129a37ae794adb3957bd4451f63142a5e2",
                    operation="UPDATE",
                    pgid="pgtrigger_update_update_9a3b2",
                    table="tenancy_apikey",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="apikey",
            trigger=pgtrigger.compiler.Trigger(
                name="delete_delete",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func='INSERT INTO "tenancy_apikeyevent" ("created_at", "expires_at", "id", "max_sensitivity", "name", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "prefix", "previous_expires_at", "requests_per_minute", "revoked_at", "scopes", "tenant_id") VALUES (OLD."created_at", OLD."expires_at", OLD."id", OLD."max_sensitivity", OLD."name", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'delete\', OLD."id", OLD."prefix", OLD."previous_expires_at", OLD."requests_per_minute", OLD."revoked_at", OLD."scopes", OLD."tenant_id"); RETURN NULL;',
                    hash="4d75cc1a1b539b9a2ca1c27731ddd87bc76ad266",
                    operation="DELETE",
                    pgid="pgtrigger_delete_delete_f3114",
                    table="tenancy_apikey",
                    when="AFTER",
                ),
            ),
        ),
        migrations.RunSQL(GIVE_KEYS_AN_EXPIRY, migrations.RunSQL.noop),
        migrations.RunSQL(FIND_KEY.format(or_previous=OR_PREVIOUS), FIND_KEY.format(or_previous="")),
        migrations.AlterField(
            model_name="apikey",
            name="expires_at",
            field=models.DateTimeField(blank=True),
        ),
    ]
