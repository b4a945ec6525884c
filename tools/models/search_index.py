"""The keyword index of search, declared for those who look for it here. PostgreSQL keeps it: a generated column and a trigger
(tools/search/sql/), so nothing writes these models, and Django's migrations leave their tables alone (`managed = False`).
"""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.search import SearchVector, SearchVectorField
from django.db import models
from django.db.models import F, Func

from portal.tenancy.models import Tenant, TenantManager
from tools.models.tool import Tool


def _words_of(column: str, *, weight: str) -> SearchVector:
    """The lexemes of a column, whose identifiers `tools_words` has split into words."""
    words = Func(F(column), function="tools_words", output_field=models.TextField())
    return SearchVector(words, config="pg_catalog.english", weight=weight)


class SearchDocument(models.Model):
    """The column `search_vector` of a tool: its name with weight A, its description with B, the rest with C.

    A model beside Tool, of the same table, so that no query of tools reads the vector, which is as long as all its texts.
    """

    tool = models.OneToOneField(
        Tool, on_delete=models.DO_NOTHING, primary_key=True, db_column="id", related_name="+"
    )
    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, related_name="+")
    name = models.CharField(max_length=200)
    description = models.TextField()
    search_text = models.TextField()
    search_vector = models.GeneratedField(
        expression=(
            _words_of("name", weight="A")
            + _words_of("description", weight="B")
            + _words_of("search_text", weight="C")
        ),
        output_field=SearchVectorField(),
        db_persist=True,
    )

    objects: ClassVar[TenantManager[SearchDocument]] = TenantManager()

    class Meta:
        managed = False
        db_table = "tools_tool"

    def __str__(self) -> str:
        return self.name


class Posting(models.Model):
    """A lexeme of an active tool with its BM25F weight. A trigger on tools_tool writes the rows."""

    pk = models.CompositePrimaryKey("tenant", "lexeme", "entity")
    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, related_name="+")
    lexeme = models.TextField(db_collation="C")
    entity = models.ForeignKey(Tool, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
    weight = models.FloatField()  # PostgreSQL's real

    objects: ClassVar[TenantManager[Posting]] = TenantManager()

    class Meta:
        managed = False
        db_table = "tools_posting"

    def __str__(self) -> str:
        return self.lexeme
