"""Admin of the catalogue: tools and overrides, sources with their documents, endpoints and syncs, and MCP servers."""

from __future__ import annotations

from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.postgres.fields import ArrayField
from django.db.models import Field, QuerySet
from django.http import HttpRequest
from django.template.defaultfilters import pluralize

from embeddings.models import EmbeddingStatus
from portal.tenancy.models import Role
from tools import fields
from tools.admin.base import ReadOnlyAdmin, ServiceAdmin, ServiceForm, SettingsAdmin
from tools.admin.pipeline import refresh_embedding
from tools.catalogue import overrides, servers, sources
from tools.catalogue.errors import CatalogueError
from tools.catalogue.tools import create_tool, delete_tool, update_tool
from tools.models import (
    Endpoint,
    ManualOverride,
    McpServer,
    Source,
    SourceDocument,
    Sync,
    SyncChange,
    Tool,
    ToolQuerySet,
)
from tools.web.embeddings.state import badge_of
from tools.web.shell.forms import LinesField, PlainTextField

_RECORD = (
    "source", "endpoint", *fields.in_group("Record"), "version", "created_at", "updated_at", "updated_by", "download_count",
)  # fmt: skip


class EmbeddingStatusFilter(admin.SimpleListFilter):
    """By the embedding that serves, as the column of the list."""

    title = "embedding status"
    parameter_name = "embedding_status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:
        return EmbeddingStatus.choices

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        status = self.value()
        return cast(ToolQuerySet, queryset).with_embedding_status(status) if status else queryset


class ToolForm(ServiceForm):
    seen_attribute = "version"


