"""API-1: the OpenAPI document is complete, current and free of warnings, and no route is without the API's manners."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from typing import Any

import yaml
from django.core.management import call_command
from django.test import Client
from django.urls import path
from drf_spectacular.drainage import GENERATOR_STATS, reset_generator_stats
from drf_spectacular.generators import SchemaGenerator
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.settings import BASE_DIR
from portal.tenancy.models import Scope
from tools.api.me.views import MeView
from tools.api.urls import urlpatterns

# POSTs that neither create nor start anything.
ONLY_ASK = {
    ("post", "/api/v1/tools/search"),
    ("post", "/api/v1/sources/{slug}/test"),
    ("post", "/api/v1/servers/{slug}/test"),
}
METHODS = ("get", "post", "put", "patch", "delete")


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for address, item in document()["paths"].items():
        for method in METHODS:
            if method in item:
                yield method, address, item[method]


def document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Client().get("/api/v1/schema").content)
    return found


def _address(pattern: Any) -> str:
    """Of a route, as the document writes it."""
    return f"/api/v1/{pattern.pattern}".replace("<str:", "{").replace(">", "}")


def generate(target: str) -> None:
    reset_generator_stats()
    call_command("spectacular", "--validate", "--fail-on-warn", "--file", target)


def test_api_1_the_committed_document_is_the_current_one_and_there_is_no_warning(tmp_path: Any) -> None:
    target = tmp_path / "openapi.yaml"
    generate(str(target))
    committed = BASE_DIR / "docs" / "openapi.yaml"
    assert target.read_text() == committed.read_text(), "make openapi"


def test_api_1_a_view_without_a_description_would_be_warned_of() -> None:
    class Undescribed(APIView):
        required_scope = None

        def get(self, request: Any) -> Response:
            return Response({})

    for view, warned in ((Undescribed, True), (MeView, False)):
        reset_generator_stats()
        patterns = [path("api/v1/new", view.as_view())]
        with contextlib.redirect_stderr(io.StringIO()):
            SchemaGenerator(patterns=patterns).get_schema(request=None, public=True)
        assert bool(GENERATOR_STATS) == warned
    reset_generator_stats()


def test_api_1_every_route_and_method_of_the_router_is_in_the_document() -> None:
    described = {(method, address) for method, address, _ in operations()}
    there = {
        (method, _address(pattern))
        for pattern in urlpatterns
        for method in METHODS
        if hasattr(pattern.callback.view_class, method)  # type: ignore[union-attr]
    }
    assert described == there
    assert len(there) >= 12


def test_api_1_every_operation_names_its_scope_its_problems_and_its_headers() -> None:
    for method, address, operation in operations():
        where = f"{method} {address}"
        [security] = operation["security"]
        assert set(security["apiKey"]) <= set(Scope.values), where
        assert security["apiKey"] or address == "/api/v1/me", where
        assert set(operation["responses"]) >= {"400", "401", "403", "406", "429", "500", "503"}, where
        assert ("404" in operation["responses"]) == ("{" in address), where
        for status, response in operation["responses"].items():
            if status == "414":
                assert method == "get", where  # the server's own
            elif int(status) >= 400:
                assert response == {"$ref": f"#/components/responses/Problem{status}"}, where
            else:
                assert "X-Request-ID" in response["headers"], where
        wanted = [one["$ref"].rpartition("/")[2] for one in operation["parameters"] if "$ref" in one]
        assert ("IfMatch" in wanted) == (method in ("patch", "delete")), where
        assert ("IdempotencyKey" in wanted) == (method == "post" and (method, address) not in ONLY_ASK), where


def test_api_1_every_post_that_starts_something_is_repeatable() -> None:
    """A new view whose `post` forgets @idempotent fails here."""
    for pattern in urlpatterns:
        post = getattr(pattern.callback.view_class, "post", None)  # type: ignore[union-attr]
        address = _address(pattern)
        if post is not None and ("post", address) not in ONLY_ASK:
            assert getattr(post, "idempotent", False), address


def test_api_1_the_document_is_served_to_anybody_as_json_or_yaml_and_may_be_kept() -> None:
    as_json = Client().get("/api/v1/schema")
    assert as_json["Content-Type"] == "application/vnd.oai.openapi+json"
    assert as_json.json()["openapi"].startswith("3.1")
    for asked in (
        Client().get("/api/v1/schema?format=yaml"),
        Client().get("/api/v1/schema", headers={"Accept": "application/yaml"}),
    ):
        assert yaml.safe_load(asked.content)["paths"].keys() == as_json.json()["paths"].keys()
        assert asked["ETag"] != as_json["ETag"]
    kept = Client().get("/api/v1/schema", headers={"If-None-Match": as_json["ETag"]})
    assert (kept.status_code, kept.content) == (304, b"")
    assert Client().post("/api/v1/schema").status_code == 405
