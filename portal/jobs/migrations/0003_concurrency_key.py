"""Job.scope is called concurrency_key from now on; its column keeps the name, so that processes of the version before go on."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0002_isolation")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveConstraint(model_name="job", name="job_one_per_scope"),
                migrations.RenameField("job", "scope", "concurrency_key"),
                migrations.AlterField(
                    "job",
                    "concurrency_key",
                    models.CharField(blank=True, db_column="scope", max_length=200, null=True),
                ),
                migrations.AddConstraint(
                    "job",
                    models.UniqueConstraint(
                        fields=("tenant", "kind", "concurrency_key"),
                        condition=models.Q(("state__in", ["queued", "running", "cancelling"])),
                        name="job_one_per_scope",
                    ),
                ),
            ]
        )
    ]
