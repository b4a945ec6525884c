"""One tool of an export as unsaved rows: every field fits its column, and what is not given is as the portal makes it.

Whatever does not fit is a ValueError that says so in half a sentence, for a file may have been edited.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.core.validators import URLValidator
from django.db import models

from portal.http.bodies import storage_problem
from tools import fields
from tools.catalogue.projection import validation_error
from tools.imports.files import export as exports
from tools.imports.formats import tool_files
from tools.imports.formats.openapi.document import MAX_KEY_BYTES
from tools.imports.formats.specs import SPEC_FIELDS, EndpointSpec
from tools.imports.syncing.plan import spec_of_endpoint
from tools.models import PARAMETER_PREFIX, Endpoint, Layer, ManualOverride, McpServer, Source, Tool

ToolKey = tuple[str, str]  # namespace and tool_id
R = TypeVar("R", bound=models.Model)
_EXPECTED = {models.BooleanField: "true or false", models.FloatField: "a number", models.DecimalField: "a number",
         models.DateTimeField: "a moment with its time zone, like 2026-01-31T12:00:00+00:00", ArrayField: "a list of texts"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """One tool of a file. `source` is a row of its own for each entry, with its `server`; the rows are not saved and
    do not refer to each other yet."""

    place: str
    tool: Tool
    source: Source | None
    server: McpServer | None
    endpoint: Endpoint | None
    overrides: tuple[ManualOverride, ...]

    @property
    def key(self) -> ToolKey:
        """What the tool is known by."""
        return self.tool.namespace, self.tool.tool_id

    @property
    def name(self) -> str:
        """How people call the tool in a list of conflicts."""
        return "/".join(self.key)

    def is_same_as(self, tool: Tool) -> bool:
        """Whether a stored tool (loaded by `with_all` of export.py) is what the entry says, the settings of its source aside."""
        return (
            exports.values(self.tool, exports.TOOL_FIELDS) == exports.values(tool, exports.TOOL_FIELDS)
            and _slug(self.source) == _slug(tool.source)
            and _values(self.endpoint) == _values(tool.endpoint)
            and exports.overrides(self.overrides) == exports.overrides(tool.overrides.all())
        )


def _slug(source: Source | None) -> str:
    return source.slug if source else ""


def _values(endpoint: Endpoint | None) -> dict[str, Any]:
    return exports.values(endpoint, exports.ENDPOINT_FIELDS) if endpoint else {}


def read(place: str, value: Mapping[str, Any], *, namespace: str) -> Entry:
    """The entry at a place of a file; `namespace` is that of a tool that names none. Raises ValueError."""
    if reason := storage_problem(value):
        raise ValueError(reason)
    parts = {name: value.get(name) for name in ("source", "endpoint", "overrides")}
    own = {name: one for name, one in value.items() if name not in parts}
    tool = _row(Tool, exports.TOOL_FIELDS, {"namespace": namespace, "name": own.get("tool_id"), **own}, "")
    for name in ("tool_id", "name", "namespace"):
        if not getattr(tool, name).strip():
            raise ValueError(f"has an empty {name}")
    for name in ("parameters", "annotations", "output"):
        if not isinstance(getattr(tool, name), dict) and (name, getattr(tool, name)) != ("output", None):
            raise ValueError(f"the field {name} is not a JSON object")
    source, server = _source(parts["source"])
    endpoint = None if parts["endpoint"] is None else _endpoint(_mapping(parts["endpoint"], "endpoint"))
    if endpoint is not None and source is None:
        raise ValueError("has an endpoint and no source that it is of")
    if not isinstance(given := parts["overrides"] or [], list):
        raise ValueError("has overrides that are not a list")
    overrides = tuple(_override(_mapping(one, "override")) for one in given)
    if overrides and endpoint is None:
        raise ValueError("has overrides and no endpoint that they are over")
    if len({one.field for one in overrides}) < len(overrides):
        raise ValueError("has two overrides of one field")
    return Entry(place, tool, source, server, endpoint, overrides)


def _source(given: Any) -> tuple[Source | None, McpServer | None]:
    if given is None:
        return None, None
    given_fields = dict(_mapping(given, "source"))
    server = given_fields.pop("server", None)
    source = _row(Source, exports.SOURCE_FIELDS, given_fields, "source.")
    if not source.slug or not source.kind:
        raise ValueError("has a source without a slug or a kind")
    if source.url and not source.url.startswith(("http://", "https://")):
        raise ValueError("the field source.url is no address of HTTP")
    if server is None:
        return source, None
    return source, _row(McpServer, exports.SERVER_FIELDS, _mapping(server, "source.server"), "source.server.")


def _endpoint(given: Mapping[str, Any]) -> Endpoint:
    endpoint = _row(Endpoint, exports.ENDPOINT_FIELDS, {"input_schema": {}, **given}, "endpoint.")
    if not 0 < len(endpoint.key.encode()) <= MAX_KEY_BYTES:
        raise ValueError(f"has an endpoint.key that is empty, or longer than {MAX_KEY_BYTES:,} bytes")
    spec = _spec(endpoint, "endpoint")
    if not isinstance(endpoint.layers, dict):
        raise ValueError("the field endpoint.layers is not a JSON object")
    for layer, stored in endpoint.layers.items():
        if layer not in Layer.values:
            raise ValueError(
                f"has endpoint.layers with {layer!r}, which is none of {', '.join(Layer.values)}"
            )
        where = f"endpoint.layers.{layer}"
        if missing := set(SPEC_FIELDS) - _mapping(stored, where).keys():
            raise ValueError(f"has {where} without {', '.join(sorted(missing))}")
        _spec(_row(Endpoint, SPEC_FIELDS, stored, f"{where}."), where)
    if not endpoint.content_hash:
        endpoint.content_hash = spec.content_hash(endpoint.layers)
    return endpoint


def _spec(row: Endpoint, where: str) -> EndpointSpec:
    """What the endpoint, or a layer of it, says."""
    if not isinstance(row.tags, list) or not all(isinstance(tag, str) for tag in row.tags):
        raise ValueError(f"the field {where}.tags is not a list of texts")
    mappings = {
        "input_schema": row.input_schema,
        "output_schema": row.output_schema or {},
        "metadata": row.metadata,
    }
    for name in ("tool", "annotations", "routing", "call"):
        mappings[f"metadata.{name}"] = _mapping(row.metadata, f"{where}.metadata").get(name, {})
    for name, value in mappings.items():
        _mapping(value, f"{where}.{name}")
    _check_tool(row.metadata.get("tool", {}), f"{where}.metadata.tool.")
    _check_metadata(row.metadata, f"{where}.metadata")
    spec = spec_of_endpoint(row)
    if reason := validation_error(spec):
        raise ValueError(reason)
    return spec


def _check_tool(given: Mapping[str, Any], where: str) -> None:
    """Raises ValueError for metadata of a tool that no import could have made."""
    for name, value in given.items():
        if name not in tool_files.TOOL_METADATA:
            raise ValueError(f"the field {where}{name} is not one that a source provides for a tool")
        _fitting(Tool, name, value, where)


def _check_metadata(given: Mapping[str, Any], where: str) -> None:
    """What later plans of the source read. Raises ValueError."""
    for name in ("operation_id", "endpoint_id", "base_path", "profile"):
        if not isinstance(given.get(name, ""), str):
            raise ValueError(f"the field {where}.{name} is not a text")
    words = given.get("routing", {}).get("semanticKeywords", [])
    for name, value in (("servers", given.get("servers", [])), ("routing.semanticKeywords", words)):
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise ValueError(f"the field {where}.{name} is not {_EXPECTED[ArrayField]}")
    places = given.get("parameters", [])
    for place in places if isinstance(places, list) else [places]:
        place = _mapping(place, f"{where}.parameters")  # noqa: PLW2901 - the same, checked
        if not all(isinstance(place.get(name), str) for name in ("in", "name", "property")):
            raise ValueError(f"the field {where}.parameters has an entry without in, name and property")


def _override(given: Mapping[str, Any]) -> ManualOverride:
    if missing := set(exports.OVERRIDE_FIELDS) - given.keys():
        raise ValueError(f"has an override without {', '.join(sorted(missing))}")
    if given["value"] is None or given["imported_value"] is None:
        raise ValueError("has an override without a value, or without the imported one")
    override = _row(ManualOverride, exports.OVERRIDE_FIELDS, given, "override.")
    if override.field in fields.OVERRIDABLE:
        _fitting(Tool, override.field, override.value, "override.")
    elif not override.field.startswith(PARAMETER_PREFIX) or not isinstance(override.value, str):
        raise ValueError(
            f"has an override of {override.field!r}, which is no field that can be overridden so"
        )
    return override


def _row(model: type[R], names: Iterable[str], given: Mapping[str, Any], where: str) -> R:
    row = model()
    names_of_keys = {exports.KEYS.get(name, name): name for name in names}
    for key, value in given.items():
        name = names_of_keys.get(key)
        if name is None:
            raise ValueError(f"the field {where}{key} is not known")
        setattr(row, name, _fitting(model, name, value, where))
    return row


def _fitting(model: type[models.Model], name: str, value: Any, where: str) -> Any:
    """The value as the column has it. Raises ValueError."""
    column: Any = model._meta.get_field(name)
    if isinstance(column, models.JSONField) or (value is None and column.null):
        return value
    if not _is_of(column, value):
        raise ValueError(f"the field {where}{name} is not {_EXPECTED.get(type(column), 'a text')}")
    try:
        if isinstance(column, models.DecimalField):
            value = Decimal(str(value)).quantize(Decimal(1).scaleb(-column.decimal_places))
        elif isinstance(column, models.DateTimeField):
            value = _moment(value)
        if column.choices and value not in dict(column.flatchoices):
            raise ValueError(
                f"the field {where}{name} is none of {', '.join(str(one) for one, _ in column.flatchoices if one)}"
            )
        for validator in column.validators:
            # An address that was good enough to be read from has perhaps no dot.
            if value not in column.empty_values and not isinstance(validator, URLValidator):
                validator(value)
    except ValidationError as error:
        raise ValueError(f"the field {where}{name} does not fit: {' '.join(error.messages)}") from None
    except InvalidOperation:
        raise ValueError(f"the field {where}{name} is not a number, or too large a one") from None
    return value


def _is_of(column: models.Field[Any, Any], value: Any) -> bool:
    if isinstance(column, ArrayField):
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    if isinstance(column, models.BooleanField):
        return isinstance(value, bool)
    if isinstance(column, models.FloatField):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(column, models.DecimalField):
        return isinstance(value, str | int | float) and not isinstance(value, bool)
    return isinstance(value, str)


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ValueError(f"the field override.made_at is not {_EXPECTED[models.DateTimeField]}")
    return moment.astimezone(UTC)


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"the field {where} is not a JSON object")
    return value
