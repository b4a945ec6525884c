"""The circuits of the providers (portal/resilience/circuit_breaker.py): written by workers for texts, by the web for questions."""

from __future__ import annotations

import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("embeddings", "0006_jobs_of_tasks")]

    operations = [
        migrations.CreateModel(
            name="EmbeddingCircuit",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("model", models.CharField(max_length=200)),
                ("purpose", models.CharField(max_length=8)),
                ("errors", models.IntegerField()),
                ("since", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("next_try", models.DateTimeField(blank=True, null=True)),
                ("reason", models.CharField(max_length=500)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("model", "purpose"), name="embedding_circuit_once"),
                    models.CheckConstraint(
                        condition=models.Q(("purpose__in", ["passage", "query"])),
                        name="embedding_circuit_purpose_known",
                    ),
                ],
            },
        ),
        migrations.RunSQL(
            """
            GRANT SELECT, INSERT, UPDATE, DELETE ON embeddings_embeddingcircuit TO portal_worker;
            GRANT USAGE ON SEQUENCE embeddings_embeddingcircuit_id_seq TO portal_worker;
            """,
            "REVOKE ALL ON embeddings_embeddingcircuit FROM portal_worker",
        ),
    ]
