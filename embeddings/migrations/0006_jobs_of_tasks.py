"""Which job asked for a task, and what the embedding was before, so that a cancelled job can take it back."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("embeddings", "0005_models_from_the_web"),
        ("tenancy", "0003_api_manners"),
    ]

    operations = [
        migrations.AddField(
            model_name="embeddingtask",
            name="job_id",
            field=models.UUIDField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="embeddingtask",
            name="status_before",
            field=models.CharField(blank=True, max_length=8, null=True),
        ),
        migrations.AddIndex(
            model_name="embeddingtask",
            index=models.Index(
                condition=models.Q(("job_id", None), _negated=True),
                fields=["tenant", "job_id"],
                name="embedding_task_of_job",
            ),
        ),
    ]
