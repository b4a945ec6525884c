"""The keyword arm (SRC-1): the postings and what is found through them.

Proven: the postings are those of the active tools' texts after every kind of write; identifiers are found by their
words; a question in natural language finds tools that hold only some of its words, the rare ones first; the budget
never leaves a question without an answer; and no question is an error.
"""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from rest_framework.test import APIClient

from tests.support.clients import make_api
from tests.support.search import candidates, found, place, toward
from tools.catalogue.tools import delete_tool, update_tool
from tools.models import Tool
from tools.search.query import SearchAnswer

MakeTool = Callable[..., Tool]
Asked = Callable[..., SearchAnswer]
Rows = Callable[..., list[tuple[Any, ...]]]

WANTED = """SELECT tool.tenant_id, term.lexeme, tool.id, term.weight
    FROM tools_tool AS tool, tools_posting_weights(tool.search_vector) AS term WHERE tool.active"""
STORED = "SELECT tenant_id, lexeme, entity_id, weight FROM tools_posting"
OUT_OF_STEP = f"(({WANTED}) EXCEPT ({STORED})) UNION ALL (({STORED}) EXCEPT ({WANTED}))"


@pytest.fixture
def by_words(settings: Any) -> None:
    settings.SEARCH_SEMANTIC = False


def raw(statement: str, *parameters: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        assert cursor.rowcount > 0


def edit(tool: Tool, **changes: Any) -> None:
    update_tool(pk=tool.pk, expected_version=tool.version, changes=changes, actor="test")


def update_in_bulk(tool: Tool) -> None:
    tools = list(Tool.objects.all())
    for number, one in enumerate(tools):
        one.description, one.active = f"Bulk frobnication number {number}.", number != 0
    Tool.objects.bulk_update(tools, ["description", "active"])


WRITES: dict[str, Callable[[Tool], object]] = {
    "an edit of the text": lambda tool: edit(tool, description="Frobnicates zebras."),
    "an edit of the name": lambda tool: edit(tool, name="frobnicateZebra"),
    "an edit of a word beside them": lambda tool: edit(tool, tags=["zebra"], parameters={"properties": {"herd": {}}}),
    "an edit of none": lambda tool: edit(tool, core=True),
    "deactivation": lambda tool: edit(tool, active=False),
    "reactivation with another text": lambda tool: (
        edit(tool, active=False),
        edit(Tool.objects.get(pk=tool.pk), active=True, description="Frobnicates zebras."),
    ),
    "edit while inactive": lambda tool: (
        edit(tool, active=False),
        edit(Tool.objects.get(pk=tool.pk), description="Frobnicates zebras."),
    ),
    "a text without words": lambda tool: edit(tool, description="", name="--"),
    "deletion": lambda tool: delete_tool(pk=tool.pk, actor="test"),
    "bulk_update": update_in_bulk,
    "raw SQL, text": lambda tool: raw("UPDATE tools_tool SET description = description || ' zebra'"),
    "raw SQL, text and state": lambda tool: raw("UPDATE tools_tool SET active = false, name = 'x y' WHERE id = %s", tool.pk),
    "raw SQL, twice in one statement's time": lambda tool: [
        raw("UPDATE tools_tool SET active = NOT active, search_text = 'zebra zebra'") for _ in range(2)
    ],
    "raw SQL, deletion": lambda tool: raw("DELETE FROM tools_tool WHERE id = %s", tool.pk),
}  # fmt: skip


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
def test_the_postings_are_in_step_after_every_kind_of_write_SRC_1(
    write: Callable[[Tool], object], make_tool: MakeTool, rows: Rows
) -> None:
    tools = [make_tool(tags=["herd", f"t{n}"], parameters={"properties": {"n": {}}}) for n in range(4)]
    assert rows(OUT_OF_STEP) == []
    assert rows("SELECT count(*) FROM tools_posting") > [(20,)]
    before = rows(STORED)
    write(tools[1])
    assert rows(OUT_OF_STEP) == []
    if write is not WRITES["an edit of none"]:
        assert sorted(rows(STORED)) != sorted(before)


def test_a_tool_without_words_has_no_postings_SRC_1(make_tool: MakeTool, rows: Rows) -> None:
    make_tool(tool_id="signs", name="--", description="the of")
    assert rows(STORED) == []


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("getUserById", "get User By Id"),
        ("chat.postMessage", "chat post Message"),
        ("list_pull_requests", "list pull requests"),
        ("parseHTTPResponse", "parse HTTP Response"),
        ("listVMs of URLs", "list VM s of URL s"),
        ("https://a.example/x?y=1", "https a example x y 1"),
        ("überPrüfen", "uber Prufen"),
        ("don't & | !<->:*()", "don t "),
    ],
)
def test_identifiers_are_split_and_signs_are_spaces_SRC_1(
    source: str, words: str, rows: Rows, db: None
) -> None:
    [(split,)] = rows("SELECT tools_words(%s)", [source])
    assert split == words


