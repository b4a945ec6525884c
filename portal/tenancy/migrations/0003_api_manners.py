"""Rates of API keys, and answers to POSTs with an Idempotency-Key."""

from __future__ import annotations

import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
import portal.tenancy.context
import portal.tenancy.fields
import uuid
from django.db import migrations, models

from portal.tenancy.rls import isolate


# The question of 0002 with one column more. Another type of answer needs another function.
FIND_KEY = """
DROP FUNCTION portal_find_key(bytea);

CREATE FUNCTION portal_find_key(key_digest bytea)
RETURNS TABLE (
    key_id uuid, name text, tenant_id uuid, scopes text[], max_sensitivity text, {column} use_is_stale boolean
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT id, name, tenant_id, scopes, max_sensitivity, {value}
           coalesce(last_used_at < now() - interval '1 minute', true)
    FROM public.tenancy_apikey
    WHERE digest = key_digest AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())
$$;

DO $$
BEGIN
    GRANT CREATE ON SCHEMA public TO portal_identity;
    ALTER FUNCTION portal_find_key(bytea) OWNER TO portal_identity;
    REVOKE ALL ON FUNCTION portal_find_key(bytea) FROM PUBLIC;
    GRANT EXECUTE ON FUNCTION portal_find_key(bytea) TO portal_app, portal_worker;
    REVOKE CREATE ON SCHEMA public FROM portal_identity;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("tenancy", "0002_roles_and_isolation"),
    ]

    operations = [
        migrations.CreateModel(
            name="IdempotencyKey",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("target_digest", models.BinaryField(max_length=32)),
                ("key", models.CharField(max_length=255)),
                ("body_digest", models.BinaryField(max_length=32)),
                ("status", models.PositiveSmallIntegerField()),
                ("headers", models.JSONField()),
                ("body", models.TextField()),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "api_key",
                    portal.tenancy.fields.TenantForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="tenancy.apikey",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        default=portal.tenancy.context.current_tenant,
                        editable=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="tenancy.tenant",
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.AddField(
            model_name="apikey",
            name="requests_per_minute",
            field=models.PositiveIntegerField(
                blank=True,
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(1000000),
                ],
            ),
        ),
        migrations.AddConstraint(
            model_name="apikey",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("requests_per_minute", None),
                    ("requests_per_minute__range", (1, 1000000)),
                    _connector="OR",
                ),
                name="api_key_rate_in_bounds",
            ),
        ),
        migrations.AddIndex(
            model_name="idempotencykey",
            index=models.Index(fields=["tenant", "created_at"], name="idempotency_key_age"),
        ),
        migrations.AddConstraint(
            model_name="idempotencykey",
            constraint=models.UniqueConstraint(
                fields=("tenant", "id"), name="tenancy_idempotencykey_tenant_id"
            ),
        ),
        migrations.AddConstraint(
            model_name="idempotencykey",
            constraint=models.UniqueConstraint(
                fields=("tenant", "api_key", "key", "target_digest"), name="idempotency_key_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="idempotencykey",
            constraint=portal.tenancy.fields.CompositeForeignKey(
                column="api_key_id",
                name="idempotency_key_api_key",
                on_delete="CASCADE",
                table="tenancy_apikey",
            ),
        ),
        # The worker prunes.
        isolate("tenancy_idempotencykey", worker="SELECT, DELETE"),
        migrations.RunSQL(
            FIND_KEY.format(column="requests_per_minute integer,", value="requests_per_minute,"),
            FIND_KEY.format(column="", value=""),
        ),
    ]
