"""The OpenAPI document: what every operation has in common is added here, so that a new view says only what is its own.

`docs/openapi.yaml` is this document as committed; tests/contract/test_schema.py holds it to the views.
"""

from __future__ import annotations

from typing import Any

from drf_spectacular.openapi import AutoSchema

from portal.http.idempotency import HEADER
from portal.http.problem_types import PROBLEM_TYPES
from portal.tenancy.models import IDEMPOTENCY_KEY_LENGTH, Scope

SECURITY = "apiKey"
Json = dict[str, Any]


class PortalSchema(AutoSchema):
    """Adds to each operation its scope, the problems it may answer with, and the headers of every answer."""

    def get_auth(self) -> list[Json]:
        scope = self._scope()
        return [{SECURITY: [str(scope)] if scope else []}]

    def _scope(self) -> Scope | None:
        required: Any = self.view.required_scope  # type: ignore[attr-defined]
        scope: Scope | None = required[self.method] if isinstance(required, dict) else required
        return scope

    def get_operation(self, *args: Any, **kwargs: Any) -> Json | None:
        operation: Json | None = super().get_operation(*args, **kwargs)
        if operation is None:
            return None
        changes, has_body = self.method in {"PATCH", "DELETE"}, "requestBody" in operation
        parameters = operation.setdefault("parameters", [])
        for header in self._request_headers(changes=changes):
            parameters.append({"$ref": f"#/components/parameters/{header}"})
        statuses = {400, 401, 403, 406, 429, 500, 503}
        statuses |= {404} if "{" in self.path else set()
        statuses |= {409, 412, 422, 428} if changes else set()
        statuses |= {413, 415} if has_body else set()
        statuses |= {409, 422} if self._idempotent() else set()
        statuses |= {409, 422, 502, 504} if getattr(self._handler(), "calls_external", False) else set()
        responses = operation["responses"]
        for response in responses.values():
            response.setdefault("headers", {}).update(_ANSWER_HEADERS)
        for status in sorted(statuses):
            responses.setdefault(str(status), {"$ref": f"#/components/responses/Problem{status}"})
        if self.method == "GET":
            responses["414"] = {
                "description": "The address is longer than 8,190 bytes. The server refuses it before the API sees it, so this is "
                "no problem document; ask by POST.",
                "content": {"text/html": {"schema": {"type": "string"}}},
            }
        operation["responses"] = dict(sorted(responses.items()))
        return operation

    def _handler(self) -> Any:
        return getattr(self.view, self.method.lower())

    def _idempotent(self) -> bool:
        return getattr(self._handler(), "idempotent", False)

    def _request_headers(self, *, changes: bool) -> list[str]:
        headers = ["RequestId"]
        if changes:
            headers.append("IfMatch")
        if self._idempotent():
            headers.append("IdempotencyKey")
        return headers


