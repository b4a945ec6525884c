"""Circuits and counters belong to the app portal.resilience from now on; their tables stay as they are."""

from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("embeddings", "0009_tally"), ("resilience", "0001_initial")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.DeleteModel(name="EmbeddingCircuit"),
                migrations.DeleteModel(name="EmbeddingTally"),
            ]
        )
    ]
