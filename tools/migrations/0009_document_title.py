"""A source's title is an operator's, and stays; what its document calls it has a column of its own."""

from __future__ import annotations

from django.db import migrations, models

# Every title so far was the document's: each sync wrote it anew. Moving it is no operator's change, so no history is written.
MOVE = """
    ALTER TABLE tools_source NO FORCE ROW LEVEL SECURITY, DISABLE TRIGGER USER;
    UPDATE tools_source SET document_title = title, title = '';
    ALTER TABLE tools_source ENABLE TRIGGER USER, FORCE ROW LEVEL SECURITY;
"""
MOVE_BACK = """
    ALTER TABLE tools_source NO FORCE ROW LEVEL SECURITY, DISABLE TRIGGER USER;
    UPDATE tools_source SET title = document_title WHERE title = '';
    ALTER TABLE tools_source ENABLE TRIGGER USER, FORCE ROW LEVEL SECURITY;
"""


class Migration(migrations.Migration):
    dependencies = [("tools", "0008_syncs_isolated")]

    operations = [
        migrations.AddField(
            model_name="source",
            name="document_title",
            field=models.CharField(blank=True, default="", editable=False, max_length=300),
        ),
        migrations.RunSQL(MOVE, MOVE_BACK),
    ]
