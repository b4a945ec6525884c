"""The statistics of tools and the log of searches, isolated by tenant."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.expressions
import django.db.models.functions.datetime
import portal.tenancy.context
import uuid
from django.db import migrations, models

from portal.tenancy.rls import isolate

# Only the worker deletes searches, when they are old (metrics/search_log.py).
KEEP = (
    "REVOKE DELETE ON metrics_loggedsearch FROM portal_app",
    "GRANT DELETE ON metrics_loggedsearch TO portal_app",
)
# tools_search_candidates filters by statistics, and leaves quarantined tools out.
SEARCHED = (
    "GRANT SELECT ON metrics_toolstatistics TO portal_search",
    "REVOKE ALL ON metrics_toolstatistics FROM portal_search",
)


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("tenancy", "0011_prune_sign_ins"),
    ]

    operations = [
        migrations.CreateModel(
            name="LoggedSearch",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("asked_by", models.CharField(blank=True, default="", max_length=200)),
                ("query", models.TextField(blank=True, default="")),
                ("filters", models.JSONField(default=dict)),
                ("top_k", models.PositiveSmallIntegerField(default=0)),
                ("mode", models.CharField(blank=True, default="", max_length=10)),
                (
                    "degraded",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(), default=list, size=None
                    ),
                ),
                ("reranked", models.BooleanField(default=False)),
                (
                    "results",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.UUIDField(), default=list, size=None
                    ),
                ),
                ("top_score", models.FloatField(null=True)),
                ("best_similarity", models.FloatField(null=True)),
                ("took_ms", models.FloatField(default=0)),
                ("timings", models.JSONField(default=dict)),
                ("selected_tool", models.UUIDField(null=True)),
                ("selected_rank", models.PositiveSmallIntegerField(null=True)),
                ("selected_at", models.DateTimeField(null=True)),
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
                "verbose_name": "logged search",
                "verbose_name_plural": "logged searches",
                "abstract": False,
                "indexes": [models.Index(fields=["tenant", "at"], name="search_log_age")],
            },
        ),
        migrations.CreateModel(
            name="ToolStatistics",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("tool_id", models.UUIDField()),
                ("calls", models.PositiveIntegerField(db_default=0, default=0)),
                ("successes", models.PositiveIntegerField(db_default=0, default=0)),
                (
                    "success_rate",
                    models.GeneratedField(
                        db_persist=True,
                        expression=models.Case(
                            models.When(
                                calls__gt=0,
                                then=django.db.models.expressions.CombinedExpression(
                                    django.db.models.expressions.CombinedExpression(
                                        models.F("successes"), "+", models.Value(1.0)
                                    ),
                                    "/",
                                    django.db.models.expressions.CombinedExpression(
                                        models.F("calls"), "+", models.Value(2.0)
                                    ),
                                ),
                            ),
                            default=None,
                        ),
                        output_field=models.FloatField(null=True),
                    ),
                ),
                ("average_latency_ms", models.FloatField(blank=True, null=True)),
                ("quality", models.FloatField(blank=True, null=True)),
                ("last_called_at", models.DateTimeField(blank=True, null=True)),
                ("last_succeeded_at", models.DateTimeField(blank=True, null=True)),
                ("quarantined_until", models.DateTimeField(blank=True, null=True)),
                (
                    "quarantine_reason",
                    models.CharField(blank=True, db_default="", default="", max_length=500),
                ),
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
                "verbose_name": "statistics of a tool",
                "verbose_name_plural": "statistics of a tool",
                "abstract": False,
                "indexes": [
                    models.Index(
                        condition=models.Q(("quarantined_until__isnull", False)),
                        fields=["tenant", "quarantined_until"],
                        name="tool_statistics_quarantined",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "tool_id"), name="tool_statistics_once"),
                    models.CheckConstraint(
                        condition=models.Q(("successes__lte", models.F("calls"))),
                        name="tool_statistics_successes",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("quality", None),
                            models.Q(("quality__gte", 0), ("quality__lte", 1)),
                            _connector="OR",
                        ),
                        name="tool_statistics_quality_range",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("average_latency_ms", None), ("average_latency_ms__gte", 0), _connector="OR"
                        ),
                        name="tool_statistics_latency_range",
                    ),
                ],
            },
        ),
        isolate("metrics_loggedsearch", worker="SELECT, DELETE"),
        migrations.RunSQL(*KEEP),
        isolate("metrics_toolstatistics"),
        migrations.RunSQL(*SEARCHED),
    ]
