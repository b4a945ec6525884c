"""The REST endpoints of overrides: what operators wrote over imported fields, back to the source, or kept (SYN-5)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.http.conditional import expected_version, seen_versions, version_etag
from portal.http.idempotency import idempotent
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Scope
from tools.api import override_docs as docs
from tools.api.callers import actor_of, caller_of, find_tool, namespace_of, visible_tools, written_tool
from tools.api.pages import NewestFirst, refuse_unknown
from tools.api.refusals import as_problems
from tools.api.serializers import ToolSerializer
from tools.catalogue import overrides
from tools.catalogue.errors import StaleVersion
from tools.catalogue.tools import catalogue_write
from tools.models import ManualOverride, Tool


def _states(rows: Iterable[ManualOverride]) -> list[dict[str, Any]]:
    """Overrides as callers see them, each beside what its source says now."""
    listed = list(rows)
    found = overrides.override_statuses(ManualOverride.objects.filter(pk__in=[one.pk for one in listed]))
    status = {one.pk: one for one in found}
    return [
        {
            "tool": {
                "id": one.tool.pk,
                "tool_id": one.tool.tool_id,
                "namespace": one.tool.namespace,
                "name": one.tool.name,
                "source": one.tool.source.slug if one.tool.source else None,
            },
            "field": one.field,
            "value": one.value,
            "replaced": one.imported_value,
            "imported": status[one.pk].imported,
            "conflict": status[one.pk].conflict,
            "made_by": one.made_by,
            "made_at": one.made_at,
        }
        for one in listed
        if one.pk in status  # it may have been reset meanwhile
    ]


def _of(tool: Tool) -> QuerySet[ManualOverride]:
    rows: QuerySet[ManualOverride] = ManualOverride.objects.filter(tool=tool).select_related("tool__source")
    return rows.order_by("field")


def _find(tool: Tool, field: str) -> ManualOverride:
    override = _of(tool).filter(field=field).first()
    if override is None:
        raise NotFound(f"The field {field!r} of this tool is not overridden.")
    return override


class ToolOverridesView(APIView):
    """The overrides of one tool."""

    required_scope = Scope.TOOLS_READ

    @docs.list_tool_overrides
    def get(self, request: Request, ref: str) -> Response:
        caller = caller_of(request)
        with tenant_context(caller.tenant_id):
            tool = find_tool(caller, ref, namespace_of(request))
            return Response({"results": _states(_of(tool))}, headers={"ETag": version_etag(tool.version)})


class ToolOverrideView(APIView):
    """One override, by its field."""

    required_scope = {"DELETE": Scope.TOOLS_WRITE}

    @docs.reset_override
    def delete(self, request: Request, ref: str, field: str) -> Response:
        caller = caller_of(request)
        seen = seen_versions(request)
        with tenant_context(caller.tenant_id), as_problems():
            with catalogue_write(actor_of(caller)):
                tool = find_tool(caller, ref, namespace_of(request))
                locked = Tool.objects.select_for_update().get(pk=tool.pk)
                if locked.version != expected_version(seen, locked.version):
                    raise StaleVersion(locked)
                overrides.reset_override(pk=tool.pk, field=_find(tool, field).field, actor=actor_of(caller))
            tool = written_tool(tool.pk)
            return Response(ToolSerializer(tool).data, headers={"ETag": version_etag(tool.version)})


class OverrideKeepView(APIView):
    """Ends a conflict in favour of what the operator wrote."""

    required_scope = Scope.TOOLS_WRITE

    @docs.keep_override
    @idempotent
    def post(self, request: Request, ref: str, field: str) -> Response:
        caller = caller_of(request)
        with (
            tenant_context(caller.tenant_id),
            as_problems(),
            catalogue_write(actor_of(caller)),  # which keeps the tool's lock
        ):
            tool = find_tool(caller, ref, namespace_of(request))
            overrides.keep_override(pk=tool.pk, field=_find(tool, field).field, actor=actor_of(caller))
            return Response(_states([_find(tool, field)])[0])


class OverrideListView(APIView):
    """All overrides."""

    required_scope = Scope.TOOLS_READ

    @docs.list_overrides
    def get(self, request: Request) -> Response:
        caller, asked = caller_of(request), request.query_params
        refuse_unknown(asked, {"source", "conflicts", *_Newest.PARAMETERS})
        if asked.get("conflicts", "true") not in {"true", "false"}:
            raise ValidationError({"conflicts": "`true` or `false`, please."})
        with tenant_context(caller.tenant_id):
            rows = ManualOverride.objects.filter(tool__in=visible_tools(caller).values("pk"))
            if "source" in asked:
                rows = rows.filter(tool__source__slug=asked["source"])
            if "conflicts" in asked:
                found = overrides.conflicts(rows)
                rows = (
                    rows.filter(pk__in=found) if asked["conflicts"] == "true" else rows.exclude(pk__in=found)
                )
            pages = _Newest()
            page = pages.paginate_queryset(rows.select_related("tool__source"), request, view=self) or []
            return pages.get_paginated_response(_states(page))


class _Newest(NewestFirst):
    ordering = ("-made_at", "-pk")
