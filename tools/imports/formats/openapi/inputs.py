"""What an operation takes: its parameters and its body, read from OpenAPI 2.0's words or 3.x's.

Parameters of the path and of the operation are merged by name and place, the operation's own winning. The
fields of a form or multipart body become inputs of their own; any other body is one input. `operations` makes one schema
of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from tools.imports.formats.json_schema import Piece, Schemas, piece_of
from tools.imports.formats.openapi.forms import FormReader, takes_nothing
from tools.imports.formats.openapi.parameters import (
    MAX_PARAMETER_NAME,
    MAX_PARAMETERS,
    Input,
    serialization_of,
    variables_of,
)
from tools.imports.formats.references import RefResolver, Resolved
from tools.imports.formats.schema_values import MAX_EXAMPLES, MAX_TEXT, as_written, small
from tools.imports.formats.specs import DocumentRefused, JsonObject, JsonValue, as_list, as_object
from tools.imports.formats.texts import as_text, plain_text, truncate

# What operations may have beyond so many each, all together: the same parameters by `$ref` count at every use.
USUAL_PARAMETERS = 50
MAX_MORE_PARAMETERS = 150_000
_MAX_MEDIA_TYPES = 50
_PLACES = {**{place: place for place in ("path", "query", "header", "cookie", "body")}, "formData": "form"}
_MULTIPART, _URLENCODED = "multipart/form-data", "application/x-www-form-urlencoded"
# From 3.0 on these headers belong to content, answers and security, and a parameter of that name is to be
# ignored.
_RESERVED_HEADERS = frozenset(("accept", "content-type", "authorization"))
_NO_CONTENT: JsonObject = {}
_TEXT = piece_of({"type": "string"})
_BYTES = piece_of({"type": "string", "format": "binary"})
_ANYTHING = piece_of({})


class Inputs(NamedTuple):
    """All that an operation takes; `body` describes the body as a whole, None where there is none."""

    values: tuple[Input, ...]
    body: JsonObject | None


class InputReader:
    """Reads the inputs of one document's operations."""

    def __init__(self, resolver: RefResolver, schemas: Schemas, *, swagger: bool) -> None:
        """`swagger`: the document is of version 2.0."""
        self._resolver = resolver
        self._schemas = schemas
        self._swagger = swagger
        self._forms = FormReader(resolver, schemas, self._count)
        # By the identity of a body's `content`: whether its media types have different schemas.
        self._other_schemas: dict[int, bool] = {}
        self._bodies: dict[tuple[int, bool], tuple[JsonObject, str]] = {}
        self._of_operation = 0
        self._left = MAX_MORE_PARAMETERS

    def inputs(self, path: str, item: JsonObject, operation: JsonObject, where: str) -> Inputs:
        """The inputs of an operation; `item` is its path item, `where` names the operation in warnings."""
        self._of_operation = 0
        found = self._merged(item, operation, where)
        values = [
            self._parameter(place, parameter, where)
            for (place, _), parameter in found.items()
            if place != "body"
        ]
        values += self._variables(path, {name for place, name in found if place == "path"}, where)
        if (raw := operation.get("requestBody")) is not None:
            fields, body = self._request_body(raw, where)
        elif ("body", "") in found:
            fields, body = self._swagger_body(found["body", ""], operation, where)
        elif forms := [parameter.value for (place, _), parameter in found.items() if place == "form"]:
            fields, body = [], self._swagger_form(forms, operation)
        else:
            fields, body = [], None
        # A form alone stays the tuple that all operations with this form share.
        return Inputs((*values, *fields) if values else tuple(fields), body)

    def _variables(self, path: str, declared: set[str], where: str) -> Iterator[Input]:
        """The path's variables that no parameter declares."""
        seen: set[str] = set()
        for written, name in variables_of(path, declared):
            if not {written, name} & (seen | declared) and len(name) <= MAX_PARAMETER_NAME:
                self._resolver.warnings.add(
                    f"{where}: the path's {{{name}}} is not among the parameters; it is taken as text."
                )
                yield Input("path", name, _TEXT, {}, required=True, serialization={})
            seen |= {written, name}
        for name in sorted(declared - seen):
            self._resolver.warnings.add(
                f"{where}: parameter '{truncate(name, 100)}' has no place in the path."
            )

    def _merged(self, item: JsonObject, operation: JsonObject, where: str) -> dict[tuple[str, str], Resolved]:
        merged: dict[tuple[str, str], Resolved] = {}
        for owner in (item, operation):
            listed = owner.get("parameters")
            if listed is not None and not isinstance(listed, list):
                self._resolver.warnings.add(f"{where}: 'parameters' is not a list; it is left out.")
            own: set[tuple[str, str]] = set()
            for raw in as_list(listed):
                self._count()
                resolved = self._resolver.resolved(raw, f"{where}: parameter")
                if resolved and (key := self._key(resolved.value, where)):
                    if key not in merged and len(merged) >= MAX_PARAMETERS:
                        self._resolver.warnings.add(
                            f"{where}: parameters beyond the first {MAX_PARAMETERS:,} are left out."
                        )
                        break
                    if key in own:
                        named = f"parameter '{truncate(key[1], 100)}'" if key[1] else "a body"
                        self._resolver.warnings.add(
                            f"{where}: {named} in {key[0]} stands twice in one list; the last one counts."
                        )
                    own.add(key)
                    merged[key] = resolved
        return merged

    def _count(self, more: int = 1) -> None:
        unusual = max(self._of_operation - USUAL_PARAMETERS, 0)
        self._of_operation += more
        self._left -= max(self._of_operation - USUAL_PARAMETERS, 0) - unusual
        if self._left < 0:
            raise DocumentRefused(
                f"The document's operations take too many parameters: {MAX_MORE_PARAMETERS:,} beyond the first "
                f"{USUAL_PARAMETERS} of each."
            )

    def _key(self, parameter: JsonObject, where: str) -> tuple[str, str] | None:
        """Place and name, by which the operation's parameter replaces the path's; None if it is of no use."""
        name = as_text(parameter.get("name"))
        written = parameter.get("in")
        place = _PLACES.get(written) if isinstance(written, str) else None
        if place == "body":
            return place, ""
        if place is None or not name or len(name) > MAX_PARAMETER_NAME:
            problem = (
                "has no name"
                if not name
                else "has too long a name"
                if place
                else "stands in no place that is known"
            )
            self._resolver.warnings.add(
                f"{where}: parameter '{truncate(name, 100)}' {problem}; it is left out."
            )
            return None
        if place == "header" and not self._swagger and name.lower() in _RESERVED_HEADERS:
            self._resolver.losses.note("header parameters that OpenAPI has ignored (Accept …)", where)
            return None
        return place, name.lower() if place == "header" else name

    def _parameter(self, place: str, resolved: Resolved, where: str) -> Input:
        parameter = resolved.value
        name = as_text(parameter["name"])
        where = f"{where}: parameter '{name}'"
        serialization = serialization_of(parameter)
        content = parameter.get("content")
        if "schema" in parameter:
            piece = self._schemas.piece(parameter["schema"], where)
        elif isinstance(content, dict) and content:
            media_type, media = next(iter(content.items()))
            piece = self._schemas.piece(as_object(media).get("schema"), where)
            serialization["contentType"] = truncate(media_type, MAX_PARAMETER_NAME)
            if len(content) > 1:
                self._resolver.losses.note("further media types of parameters", where)
        else:
            piece = self._schemas.inline(parameter, where)
        required = place == "path" or parameter.get("required") is True
        return Input(place, name, piece, self._annotations(resolved, piece, where), required, serialization)

    def _swagger_body(
        self, resolved: Resolved, operation: JsonObject, where: str
    ) -> tuple[list[Input], JsonObject]:
        required = resolved.value.get("required") is True
        piece = self._schemas.piece(resolved.value.get("schema"), f"{where}: body")
        value = Input("body", "body", piece, self._annotations(resolved, piece, where), required, {})
        return [value], _body(self._consumed(operation) or ["application/json"], required=required)

    def _swagger_form(self, fields: list[JsonObject], operation: JsonObject) -> JsonObject:
        consumed = [
            media_type
            for media_type in self._consumed(operation)
            if _base(media_type) in (_MULTIPART, _URLENCODED)
        ]
        has_file = any(field.get("type") == "file" for field in fields)
        media_types = [_MULTIPART] if has_file else consumed or [_URLENCODED]
        return _body(media_types, required=any(field.get("required") is True for field in fields))

    def _consumed(self, operation: JsonObject) -> list[str]:
        consumed = operation.get("consumes", self._resolver.tree.get("consumes"))
        return [as_text(item) for item in as_list(consumed)[:_MAX_MEDIA_TYPES] if as_text(item)]

    def _request_body(self, raw: JsonValue, where: str) -> tuple[Sequence[Input], JsonObject | None]:
        where = f"{where}: body"
        resolved = self._resolver.resolved(raw, where)
        if resolved is None:
            return [], None
        required = resolved.value.get("required") is True
        content = resolved.value.get("content")
        content = content if isinstance(content, dict) else _NO_CONTENT
        body, media_type = self._body_of(content, required=required)
        media = content.get(media_type)
        if self._has_other_schemas(content, media_type):
            self._resolver.losses.note("the schemas of further media types of bodies", where)
        if media is None:
            self._resolver.warnings.add(f"{where}: no media type is given; any value is allowed.")
        media = as_object(media)
        if _base(media_type) in (_MULTIPART, _URLENCODED):
            fields = self._forms.fields(media.get("schema"), media.get("encoding"), where)
            if fields or takes_nothing(media.get("schema")):
                return fields, body
        piece = self._schemas.piece(media["schema"], where) if "schema" in media else _default(media_type)
        annotations = self._annotations(resolved._replace(value=media), piece, where)
        value = Input("body", "body", piece, annotations, required, {})
        return [value], body

    def _body_of(self, content: JsonObject, *, required: bool) -> tuple[JsonObject, str]:
        """What the metadata says of a body with this `content`, and which of its media types is read."""
        found = self._bodies.get((id(content), required))
        if found is None:
            media_types = list(islice(content, _MAX_MEDIA_TYPES))
            found = _body(media_types, required=required), _chosen(media_types)
            self._bodies[id(content), required] = found
        return found

    def _has_other_schemas(self, content: JsonObject, chosen: str) -> bool:
        found = self._other_schemas.get(id(content))
        if found is None:
            schemas = [as_object(media).get("schema") for media in islice(content.values(), _MAX_MEDIA_TYPES)]
            own = as_object(content.get(chosen)).get("schema")
            found = self._other_schemas[id(content)] = any(one != own for one in schemas)
        return found

    def _annotations(self, resolved: Resolved, piece: Piece, where: str) -> JsonObject:
        """What an operation says about a value beside its schema: its description wins, examples fill a gap."""
        annotations: JsonObject = {}
        if text := plain_text(resolved.description, limit=MAX_TEXT):
            annotations["description"] = text
        if len(resolved.description) > MAX_TEXT:
            self._resolver.losses.note(f"descriptions of inputs beyond {MAX_TEXT:,} characters", where)
        if resolved.value.get("deprecated") is True:
            annotations["deprecated"] = True
        given = self._examples(resolved.value, where)
        examples: list[JsonValue] = []
        if "examples" not in piece.schema:
            examples = [one for one in given[:MAX_EXAMPLES] if small(one) is not None]
        if len(examples) < len(given):
            self._resolver.losses.note(
                "examples of inputs that are long, many, or beside those of the schema", where
            )
        if examples:
            is_text = piece.schema.get("type") == "string"
            annotations["examples"] = as_written(examples) if is_text else examples
        return annotations

    def _examples(self, source: JsonObject, where: str) -> list[JsonValue]:
        """The values of `example`, else of the named `examples`, also of those behind a reference."""
        if source.get("example") is not None:
            return [source["example"]]
        found: list[JsonValue] = []
        named = source.get("examples")
        for one in islice(named.values(), MAX_EXAMPLES + 1) if isinstance(named, dict) else ():
            resolved = self._resolver.resolved(one, f"{where}: an example")
            value = resolved.value.get("value") if resolved else None
            if value is not None:
                found.append(value)
            elif resolved and "externalValue" in resolved.value:
                self._resolver.losses.note("examples that stand outside the document", where)
        return found


def is_json(media_type: str) -> bool:
    """Whether a media type is JSON of some kind."""
    base = _base(media_type)
    return base in ("application/json", "text/json") or base.endswith("+json")


def _base(media_type: str) -> str:
    return media_type.split(";", 1)[0].strip().lower()


def _body(media_types: list[str], *, required: bool) -> JsonObject:
    """What the metadata says about a body: the media type to send (JSON before forms), and all of them."""
    listed = [truncate(media_type, MAX_PARAMETER_NAME) for media_type in media_types]
    return {
        "media_type": truncate(_chosen(media_types), MAX_PARAMETER_NAME),
        "media_types": listed,
        "required": required,
    }


def _chosen(media_types: list[str]) -> str:
    return min(media_types, key=_rank, default="")


def _rank(media_type: str) -> int:
    base = _base(media_type)
    order = ("application/json", "+json", _MULTIPART, _URLENCODED)
    return next((rank for rank, end in enumerate(order) if base.endswith(end)), len(order) + ("*" in base))


def _default(media_type: str) -> Piece:
    """What a body is when the document gives no schema for it."""
    base = _base(media_type)
    if not base or is_json(base) or base == _URLENCODED:
        return _ANYTHING
    return _TEXT if base.startswith("text/") else _BYTES
