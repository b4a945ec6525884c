"""One JSON Schema per tool, never larger than a limit, with the definitions that it needs under `$defs`.

What is nearest to the tool is kept whole, what lies deeper is shortened or left out: examples first, then
long texts and long lists of allowed values (which turn into words of the description), then nested schemas. A
shortened schema never refuses what the full one allows. All sizes are bytes of compact JSON, and pieces are
shortened once a document, not once a tool.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tools.imports.formats.json_schema import LIST_KEYS, MAP_KEYS, SCHEMA_KEYS, Piece, Schemas, piece_of
from tools.imports.formats.schema_values import MAX_TEXT, json_size
from tools.imports.formats.specs import JsonObject, JsonValue
from tools.imports.formats.texts import truncate

# How much of the limit a single piece may take, from the first attempt to the last.
_SHARES = (1, 4, 16, 64, 256)
# Levels of nesting and characters per text that are kept, from the first cut to the last.
_SHORTENINGS = ((6, 500), (4, 300), (3, 200), (2, 150), (1, 100), (0, 60))
# A list of allowed values larger than this many bytes becomes a few words.
_LONG_ENUM = 1_000
_ENUM_WORDS = 10
# With less room than this, examples go.
_ROOM_FOR_EXAMPLES = 2_048
# Keywords that turn a looser schema inside them into a stricter whole.
_INVERTING = frozenset(
    ("not", "if", "then", "else", "unevaluatedItems", "unevaluatedProperties", "maxContains")
)
_NOT_SHOWN: JsonObject = {"description": "Not shown here: too large."}
_NOT_SHOWN_SIZE = json_size(_NOT_SHOWN)
_DEFS_SIZE = len(',"$defs":{}')
_OBJECT_SIZE = len('{"type":"object","properties":{},"required":[]}')


Definitions = dict[str, Piece | None]
"""Definitions by name, None where there is no room for one."""


class Part(NamedTuple):
    """A property of a tool: its schema, and what the operation says about it in addition (description …)."""

    name: str
    piece: Piece
    annotations: JsonObject
    required: bool


class FittedSchema(NamedTuple):
    """A schema within the budget, and whether something was shortened or left out. `loosened`: conditions and choices in it were
    taken away or widened because a part of them allows more than in the document."""

    schema: JsonObject
    shortened: bool
    loosened: bool = False


class SchemaBudget:
    """Fits the schemas of one document's tools into at most `limit` bytes each."""

    def __init__(self, schemas: Schemas, limit: int) -> None:
        self._schemas = schemas
        self._limit = limit
        self._rooms = [limit // share for share in _SHARES]
        # Keyed by the identity of pieces, whose first holder (the key's own piece) is kept in the value.
        self._fitted: dict[tuple[int, int], tuple[Piece, Piece]] = {}
        self._loose: dict[int, tuple[Piece, Piece]] = {}

    def fit_parameters(self, parts: Sequence[Part]) -> FittedSchema:
        """An object schema with the parts as its properties."""
        fitted, extras, costs = self._fit_parts(parts, self._rooms[0])
        if not self._all_fit(fitted, costs):
            # A smaller room never takes more, so if the smallest is not enough, none is.
            smallest = self._fit_parts(parts, self._rooms[-1])
            rooms = self._rooms[1:-1] if self._all_fit(smallest[0], smallest[2]) else []
            tries = (self._fit_parts(parts, room) for room in rooms)
            fitted, extras, costs = next((one for one in tries if self._all_fit(one[0], one[2])), smallest)
        chosen = self._affordable(parts, fitted, costs)
        refs = tuple(dict.fromkeys(ref for index in chosen for ref in fitted[index].refs))
        size = _OBJECT_SIZE + sum(costs[index] for index in chosen)
        definitions, shortened = self._definitions(refs, self._limit - size)
        shortened = shortened or any(fitted[index] is not part.piece for index, part in enumerate(parts))
        schema: JsonObject = {"type": "object", "properties": {}}
        used = [fitted[index] for index in chosen]
        loose = shortened or _has_open_choice(used, definitions)
        for index in chosen:
            piece = self._loosened(fitted[index]) if loose else fitted[index]
            schema["properties"][parts[index].name] = {**piece.schema, **extras[index]}
        if required := [parts[index].name for index in chosen if parts[index].required]:
            schema["required"] = required
        schema |= self._section(definitions, loose=loose)
        shortened = shortened or len(chosen) < len(parts)
        return FittedSchema(schema, shortened, loose and not shortened and self._differ(used, definitions))

    def fit_schema(self, piece: Piece) -> FittedSchema:
        """The schema of an answer; of a mere reference the target is shown, as agents look at the top."""
        if piece.schema.keys() == {"$ref"}:
            piece = self._schemas.definition(piece.refs[0])
        for room in self._rooms:
            fitted = self._fit(piece, room)
            if self._enough(fitted.size, fitted.refs):
                break
        definitions, shortened = self._definitions(fitted.refs, self._limit - fitted.size)
        shortened = shortened or fitted is not piece
        loose = shortened or _has_open_choice([fitted], definitions)
        schema = (self._loosened(fitted) if loose else fitted).schema
        return FittedSchema(
            {**schema, **self._section(definitions, loose=loose)},
            shortened,
            loose and not shortened and self._differ([fitted], definitions),
        )

    def _differ(self, pieces: Sequence[Piece], definitions: Definitions) -> bool:
        """Whether loosening changes any of these pieces."""
        return any(
            self._loosened(piece) is not piece for piece in (*pieces, *filter(None, definitions.values()))
        )

    def _fit_parts(self, parts: Sequence[Part], room: int) -> tuple[list[Piece], list[JsonObject], list[int]]:
        """The piece, the annotations and the bytes of each part where a piece may take `room` bytes."""
        fitted = [
            part.piece if part.piece.size <= room else self._shortened(part.piece, room) for part in parts
        ]
        extras = [part.annotations and _annotations(part.annotations, room) for part in parts]
        costs = [
            piece.size + (json_size(extra) if extra else 0) + 2 * len(part.name.encode()) + 8
            for part, piece, extra in zip(parts, fitted, extras, strict=True)
        ]
        return fitted, extras, costs

    def _all_fit(self, fitted: Sequence[Piece], costs: Sequence[int]) -> bool:
        return self._enough(sum(costs), (ref for piece in fitted for ref in piece.refs))

    def _enough(self, size: int, refs: Iterable[str]) -> bool:
        return _OBJECT_SIZE + _DEFS_SIZE + size + _reserved(set(refs)) <= self._limit

    def _affordable(self, parts: Sequence[Part], fitted: Sequence[Piece], costs: Sequence[int]) -> list[int]:
        """The indexes of the parts that fit, required ones first in line: nearly always all of them."""
        if self._all_fit(fitted, costs):
            return list(range(len(parts)))
        known: set[str] = set()
        size = 0
        chosen = []
        for index in sorted(range(len(parts)), key=lambda index: (not parts[index].required, index)):
            more = known.union(refs) if (refs := fitted[index].refs) else known
            if self._enough(size + costs[index], more):
                known, size = more, size + costs[index]
                chosen.append(index)
        return sorted(chosen)

    def _definitions(self, refs: Sequence[str], room: int) -> tuple[Definitions, bool]:
        """The definitions that the references need, nearest first, None where there is no room; and whether any is shortened.
        Each name reserves the room of a stub when it is first met, so that no kept reference leads to nothing.
        """
        definitions: Definitions = dict.fromkeys(refs)
        room -= _DEFS_SIZE + _reserved(refs)
        waiting = deque(refs)
        shortened = False
        while waiting:
            name = waiting.popleft()
            for share in self._rooms:
                if room + _NOT_SHOWN_SIZE <= len("{}"):
                    shortened = True
                    break
                piece = self._fit(self._schemas.definition(name), share)
                new = [ref for ref in piece.refs if ref not in definitions]
                cost = piece.size - _NOT_SHOWN_SIZE + _reserved(new)
                if cost <= room:
                    room -= cost
                    shortened = shortened or piece is not self._schemas.definition(name)
                    definitions |= dict.fromkeys(new)
                    definitions[name] = piece
                    waiting.extend(new)
                    break
            else:
                shortened = True
        return definitions, shortened

    def _section(self, definitions: Definitions, *, loose: bool) -> JsonObject:
        if not definitions:
            return {}
        section: JsonObject = {}
        for name, piece in definitions.items():
            shown = self._loosened(piece) if piece and loose else piece
            section[name] = shown.schema if shown else _NOT_SHOWN
        return {"$defs": section}

    def _fit(self, piece: Piece, room: int) -> Piece:
        return piece if piece.size <= room else self._shortened(piece, room)

    def _shortened(self, piece: Piece, room: int) -> Piece:
        found = self._fitted.get((id(piece), room))
        if found is None:
            found = self._fitted[id(piece), room] = (piece, _shortened_to(piece, room))
        return found[1]

    def _loosened(self, piece: Piece) -> Piece:
        """A piece that allows at least the same; the piece itself where nothing is to be taken away."""
        found = self._loose.get(id(piece))
        if found is None:
            loose = _shorter(piece.schema, None, MAX_TEXT)
            found = self._loose[id(piece)] = (piece, piece if loose == piece.schema else piece_of(loose))
        return found[1]


def _has_open_choice(pieces: Sequence[Piece], definitions: Definitions) -> bool:
    """Whether a choice or a condition of these pieces, or of a definition, judges by a schema that allows more than in the document."""
    used = [*pieces, *filter(None, definitions.values())]
    if any(piece.has_open_choice for piece in used):
        return True
    if not any(piece.is_open for piece in used):
        return False
    waiting = {name for piece in used for name in piece.refs_in_choices}
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        seen.add(name)
        if (piece := definitions.get(name)) is not None:
            if piece.is_open:
                return True
            waiting |= set(piece.refs) - seen
    return False


def _reserved(names: Iterable[str]) -> int:
    return sum(len(name.encode()) + 4 + _NOT_SHOWN_SIZE for name in names)


def _annotations(annotations: JsonObject, room: int) -> JsonObject:
    kept = dict(annotations)
    if room < _ROOM_FOR_EXAMPLES:
        kept.pop("examples", None)
    if "description" in kept:
        kept["description"] = truncate(
            kept["description"], max(_SHORTENINGS[-1][1], min(MAX_TEXT, room // 8))
        )
    return kept


def loosened(schema: JsonObject) -> JsonObject:
    """A schema that allows at least the same, also where parts of it are missing."""
    return _shorter(schema, None, MAX_TEXT)


def _shortened_to(piece: Piece, room: int) -> Piece:
    if json_size(_shorter(piece.schema, *_SHORTENINGS[-1])) > room:  # so no other would be enough either
        return piece_of(_bare(piece.schema))
    for depth, text in _SHORTENINGS:
        shorter = _shorter(piece.schema, depth, text)
        size = json_size(shorter)
        if size <= room:
            return piece_of(shorter, size)
    return piece_of(_bare(piece.schema))


def _shorter(schema: JsonObject, depth: int | None, text: int) -> JsonObject:
    """A schema that allows at least the same; `depth` None only takes away what `_INVERTING` explains."""
    shorter: JsonObject = {}
    for key, value in schema.items():
        if key in _INVERTING or (depth is not None and key in ("examples", "title")):
            continue
        if key in SCHEMA_KEYS and isinstance(value, dict):
            shorter[key] = _below(value, depth, text)
        elif key in LIST_KEYS:
            # Two looser branches may both fit, which oneOf would refuse.
            name = "anyOf" if key == "oneOf" else key
            if key != "oneOf" or "anyOf" not in schema:
                shorter[name] = [_below(item, depth, text) for item in value]
        elif key in MAP_KEYS:
            shorter[key] = {name: _below(item, depth, text) for name, item in value.items()}
        elif key == "description":
            shorter[key] = truncate(value, text)
        else:
            shorter[key] = value
    if depth is not None and "enum" in shorter and json_size(shorter["enum"]) > _LONG_ENUM:
        words = _enum_words(shorter.pop("enum"))
        shorter["description"] = truncate(
            f"{shorter.get('description', '')} {words}".strip(), text + len(words) + 1
        )
    return shorter


def _below(schema: JsonObject, depth: int | None, text: int) -> JsonObject:
    if depth is None:
        return _shorter(schema, None, text)
    return _shorter(schema, depth - 1, text) if depth > 0 else _bare(schema)


def _bare(schema: JsonObject) -> JsonObject:
    bare: JsonObject = {}
    for key in ("type", "$ref"):
        if key in schema:
            bare[key] = schema[key]
    if "items" in schema and "array" in schema.get("type", ""):
        bare["items"] = {}
    return bare


def _enum_words(values: list[JsonValue]) -> str:
    shown = ", ".join(truncate(str(value), 30) for value in values[:_ENUM_WORDS])
    return f"One of {len(values):,} values: {shown} …"
