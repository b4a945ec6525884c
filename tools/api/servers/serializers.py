"""MCP servers as the API takes and shows them. They hold names of secrets, never a secret."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from tools.api.fields import BlankAsNullField, RowSerializer, StrictSerializer
from tools.api.schema.json_schema import BOOLEAN, TEXT, TEXTS, described
from tools.models import McpServer

SLUG_LENGTH, TITLE_LENGTH, URL_LENGTH = 100, 300, 2048


def headers_field(**kwargs: Any) -> serializers.DictField:
    return serializers.DictField(
        child=serializers.CharField(max_length=200),
        help_text="Names of HTTP headers, and for each the *name* of the environment variable that holds its value.",
        **kwargs,
    )


class ServerSerializer(RowSerializer):
    """A server as callers see it."""

    headers = headers_field(read_only=True)
    last_error = BlankAsNullField(
        source="shown_error", help_text="Null for a key that may not see every tool."
    )

    class Meta:
        model = McpServer
        fields = (
            "id", "slug", "title", "url", "command_id", "headers", "health", "synced_at", "last_error", "created_at", "updated_at",
        )  # fmt: skip


class ServerChangeSerializer(StrictSerializer):
    """The fields of an MCP server that a caller may set; `headers` maps names of headers to names of variables."""

    title = serializers.CharField(max_length=TITLE_LENGTH, allow_blank=True, default="")
    url = serializers.CharField(
        max_length=URL_LENGTH, allow_blank=True, default="", help_text="Of a server over streamable HTTP."
    )
    command_id = serializers.CharField(
        max_length=SLUG_LENGTH,
        allow_blank=True,
        default="",
        help_text="Of a command that the installation allows. Either this or `url`.",
    )
    headers = headers_field(default=dict)


class NewServerSerializer(ServerChangeSerializer):
    """A new MCP server."""

    slug = serializers.CharField(max_length=SLUG_LENGTH)


# The fields of a ServerReport.
TESTED = described(
    reachable=BOOLEAN, seconds={"type": "number", "minimum": 0}, error=TEXT, protocol_version=TEXT, server_name=TEXT,
    server_version=TEXT, tools=TEXTS, warnings=TEXTS,
)  # fmt: skip
