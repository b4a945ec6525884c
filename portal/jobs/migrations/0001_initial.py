"""Jobs, their failures, and the processes that work on queues."""

from __future__ import annotations

import django.db.models.deletion
import django.db.models.functions.datetime
import portal.tenancy.context
import portal.tenancy.fields
import uuid
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("tenancy", "0003_api_manners"),
    ]

    operations = [
        migrations.CreateModel(
            name="Job",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("kind", models.CharField(max_length=40)),
                ("title", models.CharField(max_length=200)),
                ("requested_by", models.CharField(max_length=200)),
                ("args", models.JSONField(default=dict)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("queued", "Queued"),
                            ("running", "Running"),
                            ("cancelling", "Cancelling"),
                            ("cancelled", "Cancelled"),
                            ("succeeded", "Succeeded"),
                            ("partial", "Partial"),
                            ("failed", "Failed"),
                            ("lost", "Lost"),
                        ],
                        default="queued",
                        max_length=10,
                    ),
                ),
                ("scope", models.CharField(blank=True, max_length=200, null=True)),
                ("total", models.IntegerField(blank=True, null=True)),
                ("done", models.IntegerField(default=0)),
                ("failed", models.IntegerField(default=0)),
                ("skipped", models.IntegerField(default=0)),
                ("stage", models.CharField(blank=True, default="", max_length=40)),
                ("cursor", models.JSONField(default=dict)),
                ("only_failures", models.BooleanField(default=False)),
                ("log", models.JSONField(default=list)),
                ("error", models.CharField(blank=True, default="", max_length=500)),
                ("claim_id", models.UUIDField(blank=True, null=True)),
                ("attempts", models.SmallIntegerField(default=0)),
                ("heartbeat_at", models.DateTimeField(blank=True, null=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("claimed_at", models.DateTimeField(blank=True, null=True)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                ("done_before", models.IntegerField(default=0)),
                ("processed_before", models.IntegerField(default=0)),
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
        migrations.CreateModel(
            name="JobFailure",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("item_id", models.UUIDField()),
                ("label", models.CharField(max_length=200)),
                ("error", models.CharField(max_length=500)),
                ("failed_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("retried_at", models.DateTimeField(blank=True, null=True)),
                (
                    "job",
                    portal.tenancy.fields.TenantForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="failures",
                        to="jobs.job",
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
        migrations.CreateModel(
            name="WorkerHeartbeat",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("queue", models.CharField(max_length=40)),
                ("host", models.CharField(max_length=255)),
                ("pid", models.IntegerField()),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "indexes": [models.Index(fields=["queue", "at"], name="worker_heartbeat_queue")],
            },
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(fields=["tenant", "-created_at"], name="job_newest"),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("state__in", ["queued", "running", "cancelling"])),
                fields=["created_at"],
                name="job_active",
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.UniqueConstraint(fields=("tenant", "id"), name="jobs_job_tenant_id"),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state__in", ["queued", "running", "cancelling"])),
                fields=("tenant", "kind", "scope"),
                name="job_one_per_scope",
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "state__in",
                        [
                            "queued",
                            "running",
                            "cancelling",
                            "cancelled",
                            "succeeded",
                            "partial",
                            "failed",
                            "lost",
                        ],
                    )
                ),
                name="job_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "running"), _negated=True),
                    ("claim_id__isnull", False),
                    _connector="OR",
                ),
                name="job_running_has_claim",
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("state__in", ["running", "cancelling"]), ("claim_id", None), _connector="OR"
                ),
                name="job_claim_is_of_a_run",
            ),
        ),
        migrations.AddConstraint(
            model_name="jobfailure",
            constraint=models.UniqueConstraint(fields=("tenant", "id"), name="jobs_jobfailure_tenant_id"),
        ),
        migrations.AddConstraint(
            model_name="jobfailure",
            constraint=models.UniqueConstraint(fields=("tenant", "job", "item_id"), name="job_failure_once"),
        ),
        migrations.AddConstraint(
            model_name="jobfailure",
            constraint=portal.tenancy.fields.CompositeForeignKey(
                column="job_id", name="job_failure_job", on_delete="CASCADE", table="jobs_job"
            ),
        ),
    ]