NAMES = ("getUserById", "chat.postMessage", "list_pull_requests", "Reboot", "render-PDFInvoice")


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("user", "getUserById"),
        ("user by id", "getUserById"),
        ("getuserbyid", "getUserById"),
        ("listpullrequests", "list_pull_requests"),
        ("ListPullRequests", "list_pull_requests"),
        ("chatpostmessage", "chat.postMessage"),
        ("GET_USER", "getUserById"),
        ("posting messages", "chat.postMessage"),
        ("chat", "chat.postMessage"),
        ("postMessage", "chat.postMessage"),
        ("pull request", "list_pull_requests"),
        ("listPullRequests", "list_pull_requests"),
        ("pull-requests", "list_pull_requests"),
        ("rebooting", "Reboot"),
        ("pdf", "render-PDFInvoice"),
        ("invoice pdf please", "render-PDFInvoice"),
    ],
)
def test_a_name_is_found_by_its_words_SRC_1(
    question: str, first: str, make_tool: MakeTool, asked: Asked, by_words: None
) -> None:
    for number, name in enumerate(NAMES):
        make_tool(tool_id=f"n{number}", name=name, description="Nothing to see here.")
    answer = asked(question)
    assert [hit.tool["name"] for hit in answer.hits] == [first]
    assert answer.hits[0].match_type == "keyword"


MIXED = {
    "oauth": "Exchanges an OAuth token.",
    "github": "Opens an issue on GitHub.",
    "vms": "Lists the VMs of a project.",
    "iphone": "Sends a message to an iPhone.",
    "user": "Calls getUserById.",
    "revoke": "Calls revokeOAuth2Token.",
    "d": "Prints in 3D.",
}


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("oauth", {"oauth"}),
        ("OAuth", {"oauth", "revoke"}),  # which has an O, too
        ("auth", {"oauth"}),
        ("OAUTH", {"oauth"}),
        ("oauth2", {"revoke"}),
        ("github", {"github"}),
        ("hub", {"github"}),
        ("GitHub", {"github"}),
        ("vm", {"vms"}),
        ("vms", {"vms"}),
        ("VMs", {"vms"}),
        ("VM", {"vms"}),
        ("iphone", {"iphone"}),
        ("phone", {"iphone"}),
        ("getuserbyid", {"user"}),
        ("users", {"user"}),
        ("3d", {"d"}),
    ],
)
def test_a_word_in_mixed_case_is_found_whole_and_by_its_parts_SRC_13(
    question: str, wanted: set[str], make_tool: MakeTool, asked: Asked, by_words: None, settings: Any
) -> None:
    settings.SEARCH_SPELLING = False
    for tool_id, description in MIXED.items():
        make_tool(tool_id=tool_id, name="alpha", description=description)
    assert set(found(asked(question))) == wanted


