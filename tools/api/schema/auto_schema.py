"""The OpenAPI document: what every operation has in common is added here, so that a new view says only what is its own.

`docs/openapi.yaml` is this document as committed; tests/contract/test_schema.py holds it to the views.
"""

from __future__ import annotations

from typing import Any

from drf_spectacular.openapi import AutoSchema

from portal.http.authentication import scope_of
from portal.json_types import JsonObject
from tools.api.schema.components import ANSWER_HEADERS, SECURITY


class PortalSchema(AutoSchema):
    """Adds to each operation its scope, the problems it may answer with, and the headers of every answer."""

    def get_auth(self) -> list[JsonObject]:
        scope = scope_of(self.view, self.method)
        return [{SECURITY: [str(scope)] if scope else []}]

    def get_operation(self, *args: Any, **kwargs: Any) -> JsonObject | None:
        operation: JsonObject | None = super().get_operation(*args, **kwargs)
        if operation is None:
            return None
        changes, has_body = self.method in {"PATCH", "DELETE"}, "requestBody" in operation
        parameters = operation.setdefault("parameters", [])
        handler = getattr(self.view, self.method.lower())
        is_idempotent = getattr(handler, "idempotent", False)
        headers = {"RequestId": True, "IfMatch": changes, "IdempotencyKey": is_idempotent}
        parameters += [
            {"$ref": f"#/components/parameters/{name}"} for name, taken in headers.items() if taken
        ]
        statuses = {400, 401, 403, 406, 429, 500, 503}
        statuses |= {404} if "{" in self.path else set()
        statuses |= {409, 412, 422, 428} if changes else set()
        statuses |= {413, 415} if has_body else set()
        statuses |= {409, 422} if is_idempotent else set()
        statuses |= getattr(handler, "problems", set())
        responses = operation["responses"]
        for response in responses.values():
            response.setdefault("headers", {}).update(ANSWER_HEADERS)
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
