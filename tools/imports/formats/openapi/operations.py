"""One operation of an OpenAPI document as an endpoint spec: texts, tags, schemas and how to call it.

All that it takes becomes one object schema, where the same name in two places stays two properties (see
`names.property_names`). The list `parameters` of the metadata says where each of them goes in a request; it is what a caller needs
to build one, and the only place that has a parameter's name as the document writes it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tools.imports.formats.json_schema import Schemas
from tools.imports.formats.names import property_names
from tools.imports.formats.openapi.answers import AnswerReader
from tools.imports.formats.openapi.inputs import InputReader, Inputs
from tools.imports.formats.openapi.parameters import Input
from tools.imports.formats.references import RefResolver
from tools.imports.formats.schema_budget import FittedSchema, Part, SchemaBudget
from tools.imports.formats.schema_values import json_size
from tools.imports.formats.specs import EndpointSpec, JsonObject, JsonValue, as_list, as_object
from tools.imports.formats.texts import as_text, cut_text, one_line, truncate

MAX_INPUT_BYTES = 32 * 1024
MAX_OUTPUT_BYTES = 16 * 1024
# What the tools of one document may take together. References make small documents say much: one whose tools would take
# more is read again with less room for each tool's schemas, and refused if even that is too much.
MAX_TOOLS_BYTES = 64 * 1024 * 1024
SHARES = (1, 4, 16)
MAX_TITLE = 300
_MAX_WORD = 200
_MAX_WORDS = 50
_MAX_SERVERS = 10
_NAMED_IN_WARNING = 5
_NULL_SIZE = len("null")
# What an operation may have, of 2.0 and 3.x.
_FIELDS = frozenset(
    ("tags", "summary", "description", "operationId", "parameters", "requestBody", "responses", "deprecated", "security", "servers",
     "consumes", "produces", "schemes")
)  # fmt: skip
# The order decides which place keeps the plain name when two use one name.
_PLACES = ("path", "query", "header", "cookie", "form", "body")
_VARIABLE = re.compile(r"\{([^{}]{1,100})\}")


class RawOperation(NamedTuple):
    """An operation as the document writes it, with its path item, and what of that is not read."""

    key: str
    method: str
    path: str
    item: JsonObject
    operation: JsonObject
    unread: tuple[str, ...] = ()

    @property
    def operation_id(self) -> str:
        """The operationId as written; empty if there is none."""
        return as_text(self.operation.get("operationId")).strip()


class _Parameters(NamedTuple):
    """`schema` is for the agent, `places` and `body` for the caller; `left_out` names what had no room."""

    schema: JsonObject
    places: list[JsonObject]
    body: JsonObject | None
    left_out: tuple[str, ...]
    shortened: bool
    loosened: bool


class OperationReader:
    """Reads one document's operations, and collects warnings that are given once for many of them."""

    def __init__(self, resolver: RefResolver, *, swagger: bool, share: int, max_description: int) -> None:
        """`share`: which part of the limits a tool's schemas may take, 1 for all, 4 for a quarter."""
        self._resolver = resolver
        self._max_description = max_description
        self._swagger = swagger
        # A field that only one side sends is not the other's; most documents have none, and one conversion of their schemas.
        requests = Schemas(resolver, without="readOnly")
        self._answered = Schemas(resolver, without="writeOnly") if resolver.marks else requests
        self._answers = AnswerReader(resolver, swagger=swagger)
        self._inputs = InputReader(resolver, requests, swagger=swagger)
        self._inputs_budget = SchemaBudget(requests, MAX_INPUT_BYTES // share)
        self._output_budget = SchemaBudget(self._answered, MAX_OUTPUT_BYTES // share)
        # Keyed by the identity of nodes of the document, which outlive this object.
        self._servers: dict[int, list[str]] = {}
        self._securities: dict[int, list[list[str]]] = {}
        # By the identity of the inputs, which the value keeps alive, and whether the form is required.
        self._of_forms: dict[tuple[int, bool], tuple[tuple[Input, ...], _Parameters]] = {}
        # Of definitions, by the identity of their schemas, which the budgets hold.
        self._definition_sizes: dict[int, int] = {}
        self._without_text: list[str] = []
        self._without_room: list[str] = []
        self._shortened: list[str] = []
        self._loosened: list[str] = []

    def endpoints(
        self, found: Sequence[RawOperation], names: Sequence[str]
    ) -> tuple[EndpointSpec, ...] | None:
        """The specs of operations that are to be called `names`; None if they take more than MAX_TOOLS_BYTES."""
        specs, left = [], MAX_TOOLS_BYTES
        for raw, name in zip(found, names, strict=True):
            spec = self.endpoint(raw, name)
            left -= json_size([spec.description, spec.tags, spec.metadata])
            left -= self._schema_size(spec.input_schema) + self._schema_size(spec.output_schema)
            if left < 0:
                return None
            specs.append(spec)
        self._summarise()
        return tuple(specs)

    def _schema_size(self, schema: JsonObject | None) -> int:
        """Bytes of a schema as JSON. The tools of a document share its definitions, so each is measured once."""
        definitions = schema.get("$defs") if schema else None
        if not schema or not definitions:
            return json_size(schema)
        size = json_size({**schema, "$defs": dict.fromkeys(definitions)})
        for definition in definitions.values():
            known = self._definition_sizes.get(id(definition))
            if known is None:
                known = self._definition_sizes[id(definition)] = json_size(definition)
            size += known - _NULL_SIZE
        return size

    def endpoint(self, raw: RawOperation, name: str) -> EndpointSpec:
        """The spec of an operation under the name `name`."""
        operation = raw.operation
        summary = operation.get("summary", raw.item.get("summary"))
        written = operation.get("description", raw.item.get("description"))
        description, is_cut = join_summary(summary, written, limit=self._max_description)
        if is_cut:
            self._resolver.warnings.add(cut_warning(raw.key, written, self._max_description))
        self._note_unread(raw)
        if not description:
            self._without_text.append(raw.key)
        parameters = self._parameters(self._inputs.inputs(raw.path, raw.item, operation, raw.key))
        if parameters.left_out:
            names = ", ".join(truncate(name, 50) for name in parameters.left_out[:_NAMED_IN_WARNING])
            self._without_room.append(
                f"{raw.key}: no room for {len(parameters.left_out):,} parameters: {names} …"
            )
        output = self._output(operation, raw.key)
        if parameters.shortened or (output and output.shortened):
            self._shortened.append(raw.key)
        if parameters.loosened or (output and output.loosened):
            self._loosened.append(raw.key)
        return EndpointSpec(
            key=raw.key,
            method=raw.method,
            path=raw.path,
            name=name,
            title=one_line(summary, limit=MAX_TITLE),
            description=description,
            tags=tuple(_words(operation.get("tags"))),
            input_schema=parameters.schema,
            output_schema=(output and output.schema) or None,
            metadata=self._metadata(raw, parameters.places, parameters.body),
            deprecated=operation.get("deprecated") is True,
        )

    def _note_unread(self, raw: RawOperation) -> None:
        operation, losses = raw.operation, self._resolver.losses
        self._resolver.note_unread(operation, _FIELDS, "of operations", raw.key)
        for what in raw.unread:
            losses.note(what, raw.path)
        if any(raw.item.get(text) and operation.get(text) for text in ("summary", "description")):
            losses.note("texts of paths beside those of their operations", raw.path)
        tags = as_list(operation.get("tags"))
        if len(tags) > _MAX_WORDS or any(len(as_text(tag)) > _MAX_WORD for tag in tags):
            losses.note(f"tags beyond {_MAX_WORDS}, or longer than {_MAX_WORD} characters", raw.key)

    def _parameters(self, inputs: Inputs) -> _Parameters:
        """The inputs of an operation as one schema. Operations that take the same form and nothing else share it."""
        if any(value.place != "form" for value in inputs.values):
            return _fit_inputs(inputs, self._inputs_budget)
        key = id(inputs.values), inputs.has_required_body
        found = self._of_forms.get(key)
        if found is None:
            found = self._of_forms[key] = inputs.values, _fit_inputs(inputs, self._inputs_budget)
        return found[1]._replace(body=inputs.body)

    def _summarise(self) -> None:
        for sentence in self._without_room:
            self._resolver.warnings.add(sentence)
        shortened = "with schemas too large to be shown whole, so that deeper parts are shortened"
        loosened = "whose oneOf, not and if are loosened, since a part allows more here than in the document"
        for what, keys in (
            ("without summary and description", self._without_text),
            (shortened, self._shortened),
            (loosened, self._loosened),
        ):
            named = ", ".join(truncate(key, 80) for key in keys[:_NAMED_IN_WARNING])
            more = " …" if len(keys) > _NAMED_IN_WARNING else ""
            if keys:
                self._resolver.warnings.add(f"Operations {what}: {len(keys):,} ({named}{more}).")

    def _output(self, operation: JsonObject, key: str) -> FittedSchema | None:
        shown = self._answers.shown(operation, key)
        return shown and self._output_budget.fit_schema(self._answered.piece(shown.schema, shown.where))

    def _metadata(self, raw: RawOperation, places: list[JsonObject], body: JsonObject | None) -> JsonObject:
        tree = self._resolver.tree
        metadata: JsonObject = {"parameters": places, "body": body}
        if raw.operation_id:
            metadata["operation_id"] = truncate(raw.operation_id, MAX_TITLE)
        if self._swagger:
            metadata["base_path"] = base_path(tree)
        owner = next((part for part in (raw.operation, raw.item) if as_list(part.get("servers"))), tree)
        if id(owner) not in self._servers:
            self._servers[id(owner)] = server_urls(owner, swagger=self._swagger)
        metadata["servers"] = self._servers[id(owner)]
        security = raw.operation.get("security", tree.get("security"))
        if isinstance(security, list):
            if id(security) not in self._securities:
                self._securities[id(security)] = _choices(security)
            metadata["security"] = self._securities[id(security)]
        words = raw.operation.get("x-semantic-keywords")
        if words is None:
            words = as_object(raw.operation.get("x-routing")).get("semanticKeywords")
        if keywords := _words(words.split(",") if isinstance(words, str) else words):
            metadata["routing"] = {"semanticKeywords": keywords}
        return metadata


def _fit_inputs(inputs: Inputs, budget: SchemaBudget) -> _Parameters:
    """Names the inputs and puts their schemas together."""
    values = sorted(inputs.values, key=lambda value: _PLACES.index(value.place))
    names = property_names([(value.place, value.name) for value in values])
    named = list(zip(names, values, strict=True))
    # A field that its form requires is not required where a request may go without the form.
    optional = () if inputs.has_required_body else ("form",)
    fitted = budget.fit_parameters(
        [
            Part(name, value.piece, value.annotations, value.required and value.place not in optional)
            for name, value in named
        ]
    )
    kept = fitted.schema["properties"]
    places: list[JsonObject] = []
    body = inputs.body
    for name, value in named:
        if name not in kept:
            continue
        if value.place == "body":
            body = {**(body or {}), "property": name}
        else:
            place = {"name": value.name, "in": value.place, "property": name, "required": value.required}
            places.append(place | value.serialization)
    left_out = tuple(value.name for name, value in named if name not in kept)
    return _Parameters(fitted.schema, places, body, left_out, fitted.shortened, fitted.loosened)


def _choices(security: list[JsonValue]) -> list[list[str]]:
    """The schemes of each way to be allowed in; an empty one needs none."""
    return [
        sorted(truncate(scheme, _MAX_WORD) for scheme in list(choice)[:_MAX_WORDS])
        for choice in security[:_MAX_WORDS]
        if isinstance(choice, dict)
    ]


def base_path(tree: JsonObject) -> str:
    """The basePath of a 2.0 document, which every path of it is relative to; empty for the root."""
    written = as_text(tree.get("basePath")).strip().strip("/")
    return f"/{truncate(written, _MAX_WORD)}" if written else ""


def server_urls(owner: JsonObject, *, swagger: bool) -> list[str]:
    """The URLs that the paths of a document, path item or operation hang on, variables at their defaults."""
    if swagger:
        host = truncate(as_text(owner.get("host")).strip(), _MAX_WORD)
        schemes = _words(owner.get("schemes")) or ["https"]
        return [f"{scheme}://{host}{base_path(owner)}" for scheme in schemes[:_MAX_SERVERS]] if host else []
    urls = (_server_url(server) for server in as_list(owner.get("servers"))[:_MAX_SERVERS])
    return list(dict.fromkeys(url for url in urls if url))


def _server_url(server: JsonValue) -> str:
    if not isinstance(server, dict):
        return ""
    variables = as_object(server.get("variables"))

    def default(match: re.Match[str]) -> str:
        value = as_text(as_object(variables.get(match[1])).get("default"))
        return truncate(value, _MAX_WORD) or match[0]

    return truncate(_VARIABLE.sub(default, as_text(server.get("url"))[:2_000]), 2_000)


def join_summary(summary: JsonValue, description: JsonValue, *, limit: int) -> tuple[str, bool]:
    """Summary and description in one text, unless one only repeats the other (empty if there is neither); and whether it is cut."""
    first, is_first_cut = cut_text(summary, limit=limit)
    text, is_cut = cut_text(description, limit=limit)
    is_cut = is_cut or is_first_cut
    if not first or not text:
        return first or text, is_cut
    short, long = first.casefold().rstrip("."), text.casefold().rstrip(".")
    if long.startswith(short):
        return text, is_cut
    if short.startswith(long):
        return first, is_cut
    both = f"{first}\n\n{text}"
    return truncate(both, limit), is_cut or len(both) > limit


def cut_warning(name: str, description: JsonValue, limit: int) -> str:
    return (
        f"{truncate(name, 200)}: its description has {len(as_text(description)):,} characters; the first {limit:,} are kept "
        "(DESCRIPTION_MAX_CHARACTERS)."
    )


def _words(value: JsonValue) -> list[str]:
    """A list of short texts (tags, keywords), each once; a single text counts as a list of one."""
    listed = as_list(value) if not isinstance(value, str) else [value]
    words = (one_line(word, limit=_MAX_WORD) for word in listed[: 10 * _MAX_WORDS])
    return list(dict.fromkeys(word for word in words if word))[:_MAX_WORDS]
