"""The OpenAPI document: what every operation has in common is added here, so that a new view says only what is its own.

`docs/openapi.yaml` is this document as committed; tests/contract/test_schema.py holds it to the views.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from drf_spectacular.openapi import AutoSchema

from portal.json_types import JsonObject
from portal.tenancy.models import Scope
from tools.api.base import ApiView, TenantListView
from tools.api.schema.components import ANSWER_HEADERS, SECURITY
from tools.api.schema.json_schema import answer_schema
from tools.api.schema.operations import filter_parameters, page, page_parameters
from tools.api.tools.serializers import ToolSerializer


class PortalSchema(AutoSchema):
    """Adds to each operation its scope, the problems it may answer with, and the headers of every answer."""

    def get_auth(self) -> list[JsonObject]:
        scope = self._scope()
        return [{SECURITY: [str(scope)] if scope else []}]

    @property
    def _list(self) -> TenantListView | None:
        """The view whose list this operation is."""
        return self.view if self.method == "GET" and isinstance(self.view, TenantListView) else None

    def get_operation_id(self) -> str:
        return self._list.list_operation[0] if self._list else super().get_operation_id()

    def get_summary(self) -> str | None:
        return self._list.list_operation[1] if self._list else super().get_summary()

    def get_description(self, *_: str) -> str:
        return (
            self._list.list_operation[2]
            if self._list and self._list.list_operation[2:]
            else super().get_description()
        )

    def get_override_parameters(self) -> list[Any]:
        if self._list is None:
            return super().get_override_parameters()
        filters = filter_parameters(self._list.filterset_class)
        return [*filters, *self._list.query_parameters, *page_parameters()]

    def get_response_serializers(self) -> Any:
        if self._list is None:
            return super().get_response_serializers()
        serializer = self._list.serializer_class
        named = issubclass(serializer, ToolSerializer)  # a component; other answers are described in place
        return {200: page({"$ref": "#/components/schemas/Tool"} if named else answer_schema(serializer))}

    def _scope(self) -> Scope | None:
        required = cast(ApiView, self.view).required_scope
        return required[self.method] if isinstance(required, Mapping) else required

    def get_operation(self, *args: Any, **kwargs: Any) -> JsonObject | None:
        operation: JsonObject | None = super().get_operation(*args, **kwargs)
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
        statuses |= getattr(self._handler(), "problems", set())
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

    def _handler(self) -> object:
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
