"""A source's documents in layers: which layer a document is, which endpoint an operation of it is about, and what comes of
all that the layers say of one endpoint. Pure but for the model's choices.

Words (title, description, tags, lifecycle, who may see it, keywords, descriptions of parameters) are those of the highest
layer that says something. The contract (method, path, inputs and their types, output) is the lowest layer's: where a
higher one says otherwise, that is told and not guessed about. What operators override counts more than every layer and is
not known here.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from portal.json_types import JsonObject, JsonValue
from tools.catalogue.parameter_descriptions import (
    BODY,
    Place,
    parameter_descriptions,
    parameter_places,
    with_descriptions,
)
from tools.imports.formats.specs import DocumentRefused, EndpointSpec, ParsedDocument, as_object
from tools.imports.formats.texts import truncate
from tools.models import Layer, SourceKind

_LAYER_LABELS = {
    Layer.EXTRACTION: "the source",
    Layer.API: "the LightAPI document of the API",
    Layer.ENDPOINT: "the LightAPI document of the endpoint",
}
_INPUT = re.compile(r"\s*\$\{input(?:\.([^{}]+))?\}\s*")
_VARIABLE = re.compile(r"\$?\{[^{}]*\}")
_PLACES = {"path": "path", "query": "query", "headers": "header"}


def layer_of(document: ParsedDocument, source_kind: str) -> Layer:
    """The layer that a document is in a source of this kind. Raises DocumentRefused where it is none of its layers."""
    is_overlay = document.kind == SourceKind.LIGHTAPI and source_kind != SourceKind.MANUAL
    if document.kind != source_kind and not is_overlay:
        kinds = SourceKind(source_kind).label, SourceKind(document.kind).label
        raise DocumentRefused(
            f"The source is of kind {kinds[0]} and the document of kind {kinds[1]}; import it under another name."
        )
    if document.kind != SourceKind.LIGHTAPI:
        return Layer.EXTRACTION
    of_endpoint = any(spec.metadata.get("profile") == "endpoint" for spec in document.endpoints)
    return Layer.ENDPOINT if of_endpoint else Layer.API


def base_layer(source_kind: str) -> Layer:
    """The lowest layer that a source of this kind has; an endpoint with no other needs no layers."""
    return Layer.API if source_kind == SourceKind.LIGHTAPI else Layer.EXTRACTION


class EndpointIndex:
    """Endpoints by their keys, to be asked which of them an operation of a higher layer is about."""

    def __init__(self, base: Mapping[str, EndpointSpec]) -> None:
        self._base = base
        self._found: dict[tuple[str, ...], set[str]] = defaultdict(set)
        for key, endpoint in base.items():
            for name in _identities(endpoint):
                self._found[name].add(key)

    def key_of(self, overlay: EndpointSpec) -> str | None:
        """The key of the endpoint that an operation of a higher layer is about: the one of the same key or endpointId, of the same
        operationId, of the same method and path (servers and names of variables aside), or the MCP tool or remote method of
        the same name. None where there is no such endpoint, or more than one."""
        call = overlay.metadata.get("call", {})
        same = self._base.get(overlay.key)
        if same is not None and (
            "endpoint_id" in overlay.metadata or _protocol(same) == call.get("protocol")
        ):
            return overlay.key
        for name in _identities_of_overlay(overlay, call):
            if len(found := self._found.get(name, set())) == 1:
                return next(iter(found))
        return None


def _identities(endpoint: EndpointSpec) -> Iterator[tuple[str, ...]]:
    """What an endpoint can be known by."""
    metadata, protocol = endpoint.metadata, _protocol(endpoint)
    if "endpoint_id" in metadata:
        yield "id", str(metadata["endpoint_id"])
    if protocol != "http":
        yield "call", protocol, endpoint.path
        return
    if operation_id := metadata.get("call", {}).get("operationId") or metadata.get("operation_id"):
        yield "operation", str(operation_id)
    yield "written", endpoint.method, endpoint.path
    prefixes = {
        "",
        metadata.get("base_path", ""),
        *(urlsplit(url).path.rstrip("/") for url in metadata.get("servers", ())),
    }
    for prefix in prefixes:
        yield "path", endpoint.method, _plain(prefix + endpoint.path)


def _identities_of_overlay(overlay: EndpointSpec, call: JsonObject) -> Iterator[tuple[str, ...]]:
    """The same of an operation of a higher layer, the surest first."""
    if "endpoint_id" in overlay.metadata:
        yield "id", overlay.metadata["endpoint_id"]
    if call.get("protocol") != "http":
        yield "call", str(call.get("protocol")), overlay.path
        return
    by_id = [("operation", str(call["operationId"]))] if "operationId" in call else []
    by_path = []
    if "endpoint" in call:
        by_path = [
            ("written", overlay.method, str(call["endpoint"])),
            ("path", overlay.method, _plain(str(call["endpoint"]))),
        ]
    yield from by_id + by_path if "source" in call else by_path + by_id


def _protocol(endpoint: EndpointSpec) -> str:
    return str(endpoint.metadata.get("call", {}).get("protocol", "http"))


def _plain(address: str) -> str:
    """The path of an address without its server, and with every variable as `{}`."""
    address = re.sub(r"\A(?:\$\{[^{}]*\}|[A-Za-z][A-Za-z0-9+.-]*://[^/]*)", "", address)
    return _VARIABLE.sub("{}", address.partition("?")[0])


def merge_layers(layers: Mapping[Layer, EndpointSpec]) -> tuple[EndpointSpec, tuple[str, ...]]:
    """What comes of one endpoint's layers, under the key of the lowest; and a sentence for each field of the contract about
    which a higher layer says something else. What the lowest leaves open (an output) a higher one may say."""
    lowest, *higher = sorted(layers, key=list(Layer).index)  # least telling first
    spec, warnings = layers[lowest], []
    for layer in higher:
        for field, other, own in _conflicts(layers[layer], layers[lowest]):
            warnings.append(
                f"{truncate(spec.key, 200)}: of its {field}, {_LAYER_LABELS[layer]} says {other} and {_LAYER_LABELS[lowest]} {own}; "
                f"the latter is kept."
            )
        spec = _overlay(spec, layers[layer])
    return spec, tuple(warnings)


def _overlay(base: EndpointSpec, overlay: EndpointSpec) -> EndpointSpec:
    provided = {
        name: value for name, value in overlay.metadata.get("tool", {}).items() if name != "tool_type"
    }
    own = dict(base.metadata.get("tool", {}))
    if "lifecycle" in provided:
        own.pop("visibility", None)  # which says that the operation was a draft
    words = {
        "tool": own | provided,
        "annotations": base.metadata.get("annotations", {}) | overlay.metadata.get("annotations", {}),
        "routing": overlay.metadata.get("routing"),
        "endpoint_id": overlay.metadata.get("endpoint_id"),
    }
    texts = parameter_descriptions(overlay.input_schema)
    inputs = _Inputs(overlay, base).names
    return replace(
        base,
        title=overlay.title or base.title,
        description=overlay.description or base.description,
        tags=overlay.tags or base.tags,
        input_schema=with_descriptions(
            base.input_schema, {own: texts[name] for name, own in inputs.items() if own and texts[name]}
        ),
        output_schema=base.output_schema or overlay.output_schema,
        metadata=base.metadata | {name: value for name, value in words.items() if value},
        deprecated=overlay.deprecated if "lifecycle" in provided else base.deprecated,
    )


class _Inputs:
    """The inputs that a higher layer describes, and which of the contract's they are: the one that its request mapping puts
    them in, else the one of the same name, beside the body or in it."""

    def __init__(self, overlay: EndpointSpec, base: EndpointSpec) -> None:
        self.overlay = {place.name: place for place in parameter_places(overlay.input_schema)}
        self.base = {place.name: place for place in parameter_places(base.input_schema)}
        request = overlay.metadata.get("call", {}).get("request")
        self._mapped = dict(_mapping(request, base)) if isinstance(request, dict) else {}
        sent = {source: name for name, source in self._mapped.items() if source}
        self.names = {
            name: next((one for one in (sent.get(name), name, f"{BODY}.{name}") if one in self.base), None)
            for name in self.overlay
        }

    def reached(self) -> set[str]:
        """Inputs of the contract that the higher layer fills, be it by a constant."""
        found = self._mapped.keys() | {name for name in self.names.values() if name}
        whole = BODY in found and not any(name.startswith(f"{BODY}.") for name in self.overlay)
        fields = {name for name in self.base if name.startswith(f"{BODY}.")}
        return found | (fields if whole else set()) | ({BODY} if fields else set())


def _required(places: Mapping[str, Place]) -> set[str]:
    """Names of the inputs that every call must have: a field of the body only where the body is one of them."""
    return {
        name
        for name, place in places.items()
        if place.required and (not name.startswith(f"{BODY}.") or places.get(BODY, place).required)
    }


def _mapping(request: JsonObject, base: EndpointSpec) -> Iterator[tuple[str, str]]:
    """(input of the contract, input of the higher layer that fills it, or "" for a constant) as the request mapping says."""
    properties = {(one["in"], one["name"]): one["property"] for one in base.metadata.get("parameters", ())}
    for part, place in _PLACES.items():
        for name, value in as_object(request.get(part)).items():
            yield properties.get((place, name), name), _source(value)
    for part in ("params", "arguments", "message"):
        for name, value in as_object(request.get(part)).items():
            yield name, _source(value)
    body = request.get("body")
    if body is not None and not isinstance(body, dict):
        yield BODY, _source(body)
    for name, value in as_object(body).items():
        yield f"{BODY}.{name}", _source(value)


def _source(value: JsonValue) -> str:
    found = _INPUT.fullmatch(value) if isinstance(value, str) else None
    return (found[1] or "") if found else ""


def _conflicts(overlay: EndpointSpec, base: EndpointSpec) -> Iterator[tuple[str, str, str]]:
    """Yields (field, value of the higher layer, value of the contract) wherever they differ."""
    call = overlay.metadata.get("call", {})
    if _protocol(overlay) != _protocol(base):
        yield "protocol", _protocol(overlay), _protocol(base)
    elif _protocol(overlay) != "http":
        if overlay.path != base.path:
            yield "path", _shown(overlay.path), _shown(base.path)
    else:
        if "method" in call and overlay.method != base.method:
            yield "method", overlay.method.upper(), base.method.upper()
        paths = {name[-1] for name in _identities(base) if name[0] == "path"}
        if "endpoint" in call and _plain(str(call["endpoint"])) not in paths:
            yield "path", _shown(str(call["endpoint"])), _shown(base.path)
    yield from _input_conflicts(overlay, base)
    if overlay.output_schema and base.output_schema:
        yield from _output_conflicts(overlay.output_schema, base.output_schema)


def _input_conflicts(overlay: EndpointSpec, base: EndpointSpec) -> Iterator[tuple[str, str, str]]:
    inputs = _Inputs(overlay, base)
    if not inputs.overlay:
        return  # it says nothing of the inputs
    required_by_overlay, required_by_base = _required(inputs.overlay), _required(inputs.base)
    for name, own in inputs.names.items():
        field = f"input '{truncate(name, 100)}'"
        if own is None:
            if not name.startswith(f"{BODY}.") or inputs.names.get(BODY):  # else the body is told already
                yield field, "that it exists", "that it does not"
            continue
        other = _types(inputs.overlay[name].schema, overlay.input_schema)
        yield from _type_conflict(field, other, _types(inputs.base[own].schema, base.input_schema))
        if (name in required_by_overlay) != (own in required_by_base):
            yield field, _need(required=name in required_by_overlay), _need(required=own in required_by_base)
    for name in sorted(required_by_base - inputs.reached()):
        yield f"input '{truncate(name, 100)}'", "nothing", "that it is required"


def _output_conflicts(overlay: JsonObject, base: JsonObject) -> Iterator[tuple[str, str, str]]:
    known = {place.name: place for place in parameter_places(base)}
    yield from _type_conflict("output", _types(overlay, overlay), _types(base, base))
    for place in parameter_places(overlay) if known else ():
        field = f"output '{truncate(place.name, 100)}'"
        if place.name not in known:
            yield field, "that it exists", "that it does not"
        else:
            other, ours = _types(place.schema, overlay), _types(known[place.name].schema, base)
            yield from _type_conflict(field, other, ours)


def _type_conflict(field: str, other: frozenset[str], ours: frozenset[str]) -> Iterator[tuple[str, str, str]]:
    if other and ours and other != ours:
        yield field, " or ".join(sorted(other)), " or ".join(sorted(ours))


def _types(schema: JsonValue, root: JsonObject, hops: int = 3) -> frozenset[str]:
    """The types that a schema names, null aside; empty where it names none."""
    if not isinstance(schema, dict) or not hops:
        return frozenset()
    named, reference, definitions = schema.get("type"), schema.get("$ref"), root.get("$defs")
    if named is None and isinstance(reference, str) and isinstance(definitions, dict):
        return _types(definitions.get(reference.removeprefix("#/$defs/")), root, hops - 1)
    listed = named if isinstance(named, list) else [named]
    return frozenset(one for one in listed if isinstance(one, str)) - {"null"}


def _need(*, required: bool) -> str:
    return "that it is required" if required else "that it is optional"


def _shown(path: str) -> str:
    return f"'{truncate(path, 200)}'"
