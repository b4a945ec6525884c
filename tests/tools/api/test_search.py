"""API-1, SRC-5: the search endpoint's contract: its shape, its bounds, its cost."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from embeddings import slots
from portal.tenancy.models import Tenant
from tests.support.clients import make_api
from tools.models import Tool

SEARCH = "/api/v1/tools/search"
ToolOf = Callable[..., Tool]


def post(client: APIClient, **body: Any) -> Any:
    return client.post(SEARCH, body, format="json")


def test_api_1_the_answer_has_the_shape_of_the_issue(agent: APIClient, tool_of: ToolOf) -> None:
    made = tool_of("send_mail", tags=["mail"], category="office", server="mailer")
    answer = post(agent, query="send a letter", top_k=3, tags=["mail"])
    assert answer.status_code == 200
    body = answer.json()
    assert list(body) == ["query", "corrected_query", "corrections", "results", "metadata"]
    assert (body["query"], body["corrected_query"], body["corrections"]) == ("send a letter", None, [])
    (result,) = body["results"]
    assert list(result) == ["rank", "score", "match_type", "components", "tool"]
    assert result["rank"] == 1
    assert result["match_type"] in ("semantic", "keyword", "both")
    assert isinstance(result["score"], float)
    assert isinstance(result["components"], dict)
    assert result["tool"] | {
        "id": str(made.pk), "tool_id": "send_mail", "name": "send_mail", "category": "office", "tags": ["mail"],
        "description": "Sends an electronic letter to people.", "server": "mailer", "embedding_status": "pending",
    } == result["tool"]  # fmt: skip
    metadata = body["metadata"]
    assert set(metadata) == {
        "result_count", "mode", "degraded", "reranked", "used_llm_rerank", "filters_applied", "took_ms", "search_id",
    }  # fmt: skip
    assert metadata["result_count"] == 1
    assert (metadata["mode"], metadata["degraded"]) == ("keyword", ["vectors_missing"])
    assert (metadata["reranked"], metadata["used_llm_rerank"]) == (False, False)
    assert metadata["filters_applied"] == {"tags": ["mail"]}
    assert metadata["took_ms"] > 0
    assert metadata["search_id"]
    assert "embed" in answer["Server-Timing"]


def test_api_1_get_and_post_answer_alike(agent: APIClient, tool_of: ToolOf) -> None:
    tool_of("send_mail", tags=["mail", "office"], category="office")
    tool_of("send_parcel", category="post")
    posted = post(
        agent, query="send", top_k=5, tags=["mail", "office"], filters={"category": ["office"]}
    ).json()
    for spelling in (
        "query=send&top_k=5&tags=mail&tags=office&category=office",
        "query=send&top_k=5&tags=mail,office&category=office",
    ):
        got = agent.get(f"{SEARCH}?{spelling}").json()
        assert got["results"] == posted["results"]
        assert got["metadata"]["filters_applied"] == posted["metadata"]["filters_applied"]
    assert [result["tool"]["tool_id"] for result in posted["results"]] == ["send_mail"]


def test_src_2_short_names_of_filters_mean_the_long_ones(agent: APIClient, tool_of: ToolOf) -> None:
    tool_of("send_mail", routing_domain="office")
    body = post(agent, query="send", domain="office", protocol="manual", type="api").json()
    assert body["metadata"]["filters_applied"] == {
        "routing_domain": ["office"], "source_protocol": ["manual"], "tool_type": ["api"],
    }  # fmt: skip
    assert len(body["results"]) == 1
    assert post(agent, query="send", domain="sports").json()["results"] == []
    assert post(agent, query="send", exclude=["send_mail"]).json()["results"] == []


def test_src_2_the_filters_of_a_tools_own_fields_by_get_and_post(agent: APIClient, tool_of: ToolOf) -> None:
    tool_of("send_mail", core=True, tags=["python"], target_personas=["clerk"], semantic_namespace="office.mail",
            parameters={"properties": {"recipient": {}}}, lifecycle="deprecated")  # fmt: skip
    tool_of("send_parcel")
    one_by_one: dict[str, Any] = {
        "core": True, "language": ["python"], "personas": ["clerk"], "semantic_namespace": ["office.mail"], "parameter": ["recipient"],
        "lifecycle": ["deprecated"],
    }  # fmt: skip
    for name, value in one_by_one.items():
        body = post(agent, query="send", **{name: value}).json()
        assert body["metadata"]["filters_applied"] == {name: value}
        text = "true" if value is True else value[0]
        got = agent.get(SEARCH, {"query": "send", name: text}).json()
        for answer in (body, got):
            assert [hit["tool"]["tool_id"] for hit in answer["results"]] == ["send_mail"], name
    assert len(post(agent, query="send", status=["pending", "ready"], persona="clerk").json()["results"]) == 1
    assert [hit["tool"]["tool_id"] for hit in post(agent, query="send", core=False).json()["results"]] == [
        "send_parcel"
    ]
    assert post(agent, query="send", core=["true", "false"]).status_code == 400


@pytest.mark.parametrize("length", [1, 2000])
def test_api_1_a_query_of_up_to_2000_characters_is_answered(agent: APIClient, length: int) -> None:
    assert post(agent, query="x" * length).status_code == 200
    assert agent.get(SEARCH, {"query": "é" * length}).status_code == 200


@pytest.mark.parametrize("top_k", [1, 50])
def test_api_1_top_k_from_1_to_50_is_obeyed(agent: APIClient, tool_of: ToolOf, top_k: int) -> None:
    for number in range(55):
        tool_of(f"send_mail_{number}")
    assert len(post(agent, query="send mail", top_k=top_k).json()["results"]) == top_k
    assert len(agent.get(f"{SEARCH}?query=send mail&top_k={top_k}").json()["results"]) == top_k


WRONG: dict[str, dict[str, Any]] = {
    "no query": {},
    "an empty query": {"query": ""},
    "a blank query": {"query": "  \n"},
    "2001 characters": {"query": "x" * 2001},
    "a number": {"query": {"a": 1}},
    "a list": {"query": ["a"]},
    "null": {"query": None},
    "top_k 0": {"query": "a", "top_k": 0},
    "top_k 51": {"query": "a", "top_k": 51},
    "top_k -1": {"query": "a", "top_k": -1},
    "top_k text": {"query": "a", "top_k": "many"},
    "top_k 1.5": {"query": "a", "top_k": 1.5},
    "unknown parameter": {"query": "a", "tag": ["x"]},
    "unknown filter": {"query": "a", "filters": {"colour": "red"}},
    "query among the filters": {"query": "a", "filters": {"query": "b"}},
    "filters that are none": {"query": "a", "filters": "tags"},
    "1001 names": {"query": "a", "names": ["n"] * 1001},
    "a filter of objects": {"query": "a", "tags": [{"a": 1}]},
    "a long value": {"query": "a", "category": "x" * 301},
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG.keys())
def test_api_1_what_is_out_of_bounds_is_a_400_that_names_the_parameter(
    agent: APIClient, body: dict[str, Any]
) -> None:
    response = post(agent, **body)
    assert response.status_code == 400
    assert response["Content-Type"] == "application/problem+json"
    problem = response.json()
    assert problem["title"] == "validation_error"
    assert problem["errors"]
    assert all(set(entry) == {"code", "detail", "pointer"} for entry in problem["errors"])


@pytest.mark.parametrize(
    "query", ["query=", "query=%20", "", "query=a&query=b", "query=a&top_k=0", "query=a&top_k=51", "query=a&colour=red",
              "query=" + "x" * 2001, "query=a%00b", "query=a&tags=%00", "query=a&top_k="]
)  # fmt: skip
def test_api_1_a_wrong_get_is_a_400_too(agent: APIClient, query: str) -> None:
    response = agent.get(f"{SEARCH}?{query}")
    assert response.status_code == 400
    assert response["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize(
    "query",
    ["the", "'", "(", "\\", "foo & | bar", '"""', "*", "a:*", "<->", "!!", "--", "%s %(x)s", "{}", "getUserById", "ünïcödé 東京",
     "\u202e", "\x1b[31m", "$1", "'; DROP TABLE tools_tool; --", "http://a.b/c?d=e", "😀" * 500]
)  # fmt: skip
def test_case_40_odd_queries_are_answered_and_never_an_error(
    agent: APIClient, tool_of: ToolOf, query: str
) -> None:
    tool_of("send_mail")
    assert post(agent, query=query).status_code == 200
    assert agent.get(SEARCH, {"query": query}).status_code == 200