def test_a_second_writing_makes_no_word_of_the_name_and_says_nothing_twice_SRC_13(
    rows: Rows, db: None
) -> None:
    [(document,)] = rows("SELECT tools_document('listGitHubAPIs', 'APIs of github.', 'OAuth')::text")
    lexemes = dict(one.split(":") for one in document.replace("'", "").split())
    assert {lexeme for lexeme, places in lexemes.items() if "A" in places} == {"list", "git", "hub", "api"}
    assert set(lexemes["listgithubapi"]) & set("ABC") == {"B", "C"}
    assert lexemes["oauth"][-1] == "C"
    assert lexemes["github"].count("B") == 1
    assert lexemes["api"].count(",") == 1


FOLDED = {
    "Café": "Cafe", "Prüfung": "Prufung", "Straße": "Strasse", "Ångström": "Angstrom", "Łódź": "Lodz", "Øre": "Ore", "Œuvre": "OEuvre",
    "naïve": "naive", "İstanbul": "Istanbul", "tiếng": "tieng", "Αθήνα": "Αθηνα", "счёт": "счет", "йогурт": "йогурт", "їжак": "їжак",
    "شَكْوَى": "شكوى", "أحمد": "احمد", "שָׁלוֹם": "שלום", "が": "が", "각": "각", "शिकायत": "शिकायत",
}  # fmt: skip


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize(("word", "folded"), FOLDED.items())
def test_accents_that_people_leave_out_are_folded_and_no_other_mark_SRC_13(
    word: str, folded: str, form: Any, rows: Rows, db: None
) -> None:
    [(given,)] = rows("SELECT tools_folded(%s)", [unicodedata.normalize(form, word)])
    assert given == folded


def test_a_question_in_natural_language_finds_tools_that_hold_some_of_its_words_SRC_1(
    make_tool: MakeTool, asked: Asked, by_words: None
) -> None:
    make_tool(tool_id="forecast", name="get_forecast", description="Weather for a city.")
    make_tool(tool_id="mail", name="send_mail", description="Delivers a letter to a person.")
    make_tool(tool_id="calendar", name="list_events", description="What happens tomorrow in a city.")
    answer = asked("How can I find out what the weather is going to be like in Lisbon tomorrow, please?")
    assert set(found(answer)) == {"forecast", "calendar"}
    assert (answer.mode, answer.degraded) == ("keyword", ("semantic_search_off",))
    assert found(asked("I would like to write a letter")) == ["mail"]
    assert found(asked("Nobody holds these")) == []


def test_a_rare_word_beats_a_common_one_SRC_1(make_tool: MakeTool, asked: Asked, by_words: None) -> None:
    for number in range(20):
        make_tool(tool_id=f"common_{number}", name="alpha", description="Makes reports.")
    make_tool(tool_id="rare", name="alpha", description="Makes ledgers.")
    make_tool(tool_id="both", name="alpha", description="Makes ledgers and reports.")
    answer = asked("report of the ledger", top_k=5)
    assert found(answer)[:2] == ["both", "rare"]
    assert answer.hits[1].components["fused"] > 1.3 * answer.hits[2].components["fused"]


def test_a_word_of_the_name_beats_one_of_the_description_and_that_one_of_the_rest_SRC_1(
    make_tool: MakeTool, asked: Asked, by_words: None
) -> None:
    make_tool(tool_id="rest", name="alpha", description="Beta gamma.", tags=["zebra"])
    make_tool(tool_id="description", name="alpha", description="Beta zebra.", tags=["gamma"])
    make_tool(tool_id="name", name="zebra", description="Beta gamma.", tags=["alpha"])
    assert found(asked("zebra")) == ["name", "description", "rest"]


