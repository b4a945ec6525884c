"""The weights of words and the numbers of the ranking get names; those that an installation may choose become parameters of
`tools_search_candidates`. What either function gives is what it gave before, so no stored posting changes.

The keyword index is declared to Django as well: as unmanaged models, since migration 0003 made its column and its table.
"""

from __future__ import annotations

from django.contrib.postgres.search import SearchVector, SearchVectorField
from django.db import migrations, models
from django.db.models import DO_NOTHING, F, Func

from tools.search.sql import load

DROP = "DROP FUNCTION tools_search_candidates;\n"
HAND_OVER = load("0012_hand_over.sql")


def words_of(column: str, weight: str) -> SearchVector:
    words = Func(F(column), function="tools_words", output_field=models.TextField())
    return SearchVector(words, config="pg_catalog.english", weight=weight)


DOCUMENT = words_of("name", "A") + words_of("description", "B") + words_of("search_text", "C")


class Migration(migrations.Migration):
    dependencies = [("tools", "0011_deactivated_tool")]

    operations = [
        migrations.RunSQL(load("0012_postings.sql"), migrations.RunSQL.noop),
        migrations.RunSQL(
            DROP + load("0012_candidates.sql") + HAND_OVER, DROP + load("0004_candidates.sql") + HAND_OVER
        ),
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
                        expression=DOCUMENT, output_field=SearchVectorField(), db_persist=True
                    ),
                ),
            ],
            options={"db_table": "tools_tool", "managed": False},
        ),
        migrations.CreateModel(
            name="Posting",
            fields=[
                ("pk", models.CompositePrimaryKey("tenant", "lexeme", "tool")),
                ("tenant", models.ForeignKey("tenancy.tenant", DO_NOTHING, related_name="+")),
                ("lexeme", models.TextField(db_collation="C")),
                ("tool", models.ForeignKey("tools.tool", DO_NOTHING, db_constraint=False, related_name="+")),
                ("weight", models.FloatField()),
            ],
            options={"db_table": "tools_posting", "managed": False},
        ),
    ]