def test_api_1_the_number_of_statements_is_fixed(
    agent: APIClient, tool_of: ToolOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Which slot serves is looked up twice a second at most, however many ask.
    monkeypatch.setattr(slots, "_cached", (None, 0.0))
    monkeypatch.setattr(slots, "CACHE_SECONDS", 60)
    slots.serving()
    post(
        agent, query="send mail"
    )  # its vector is remembered from here on; the first embedding asks for the circuit
    counts: dict[int, set[int]] = {}
    tools = 0
    for wanted in (0, 3, 40):
        while tools < wanted:
            tool_of(f"send_mail_{tools}", tags=["mail"])
            tools += 1
        for body in ({"query": "send mail"}, {"query": "send mail", "top_k": 50, "tags": ["mail"]}):
            agent.get("/api/v1/me")  # the key's use is noted once a minute, and not in this count
            with CaptureQueriesContext(connection) as captured:
                assert post(agent, **body).status_code == 200
            statements = [one["sql"] for one in captured if "SAVEPOINT" not in one["sql"]]
            counts.setdefault(wanted, set()).add(len(statements))
    # Key, tenant, candidates, tools; inside of the test's transaction the tenant is also put back. Where nothing is found, two more
    # tell whether vectors are missing.
    assert counts == {0: {7}, 3: {5}, 40: {5}}


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [("SEARCH_SEMANTIC", False, "semantic_search_off"), ("EMBEDDING_PROVIDER", "disabled", "embedding_disabled"),
     ("EMBEDDING_PROVIDER", "tests.tools.api.test_search.BrokenEmbedder", "embedding_unavailable")]
)  # fmt: skip
def test_src_5_without_vectors_the_same_endpoint_answers_by_keyword_and_says_so(
    agent: APIClient, tool_of: ToolOf, settings: Any, name: str, value: Any, reason: str
) -> None:
    tool_of("send_mail")
    setattr(settings, name, value)
    body = post(agent, query=f"mail {uuid.uuid4()}").json()
    assert (body["metadata"]["mode"], body["metadata"]["degraded"]) == ("keyword", [reason])
    assert [result["match_type"] for result in body["results"]] == ["keyword"]


