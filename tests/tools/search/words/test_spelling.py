"""Typing mistakes are corrected before both arms read the question, and the answer says so (SRC-13).

Proven: the rule, word by word; both arms read the corrected text; a request and a setting switch it off; and a word that only tools
have which the caller may not see is no word for the caller: the answer is the one that would be given without these tools.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from rest_framework.test import APIClient

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Scope, Sensitivity, Tenant
from portal.tenancy.rights import Rights
from tests.support.clients import make_api
from tests.support.search import ask, found, place, toward
from tools.catalogue.tools import create_tool
from tools.models import Tool
from tools.search.query import SearchAnswer, SearchQuery
from tools.search.service import search
from tools.search.spelling import MOST_WORDS, correct

MakeTool = Callable[..., Tool]
Asked = Callable[..., SearchAnswer]

OWN = {
    "kubectl": ("kubectl", 3), "invoice": ("invoic", 40), "invoiced": ("invoic", 40), "invoics": ("invoic", 40),
    "webhook": ("webhook", 9), "webhooks": ("webhook", 9), "github": ("github", 5), "form": ("form", 2), "width": ("width", 30),
    "listpullrequests": ("listpullrequest", 1), "with": ("with", 200), "kubernetes": ("kubernet", 4), "app": ("app", 90), "appe": ("app", 90),
    "apple": ("appl", 1), "pagee": ("page", 70), "page": ("page", 70), "personalized": ("person", 8),
}  # fmt: skip
"""Words of tools in some form: the lexeme, and the number of tools."""


def own_words(words: list[str]) -> Mapping[str, tuple[str, int]]:
    return {word: OWN[word] for word in words if word in OWN}


@pytest.mark.parametrize(
    ("typed", "corrected"),
    [
        # Of the tools first, the most frequent first, then of English.
        ("an invoicd", "an invoice"),
        ("kubeclt logs", "kubectl logs"),
        ("fomr", "form"),
        ("wiith", "with"),  # a stop word is as frequent as a word can be
        ("kuberntes", "kubernetes"),
        ("Appae", "Apple"),  # and not `appe`, which has the lexeme of `app` and is no word
        ("pagee", "page"),
        ("the wether in Lisbon", "the whether in Lisbon"),
        ("retreive", "retrieve"),
        ("a mesage", "a message"),
        ("whcih", "which"),
        # The first letter is kept where one word keeps it.
        ("qebhook", "webhook"),
        ("brandmother", "grandmother"),
        # As it was written.
        ("Mesage and INVOCIE", "Message and INVOICE"),
        ("“mesage”, (mesage).", "“message”, (message)."),
        ("list_pull_reqests", "list_pull_requests"),
        ("pull-reqests", "pull-requests"),
        ("GitHib", "Github"),
        ("listpulrequests", "listpullrequests"),
        ("re\u0301solusion", "resolution"),
    ],
)
def test_a_mistyped_word_becomes_the_nearest_SRC_13(typed: str, corrected: str) -> None:
    assert correct(typed, own_words)[0] == corrected


@pytest.mark.parametrize(
    "text",
    [
        "weather forecasts, retries, batching, mapped",  # English, and inflections
        "kubectl webhooks GitHub kubernetes personalized",  # words of tools
        "teh csv jsn",  # fewer than four letters
        "https://exmaple.com/mesage mesage@exmaple.com /etc/mesage C:\\mesage exmaple.com",
        "mesage=1 mesage2 fn(mesage) #mesage/x",
        "qzxvkw",  # near nothing
        "a" * 25,
        "OAuth NTSB TensorFlow MESAGE",  # names are only corrected to words of tools
        "获取当前日期 сообщене शिकायत",
        "",
    ],
)
def test_what_is_known_or_no_word_stays_as_it_is_SRC_13(text: str) -> None:
    assert correct(text, own_words) == (text, ())


def test_every_correction_is_told_once_SRC_13() -> None:
    text, corrections = correct("mesage to Mesage, mesage: kubeclt", own_words)
    assert text == "message to Message, message: kubectl"
    assert [(one.typed, one.corrected) for one in corrections] == [
        ("mesage", "message"),
        ("Mesage", "Message"),
        ("kubeclt", "kubectl"),
    ]


def test_only_unknown_words_are_looked_up_and_never_more_than_twelve_SRC_13() -> None:
    calls: list[list[str]] = []

    def counted(words: list[str]) -> Mapping[str, tuple[str, int]]:
        calls.append(words)
        return own_words(words)

    correct("What will the weather be like tomorrow?", counted)
    assert calls == []
    correct("kubectl and a webhook", counted)
    assert calls.pop() == ["kubectl", "webhook"]
    assert calls == []
    nonsense = ["".join(chr(97 + (n * k) % 26) for k in range(3, 15)) for n in range(1, 100)]
    correct(" ".join(nonsense), counted)
    assert len(calls) == 2
    assert len(calls[1]) < MOST_WORDS * 700


def test_both_arms_read_the_corrected_text_SRC_13(make_tool: MakeTool, asked: Asked) -> None:
    near = make_tool(tool_id="near", name="alpha", description="Beta.")
    place(near, toward("deliver a letter", 1, 0))
    make_tool(tool_id="worded", name="letter", description="Gamma.")
    answer = asked("delivr a lettre")
    assert answer.corrected_text == "deliver a letter"
    hits = {hit.tool["tool_id"]: hit for hit in answer.hits}
    assert hits["near"].components["similarity"] == pytest.approx(1, abs=1e-4)
    assert hits["worded"].match_type == "keyword"


def test_a_request_or_the_setting_switches_the_correction_off_SRC_13(
    make_tool: MakeTool, asked: Asked, tenant: Tenant, settings: Any
) -> None:
    make_tool(tool_id="letter", name="letter", description="Delivers a letter.")
    settings.SEARCH_SEMANTIC = False
    assert found(asked("lettre")) == ["letter"]
    rights = Rights.unrestricted(tenant.pk, "test")
    off = search(rights, SearchQuery("lettre", correct=False))
    assert (found(off), off.corrected_text, off.corrections) == ([], None, ())
    settings.SEARCH_SPELLING = False
    assert found(asked("lettre")) == []


def test_the_api_tells_what_was_corrected_and_takes_the_switch_SRC_13(
    make_tool: MakeTool, tenant: Tenant, settings: Any
) -> None:
    settings.SEARCH_SEMANTIC = False
    make_tool(tool_id="letter", name="letter", description="Delivers a letter.")
    client: APIClient = make_api(tenant)
    given = client.post("/api/v1/tools/search", {"query": "delivr a lettre"}, format="json").json()
    assert given["query"] == "delivr a lettre"
    assert given["corrected_query"] == "deliver a letter"
    assert given["corrections"] == [{"from": "delivr", "to": "deliver"}, {"from": "lettre", "to": "letter"}]
    assert given["metadata"]["result_count"] == 1
    for off in (
        client.post(
            "/api/v1/tools/search", {"query": "delivr a lettre", "correct": False}, format="json"
        ).json(),
        client.get("/api/v1/tools/search", {"query": "delivr a lettre", "correct": "false"}).json(),
    ):
        assert (off["corrected_query"], off["corrections"], off["results"]) == (None, [], [])
    clean = client.get("/api/v1/tools/search", {"query": "deliver a letter"}).json()
    assert (clean["corrected_query"], clean["corrections"]) == (None, [])
    assert (
        client.post("/api/v1/tools/search", {"query": "x", "correct": "perhaps"}, format="json").status_code
        == 400
    )


SECRET = "zebraflux"  # no word of English, and near none
HIDDEN: dict[str, dict[str, Any]] = {
    "above the caller's sensitivity": {"sensitivity": Sensitivity.RESTRICTED},
    "private": {"visibility": "private", "owner": "somebody"},
    "unlisted": {"visibility": "unlisted"},
    "retired": {"lifecycle": "retired"},
    "inactive": {"active": False},
}


@pytest.mark.parametrize("fields", HIDDEN.values(), ids=HIDDEN.keys())
def test_no_correction_tells_of_a_tool_that_the_caller_may_not_see_SRC_13_SEC_4(
    fields: dict[str, Any], make_tool: MakeTool, tenant: Tenant
) -> None:
    rights = Rights(tenant.pk, "test", frozenset({Scope.SEARCH_READ}), Sensitivity.INTERNAL)
    seen = make_tool(tool_id="seen", name="alpha", description="Delivers letters by zebraflix.")

    def answers(who: Rights) -> list[Any]:
        return [
            (
                answer.corrected_text,
                answer.corrections,
                [(hit.tool["tool_id"], hit.score) for hit in answer.hits],
            )
            for question in (SECRET, "zebraflx", "zebraflus", "use zebraflx")
            for answer in [search(who, SearchQuery(question))]
        ]

    before = answers(rights)
    assert [one[0] for one in before] == ["zebraflix", "zebraflix", None, "use zebraflix"]
    # Five of them, so that their word would be the more frequent one.
    for number in range(5):
        make_tool(tool_id=f"hidden_{number}", name="beta", description=f"Uses {SECRET}.", **fields)
    assert answers(rights) == before
    shown = make_tool(tool_id="shown", name="gamma", description=f"Uses {SECRET}.")
    assert [one[0] for one in answers(rights)] == [None, "zebraflix", SECRET, "use zebraflix"]
    assert {seen.tool_id, shown.tool_id} == {"seen", "shown"}


def test_who_may_see_a_tool_is_corrected_to_its_words_SRC_13(make_tool: MakeTool, tenant: Tenant) -> None:
    make_tool(
        tool_id="hidden", name="beta", description=f"Uses {SECRET}.", sensitivity=Sensitivity.RESTRICTED
    )
    low = Rights(tenant.pk, "test", frozenset({Scope.SEARCH_READ}), Sensitivity.INTERNAL)
    assert search(low, SearchQuery("zebraflus")).corrected_text is None
    assert (
        search(replace(low, max_sensitivity=Sensitivity.RESTRICTED), SearchQuery("zebraflus")).corrected_text
        == SECRET
    )


def test_no_correction_tells_of_another_tenants_tools_SRC_13_S4(
    db: None, make_tenant: Callable[..., Tenant]
) -> None:
    mine, theirs = make_tenant(), make_tenant()
    with tenant_context(theirs.pk):
        create_tool(actor="test", tool_id="theirs", name="beta", description=f"Uses {SECRET}.")
    assert ask(mine.pk, "zebraflus").corrected_text is None
    assert ask(theirs.pk, "zebraflus").corrected_text == SECRET
