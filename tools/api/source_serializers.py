"""What the API takes about sources, syncs and MCP servers."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from rest_framework import serializers

from portal.http.bodies import too_large
from tools.api.serializers import Strict
from tools.models import DOCUMENT_KINDS, Schedule, SourceKind
from tools.models.server import SLUG_PATTERN

URL_LENGTH, SLUG_LENGTH, TITLE_LENGTH = 2048, 100, 300
MAX_CHANGES = 40_000
"""Of one plan: as many endpoints as one document may bring and another take away."""


class ImportOptionsSerializer(Strict):
    """What an import may be told in its address or its body."""

    dry_run = serializers.BooleanField(default=False)
    confirm_removals = serializers.BooleanField(default=False)


class ImportSerializer(ImportOptionsSerializer):
    """What to import: a document, the address of one, or a server's tools; without `kind` a document is recognised."""

    document = serializers.FileField(required=False)
    url = serializers.CharField(max_length=URL_LENGTH, required=False)
    server = serializers.CharField(max_length=SLUG_LENGTH, required=False)
    kind = serializers.ChoiceField(DOCUMENT_KINDS, default="", allow_blank=True)
    source = serializers.RegexField(  # type: ignore[assignment]
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

    def validate(self, given: Any) -> Any:
        if len(given.keys() & {"document", "url", "server"}) != 1:
            sentence = "Send exactly one of `document` (in a form), `url` and `server`."
            raise serializers.ValidationError({"document": sentence})
        if "server" in given and given["kind"] not in {"", SourceKind.MCP}:
            raise serializers.ValidationError({"kind": "The tools of an MCP server are of kind `mcp`."})
        return given


class SourceChangeSerializer(Strict):
    """A merge patch of a source: null empties a field."""

    title = serializers.CharField(max_length=TITLE_LENGTH, allow_blank=True, allow_null=True)
    url = serializers.CharField(max_length=URL_LENGTH, allow_blank=True, allow_null=True)
    server = serializers.CharField(max_length=SLUG_LENGTH, allow_null=True)
    schedule = serializers.ChoiceField(Schedule.choices, allow_blank=True, allow_null=True)
    auto_apply = serializers.BooleanField()
    sync_wins = serializers.BooleanField()


class SyncSerializer(Strict):
    """How to sync."""

    apply = serializers.BooleanField(default=False)
    confirm_removals = serializers.BooleanField(default=False)


class ApplySerializer(Strict):
    """Which changes of a plan to apply: all, or those of `accept`; without those of `reject`."""

    accept = serializers.ListField(
        child=serializers.UUIDField(), max_length=MAX_CHANGES, default=None, allow_null=True
    )
    reject = serializers.ListField(child=serializers.UUIDField(), max_length=MAX_CHANGES, default=list)
    confirm_removals = serializers.BooleanField(default=False)


class ServerChangeSerializer(Strict):
    """The fields of an MCP server that a caller may set; `headers` maps names of headers to names of variables."""

    title = serializers.CharField(max_length=TITLE_LENGTH, allow_blank=True, default="")
    url = serializers.CharField(max_length=URL_LENGTH, allow_blank=True, default="")
    command_id = serializers.CharField(max_length=SLUG_LENGTH, allow_blank=True, default="")
    headers = serializers.DictField(child=serializers.CharField(max_length=200), default=dict)


class NewServerSerializer(ServerChangeSerializer):
    """A new MCP server."""

    slug = serializers.CharField(max_length=SLUG_LENGTH)
