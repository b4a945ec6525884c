"""Case 40, and the arm of meaning as it is shipped: an imported document, the real model, the real worker.

Proven: for every question of the case its tools are among the first five, by words alone and with vectors; the odd
questions are answered; a tool that shares no word with the question is found by its meaning.
"""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest
from django.conf import settings as django_settings

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.clients import make_api
from tests.support.embeddings.pipeline import Pipeline
from tests.support.imports.documents import INPUTS, import_document, needs_inputs
from tests.support.search import ask, found
from tools.models import Tool, ToolEmbedding

CASE = INPUTS / "cases" / "40-names-in-text-search"
QUERIES = json.loads((CASE / "queries.json").read_text(encoding="utf-8")) if CASE.is_dir() else []
pytestmark = needs_inputs


@pytest.fixture
def imported(committed: Tenant, admin_database: psycopg.Connection[Any], settings: Any) -> Pipeline:
    """The case's document in the catalogue; its vectors are for the worker to make."""
    settings.EMBEDDING_PROVIDER = "sentence-transformers"
    import_document(committed, (CASE / "doc.json").read_bytes(), slug="case-40")
    return Pipeline(committed.pk, admin_database)


def named(tenant: Tenant, question: str) -> set[str]:
    """The names of the first five, as the document writes them."""
    hits = ask(tenant.pk, question, 5).hits
    with tenant_context(tenant.pk):
        tools = Tool.objects.select_related("endpoint").filter(pk__in=[hit.tool["id"] for hit in hits])
        return {str(tool.endpoint.metadata.get("operation_id") or tool.name) for tool in tools}


def test_case_40_a_part_of_a_name_finds_the_tool_by_words_and_with_vectors_SRC_1(
    imported: Pipeline, committed: Tenant, settings: Any
) -> None:
    missed = []
    assert imported.work().stored == 7
    assert sum(bool(query["must"]) for query in QUERIES) == 13
    for settings.SEARCH_SEMANTIC in (False, True):
        for query in QUERIES:
            if query["q"] and "\0" not in query["q"]:
                lost = set(query["must"]) - named(committed, query["q"])
                missed += [(settings.SEARCH_SEMANTIC, query["q"], name) for name in sorted(lost)]
    assert missed == []


def test_case_40_while_the_vectors_are_awaited_the_words_answer_SRC_5(
    imported: Pipeline, committed: Tenant
) -> None:
    answer = ask(committed.pk, "get user by id", 5)
    assert (found(answer)[0], answer.hits[0].match_type) == ("getUserById", "keyword")
    assert answer.hits[0].tool["embedding_status"] == "pending"
    imported.work()
    answer = ask(committed.pk, "get user by id", 5)
    assert (found(answer)[0], answer.hits[0].match_type) == ("getUserById", "both")
    assert answer.hits[0].components["similarity"] > 0.5


def test_case_40_no_query_of_the_case_is_an_error_page_SRC_1(imported: Pipeline, committed: Tenant) -> None:
    client = make_api(committed)
    for query in QUERIES:
        response = client.post("/api/v1/tools/search", {"query": query["q"]}, format="json")
        askable = (
            query["q"].strip()
            and "\0" not in query["q"]
            and len(query["q"]) <= django_settings.SEARCH_QUERY_MAX_LENGTH
        )
        assert response.status_code == (200 if askable else 400), query["q"]
        assert response.json()


def test_a_tool_that_shares_no_word_with_the_question_is_found_by_its_meaning_SRC_1(
    imported: Pipeline, committed: Tenant
) -> None:
    imported.add("Meteorological forecast: rain, temperature, wind.")
    imported.add("Delivers electronic letters to a recipient.")
    imported.work()
    with tenant_context(committed.pk):
        assert set(ToolEmbedding.objects.values_list("status", flat=True)) == {"ready"}
    for question, first in (("Do I need an umbrella today?", "tool_1"), ("I want to email Bob", "tool_2")):
        answer = ask(committed.pk, question, 3)
        assert (found(answer)[0], answer.hits[0].match_type) == (first, "semantic")
