"""Case 61: the same word, composed in two ways, is found by words (SRC-1): texts and questions are normalised (NFKC) before they are
split, and a combining mark ends no word.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from importlib import import_module
from typing import Any

import psycopg
import pytest

from portal.tenancy.models import Tenant
from tests.support.imports.documents import INPUTS, import_document, needs_inputs
from tests.support.search import ask, found
from tools.catalogue.filters import ToolFilter
from tools.models import Tool

CASE = INPUTS / "cases" / "61-two-ways-of-unicode" / "words.json"
WIDE = "".join(chr(ord(letter) + 0xFEE0) for letter in "Keycaps")  # of full width
Rows = Callable[..., list[tuple[Any, ...]]]


@needs_inputs
@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("réclamation", "act_ten"),
        (unicodedata.normalize("NFD", "réclamation"), "act_ten"),
        ("Keycaps", "act_eleven"),
        (WIDE, "act_eleven"),
        ("शिकायत", "act_twelve"),
        ("ग्राहक", "act_twelve"),
        ("เสื้อ", "act_thirteen"),
        ("สินค้า", "act_thirteen"),
    ],
)
def test_case_61_a_word_is_found_first_however_its_characters_are_composed_SRC_1(
    committed: Tenant, settings: Any, question: str, first: str
) -> None:
    settings.SEARCH_SEMANTIC = False
    import_document(committed, CASE.read_bytes(), slug="words")
    assert found(ask(committed.pk, question))[0] == first


def test_case_61_a_combining_mark_never_ends_a_word_SRC_1(rows: Rows, db: None) -> None:
    # As far as PostgreSQL's own parser knows them; the characters of some scripts stand alone.
    marks = [chr(code) for code in range(0x300, 0xE00) if unicodedata.category(chr(code))[0] == "M"]
    assert len(marks) > 500
    split = rows(
        "SELECT mark FROM unnest(%s::text[]) AS mark WHERE tools_words('क' || mark || 'क') LIKE '%% %%'",
        [marks],
    )
    assert split == []


@needs_inputs
def test_case_61_texts_that_were_stored_before_are_split_anew_by_the_newest_migration_SRC_13(
    committed: Tenant, admin_database: psycopg.Connection[Any]
) -> None:
    import_document(committed, CASE.read_bytes(), slug="words")
    split, *_ = import_module("tools.migrations.0021_words").Migration.operations

    def postings() -> set[Any]:
        return set(admin_database.execute("SELECT lexeme, entity_id, weight FROM tools_posting").fetchall())

    with admin_database.transaction(force_rollback=True):
        now = postings()
        admin_database.execute(split.reverse_sql)
        assert postings() != now
        admin_database.execute(split.sql)
        assert postings() == now
        forced = admin_database.execute(
            "SELECT count(*) FROM pg_class WHERE relname IN ('tools_tool', 'tools_posting') AND relforcerowsecurity"
        )
        assert forced.fetchone() == (2,)


def test_case_61_the_list_and_its_tags_find_a_word_however_it_is_composed_CAT_1(
    make_tool: Callable[..., Tool], tenant: Tenant
) -> None:
    decomposed = unicodedata.normalize("NFD", "Réclamation")
    make_tool(tool_id="a", name=decomposed, description="Keycaps.", tags=[decomposed])
    make_tool(tool_id="b", name="Other", description="Nothing.")
    for asked in (
        {"q": "réclamation"},
        {"q": decomposed},
        {"q": WIDE},
        {"tag": "Réclamation"},
        {"tag": decomposed},
    ):
        assert [one.tool_id for one in ToolFilter(asked, Tool.objects.all()).qs] == ["a"], asked
