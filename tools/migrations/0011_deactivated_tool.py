"""The field that was called took_tool_down has a plain name; its column keeps the old one, so older code goes on working."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tools", "0010_sync_moves")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameField("endpoint", "took_tool_down", "deactivated_tool"),
                migrations.AlterField(
                    "endpoint",
                    "deactivated_tool",
                    models.BooleanField(db_column="took_tool_down", default=False),
                ),
            ]
        )
    ]
