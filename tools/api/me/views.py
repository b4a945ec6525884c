"""The REST endpoint of the key that asks."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from portal.tenancy.models import Scope, Sensitivity
from tools.api.base import ApiView
from tools.api.schema.json_schema import TEXT, described, or_null
from tools.api.schema.operations import operation


class MeView(ApiView):
    """Which key is this, and what may it do."""

    required_scope = None

    @operation(
        "get_me",
        "Which key is this, and what may it do",
        answers={
            200: described(
                name=TEXT,
                scopes={"type": "array", "items": {"type": "string", "enum": Scope.values}},
                max_sensitivity={"type": "string", "enum": Sensitivity.values},
                limits=described(requests_per_minute=or_null({"type": "integer", "minimum": 1})),
            )
        },
    )
    def get(self, request: Request) -> Response:
        caller = self.caller
        return Response(
            {
                "name": caller.key_name,
                "scopes": sorted(caller.scopes),
                "max_sensitivity": caller.max_sensitivity,
                "limits": {"requests_per_minute": caller.requests_per_minute},
            }
        )
