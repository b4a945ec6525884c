"""The parts of the OpenAPI document that operations refer to: problems, headers, parameters, the key's scopes."""

from __future__ import annotations

from portal.http.idempotency import HEADER
from portal.http.problem_types import PROBLEM_TYPES
from portal.json_types import JsonObject
from portal.tenancy.models import IDEMPOTENCY_KEY_LENGTH, Scope
from tools.api.schema.json_schema import TEXT, described

INTEGER: JsonObject = {"type": "integer"}
SECURITY = "apiKey"
Endpoint = tuple[str, str, str, object]
"""Path, its pattern, method and view."""
ANSWER_HEADERS = {
    name: {"$ref": f"#/components/headers/{name}"}
    for name in ("X-Request-ID", "RateLimit-Policy", "RateLimit", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
}  # fmt: skip


def only_v1(endpoints: list[Endpoint]) -> list[Endpoint]:
    return [one for one in endpoints if one[0].startswith("/api/v1/")]


def with_problem(result: JsonObject, **_: object) -> JsonObject:
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


def _integer(description: str) -> JsonObject:
    return {**INTEGER, "description": description}


def _header(description: str, schema: JsonObject) -> JsonObject:
    return {"description": description, "schema": schema}


_STATUSES = (400, 401, 403, 404, 406, 409, 412, 413, 415, 422, 428, 429, 500, 502, 503, 504)
_POINTER = {**TEXT, "description": "A JSON pointer into the body, or the name of a parameter."}
_PROBLEM: JsonObject = {
    "type": "object",
    "description": "A refusal (RFC 9457).",
    "properties": {
        "type": {"type": "string", "format": "uri-reference", "description": "A page with cause and fix."},
        "title": {"type": "string", "enum": sorted(PROBLEM_TYPES)},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": TEXT,
        "instance": TEXT,
        "request_id": TEXT,
        "current_etag": {**TEXT, "description": "With 412: the ETag of what is there now."},
        "removed": _integer("With `removals_need_confirmation`: endpoints that would vanish."),
        "active": _integer("With `removals_need_confirmation`: endpoints that there are."),
        "errors": {"type": "array", "items": described(code=TEXT, detail=TEXT, pointer=_POINTER)},
    },
    "required": ["type", "title", "status", "detail", "instance", "request_id"],
}
_PARAMETERS: JsonObject = {
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


_HEADERS: JsonObject = {
    "X-Request-ID": _header("Finds this request in the log.", TEXT),
    "RateLimit-Policy": {
        **_header("Only for a key with a rate: requests (q) in seconds (w).", TEXT), "example": '"key";q=600;w=60',
    },
    "RateLimit": {
        **_header("Requests left (r) and seconds (t) until all are free again.", TEXT), "example": '"key";r=598;t=12',
    },
    "X-RateLimit-Limit": _header("Requests per minute.", INTEGER),
    "X-RateLimit-Remaining": _header("Requests left.", INTEGER),
    "X-RateLimit-Reset": _header("Seconds until all are free again.", INTEGER),
    "Retry-After": _header("Seconds to wait.", INTEGER),
}  # fmt: skip


def _problem(status: int) -> JsonObject:
    types = [one for one in PROBLEM_TYPES.values() if one.status == status and one.name != "error"]
    headers = dict(ANSWER_HEADERS)
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
