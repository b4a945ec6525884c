"""Attempts to sign in, isolated by tenant and append-only as the histories are."""

import django.db.models.deletion
import django.db.models.functions.datetime
import portal.tenancy.context
import uuid
from django.db import migrations, models

from portal.tenancy.rls import append_only, isolate


class Migration(migrations.Migration):
    dependencies = [
        ("tenancy", "0008_keys_expire_and_rotate"),
    ]

    operations = [
        migrations.CreateModel(
            name="SignIn",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("username", models.CharField(max_length=150)),
                (
                    "outcome",
                    models.CharField(
                        choices=[
                            ("succeeded", "Succeeded"),
                            ("failed", "Failed"),
                            ("throttled", "Throttled (too many attempts)"),
                        ],
                        max_length=10,
                    ),
                ),
                ("address", models.GenericIPAddressField(null=True)),
                ("request_id", models.CharField(blank=True, max_length=128)),
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
                "verbose_name": "sign-in",
                "abstract": False,
                "indexes": [models.Index(fields=["tenant", "username", "-at"], name="sign_in_of_person")],
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "id"), name="tenancy_signin_tenant_id"),
                    models.CheckConstraint(
                        condition=models.Q(("outcome__in", ["succeeded", "failed", "throttled"])),
                        name="sign_in_outcome_known",
                    ),
                ],
            },
        ),
        isolate("tenancy_signin", worker=""),
        append_only("tenancy_signin"),
    ]
