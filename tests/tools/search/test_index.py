"""The keyword index as Django's models declare it is the one that PostgreSQL keeps."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO

import pytest
from django.core.management import call_command

from tools.models import Posting, SearchDocument, Tool

MakeTool = Callable[..., Tool]


@pytest.fixture
def tools(make_tool: MakeTool) -> list[Tool]:
    return [
        make_tool(name="getUserById", description="Returns one user.", tags=["people"]),
        make_tool(name="発票を送る", description="", use_cases=["Send the invoice of March"]),
        make_tool(name="a.b", description="No word's tool"),
    ]


def test_the_declared_expression_gives_what_the_generated_column_holds(tools: list[Tool]) -> None:
    expression = SearchDocument._meta.get_field("search_vector").expression
    documents = SearchDocument.objects.annotate(declared=expression)
    held = dict(documents.values_list("tool_id", "search_vector"))
    assert held == dict(documents.values_list("tool_id", "declared"))
    assert len(held) == len(tools)
    assert "'user':2A" in held[tools[0].pk]


def test_an_active_tool_has_a_posting_for_each_of_its_lexemes(tools: list[Tool]) -> None:
    found = Posting.objects.filter(entity=tools[0])
    assert {posting.lexeme for posting in found} >= {"get", "user", "id", "return", "one", "peopl"}
    assert all(posting.weight > 0 for posting in found)
    assert found.get(lexeme="user").weight > found.get(lexeme="one").weight


def test_the_migrations_hold_every_model(db: None) -> None:
    call_command("makemigrations", "--check", "--dry-run", stdout=StringIO())
