"""The rights with which a job runs. Jobs that were there before, and those of processes of the version before, have the tenant's."""

from __future__ import annotations

from django.db import migrations, models
from django.db.models import Value


class Migration(migrations.Migration):
    dependencies = [("jobs", "0005_fair_turns")]

    operations = [
        migrations.AddField(
            "job",
            "rights",
            models.JSONField(
                db_default=Value({}, output_field=models.JSONField()), default=dict, editable=False
            ),
        ),
    ]
