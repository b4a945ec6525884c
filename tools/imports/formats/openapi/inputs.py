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
_MORE_MEDIA_TYPES = f"media types of bodies beyond the first {_MAX_MEDIA_TYPES}"
_PLACES = {**{place: place for place in ("path", "query", "header", "cookie", "body")}, "formData": "form"}
_MULTIPART, _URLENCODED = "multipart/form-data", "application/x-www-form-urlencoded"
# From 3.0 on these headers belong to content, answers and security, and a parameter of that name is to be
# ignored.
_RESERVED_HEADERS = frozenset(("accept", "content-type", "authorization"))
_NO_CONTENT: JsonObject = {}
# The fields that are read of each part.
_OF_PARAMETERS = frozenset(
    ("$ref", "name", "in", "description", "required", "deprecated", "schema", "example", "examples", "style", "explode", "allowReserved",
     "allowEmptyValue", "collectionFormat")
)  # fmt: skip
_WITH_CONTENT = _OF_PARAMETERS | {"content"}
_OF_BODIES = frozenset(("$ref", "description", "required", "content"))
_OF_EXAMPLES = frozenset(("$ref", "value", "externalValue"))
_OF_CONTENT = frozenset(("schema", "example", "examples"))
_OF_MEDIA_TYPES = _OF_CONTENT | {"encoding"}
_TEXT = piece_of({"type": "string"})
_BYTES = piece_of({"type": "string", "format": "binary"})
_ANYTHING = piece_of({})


class Inputs(NamedTuple):
    """All that an operation takes; `body` describes the body as a whole, None where there is none."""

    values: tuple[Input, ...]
    body: JsonObject | None

    @property
    def has_required_body(self) -> bool:
        return self.body is not None and self.body["required"] is True


class _Content(NamedTuple):
    """Of the media types of a body: what the metadata says, which one is read, and what of the others is not carried over."""

    body: JsonObject
    media_type: str
    losses: tuple[str, ...]


