"""API-1, case 42: every refusal is a problem of one shape, whoever raises it, and no input makes a 500."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import ObjectDoesNotExist
from django.db import InterfaceError, InternalError, OperationalError
from rest_framework.test import APIClient

from portal.http.bodies import storage_problem
from portal.http.problems import Problem, problem_of
from portal.tenancy.models import Scope, Tenant
from tests.support.api import TOOLS, assert_problem
from tests.support.clients import make_api
from tools.catalogue import servers, sources
from tools.imports.syncing import service as syncs
from tools.models import Tool

JSON = {"content_type": "application/json"}


def test_api_1_every_status_has_the_same_shape_whoever_raises_it(
    owner: Any, agent: APIClient, settings: Any, tool_of: Callable[..., Tool]
) -> None:
    tool_of("send_mail")
    assert_problem(agent.get("/api/v1/tools/search"), 400, "validation_error")
    assert_problem(APIClient().get("/api/v1/me"), 401, "authentication_failed")
    assert_problem(make_api(owner, Scope.TOOLS_READ).post("/api/v1/tools"), 403, "permission_denied")
    assert_problem(agent.get("/api/v1/tools/nothing"), 404, "not_found")
    assert_problem(agent.put("/api/v1/tools/send_mail"), 405, "method_not_allowed")
    assert_problem(
        agent.post("/api/v1/tools", "a=b", content_type="text/plain"), 415, "unsupported_media_type"
    )
    assert_problem(agent.get("/api/v1/me", headers={"Accept": "text/html"}), 406, "not_acceptable")
    # Outside of DRF: no such route, a foreign host.
    assert_problem(agent.get("/api/v1/nothing/at/all"), 404, "not_found")
    assert_problem(agent.get("/api/"), 404, "not_found")
    assert_problem(agent.get("/api/v1/me", headers={"Host": "evil.example"}), 400, "validation_error")
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100
    assert_problem(agent.post("/api/v1/tools", {"name": "x" * 200}, format="json"), 413, "payload_too_large")
    settings.DOCUMENT_MAX_BYTES = 100
    upload = io.BytesIO(b"x" * 200)
    upload.name = "a.json"
    assert_problem(agent.post("/api/v1/sources", {"document": upload}), 413, "payload_too_large")
    upload = io.BytesIO(b"x" * 200_000)
    upload.name = "a.json"
    assert_problem(agent.post("/api/v1/sources", {"document": upload}), 413, "payload_too_large")


def test_api_1_our_own_mistake_is_a_problem_that_tells_nothing_but_its_request_id(
    agent: APIClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("the secret of the house")

    monkeypatch.setattr("tools.api.search.views.search", fail)
    agent.raise_request_exception = False
    body = assert_problem(agent.get("/api/v1/tools/search?query=a"), 500, "internal_error")
    assert "secret" not in json.dumps(body)
    assert any(body["request_id"] in record.getMessage() for record in caplog.records)


def test_api_1_what_somebody_else_has_just_deleted_is_a_404(tenant: Tenant) -> None:
    for gone in (
        lambda: sources.delete_source(pk=uuid.uuid4(), actor="test"),
        lambda: servers.delete_server(pk=uuid.uuid4(), actor="test"),
        lambda: syncs.discard_sync(sync_id=uuid.uuid4(), actor="test"),
    ):
        with pytest.raises(ObjectDoesNotExist) as raised:
            gone()
        refused = problem_of(raised.value)
        assert isinstance(refused, Problem)
        assert refused.status_code == 404


@pytest.mark.parametrize("kind", [OperationalError, InterfaceError, InternalError])
def test_api_1_a_database_that_does_not_answer_is_a_503(
    agent: APIClient, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise kind("canceling statement due to statement timeout")

    monkeypatch.setattr("tools.api.search.views.search", fail)
    body = assert_problem(agent.get("/api/v1/tools/search?query=a"), 503, "unavailable")
    assert "statement" not in body["detail"]


UNSTORABLE = ['"\\u0000"', '"a\\u0000b"', '"\\ud83d"', '"x\\udc00y"', '"\\udc00\\ud800"']
DEEP = "[" * 101 + "]" * 101


@pytest.mark.parametrize("text", UNSTORABLE)
def test_case_42_nul_and_half_surrogates_are_refused_in_every_place_of_every_body(
    agent: APIClient, tool_of: Callable[..., Tool], text: str
) -> None:
    tool_of("send_mail")
    strings = (
        "tool_id", "namespace", "name", "description", "category", "subcategory", "routing_domain", "semantic_namespace",
        "owner", "sensitivity", "visibility", "lifecycle", "tool_type", "estimated_cost", "active", "semantic_weight",
    )  # fmt: skip
    lists = ("tags", "tech_stack", "use_cases", "target_personas")
    objects = ("parameters", "output", "annotations")
    bodies = [f'{{"{name}": {text}}}' for name in strings]
    bodies += [f'{{"{name}": [{text}]}}' for name in lists]
    bodies += [f'{{"{name}": {{"a": [{{"b": {text}}}]}}}}' for name in objects]
    bodies += [f'{{"{name}": {{{text}: 1}}}}' for name in objects]
    bodies += [f"{{{text}: 1}}", f"[{text}]", text]
    for body in bodies:
        for method, path in (
            ("post", "/api/v1/tools"),
            ("patch", "/api/v1/tools/send_mail"),
            ("post", "/api/v1/tools/search"),
        ):
            response = getattr(agent, method)(path, body, headers={"If-Match": '"v1"'}, **JSON)
            problem = assert_problem(response, 400, "validation_error")
            assert "NUL" in problem["detail"], (method, path, body)
    search = [
        f'{{"query": {text}}}',
        f'{{"query": "a", "tags": [{text}]}}',
        f'{{"query": "a", "filters": {{"names": [{text}]}}}}',
    ]
    for body in search:
        assert_problem(agent.post("/api/v1/tools/search", body, **JSON), 400)


@pytest.mark.parametrize(
    "body",
    ["", "{", "nul", "{'a': 1}", '{"a": NaN}', '{"a": Infinity}', '{"a": -Infinity}', '{"parameters": {"a": 1e999}}', DEEP,
     "[" * 100_000, '{"a": ' * 50_000, '{"a": ' + "1" * 5000 + "}", b'{"a": "\xff"}', b"\xff\xfe{\x00}\x00", "[]", '"text"', "1", "null",
     '\ufeff{"name": "x"}']
)  # fmt: skip
def test_api_1_a_body_that_is_no_fitting_json_is_a_400(
    agent: APIClient, tool_of: Callable[..., Tool], body: str | bytes
) -> None:
    tool_of("send_mail")
    assert_problem(agent.post("/api/v1/tools", body, **JSON), 400)
    assert_problem(agent.post("/api/v1/tools/search", body, **JSON), 400)
    changed = agent.patch("/api/v1/tools/send_mail", body, headers={"If-Match": '"v1"'}, **JSON)
    assert changed.status_code == (200 if body == "" else 400)  # nothing to change


@pytest.mark.parametrize(
    "path",
    ["/api/v1/tools/a%00b", "/api/v1/tools/%00", "/api/v1/tools/x?namespace=%00", "/api/v1/tools?q=%00", "/api/v1/tools?source=%00",
     "/api/v1/tools?tag=%00&limit=5", "/api/v1/tools?cursor=%00", "/api/v1/tools?cursor=cD1hAGI%3D", "/api/v1/tools?cursor=%ff",
     "/api/v1/tools?category=%00", "/api/v1/tools/x/embedding?namespace=%00", "/api/v1/tools/search?query=%00"]
)  # fmt: skip
def test_case_42_nul_in_an_address_is_a_400(agent: APIClient, path: str) -> None:
    assert_problem(agent.get(path), 400)


@pytest.mark.parametrize(
    "path", ["/api/v1/tools/%ff", "/api/v1/tools/%ed%a0%80", "/api/v1/tools/" + "x" * 5000]
)
def test_api_1_an_odd_address_is_a_404(agent: APIClient, path: str) -> None:
    assert_problem(agent.get(path), 404)


def test_what_can_be_stored_is_told_from_what_cannot() -> None:
    for good in ("", "a", "\x01\x1b", "😀", 1, 1.5, None, True, [], {}, {"a": [{"b": ["c"]}]}):
        assert storage_problem(good) is None
    for bad in ("\x00", "\ud800", {"\x00": 1}, [["\udfff"]], float("nan"), {"a": float("inf")}, ("\x00",)):
        assert storage_problem(bad) is not None
    deep: Any = "x"
    for _ in range(200):
        deep = [deep]
    assert "deeper" in str(storage_problem(deep))


def test_a_slow_body_of_the_wrong_length_is_not_believed(agent: APIClient, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    exact = json.dumps({"query": "x" * (1000 - 13)})
    assert len(exact) == 1000
    assert agent.post("/api/v1/tools/search", exact, **JSON).status_code == 200
    assert_problem(agent.post("/api/v1/tools/search", exact + " ", **JSON), 413)


def test_api_1_errors_point_into_the_body_or_name_the_parameter(agent: APIClient) -> None:
    wrong: dict[str, Any] = {"tool_id": "a", "name": "a", "tags": ["x"], "a/b~c": 1}
    problem = assert_problem(agent.post(TOOLS, wrong, format="json"), 400)
    assert problem["errors"][0]["pointer"] == "/a~1b~0c"
    assert assert_problem(agent.get(f"{TOOLS}?limit=0"), 400)["errors"][0]["pointer"] == "limit"
    assert assert_problem(agent.get(f"{TOOLS}/search"), 400)["errors"][0]["pointer"] == "query"
