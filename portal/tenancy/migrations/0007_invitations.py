"""Invitations to a tenant, and the question whom a user name was invited by, which is answered before a tenant is known."""

from __future__ import annotations

import uuid

import django.db.models.deletion
from django.db import migrations, models

import portal.tenancy.context
from portal.tenancy.rls import isolate

INVITATIONS = """
GRANT SELECT ON tenancy_invitation TO portal_identity;

CREATE FUNCTION portal_invitations(invited text)
RETURNS TABLE (tenant_id uuid, slug text, name text, role text, invited_by text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT t.id, t.slug, t.name, i.role, i.invited_by
    FROM public.tenancy_invitation i JOIN public.tenancy_tenant t ON t.id = i.tenant_id
    WHERE i.username = invited ORDER BY t.slug
$$;

DO $$
BEGIN
    GRANT CREATE ON SCHEMA public TO portal_identity;
    ALTER FUNCTION portal_invitations(text) OWNER TO portal_identity;
    REVOKE ALL ON FUNCTION portal_invitations(text) FROM PUBLIC;
    GRANT EXECUTE ON FUNCTION portal_invitations(text) TO portal_app;
    REVOKE CREATE ON SCHEMA public FROM portal_identity;
END $$;
"""
BACK = """
DROP FUNCTION portal_invitations(text);
REVOKE ALL ON tenancy_invitation FROM portal_identity;
"""


class Migration(migrations.Migration):
    dependencies = [("tenancy", "0006_worker_reads_slugs")]

    operations = [
        migrations.CreateModel(
            name="Invitation",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("username", models.CharField(max_length=150)),
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
                ("invited_by", models.CharField(editable=False, max_length=150)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False,
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
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "id"), name="tenancy_invitation_tenant_id"),
                    models.UniqueConstraint(fields=("tenant", "username"), name="invitation_once"),
                    models.CheckConstraint(
                        condition=models.Q(("role__in", ["viewer", "operator", "admin"])),
                        name="invitation_role_known",
                    ),
                ],
            },
        ),
        isolate("tenancy_invitation", worker=""),
        migrations.RunSQL(INVITATIONS, BACK),
    ]
