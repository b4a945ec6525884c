"""Tools as a file that holds everything an operator or a source put there, and nothing that a portal makes of it: no vectors,
metrics, secrets or ids of rows. tools/imports/files/import_export.py reads it back without loss.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import yaml
from django.db.models.functions import Collate

from portal.json_types import JsonObject
from tools.imports.formats.specs import SPEC_FIELDS
from tools.models import Endpoint, ManualOverride, McpServer, Source, Tool

FORMATS = ("jsonl", "yaml")

# What is a row's own, or made by the portal.
_OF_THE_ROW = {"id", "tenant", "source", "endpoint", "version", "created_at", "updated_at", "updated_by", "search_text", "download_count"}  # fmt: skip
TOOL_FIELDS = tuple(field.name for field in Tool._meta.concrete_fields if field.name not in _OF_THE_ROW)
ENDPOINT_FIELDS = (*SPEC_FIELDS, "layers", "content_hash", "active", "deactivated_tool")
KEYS = {"deactivated_tool": "took_tool_down"}
"""The key in a file of each field that was renamed after files had been written."""
SOURCE_FIELDS = ("slug", "kind", "title", "document_title", "url", "sync_wins", "schedule", "auto_apply")
SERVER_FIELDS = ("slug", "title", "url", "command_id", "headers")
OVERRIDE_FIELDS = ("field", "value", "imported_value", "made_by", "made_at")


def entries(source: str = "") -> Iterator[JsonObject]:
    """Every tool of the current tenant, or of the source with this slug, in the order of namespace and tool_id."""
    tools = with_all(Tool.objects.filter(source__slug=source) if source else Tool.objects.all())
    # By bytes: whatever a database thinks of languages, the same tools give the same file.
    ordered = tools.order_by(Collate("namespace", "C"), Collate("tool_id", "C"))
    return map(entry, ordered.iterator(chunk_size=500))


def with_all(tools: Any) -> Any:
    """The query with all that `entry` reads."""
    return tools.select_related("endpoint", "source__server").prefetch_related("overrides")


def entry(tool: Tool) -> JsonObject:
    """All of one tool, as JSON has it."""
    return {
        **values(tool, TOOL_FIELDS),
        "source": _source(tool.source),
        "endpoint": None if tool.endpoint is None else values(tool.endpoint, ENDPOINT_FIELDS),
        "overrides": overrides(tool.overrides.all()),
    }


def overrides(rows: Iterable[ManualOverride]) -> list[JsonObject]:
    """A tool's overrides, in the order of their fields."""
    return sorted((values(one, OVERRIDE_FIELDS) for one in rows), key=lambda one: str(one["field"]))


def _source(source: Source | None) -> JsonObject | None:
    if source is None:
        return None
    server = None if source.server is None else values(source.server, SERVER_FIELDS)
    return {**values(source, SOURCE_FIELDS), "server": server}


def values(row: Tool | Source | Endpoint | McpServer | ManualOverride, names: Iterable[str]) -> JsonObject:
    """These fields of a row, as JSON has them."""
    return {KEYS.get(name, name): _plain(getattr(row, name)) for name in names}


def _plain(value: object) -> Any:
    """A moment by ISO 8601 in UTC, a decimal number as text, and a choice without its class."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return str(value) if isinstance(value, str | Decimal) else value


def written(found: Iterable[JsonObject], file_format: str) -> Iterator[str]:
    """The entries as text, one by one, in one of FORMATS."""
    return map(_yaml if file_format == "yaml" else _json, found)


def _json(one: JsonObject) -> str:
    return json.dumps(one, ensure_ascii=False, sort_keys=True) + "\n"


def _yaml(one: JsonObject) -> str:
    text: str = yaml.dump([one], Dumper=_Dumper, allow_unicode=True, sort_keys=True, width=120)
    return text


class _Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    """Texts that YAML 1.2 would read as numbers are quoted, whatever YAML 1.1 says; long ones keep their lines."""
    style = "|" if "\n" in text else '"' if text[:1] in tuple("+-.0123456789") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