class BrokenEmbedder:
    def __init__(self, **options: object) -> None:
        self.model, self.dimension = "m", 384

    def embed(self, texts: Any, kind: str) -> Any:
        raise ConnectionError("nobody is there")

    def truncates(self, text: str) -> bool:
        return False


def test_case_36_no_answer_holds_a_number_that_json_does_not_have(
    agent: APIClient, tool_of: ToolOf, owner: Tenant
) -> None:
    tool_of("send_mail")
    tool_of("blank", name="blank", description="")
    answer = post(agent, query="send mail blank")
    assert b"NaN" not in answer.content
    assert b"Infinity" not in answer.content
    assert {result["tool"]["tool_id"] for result in answer.json()["results"]} == {"send_mail", "blank"}


def test_a_score_does_not_tell_how_many_tools_above_a_key_have_a_word_SEC_4(
    owner: Tenant, tool_of: ToolOf
) -> None:
    def keyword(client: APIClient, **filters: str) -> float:
        found = client.get("/api/v1/tools/search", {"query": "zorblax", **filters}).json()["results"]
        value: float = next(one["components"]["keyword"] for one in found if one["tool"]["tool_id"] == "seen")
        return value

    low, whole = make_api(owner, max_sensitivity="public"), make_api(owner, "search:read")
    tool_of("seen", description="A zorblax.", sensitivity="public")
    before = keyword(low)
    for number in range(5):
        tool_of(f"hidden{number}", description="A zorblax.", sensitivity="restricted")
    assert keyword(low) == before
    among_six = keyword(whole)
    assert among_six < before
    tool_of("private", description="A zorblax.", visibility="private")
    assert keyword(whole) == among_six
    assert keyword(whole, sensitivity="public") == before