class InputReader:
    """Reads the inputs of one document's operations."""

    def __init__(self, resolver: RefResolver, schemas: Schemas, *, swagger: bool) -> None:
        """`swagger`: the document is of version 2.0."""
        self._resolver = resolver
        self._schemas = schemas
        self._swagger = swagger
        self._forms = FormReader(resolver, schemas, self._count)
        # By the identity of a body's `content`, and whether the body is required.
        self._contents: dict[tuple[int, bool], _Content] = {}
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
            if ("body", "") in found:
                self._resolver.losses.note("a parameter in body beside a requestBody", where)
        elif ("body", "") in found:
            fields, body = self._swagger_body(found["body", ""], operation, where)
        elif forms := [parameter.value for (place, _), parameter in found.items() if place == "form"]:
            fields, body = [], self._swagger_form(forms, operation, where)
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
        media: JsonObject = _NO_CONTENT
        if "schema" in parameter:
            piece = self._schemas.piece(parameter["schema"], where)
            self._resolver.note_unread(parameter, _OF_PARAMETERS, "of parameters", where)
        elif isinstance(content, dict) and content:
            media_type, written = next(iter(content.items()))
            media = as_object(written)
            piece = self._schemas.piece(media.get("schema"), where)
            serialization["contentType"] = truncate(media_type, MAX_PARAMETER_NAME)
            if len(content) > 1:
                self._resolver.losses.note("further media types of parameters", where)
            self._resolver.note_unread(parameter, _WITH_CONTENT, "of parameters", where)
            self._resolver.note_unread(media, _OF_CONTENT, "of parameters", where)
        else:
            piece = self._schemas.inline(parameter, where)
        required = place == "path" or parameter.get("required") is True
        annotations = self._annotations(resolved, piece, where, media)
        return Input(place, name, piece, annotations, required, serialization)

    def _swagger_body(
        self, resolved: Resolved, operation: JsonObject, where: str
    ) -> tuple[list[Input], JsonObject]:
        required = resolved.value.get("required") is True
        piece = self._schemas.piece(resolved.value.get("schema"), f"{where}: body")
        self._resolver.note_unread(resolved.value, _OF_PARAMETERS, "of parameters", where)
        value = Input("body", "body", piece, self._annotations(resolved, piece, where), required, {})
        consumed = self._consumed(operation, where) or ["application/json"]
        return [value], _body(consumed, required=required)

    def _swagger_form(self, fields: list[JsonObject], operation: JsonObject, where: str) -> JsonObject:
        consumed = [
            media_type
            for media_type in self._consumed(operation, where)
            if _base(media_type) in (_MULTIPART, _URLENCODED)
        ]
        has_file = any(field.get("type") == "file" for field in fields)
        media_types = [_MULTIPART] if has_file else consumed or [_URLENCODED]
        return _body(media_types, required=any(field.get("required") is True for field in fields))

    def _consumed(self, operation: JsonObject, where: str) -> list[str]:
        consumed = as_list(operation.get("consumes", self._resolver.tree.get("consumes")))
        if len(consumed) > _MAX_MEDIA_TYPES:
            self._resolver.losses.note(_MORE_MEDIA_TYPES, where)
        return [as_text(item) for item in consumed[:_MAX_MEDIA_TYPES] if as_text(item)]

    def _request_body(self, raw: JsonValue, where: str) -> tuple[Sequence[Input], JsonObject | None]:
        where = f"{where}: body"
        resolved = self._resolver.resolved(raw, where)
        if resolved is None:
            return [], None
        required = resolved.value.get("required") is True
        written = resolved.value.get("content")
        content = written if isinstance(written, dict) else _NO_CONTENT
        body, media_type, losses = self._content(content, required=required)
        for loss in losses:
            self._resolver.losses.note(loss, where)
        if media_type not in content:
            self._resolver.warnings.add(f"{where}: no media type is given; any value is allowed.")
        media = as_object(content.get(media_type))
        self._resolver.note_unread(resolved.value, _OF_BODIES, "of bodies", where)
        self._resolver.note_unread(media, _OF_MEDIA_TYPES, "of media types", where)
        resolved = resolved._replace(value=media)
        if _base(media_type) in (_MULTIPART, _URLENCODED):
            fields = self._forms.fields(media.get("schema"), media.get("encoding"), where)
            if fields or takes_nothing(media.get("schema")):
                self._note_texts(resolved, where)
                return fields, body
        if media.get("encoding"):
            self._resolver.losses.note("'encoding' of bodies that are one value", where)
        piece = self._schemas.piece(media["schema"], where) if "schema" in media else _default(media_type)
        value = Input("body", "body", piece, self._annotations(resolved, piece, where), required, {})
        return [value], body

    def _note_texts(self, form: Resolved, where: str) -> None:
        """The fields of a form carry their own texts and examples, and none of the whole."""
        if form.description.strip():
            self._resolver.losses.note("descriptions of forms", where)
        if form.value.get("example") is not None or form.value.get("examples"):
            self._resolver.losses.note("examples of forms", where)

    def _content(self, content: JsonObject, *, required: bool) -> _Content:
        found = self._contents.get((id(content), required))
        if found is None:
            media_types = list(islice(content, _MAX_MEDIA_TYPES))
            chosen = _chosen(media_types)
            own = as_object(content.get(chosen))
            others = [as_object(content[one]) for one in media_types if one != chosen]
            losses = {
                "the schemas of further media types of bodies": any(
                    one.get("schema") != own.get("schema") for one in others
                ),
                "examples of further media types of bodies": any(
                    one.get(key) not in (None, {}, own.get(key))
                    for one in others
                    for key in ("example", "examples")
                ),
                "'encoding' of further media types of bodies": any(
                    one.get("encoding") not in (None, {}, own.get("encoding")) for one in others
                ),
                _MORE_MEDIA_TYPES: len(content) > _MAX_MEDIA_TYPES,
                f"media types longer than {MAX_PARAMETER_NAME} characters": any(
                    len(one) > MAX_PARAMETER_NAME for one in media_types
                ),
            }
            told = tuple(loss for loss, is_lost in losses.items() if is_lost)
            found = _Content(_body(media_types, required=required), chosen, told)
            self._contents[id(content), required] = found
        return found

    def _annotations(
        self, resolved: Resolved, piece: Piece, where: str, media: JsonObject = _NO_CONTENT
    ) -> JsonObject:
        """What an operation says about a value beside its schema: its description wins, examples fill a gap. `media`: the media
        type of a parameter, which may have examples as well."""
        annotations: JsonObject = {}
        if text := plain_text(resolved.description, limit=MAX_TEXT):
            annotations["description"] = text
            if piece.schema.get("description", text) != text:
                self._resolver.losses.note("descriptions of schemas beside those of their inputs", where)
        if len(resolved.description) > MAX_TEXT:
            self._resolver.losses.note(f"descriptions of inputs beyond {MAX_TEXT:,} characters", where)
        if resolved.value.get("deprecated") is True:
            annotations["deprecated"] = True
        shown = piece.schema.get("examples", [])
        given = [one for source in (resolved.value, media) for one in self._examples(source, where)]
        given = [one for one in given if one not in shown]
        examples = [] if shown else [one for one in given[:MAX_EXAMPLES] if small(one) is not None]
        if len(examples) < len(given):
            self._resolver.losses.note(
                "examples of inputs that are long, many, or beside those of the schema", where
            )
        if examples:
            is_text = piece.schema.get("type") == "string"
            annotations["examples"] = as_written(examples) if is_text else examples
        return annotations

    def _examples(self, source: JsonObject, where: str) -> list[JsonValue]:
        """The values of `example` and of the named `examples`, also of those behind a reference."""
        found: list[JsonValue] = [] if source.get("example") is None else [source["example"]]
        named = source.get("examples")
        if named and not isinstance(named, dict):
            self._resolver.losses.note("examples that are not named", where)
        for one in islice(named.values(), MAX_EXAMPLES + 1) if isinstance(named, dict) else ():
            resolved = self._resolver.resolved(one, f"{where}: an example")
            if resolved is None:
                continue
            value = resolved.value.get("value")
            if value is not None:
                found.append(value)
            elif "externalValue" in resolved.value:
                self._resolver.losses.note("examples that stand outside the document", where)
            self._resolver.note_unread(resolved.value, _OF_EXAMPLES, "of examples", where)
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
