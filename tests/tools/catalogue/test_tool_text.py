"""A tool's two texts (EMB-1): what is embedded and what is searched by words.

Proven: the order, that nothing is said twice, that layout and spelling of Unicode are no meaning, that ids, people and
times are in neither text, and that no text whatever upsets either.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embeddings.text import normalise
from tools.catalogue import embedding_text
from tools.catalogue.tool_text import ToolText, embedding_source_text, keyword_text, split_identifier
from tools.models import Tool

FULL = ToolText(
    name="getUserById",
    description="Looks an account up.",
    endpoint="GET /v1/users/{userId}",
    server="acme-accounts",
    category="identity",
    tags=("users", "read"),
    routing_domain="accounts",
    semantic_namespace="people",
    namespace="crm",
    source_protocol="openapi",
    tool_type="api",
    personas=("support",),
    parameters=(("userId", "The account's\n number"), ("expand", "")),
    use_cases=("Who is customer 7?",),
    imported_description="Returns one account.",
    semantic_keywords=("profile", "client"),
)


def test_the_source_text_has_all_kinds_in_the_fixed_order_EMB_1() -> None:
    assert embedding_source_text(FULL).split("\n") == [
        "get User By Id.",
        "Looks an account up.",
        "Returns one account.",
        "profile, client",
        "Who is customer 7?",
        "Tags: identity, users, read, accounts, people, support",
        "acme accounts, GET v1 users user Id",
        "Parameters: user Id: The account's number; expand",
        "getUserById, crm, openapi, api",
    ]


def test_empty_kinds_leave_no_line_EMB_1() -> None:
    assert embedding_source_text(ToolText(name="weather", description="")) == "weather."
    assert keyword_text(ToolText(name="weather", description="")) == ""


def test_nothing_is_said_twice_in_the_source_text_EMB_1() -> None:
    repeating = ToolText(
        name="weather",
        description="Tells the weather.",
        imported_description=" tells THE weather. ",
        server="Forecasts",
        category="Forecasts",
        tags=("forecasts", "sky", "Sky "),
        routing_domain="sky",
        namespace="public",
        source_protocol="mcp",
        tool_type="MCP",
        use_cases=("Will it rain?", "will it  rain?"),
        semantic_keywords=("rain", "Rain"),
    )
    assert embedding_source_text(repeating).split("\n") == [
        "weather.",
        "Tells the weather.",
        "rain",
        "Will it rain?",
        "Tags: Forecasts, sky",
        "mcp",
    ]


def test_the_searched_text_has_every_word_but_no_label_protocol_or_type_EMB_1() -> None:
    assert keyword_text(FULL).split("\n") == [
        "Returns one account.",
        "profile",
        "client",
        "Who is customer 7?",
        "identity",
        "users",
        "read",
        "accounts",
        "people",
        "support",
        "acme-accounts",
        "GET /v1/users/{userId}",
        "userId The account's number",
        "expand",
        "crm",
    ]


def test_the_searched_text_says_nothing_twice_that_stands_in_the_description_SRC_1() -> None:
    tool = ToolText(name="list_users", description="Lists users.", imported_description="lists users.")
    assert keyword_text(tool) == ""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("getUserById", "get User By Id"),
        ("chat.postMessage", "chat post Message"),
        ("list_pull_requests", "list pull requests"),
        ("list-invoice-items", "list invoice items"),
        ("HTTPServerError", "HTTP Server Error"),
        ("renewX509Cert", "renew X509 Cert"),
        ("/v1/users/{userId}", "v1 users user Id"),
        ("mcp:tools#call@2", "mcp tools call 2"),
        ("plain", "plain"),
        ("C++Symbols", "C++Symbols"),
        ("überPrüfen", "über Prüfen"),
        ("prüfeÜbergabe", "prüfeÜbergabe"),  # only ASCII letters tell where a word ends
        ("___", ""),
        ("", ""),
    ],
)
def test_an_identifier_is_split_into_the_words_a_person_would_write_EMB_1(name: str, words: str) -> None:
    assert split_identifier(name) == words


ANY = st.text(max_size=30)
MANY = st.lists(ANY, max_size=3).map(tuple)
TOOL_TEXTS = st.builds(
    ToolText,
    **{
        one.name: MANY if one.type.startswith("tuple[str") else ANY
        for one in fields(ToolText)
        if one.name != "parameters"
    },
    parameters=st.lists(st.tuples(ANY, ANY), max_size=3).map(tuple),
)


@given(TOOL_TEXTS)
def test_any_text_makes_a_text_that_is_stable_under_normalisation_EMB_1(tool: ToolText) -> None:
    for made in (embedding_source_text(tool), keyword_text(tool)):
        text = normalise(made)
        assert normalise(text) == text
        assert "\n\n" not in text
        assert text == text.strip()
    assert embedding_source_text(tool) == embedding_source_text(replace(tool))
    assert len(split_identifier(tool.name)) <= 2 * len(tool.name)


def test_how_unicode_is_composed_is_no_meaning_EMB_1() -> None:
    spelled = [
        replace(FULL, description=unicodedata.normalize(form, "Zählt Cafés in Tōkyō."))
        for form in ("NFC", "NFD")
    ]
    assert spelled[0] != spelled[1]
    assert len({normalise(embedding_source_text(tool)) for tool in spelled}) == 1


def test_layout_is_no_meaning_EMB_1() -> None:
    loose = replace(
        FULL, description="  Looks  an\n\taccount\u00a0up. ", use_cases=("Who is \n customer 7?",)
    )
    assert normalise(embedding_source_text(loose)) == normalise(embedding_source_text(FULL))


def test_ids_people_and_times_are_in_neither_text_EMB_1(make_tool: Callable[..., Tool]) -> None:
    first = make_tool(tool_id="first_id", name="send_mail", description="Sends.", owner="olga")
    second = make_tool(tool_id="second_id", name="send_mail", description="Sends.", owner="peter", core=True)
    Tool.objects.filter(pk=second.pk).update(version=7, updated_by="quentin", download_count=12)
    second.refresh_from_db()
    assert embedding_text.source_text(first) == embedding_text.source_text(second)
    assert embedding_text.search_text(first) == embedding_text.search_text(second)
    for text in (embedding_text.source_text(second), embedding_text.search_text(second)):
        for private in (
            "first_id",
            "second_id",
            "olga",
            "peter",
            "quentin",
            "test",
            str(second.pk)[:8],
            "202",
        ):
            assert private not in text


def test_the_order_of_a_schemas_keys_is_no_meaning_EMB_1(make_tool: Callable[..., Tool]) -> None:
    inputs = {"to": {"description": "Whom"}, "body": {"properties": {"text": {"description": "What"}}}}
    one = make_tool(name="send", description="Sends.", parameters={"properties": inputs, "required": ["to"]})
    turned = {"required": ["to"], "properties": dict(reversed(inputs.items()))}
    other = make_tool(name="send", description="Sends.", parameters=turned)
    assert embedding_text.source_text(one) == embedding_text.source_text(other)
    assert "Parameters: to: Whom; body; text: What" in embedding_text.source_text(one)
