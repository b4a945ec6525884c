"""Texts and questions are normalised (NFKC) before they are split into words, and a combining mark ends no word."""

from __future__ import annotations

from django.db import migrations

from tools.search.sql import load

# Only rows whose words are others by now; no operator changed them, so no history is written.
REBUILD = """
ALTER TABLE tools_tool NO FORCE ROW LEVEL SECURITY, DISABLE TRIGGER USER, ENABLE TRIGGER tools_tool_postings_update;
ALTER TABLE tools_posting NO FORCE ROW LEVEL SECURITY;
UPDATE tools_tool SET name = name, description = description, search_text = search_text
WHERE search_vector IS DISTINCT FROM
    setweight(to_tsvector('pg_catalog.english', tools_words(name)), 'A')
    || setweight(to_tsvector('pg_catalog.english', tools_words(description)), 'B')
    || setweight(to_tsvector('pg_catalog.english', tools_words(search_text)), 'C');
SET CONSTRAINTS ALL IMMEDIATE;  -- a table whose checks wait for the commit cannot be altered
ALTER TABLE tools_posting FORCE ROW LEVEL SECURITY;
ALTER TABLE tools_tool ENABLE TRIGGER USER, FORCE ROW LEVEL SECURITY;
"""
BACK = (
    load("0003_words.sql").replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")
    + "DROP FUNCTION tools_marks();\n"
    + REBUILD
)


class Migration(migrations.Migration):
    dependencies = [("tools", "0017_counts_of_seen_tools")]

    operations = [migrations.RunSQL(load("0018_words.sql") + REBUILD, BACK)]
