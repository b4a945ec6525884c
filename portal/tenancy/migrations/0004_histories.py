"""Memberships and API keys keep a history, isolated and append-only like every other one."""

import django.contrib.postgres.fields
import django.core.validators
import django.db.models.deletion
import pghistory.utils
import pgtrigger.compiler
import pgtrigger.migrations
import portal.tenancy.context
import uuid
from django.conf import settings
from django.db import migrations, models


from portal.tenancy.rls import append_only, isolate


class Migration(migrations.Migration):
    dependencies = [
        ("tenancy", "0003_api_manners"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ApiKeyEvent",
            fields=[
                ("pgh_id", models.AutoField(primary_key=True, serialize=False)),
                ("pgh_created_at", models.DateTimeField(auto_now_add=True)),
                ("pgh_label", models.TextField(help_text="The event label.")),
                ("pgh_context", pghistory.utils.JSONField(null=True)),
                ("pgh_context_id", models.UUIDField(null=True)),
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, serialize=False)),
                ("name", models.CharField(max_length=200)),
                ("prefix", models.CharField(editable=False, max_length=16)),
                (
                    "scopes",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(
                            choices=[
                                ("search:read", "Search Read"),
                                ("tools:read", "Tools Read"),
                                ("tools:write", "Tools Write"),
                                ("tools:publish", "Tools Publish"),
                                ("sources:write", "Sources Write"),
                                ("jobs:run", "Jobs Run"),
                                ("executions:write", "Executions Write"),
                                ("admin", "Admin"),
                            ],
                            max_length=32,
                        ),
                        size=None,
                    ),
                ),
                (
                    "max_sensitivity",
                    models.CharField(
                        choices=[
                            ("public", "Public"),
                            ("internal", "Internal"),
                            ("confidential", "Confidential"),
                            ("restricted", "Restricted"),
                        ],
                        default="restricted",
                        max_length=12,
                    ),
                ),
                (
                    "requests_per_minute",
                    models.PositiveIntegerField(
                        blank=True,
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(1000000),
                        ],
                    ),
                ),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "pgh_obj",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="events",
                        to="tenancy.apikey",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        db_constraint=False,
                        default=portal.tenancy.context.current_tenant,
                        editable=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        related_query_name="+",
                        to="tenancy.tenant",
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="MembershipEvent",
            fields=[
                ("pgh_id", models.AutoField(primary_key=True, serialize=False)),
                ("pgh_created_at", models.DateTimeField(auto_now_add=True)),
                ("pgh_label", models.TextField(help_text="The event label.")),
                ("pgh_context", pghistory.utils.JSONField(null=True)),
                ("pgh_context_id", models.UUIDField(null=True)),
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, serialize=False)),
                (
                    "role",
                    models.CharField(
                        choices=[
                            ("viewer", "Viewer (looks)"),
                            ("operator", "Operator (edits, imports, refreshes)"),
                            ("admin", "Admin (keys, settings, deletes)"),
                        ],
                        default="viewer",
                        max_length=10,
                    ),
                ),
                (
                    "pgh_obj",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="events",
                        to="tenancy.membership",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        db_constraint=False,
                        default=portal.tenancy.context.current_tenant,
                        editable=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        related_query_name="+",
                        to="tenancy.tenant",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        related_query_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="apikey",
            trigger=pgtrigger.compiler.Trigger(
                name="insert_insert",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func='INSERT INTO "tenancy_apikeyevent" ("created_at", "expires_at", "id", "max_sensitivity", "name", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "prefix", "requests_per_minute", "revoked_at", "scopes", "tenant_id") VALUES (NEW."created_at", NEW."expires_at", NEW."id", NEW."max_sensitivity", NEW."name", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'insert\', NEW."id", NEW."prefix", NEW."requests_per_minute", NEW."revoked_at", NEW."scopes", NEW."tenant_id"); RETURN NULL;',
                    hash="33f9b706b0109d62b09416205a64594aacd2d2f1",
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
                    condition='WHEN (OLD."created_at" IS DISTINCT FROM (NEW."created_at") OR OLD."expires_at" IS DISTINCT FROM (NEW."expires_at") OR OLD."id" IS DISTINCT FROM (NEW."id") OR OLD."max_sensitivity" IS DISTINCT FROM (NEW."max_sensitivity") OR OLD."name" IS DISTINCT FROM (NEW."name") OR OLD."prefix" IS DISTINCT FROM (NEW."prefix") OR OLD."requests_per_minute" IS DISTINCT FROM (NEW."requests_per_minute") OR OLD."revoked_at" IS DISTINCT FROM (NEW."revoked_at") OR OLD."scopes" IS DISTINCT FROM (NEW."scopes") OR OLD."tenant_id" IS DISTINCT FROM (NEW."tenant_id"))',
                    func='INSERT INTO "tenancy_apikeyevent" ("created_at", "expires_at", "id", "max_sensitivity", "name", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "prefix", "requests_per_minute", "revoked_at", "scopes", "tenant_id") VALUES (NEW."created_at", NEW."expires_at", NEW."id", NEW."max_sensitivity", NEW."name", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'update\', NEW."id", NEW."prefix", NEW."requests_per_minute", NEW."revoked_at", NEW."scopes", NEW."tenant_id"); RETURN NULL;',
                    hash="c52f27d3500d1db58ed6236ef4f9b6825e0f6706",
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
                    func='INSERT INTO "tenancy_apikeyevent" ("created_at", "expires_at", "id", "max_sensitivity", "name", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "prefix", "requests_per_minute", "revoked_at", "scopes", "tenant_id") VALUES (OLD."created_at", OLD."expires_at", OLD."id", OLD."max_sensitivity", OLD."name", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'delete\', OLD."id", OLD."prefix", OLD."requests_per_minute", OLD."revoked_at", OLD."scopes", OLD."tenant_id"); RETURN NULL;',
                    hash="b497e56df64cc39bfcfa483ae9c27ac4bf6ddad5",
                    operation="DELETE",
                    pgid="pgtrigger_delete_delete_f3114",
                    table="tenancy_apikey",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="membership",
            trigger=pgtrigger.compiler.Trigger(
                name="insert_insert",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func='INSERT INTO "tenancy_membershipevent" ("id", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "role", "tenant_id", "user_id") VALUES (NEW."id", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'insert\', NEW."id", NEW."role", NEW."tenant_id", NEW."user_id"); RETURN NULL;',
                    hash="2d4907a462f1b5f862af08864c5c0f4c34f91da8",
                    operation="INSERT",
                    pgid="pgtrigger_insert_insert_bd4d0",
                    table="tenancy_membership",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="membership",
            trigger=pgtrigger.compiler.Trigger(
                name="update_update",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (OLD.* IS DISTINCT FROM NEW.*)",
                    func='INSERT INTO "tenancy_membershipevent" ("id", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "role", "tenant_id", "user_id") VALUES (NEW."id", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'update\', NEW."id", NEW."role", NEW."tenant_id", NEW."user_id"); RETURN NULL;',
                    hash="c1bd11004fc167751d67e33b0d6d6bf49ce6f727",
                    operation="UPDATE",
                    pgid="pgtrigger_update_update_c9fda",
                    table="tenancy_membership",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="membership",
            trigger=pgtrigger.compiler.Trigger(
                name="delete_delete",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func='INSERT INTO "tenancy_membershipevent" ("id", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "role", "tenant_id", "user_id") VALUES (OLD."id", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'delete\', OLD."id", OLD."role", OLD."tenant_id", OLD."user_id"); RETURN NULL;',
                    hash="626626072098aeee21da52ab3139401db70e9fd4",
                    operation="DELETE",
                    pgid="pgtrigger_delete_delete_d2ec3",
                    table="tenancy_membership",
                    when="AFTER",
                ),
            ),
        ),
        *(
            operation
            for table in ("tenancy_apikeyevent", "tenancy_membershipevent")
            for operation in (isolate(table, worker=""), append_only(table))
        ),
    ]
