"""Words are found in both writings (`OAuth` as oauth and as o, auth), names squashed into one word, and Latin and Greek letters
without their accents. One function makes the lexemes of a text, one those of a question (tools/search/sql/0021_words.sql).

The column of lexemes is written anew for every tool, some 6 s for 10,000; the postings only of tools whose lexemes are others by
then. Nothing else of a tool changes, so no history is written.
"""

from __future__ import annotations

from django.contrib.postgres.search import SearchVectorField
from django.db import migrations, models
from django.db.models import DO_NOTHING, F, Func

from tools.search.kinds import of_search
from tools.search.sql import load

DOCUMENT = "tools_document(name, description, search_text)"
FORMER_DOCUMENT = (
    "setweight(to_tsvector('pg_catalog.english', tools_words(name)), 'A') "
    "|| setweight(to_tsvector('pg_catalog.english', tools_words(description)), 'B') "
    "|| setweight(to_tsvector('pg_catalog.english', tools_words(search_text)), 'C')"
)


def rebuild(document: str) -> str:
    """The column anew, and the postings of the tools whose lexemes it changes. The trigger that writes postings looks at the column, so
    it is made anew as well."""
    return f"""
    ALTER TABLE tools_tool NO FORCE ROW LEVEL SECURITY;
    ALTER TABLE tools_posting NO FORCE ROW LEVEL SECURITY;
    DROP TRIGGER tools_tool_postings_update ON tools_tool;
    ALTER TABLE tools_tool RENAME COLUMN search_vector TO former_vector;
    ALTER TABLE tools_tool ADD COLUMN search_vector tsvector NOT NULL GENERATED ALWAYS AS ({document}) STORED;
    DELETE FROM tools_posting AS posting USING tools_tool AS tool, unnest(tool.former_vector) AS entry
    WHERE tool.active AND tool.former_vector <> tool.search_vector
        AND posting.tenant_id = tool.tenant_id AND posting.lexeme = entry.lexeme AND posting.entity_id = tool.id;
    INSERT INTO tools_posting (tenant_id, lexeme, entity_id, weight)
    SELECT tool.tenant_id, term.lexeme, tool.id, term.weight
    FROM tools_tool AS tool CROSS JOIN LATERAL tools_posting_weights(tool.search_vector) AS term
    WHERE tool.active AND tool.former_vector <> tool.search_vector;
    ALTER TABLE tools_tool DROP COLUMN former_vector;
    CREATE TRIGGER tools_tool_postings_update AFTER UPDATE ON tools_tool
    FOR EACH ROW WHEN (OLD.search_vector IS DISTINCT FROM NEW.search_vector OR OLD.active <> NEW.active)
    EXECUTE FUNCTION tools_posting_keep();
    ALTER TABLE tools_posting FORCE ROW LEVEL SECURITY;
    ALTER TABLE tools_tool FORCE ROW LEVEL SECURITY;
    """  # noqa: S608 - constants of this file


FORMER_WORDS = load("0018_words.sql")
BACK = (
    FORMER_WORDS[FORMER_WORDS.index("CREATE OR REPLACE FUNCTION tools_words") :]
    + rebuild(FORMER_DOCUMENT)
    + """
    DROP FUNCTION search_words(text, jsonb, text[], integer);
    DROP FUNCTION tools_document(text, text, text);
    DROP FUNCTION tools_question(text);
    DROP FUNCTION tools_unsplit(text);
    DROP FUNCTION tools_split(text);
    DROP FUNCTION tools_plain(text);
    DROP FUNCTION tools_folded(text);
    """
)


class Migration(migrations.Migration):
    dependencies = [("tools", "0020_kinds_of_entities")]

    operations = [
        migrations.RunSQL(
            load("0021_words.sql") + rebuild(DOCUMENT),
            BACK,
        ),
        of_search("search_words", callers="portal_app, portal_worker"),
        # Django's declaration of the column; the table is not Django's to change.
        migrations.DeleteModel("SearchDocument"),
        migrations.CreateModel(
            name="SearchDocument",
            fields=[
                (
                    "tool",
                    models.OneToOneField(
                        "tools.tool",
                        DO_NOTHING,
                        primary_key=True,
                        db_column="id",
                        related_name="+",
                        serialize=False,
                    ),
                ),
                ("tenant", models.ForeignKey("tenancy.tenant", DO_NOTHING, related_name="+")),
                ("name", models.CharField(max_length=200)),
                ("description", models.TextField()),
                ("search_text", models.TextField()),
                (
                    "search_vector",
                    models.GeneratedField(
                        expression=Func(
                            F("name"),
                            F("description"),
                            F("search_text"),
                            function="tools_document",
                            output_field=SearchVectorField(),
                        ),
                        output_field=SearchVectorField(),
                        db_persist=True,
                    ),
                ),
            ],
            options={"db_table": "tools_tool", "managed": False},
        ),
    ]
