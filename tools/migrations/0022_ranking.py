"""The signs of a text's first word pieces are kept beside its vector; search ranks by them (docs/search.md, *After the fusion*)."""

from __future__ import annotations

from django.db import migrations, models

# A row with both is longer than PostgreSQL keeps in one place, and it would move the longer value out, which is the vector that
# every exact search reads. So the vector stays in the row, and the signs, which are read for fifty tools a search, go out of it.
STORAGE = """
ALTER TABLE tools_toolembedding ALTER COLUMN vector SET STORAGE PLAIN, ALTER COLUMN token_signs SET STORAGE EXTERNAL;
"""
BACK = "ALTER TABLE tools_toolembedding ALTER COLUMN vector SET STORAGE EXTERNAL;"


class Migration(migrations.Migration):
    dependencies = [("tools", "0021_words")]

    operations = [
        migrations.AddField(
            "toolembedding", "token_signs", models.BinaryField(blank=True, editable=False, null=True)
        ),
        migrations.RunSQL(STORAGE, BACK),
    ]