_ANSWER_HEADERS = {
    name: {"$ref": f"#/components/headers/{name}"}
    for name in ("X-Request-ID", "RateLimit-Policy", "RateLimit", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
}  # fmt: skip


def only_v1(endpoints: list[Any]) -> list[Any]:
    return [one for one in endpoints if one[0].startswith("/api/v1/")]


def with_problem(result: Json, **_: Any) -> Json:
    """The parts that operations refer to."""
    components = result.setdefault("components", {})
    for one in components.setdefault("schemas", {}).values():
        for name, field in one.get("properties", {}).items():
            if field.get("oneOf") == [{}, {"type": "null"}]:
                # Any JSON or null, which would be both at once, and so neither by the meaning of oneOf.
                one["properties"][name] = {}
    components["schemas"]["Problem"] = _PROBLEM
    components["schemas"] = dict(sorted(components["schemas"].items()))
    components["securitySchemes"] = {
        SECURITY: {
            "type": "http",
            "scheme": "bearer",
            "description": f"An API key. Its scopes: {', '.join(Scope.values)}. `admin` stands for all of them.",
        }
    }
    components["parameters"] = _PARAMETERS
    components["headers"] = _HEADERS
    components["responses"] = {f"Problem{status}": _problem(status) for status in _STATUSES}
    return result


_STATUSES = (400, 401, 403, 404, 406, 409, 412, 413, 415, 422, 428, 429, 500, 502, 503, 504)
_PROBLEM: Json = {
    "type": "object",
    "description": "A refusal (RFC 9457).",
    "properties": {
        "type": {"type": "string", "format": "uri-reference", "description": "A page with cause and fix."},
        "title": {"type": "string", "enum": sorted(PROBLEM_TYPES)},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
        "request_id": {"type": "string"},
        "current_etag": {"type": "string", "description": "With 412: the ETag of what is there now."},
        "removed": {
            "type": "integer",
            "description": "With `removals_need_confirmation`: endpoints that would vanish.",
        },
        "active": {
            "type": "integer",
            "description": "With `removals_need_confirmation`: endpoints that there are.",
        },
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "code": {"type": "string"},
                    "detail": {"type": "string"},
                    "pointer": {
                        "type": "string",
                        "description": "A JSON pointer into the body, or the name of a parameter.",
                    },
                },
                "required": ["code", "detail", "pointer"],
            },
        },
    },
    "required": ["type", "title", "status", "detail", "instance", "request_id"],
}
_PARAMETERS: Json = {
    "RequestId": {
        "name": "X-Request-ID", "in": "header", "schema": {"type": "string", "minLength": 1, "maxLength": 128},
        "description": "Your own id of the request: comes back, and stands in the log.",
    },
    "IfMatch": {
        "name": "If-Match", "in": "header", "required": True, "schema": {"type": "string"}, "example": '"v17"',
        "description": "The ETag of the version that this change was made for.",
    },
    "IdempotencyKey": {
        "name": HEADER, "in": "header", "schema": {"type": "string", "minLength": 1, "maxLength": IDEMPOTENCY_KEY_LENGTH},
        "description": "Makes the request safe to repeat for 24 hours: it takes effect once, and the repeated one gets the "
        "stored answer with `Idempotency-Replayed: true`.",
    },
}  # fmt: skip


def _integer(description: str) -> Json:
    return {"description": description, "schema": {"type": "integer"}}


_HEADERS: Json = {
    "X-Request-ID": {"description": "Finds this request in the log.", "schema": {"type": "string"}},
    "RateLimit-Policy": {
        "description": "Only for a key with a rate: requests (q) in seconds (w).",
        "schema": {"type": "string"},
        "example": '"key";q=600;w=60',
    },
    "RateLimit": {
        "description": "Requests left (r) and seconds (t) until all are free again.",
        "schema": {"type": "string"},
        "example": '"key";r=598;t=12',
    },
    "X-RateLimit-Limit": _integer("Requests per minute."),
    "X-RateLimit-Remaining": _integer("Requests left."),
    "X-RateLimit-Reset": _integer("Seconds until all are free again."),
    "Retry-After": _integer("Seconds to wait."),
}


def _problem(status: int) -> Json:
    types = [one for one in PROBLEM_TYPES.values() if one.status == status and one.name != "error"]
    headers = dict(_ANSWER_HEADERS)
    if status == 429:
        headers["Retry-After"] = {"$ref": "#/components/headers/Retry-After"}
    return {
        "description": ", ".join(one.name for one in types),
        "headers": headers,
        "content": {
            "application/problem+json": {
                "schema": {"$ref": "#/components/schemas/Problem"},
                "examples": {
                    one.name: {
                        "value": {
                            "type": one.url, "title": one.name, "status": one.status, "detail": one.example,
                            "instance": "/api/v1/tools", "request_id": "5d0c7f0c6f4e4b8c9f431a2b3c4d5e6f",
                        }
                    }
                    for one in types
                },
            }
        },
    }  # fmt: skip
