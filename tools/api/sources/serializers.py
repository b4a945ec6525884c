"""Sources, imports and documents as the API takes and shows them."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from rest_framework import serializers

from portal.http.bodies import too_large
from portal.json_types import JsonObject
from tools.api.fields import BlankAsNullField, CountField, LinksField, RowSerializer, StrictSerializer
from tools.api.schema.json_schema import (
    BOOLEAN,
    COUNT,
    TEXT,
    TEXTS,
    body_schema,
    described,
    field_schema,
    or_null,
)
from tools.api.servers.serializers import SLUG_LENGTH, TITLE_LENGTH, URL_LENGTH
from tools.catalogue.sources import ToolsOfDeleted
from tools.models import DOCUMENT_KINDS, Schedule, Source, SourceDocument, SourceKind
from tools.models.server import SLUG_PATTERN


class SourceSerializer(RowSerializer):
    """A source as callers see it, of a row with its `with_tool_counts`."""

    title = serializers.CharField(source="display_title")
    server = serializers.CharField(
        source="server.slug", allow_null=True, help_text="The slug of the MCP server whose tools these are."
    )
    schedule = serializers.ChoiceField(Schedule.choices, help_text="How often it is read by itself.")
    active_tools = CountField()
    failures = CountField(help_text="In a row.")
    last_error = BlankAsNullField(
        source="shown_error", help_text="Null for a key that may not see all tools of the source."
    )

    class Meta:
        model = Source
        fields = (
            "id", "slug", "title", "document_title", "kind", "url", "server", "schedule", "auto_apply", "sync_wins", "active_tools",
            "synced_at", "next_sync_at", "failures", "last_error", "created_at", "updated_at",
        )  # fmt: skip


class DocumentSerializer(RowSerializer):
    """A document that a source was read from, without its content."""

    version = serializers.CharField(help_text="The API's own.")
    size = CountField(help_text="Bytes.")
    links = LinksField("content")

    class Meta:
        model = SourceDocument
        fields = ("id", "name", "version", "layer", "sha256", "size", "fetched_at", "links")

    def get_links(self, document: SourceDocument) -> dict[str, str]:
        slug = self.context["view"].kwargs["slug"]
        return {"content": f"/api/v1/sources/{slug}/documents/{document.pk}"}


class ImportOptionsSerializer(StrictSerializer):
    """What an import may be told in its address or its body."""

    dry_run = serializers.BooleanField(default=False)
    confirm_removals = serializers.BooleanField(default=False)


class DeletionOptionsSerializer(StrictSerializer):
    """What the deletion of a source may be told in its address."""

    tools = serializers.ChoiceField(ToolsOfDeleted.choices, default=ToolsOfDeleted.DELETE)


class ImportSerializer(ImportOptionsSerializer):
    """What to import: a document, the address of one, or a server's tools; without `kind` a document is recognised."""

    document = serializers.FileField(required=False)
    url = serializers.CharField(max_length=URL_LENGTH, required=False)
    server = serializers.CharField(max_length=SLUG_LENGTH, required=False)
    kind = serializers.ChoiceField(DOCUMENT_KINDS, default="", allow_blank=True)
    source: Any = serializers.RegexField(
        SLUG_PATTERN,
        max_length=SLUG_LENGTH,
        default="",
        allow_blank=True,
        error_messages={"invalid": "Use lower-case letters, digits, dots, dashes and underscores."},
    )

    def validate_document(self, document: Any) -> Any:
        if document.size > settings.DOCUMENT_MAX_BYTES:
            raise too_large(settings.DOCUMENT_MAX_BYTES)
        return document

    def validate(self, given: JsonObject) -> JsonObject:
        if len(given.keys() & {"document", "url", "server"}) != 1:
            sentence = "Send exactly one of `document` (in a form), `url` and `server`."
            raise serializers.ValidationError({"document": sentence})
        if "server" in given and given["kind"] not in {"", SourceKind.MCP}:
            raise serializers.ValidationError({"kind": "The tools of an MCP server are of kind `mcp`."})
        return given


class SourceChangeSerializer(StrictSerializer):
    """A merge patch of a source: null empties a field."""

    title = serializers.CharField(
        max_length=TITLE_LENGTH, allow_blank=True, allow_null=True, help_text="Empty: as the document says."
    )
    url = serializers.CharField(max_length=URL_LENGTH, allow_blank=True, allow_null=True)
    server = serializers.CharField(max_length=SLUG_LENGTH, allow_null=True)
    schedule = serializers.ChoiceField(Schedule.choices, allow_blank=True, allow_null=True)
    auto_apply = serializers.BooleanField(
        help_text="A scheduled sync is applied by itself, unless too much would vanish."
    )
    sync_wins = serializers.BooleanField(help_text="Later syncs overwrite what operators edited.")


SOURCE_CHANGES = body_schema(SourceChangeSerializer, partial=True)
SOURCE_CHANGES["application/json"]["properties"]["schedule"] = or_null(
    field_schema(SourceSerializer().fields["schedule"])
)
COUNTS = (
    "operations", "tools", "not_chosen", "added", "changed", "moved", "removed", "unchanged", "protected", "conflicts",
)  # fmt: skip
REPORT = described(
    source=TEXT, **dict.fromkeys(COUNTS, COUNT),
    left_out={"type": "array", "items": described(operation=TEXT, reason=TEXT)}, warnings=TEXTS, dry_run=BOOLEAN,
)  # fmt: skip
TRIED = described(
    title=TEXT, version=TEXT, format_version=TEXT, operations=COUNT, tools=COUNT, left_out=COUNT, warnings=TEXTS, bytes=COUNT,
)  # fmt: skip
_IMPORT = {name: field_schema(field) for name, field in ImportSerializer().fields.items()}
_IMPORT["url"]["description"] = "Of a document; with `kind` mcp, of a server over streamable HTTP."
_IMPORT["server"]["description"] = "The slug of an MCP server, whose tools are asked for."
IMPORT_BY_ADDRESS: JsonObject = {
    "type": "object",
    "properties": {
        name: _IMPORT[name] for name in ("url", "server", "kind", "source", "dry_run", "confirm_removals")
    },
    "oneOf": [{"required": ["url"]}, {"required": ["server"]}],
    "additionalProperties": False,
}
