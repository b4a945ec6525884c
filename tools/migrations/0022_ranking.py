"""What search ranks by beside the fused score: the signs of a text's first word pieces, which are kept beside its vector, and of
each candidate its words and whether the question is its name (docs/search.md, *After the fusion*).

Processes of the version before call the function by the names of its parameters, and go on doing so.
"""

from __future__ import annotations

from django.db import migrations, models

from tools.search.kinds import of_search
from tools.search.sql import load

# A row with both is longer than PostgreSQL keeps in one place, and it would move the longer value out, which is the vector that
# every exact search reads. So the vector stays in the row, and the signs, which are read for fifty tools a search, go out of it.
STORAGE = """
ALTER TABLE tools_toolembedding ALTER COLUMN vector SET STORAGE PLAIN, ALTER COLUMN token_signs SET STORAGE EXTERNAL;
"""
BACK = "ALTER TABLE tools_toolembedding ALTER COLUMN vector SET STORAGE EXTERNAL;"
DROP = "DROP FUNCTION search_candidates;\n"
# As migration 0021 left it.
BEFORE = load("0020_candidates.sql").replace(
    "to_tsvector('pg_catalog.english', tools_words(query_text))", "tools_question(query_text)"
)
HAND_OVER = str(of_search("search_candidates", callers="portal_app, portal_worker").sql)


class Migration(migrations.Migration):
    dependencies = [("tools", "0021_words")]

    operations = [
        migrations.AddField(
            "toolembedding", "token_signs", models.BinaryField(blank=True, editable=False, null=True)
        ),
        migrations.RunSQL(STORAGE, BACK),
        migrations.RunSQL(DROP + load("0022_candidates.sql") + HAND_OVER, DROP + BEFORE + HAND_OVER),
    ]
