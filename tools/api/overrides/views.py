"""The REST endpoints of overrides: list them, reset one to imported, or keep one in a conflict (SYN-5)."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import QuerySet
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from portal.http.conditional import expected_version, seen_versions, version_etag
from portal.http.idempotency import idempotent
from portal.tenancy.models import Scope
from tools.api.base import TenantListView
from tools.api.overrides.serializers import OverrideSerializer
from tools.api.schema import operations as docs
from tools.api.schema.json_schema import BOOLEAN, TEXT, answer_schema, described
from tools.api.tools.lookup import OneToolView, tool_response
from tools.api.tools.serializers import ToolSerializer
from tools.catalogue import overrides
from tools.catalogue.errors import StaleVersion
from tools.catalogue.tools import catalogue_write
from tools.catalogue.visibility import seen
from tools.models import ManualOverride, Tool


def with_status(rows: Iterable[ManualOverride]) -> list[ManualOverride]:
    """The rows with what OverrideSerializer shows of their sources, but for those that were reset meanwhile."""
    listed = list(rows)
    found = overrides.override_statuses(ManualOverride.objects.filter(pk__in=[row.pk for row in listed]))
    status = {status.pk: status for status in found}
    for row in listed:
        vars(row)["status"] = status.get(row.pk)
    return [row for row in listed if row.pk in status]


def _of(tool: Tool) -> QuerySet[ManualOverride]:
    return ManualOverride.objects.filter(tool=tool).select_related("tool__source").order_by("field")


def _find(tool: Tool, field: str) -> ManualOverride:
    override = _of(tool).filter(field=field).first()
    if override is None:
        raise NotFound(f"The field {field!r} of this tool is not overridden.")
    return override


class ToolOverridesView(OneToolView):
    """The overrides of one tool."""

    required_scope = Scope.TOOLS_READ

    @docs.operation(
        "list_tool_overrides",
        "What operators wrote over the imported fields of a tool",
        parameters=[docs.NAMESPACE, docs.etag(200)],
        answers={200: described(results={"type": "array", "items": answer_schema(OverrideSerializer)})},
    )
    def get(self, request: Request, ref: str) -> Response:
        tool = self.find_tool(ref)
        shown = OverrideSerializer(with_status(_of(tool)), many=True).data
        return Response({"results": shown}, headers={"ETag": version_etag(tool.version)})


class ToolOverrideView(OneToolView):
    """One override, by its field."""

    required_scope = {"DELETE": Scope.TOOLS_WRITE}

    @docs.operation(
        "reset_override",
        "Brings back what the source says",
        parameters=[docs.NAMESPACE, docs.etag(200)],
        answers={200: ToolSerializer},
    )
    def delete(self, request: Request, ref: str, field: str) -> Response:
        seen = seen_versions(request)
        with catalogue_write(self.rights.actor):
            tool = self.find_tool(ref)
            locked = Tool.objects.seen().select_for_update(no_key=True).get(pk=tool.pk)
            if locked.version != expected_version(seen, locked.version):
                raise StaleVersion(locked)
            overrides.reset_many(overrides=[_find(tool, field).pk], actor=self.rights.actor)
        return tool_response(tool.pk)


class OverrideKeepView(OneToolView):
    """Ends a conflict in favour of what the operator wrote."""

    required_scope = Scope.TOOLS_WRITE

    @docs.operation(
        "keep_override",
        "The imported text has changed, and the operator's stays",
        parameters=[docs.NAMESPACE],
        answers=docs.one(OverrideSerializer),
    )
    @idempotent
    def post(self, request: Request, ref: str, field: str) -> Response:
        with catalogue_write(self.rights.actor):  # which keeps the tool's lock
            tool = self.find_tool(ref)
            overrides.keep_many(overrides=[_find(tool, field).pk], actor=self.rights.actor)
            [override] = with_status([_find(tool, field)])
            return Response(OverrideSerializer(override).data)


class OverrideListView(TenantListView):
    """All overrides."""

    required_scope = Scope.TOOLS_READ
    list_operation = ("list_overrides", "All overrides of tools that this key may see, newest first")
    query_parameters = (
        docs.query("source", TEXT, "The slug of a source."),
        docs.query("conflicts", BOOLEAN, "`true`: only those in conflict; `false`: only the others."),
    )
    serializer_class = OverrideSerializer
    ordering = ("-made_at", "-pk")

    def get_queryset(self) -> QuerySet[ManualOverride]:
        asked, rows = self.request.query_params, seen(ManualOverride.objects.all())
        if "source" in asked:
            rows = rows.filter(tool__source__slug=asked["source"])
        if "conflicts" in asked:
            found = overrides.conflicts(rows)
            rows = rows.filter(pk__in=found) if asked["conflicts"] == "true" else rows.exclude(pk__in=found)
        return rows.select_related("tool__source")

    def prepare(self, rows: list[ManualOverride]) -> list[ManualOverride]:
        return with_status(rows)
