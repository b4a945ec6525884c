"""The circuits and counters of the app embeddings are this app's from now on. The tables stay as they are, so that processes
of the version before go on working."""

from __future__ import annotations

import django.db.models.functions.datetime
from django.db import migrations, models

ID = models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")


class Migration(migrations.Migration):
    initial = True

    dependencies = [("embeddings", "0009_tally")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name="Circuit",
                    fields=[
                        ("id", ID),
                        ("name", models.CharField(db_column="model", max_length=200)),
                        ("purpose", models.CharField(max_length=8)),
                        ("errors", models.IntegerField()),
                        ("since", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ("next_try", models.DateTimeField(blank=True, null=True)),
                        ("reason", models.CharField(max_length=500)),
                    ],
                    options={
                        "db_table": "embeddings_embeddingcircuit",
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("name", "purpose"), name="embedding_circuit_once"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("purpose__in", ["passage", "query"])),
                                name="embedding_circuit_purpose_known",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="CounterSum",
                    fields=[
                        ("id", ID),
                        ("name", models.CharField(db_column="figure", max_length=20)),
                        ("label", models.CharField(blank=True, default="", max_length=40)),
                        ("value", models.FloatField(default=0)),
                    ],
                    options={
                        "db_table": "embeddings_embeddingtally",
                        "constraints": [
                            models.UniqueConstraint(fields=("name", "label"), name="embedding_tally_once")
                        ],
                    },
                ),
            ]
        )
    ]
