"""Key, scope, rate and request id as plain functions: an application without DRF refuses and answers as the API does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any
from wsgiref.util import setup_testing_defaults

import pytest
from rest_framework.test import APIClient

from portal.http import rate_limits
from portal.http.authentication import authenticate_key, require_scope
from portal.http.problems import MEDIA_TYPE, Problem
from portal.http.rate_limits import take_from_rate
from portal.http.request_ids import new_request_id
from portal.tenancy.context import tenant_context
from portal.tenancy.keys import Caller, create_api_key
from portal.tenancy.models import Scope, Tenant
from tests.support.clients import make_api


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """What a server beside the API, such as one at /mcp, does before it answers."""
    given = {"X-Request-ID": "HTTP_X_REQUEST_ID", "traceparent": "HTTP_TRACEPARENT"}
    request_id = new_request_id({name: environ.get(key, "") for name, key in given.items()})
    headers = {"X-Request-ID": request_id, "Content-Type": "application/json"}
    try:
        caller = authenticate_key(environ.get("HTTP_AUTHORIZATION", ""))
        require_scope(caller, Scope.SEARCH_READ)
        require_rate(caller, headers)
        status, body = 200, {"key": caller.key_name}
    except Problem as problem:
        status, body = (
            problem.status_code,
            problem.as_dict(instance=environ["PATH_INFO"], request_id=request_id),
        )
        headers |= {"Content-Type": MEDIA_TYPE, **problem.headers}
    start_response(f"{status} {HTTPStatus(status).phrase}", list(headers.items()))
    return [json.dumps(body).encode()]


def require_rate(caller: Caller, headers: dict[str, str]) -> None:
    rate = take_from_rate(caller)
    if rate is None:
        return
    headers |= rate.headers
    if rate.exceeded:
        raise Problem(429, "Slower, please.", headers={"Retry-After": str(rate.retry_after)})


def call(key: str, **environ: str) -> tuple[int, dict[str, str], dict[str, Any]]:
    """Status, headers and body of one request."""
    request: dict[str, Any] = {"PATH_INFO": "/mcp", "HTTP_AUTHORIZATION": f"Bearer {key}", **environ}
    setup_testing_defaults(request)
    answered: list[tuple[str, list[tuple[str, str]]]] = []
    body = b"".join(application(request, lambda *args: answered.append(args)))
    [(status, headers)] = answered
    return int(status[:3]), dict(headers), json.loads(body)


@pytest.fixture(autouse=True)
def own_counter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limits, "counter", rate_limits.Counter())


def key_of(tenant: Tenant, *scopes: str, **options: Any) -> str:
    with tenant_context(tenant.pk):
        return create_api_key(name="+".join(scopes), scopes=scopes, **options)[1]


def test_a_key_with_the_scope_is_answered_with_the_callers_request_id(owner: Tenant) -> None:
    status, headers, body = call(key_of(owner, Scope.SEARCH_READ), HTTP_X_REQUEST_ID="from-me")
    assert (status, headers["X-Request-ID"], body) == (200, "from-me", {"key": "search:read"})
    assert "RateLimit" not in headers  # this key has no rate


def test_refusals_are_those_of_the_api(owner: Tenant) -> None:
    status, headers, body = call("nonsense")
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION="Bearer nonsense")
    refused = client.get("/api/v1/me")
    assert (status, headers["WWW-Authenticate"]) == (refused.status_code, refused["WWW-Authenticate"])
    same = refused.json() | {"instance": "/mcp", "request_id": headers["X-Request-ID"]}
    assert body == same
    status, _, body = call(key_of(owner, Scope.TOOLS_READ))
    assert (status, body["title"]) == (403, "permission_denied")
    assert Scope.SEARCH_READ in body["detail"]


def test_the_api_and_another_application_take_from_one_rate(owner: Tenant) -> None:
    key = key_of(owner, Scope.SEARCH_READ, requests_per_minute=2)
    assert call(key)[1]["X-RateLimit-Remaining"] == "1"
    client = make_api(owner)
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {key}")
    assert client.get("/api/v1/me")["X-RateLimit-Remaining"] == "0"
    status, headers, body = call(key)
    assert (status, body["title"]) == (429, "rate_limited")
    assert 1 <= int(headers["Retry-After"]) <= 60