def test_a_question_of_common_words_is_answered_whatever_the_budget_SRC_1(make_tool: MakeTool) -> None:
    for number in range(12):
        make_tool(tool_id=f"common_{number}", name="alpha", description="Makes reports for people.")
    make_tool(tool_id="rare", name="beta", description="Makes ledgers.")
    for budget in (0, 1, 5, 24, 25, 5000):
        assert len(candidates("reports for people", postings_budget=budget)) == 12
    # Rarest first: the one posting of "ledger" leaves nothing of a budget of 5 for the twelve of "report".
    assert len(candidates("reports and ledgers", postings_budget=5)) == 1
    assert len(candidates("reports and ledgers", postings_budget=13)) == 13


ODD = {
    "quotes": "\"quoted\" 'words' it's",
    "an open quote": '"alpha',
    "operators": "alpha & | ! <-> :* ( ) foo:*A",
    "SQL": "'; DROP TABLE tools_tool; --",
    "only stop words": "the of and",
    "blank": " \t\n",
    "a sign": "(",
    "backslashes": "\\ \\\\ \\x \\u0041",
    "percent": "%s %d % %(x)s %1$L %I",
    "dollar quotes": "$query$ $$ $1",
    "braces": "{} {0} {a,b} NULL",
    "2,000 letters": "a" * 2000,
    "2,000 characters of words": "word alpha " * 181 + "123456789",
    "2,000 different words": " ".join(f"w{n}" for n in range(400))[:2000],
    "2,000 accents": "é" * 2000,
    "CJK": "获取当前日期 東京の天気 서울",
    "2,000 of CJK": "天" * 2000,
    "emoji": "😀🎉👩‍👩‍👧 alpha",
    "right to left": "\u202eabc مرحبا שלום",
    "byte order mark": "\ufeff",
    "controls": "\x01\x1b[31m\x7f",
    "regular expression": "[[:alpha:]] (?:a+)+$ .*",
    "URL": "https://alpha.example/a?b=c#d user@alpha.example /etc/passwd",
    "numbers": "1e999 -0 NaN 0x7f 1,000.5",
}  # fmt: skip


@pytest.mark.parametrize("question", ODD.values(), ids=ODD.keys())
def test_no_question_is_an_error_SRC_1(
    question: str, make_tool: MakeTool, asked: Asked, settings: Any
) -> None:
    place(make_tool(tool_id="alpha", description="Alpha 天."), toward("x", 0.5, 1))
    make_tool(tool_id="waiting")
    assert len(question) <= 2000
    for settings.SEARCH_FUSION in ("score", "rrf"):
        for settings.SEARCH_EXACT_LIMIT in (10_000, 0):
            hybrid = asked(question)
            assert "alpha" in found(hybrid)
            assert all(math.isfinite(hit.score) for hit in hybrid.hits)
    settings.SEARCH_SEMANTIC = False
    assert ("alpha" in found(asked(question))) == ("alpha" in question or "天" in question)


def test_a_null_or_empty_question_finds_no_words_and_is_no_error_SRC_1(make_tool: MakeTool) -> None:
    make_tool(tool_id="alpha")
    assert candidates(None) == []
    assert candidates("") == []


def test_other_scripts_match_by_their_characters_SRC_1(
    make_tool: MakeTool, asked: Asked, by_words: None
) -> None:
    make_tool(tool_id="date", name="日期", description="获取当前日期")
    make_tool(tool_id="naive", name="prüfung", description="Café")
    assert found(asked("今天的日期")) == ["date"]
    assert found(asked("CAFÉ")) == ["naive"]
    assert found(asked("cafe pruefung")) == ["naive"]
    assert found(asked("Prüfung")) == ["naive"]


@pytest.mark.parametrize("question", ["a\0b", "\ud800", "", " "])
def test_what_cannot_be_asked_is_refused_at_the_door_SRC_1(question: str, tenant: Any) -> None:
    client: APIClient = make_api(tenant)
    response = client.post(
        "/api/v1/tools/search", json.dumps({"query": question}), content_type="application/json"
    )
    assert response.status_code == 400
    assert response["Content-Type"] == "application/problem+json"