@admin.register(Tool)
class ToolAdmin(ServiceAdmin):
    form = ToolForm
    list_display = (
        "name",
        "namespace",
        "source",
        "tool_type",
        "embedding_status",
        "active",
        "version",
        "updated_at",
    )
    list_filter = ("active", "tool_type", EmbeddingStatusFilter, "source", "lifecycle")
    list_select_related = ("source",)
    search_fields = ("name", "tool_id", "description")
    actions = (refresh_embedding,)
    fieldsets = (
        (None, {"fields": (*fields.in_group(""), "seen")}),
        ("Classification", {"fields": fields.in_group("Classification")}),
        ("Availability", {"fields": fields.in_group("Availability")}),
        ("Schemas", {"classes": ("collapse",), "fields": fields.in_group("Schemas")}),
        ("Record", {"fields": _RECORD}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return cast(ToolQuerySet, super().get_queryset(request)).with_serving_embedding()

    def get_fieldsets(self, request: HttpRequest, obj: Tool | None = None) -> Any:
        # A tool that is not stored yet has no bookkeeping.
        return self.fieldsets if obj else self.fieldsets[:-1]

    def get_readonly_fields(self, request: HttpRequest, obj: Tool | None = None) -> Any:
        if obj is None:
            return ()
        return (*fields.IDENTITY, *_RECORD, *(fields.SOURCE_OWNED if obj.endpoint_id else ()))

    def formfield_for_dbfield(self, db_field: Field[Any, Any], request: Any, **kwargs: Any) -> Any:
        """Exact texts, and lists with one entry per line: an untouched imported text must not look edited."""
        if isinstance(db_field, ArrayField):
            return LinesField(
                required=False,
                help_text="One per line.",
                widget=forms.Textarea(attrs={"rows": 3, "cols": 80}),
            )
        if db_field.name == "description":
            return PlainTextField(widget=forms.Textarea(attrs={"rows": 8, "cols": 80}))
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    @admin.display(description="embedding")
    def embedding_status(self, tool: Tool) -> str:
        return badge_of(tool).word

    def save_model(self, request: HttpRequest, obj: Tool, form: Any, change: bool) -> None:
        given = form.cleaned_data
        who = request.user.get_username()
        if change:
            changes = {name: given[name] for name in form.changed_data if name in fields.EDITABLE}
            saved = update_tool(pk=obj.pk, expected_version=given["seen"] or 0, changes=changes, actor=who)
        else:
            saved = create_tool(actor=who, **{name: given[name] for name in given if name != "seen"})
        # Django logs and shows the row that the service wrote.
        obj.__dict__.update(saved.__dict__)

    def delete_model(self, request: HttpRequest, obj: Tool) -> None:
        delete_tool(pk=obj.pk, actor=request.user.get_username())


@admin.register(Source)
class SourceAdmin(SettingsAdmin):
    """Sources come from imports; only whether syncs win over overrides is editable."""

    list_display = ("slug", "display_title", "kind", "sync_wins", "updated_at")
    list_filter = ("kind", "sync_wins")
    search_fields = ("slug", "title", "document_title")
    fields = (
        "slug",
        "title",
        "document_title",
        "kind",
        "url",
        "sync_wins",
        "seen",
        "created_at",
        "updated_at",
    )
    readonly_fields = ("slug", "title", "document_title", "kind", "url", "created_at", "updated_at")
    delete_confirmation_template = "admin/delete_source.html"
    delete_selected_confirmation_template = "admin/delete_sources.html"

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Source, form: Any, change: bool) -> None:
        who = request.user.get_username()
        given = form.cleaned_data
        sources.update_source(
            pk=obj.pk, sync_wins=given["sync_wins"], actor=who, expected_event=given["seen"]
        )

    def delete_model(self, request: HttpRequest, obj: Source) -> None:
        wanted = request.POST.get("tools", "")
        if obj.tools.exists() and wanted not in sources.ToolsOfDeleted.values:
            raise CatalogueError("Choose what becomes of its tools.")
        sources.delete_source(
            pk=obj.pk, actor=request.user.get_username(), tools=wanted or sources.ToolsOfDeleted.DELETE
        )


@admin.register(SourceDocument)
class SourceDocumentAdmin(ReadOnlyAdmin):
    role_to_view = Role.OPERATOR
    list_display = ("name", "source", "version", "size", "fetched_at")
    list_select_related = ("source",)
    fields = ("source", "name", "version", "sha256", "size", "report", "fetched_at")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("content")


@admin.register(Endpoint)
class EndpointAdmin(ReadOnlyAdmin):
    list_display = ("key", "source", "name", "active", "updated_at")
    list_select_related = ("source",)
    list_filter = ("active", "method", "source")
    search_fields = ("key", "name")


@admin.register(ManualOverride)
class ManualOverrideAdmin(ReadOnlyAdmin):
    list_display = ("tool", "field", "made_by", "made_at")
    list_select_related = ("tool",)
    list_filter = ("field",)
    actions = ("reset_to_imported",)

    @admin.action(description="Reset to imported", permissions=["operate"])
    def reset_to_imported(self, request: HttpRequest, queryset: QuerySet[ManualOverride]) -> None:
        ids = list(queryset.values_list("pk", flat=True))
        try:
            done = overrides.reset_many(overrides=ids, actor=request.user.get_username())
        except CatalogueError as error:
            messages.error(request, str(error))
        else:
            messages.success(
                request, f"{done:,} field{pluralize(done)} {pluralize(done, 'was,were')} reset to imported."
            )


@admin.register(Sync)
class SyncAdmin(ReadOnlyAdmin):
    """To look at; the portal's own pages apply and discard them, and show them to operators."""

    role_to_view = Role.OPERATOR

    list_display = ("source", "state", "created_at", "created_by", "ended_at", "ended_by")
    list_select_related = ("source",)
    list_filter = ("state", "source")


@admin.register(SyncChange)
class SyncChangeAdmin(ReadOnlyAdmin):
    role_to_view = Role.OPERATOR
    list_display = ("name", "action", "key", "conflict", "applied")
    list_filter = ("action", "conflict", "applied")
    search_fields = ("key", "name")


class ServerForm(ServiceForm):
    def clean(self) -> dict[str, Any] | None:
        """Adds the message of the service; the model would only name the constraint."""
        cleaned = super().clean() or {}
        if bool(cleaned.get("url")) == bool(cleaned.get("command_id")):
            self.add_error("url", servers.ONE_WAY)
        return cleaned


@admin.register(McpServer)
class McpServerAdmin(SettingsAdmin):
    """Health and last error are read-only: a test or a sync writes them."""

    form = ServerForm
    role_to_write = Role.ADMIN
    list_display = ("slug", "title", "url", "command_id", "health", "synced_at")
    list_filter = ("health",)
    search_fields = ("slug", "title", "url")
    fields = (
        "slug",
        "title",
        "url",
        "command_id",
        "headers",
        "seen",
        "health",
        "synced_at",
        "error",
        "created_at",
        "updated_at",
    )
    readonly_fields = ("health", "synced_at", "error", "created_at", "updated_at")

    @admin.display(description="last error")
    def error(self, server: McpServer) -> str:
        return server.shown_error

    def save_model(self, request: HttpRequest, obj: McpServer, form: Any, change: bool) -> None:
        who = request.user.get_username()
        given = {name: value for name, value in form.cleaned_data.items() if name != "seen"}
        if change:
            changes = {name: value for name, value in given.items() if name in form.changed_data}
            seen = form.cleaned_data["seen"]
            saved = servers.update_server(pk=obj.pk, actor=who, expected_event=seen, **changes)
        else:
            saved = servers.create_server(actor=who, **given)
        obj.__dict__.update(saved.__dict__)

    def delete_model(self, request: HttpRequest, obj: McpServer) -> None:
        servers.delete_server(pk=obj.pk, actor=request.user.get_username())
