"""Requests to the API that several test files send, and the check of a problem."""

from __future__ import annotations

import io
import json
from typing import Any

from rest_framework.test import APIClient

from portal.tenancy.models import Scope
from tests.support.imports.documents import document

MEMBERS = {"type", "title", "status", "detail", "instance", "request_id"}


def assert_problem(response: Any, status: int, title: str | None = None) -> dict[str, Any]:
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"
    body: dict[str, Any] = json.loads(response.content)
    assert set(body) >= MEMBERS
    assert body["status"] == status
    assert title is None or body["title"] == title
    assert body["type"] == f"/docs/problems/{body['title']}"
    assert body["detail"].strip()
    assert response["X-Request-ID"] == body["request_id"]
    return body


TOOLS = "/api/v1/tools"
PETS = b"""{"openapi": "3.0.0", "info": {"title": "Pets", "version": "1"}, "paths": {"/pets": {
  "get": {"operationId": "listPets", "summary": "Lists all pets.", "responses": {"200": {"description": "ok"}}},
  "post": {"operationId": "addPet", "summary": "Adds a pet.", "responses": {"200": {"description": "ok"}}}}}}"""


def upload(client: APIClient, raw: bytes, name: str = "pets.json", **fields: Any) -> Any:
    document = io.BytesIO(raw)
    document.name = name
    return client.post("/api/v1/sources", {"document": document, **fields})


def patch(client: APIClient, ref: object, changes: dict[str, Any], version: str | None = '"v1"') -> Any:
    headers = {} if version is None else {"If-Match": version}
    return client.patch(f"{TOOLS}/{ref}", changes, format="json", headers=headers)


SOURCES = "/api/v1/sources"


def raw(*operations: str, **texts: str) -> bytes:
    return json.dumps(document(*operations, **texts)).encode()


def post(client: APIClient, address: str = SOURCES, **data: Any) -> Any:
    headers = data.pop("headers", {})
    return client.post(address, data, format="json", headers=headers)


UNKNOWN_ID = "00000000-0000-4000-8000-000000000000"  # the scope is asked for first
MATRIX = {
    ("get", "/api/v1/me"): None,
    ("get", "/api/v1/tools/search?query=mail"): Scope.SEARCH_READ,
    ("post", "/api/v1/tools/search"): Scope.SEARCH_READ,
    ("post", f"/api/v1/searches/{UNKNOWN_ID}/selection"): Scope.SEARCH_READ,
    ("get", "/api/v1/searches/report"): Scope.TOOLS_WRITE,
    ("get", "/api/v1/tools"): Scope.TOOLS_READ,
    ("post", "/api/v1/tools"): Scope.TOOLS_WRITE,
    ("get", "/api/v1/tools/send_mail"): Scope.TOOLS_READ,
    ("patch", "/api/v1/tools/send_mail"): Scope.TOOLS_WRITE,
    ("delete", "/api/v1/tools/send_mail"): Scope.TOOLS_WRITE,
    ("get", "/api/v1/tools/send_mail/embedding"): Scope.TOOLS_READ,
    ("post", "/api/v1/tools/send_mail/embedding/refresh"): Scope.TOOLS_WRITE,
    ("get", "/api/v1/sources"): Scope.TOOLS_READ,
    ("post", "/api/v1/sources"): Scope.SOURCES_WRITE,
    ("get", "/api/v1/sources/shop"): Scope.TOOLS_READ,
    ("patch", "/api/v1/sources/shop"): Scope.SOURCES_WRITE,
    ("delete", "/api/v1/sources/shop"): Scope.ADMIN,
    ("post", "/api/v1/sources/shop/test"): Scope.SOURCES_WRITE,
    ("get", "/api/v1/sources/shop/documents"): Scope.SOURCES_WRITE,
    ("get", f"/api/v1/sources/shop/documents/{UNKNOWN_ID}"): Scope.SOURCES_WRITE,
    ("post", "/api/v1/sources/shop/sync"): Scope.SOURCES_WRITE,
    ("get", "/api/v1/sources/shop/syncs"): Scope.SOURCES_WRITE,
    ("get", f"/api/v1/sources/shop/syncs/{UNKNOWN_ID}"): Scope.SOURCES_WRITE,
    ("get", f"/api/v1/sources/shop/syncs/{UNKNOWN_ID}/changes"): Scope.SOURCES_WRITE,
    ("post", f"/api/v1/sources/shop/syncs/{UNKNOWN_ID}/apply"): Scope.SOURCES_WRITE,
    ("post", f"/api/v1/sources/shop/syncs/{UNKNOWN_ID}/discard"): Scope.SOURCES_WRITE,
    ("get", "/api/v1/servers"): Scope.TOOLS_READ,
    ("post", "/api/v1/servers"): Scope.ADMIN,
    ("get", "/api/v1/servers/github"): Scope.TOOLS_READ,
    ("patch", "/api/v1/servers/github"): Scope.ADMIN,
    ("delete", "/api/v1/servers/github"): Scope.ADMIN,
    ("post", "/api/v1/servers/github/test"): Scope.SOURCES_WRITE,
    ("get", "/api/v1/overrides"): Scope.TOOLS_READ,
    ("get", "/api/v1/tools/send_mail/overrides"): Scope.TOOLS_READ,
    ("delete", "/api/v1/tools/send_mail/overrides/description"): Scope.TOOLS_WRITE,
    ("post", "/api/v1/tools/send_mail/overrides/description/keep"): Scope.TOOLS_WRITE,
    ("get", "/api/v1/tools/send_mail/history"): Scope.TOOLS_READ,
    ("get", "/api/v1/jobs"): Scope.TOOLS_READ,
    ("post", "/api/v1/jobs"): Scope.JOBS_RUN,
    ("get", f"/api/v1/jobs/{UNKNOWN_ID}"): Scope.TOOLS_READ,
    ("get", f"/api/v1/jobs/{UNKNOWN_ID}/errors"): Scope.TOOLS_READ,
    ("post", f"/api/v1/jobs/{UNKNOWN_ID}/cancel"): Scope.JOBS_RUN,
    ("post", f"/api/v1/jobs/{UNKNOWN_ID}/resume"): Scope.JOBS_RUN,
    ("post", f"/api/v1/jobs/{UNKNOWN_ID}/retry-failed"): Scope.JOBS_RUN,
}
