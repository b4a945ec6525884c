"""What all readers of one document share: its values, its `$ref`s and the warnings.

A `$ref` is only ever looked up inside the document. One that leads outside is reported and never opened, so
that an uploaded document cannot make the server fetch or read anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import unquote

from tools.imports.formats.specs import JsonObject, JsonValue, as_object
from tools.imports.formats.texts import as_text, truncate

MAX_WARNINGS = 200
MAX_WARNING_LENGTH = 500
_MAX_HOPS = 100
MAX_LOSSES = 100
_MAX_PLACES = 10_000
_NAMED_PLACES = 3
_MAX_UNREAD = 10
_SAY_NOTHING: tuple[JsonValue, ...] = (None, False, "", [], {})
_IN_A_CIRCLE = "leads in a circle"


class Warnings:
    """Sentences for the operator, each once, in the order in which they were found."""

    def __init__(self, sentences: Iterable[str] = ()) -> None:
        self._found: dict[str, None] = {}
        self._more = 0
        for sentence in sentences:
            self.add(sentence)

    def add(self, sentence: str) -> None:
        """Keep the sentence, or only count it when there are many already."""
        sentence = truncate(sentence, MAX_WARNING_LENGTH)
        if sentence in self._found:
            return
        if len(self._found) < MAX_WARNINGS:
            self._found[sentence] = None
        else:
            self._more += 1

    def all(self) -> tuple[str, ...]:
        """At most `MAX_WARNINGS` sentences, and one that counts the rest."""
        return (*self._found, f"… and {self._more:,} more.") if self._more else tuple(self._found)


class Losses:
    """What of a document is not carried into its tools, told once for each kind of loss."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, None]] = {}
        self._places = 0
        self._more = 0

    def note(self, what: str, where: str) -> None:
        """Keep that `what` is not carried over at `where`; beyond MAX_LOSSES kinds only their number. A document may be made of
        nothing but words that nobody knows, so what is kept has a bound."""
        places = self._found.get(what)
        if places is None:
            if len(self._found) >= MAX_LOSSES:
                self._more += 1
                return
            places = self._found[what] = {}
        if not places or self._places < _MAX_PLACES:
            before = len(places)
            places[truncate(where, 100)] = None
            self._places += len(places) - before

    def sentences(self) -> tuple[str, ...]:
        """A sentence for each kind of loss, which names the first places: at most MAX_LOSSES, and one that counts the rest."""
        told = Warnings()
        for what, places in self._found.items():
            named = ", ".join(list(places)[:_NAMED_PLACES])
            more = " …" if len(places) > _NAMED_PLACES else ""
            at_least = "at least " if self._places >= _MAX_PLACES else ""
            told.add(f"Not carried over: {what}: {at_least}{len(places):,} ({named}{more}).")
        if self._more:
            told.add(
                f"Not carried over: more than {MAX_LOSSES} kinds of things; {self._more:,} more are not listed."
            )
        return told.all()


class Target(NamedTuple):
    """Where a `$ref` leads: the value, the normalised pointer to it, or the reason why there is none."""

    value: JsonValue
    pointer: str
    problem: str = ""


class Resolved(NamedTuple):
    """A mapping of the document (itself, not a copy) and the description that holds for it where it is used.

    A description beside the `$ref` wins over the one behind it. (2.0 and 3.0 say that it is to be ignored;
    but it was written for readers, and readers are what it is for.)
    """

    value: JsonObject
    description: str


class RefResolver:
    """Resolves the `$ref`s of one document inside of it, and collects the warnings of its reading."""

    def __init__(self, tree: JsonObject, *, siblings_count: bool, warnings: Warnings | None = None) -> None:
        """`siblings_count`: keywords beside a `$ref` in a schema are valid as well (from 3.1 on). `warnings`: those so far."""
        self.tree = tree
        self.siblings_count = siblings_count
        self.warnings = Warnings() if warnings is None else warnings
        self.losses = Losses()
        self.marks: frozenset[str] = frozenset()
        """Those of `readOnly` and `writeOnly` that a schema of the document has, as its reader found out."""
        self._targets: dict[str, Target] = {}
        # Keyed by the identity of nodes of the document, which outlive this object.
        self._values: dict[int, int] = {}
        self._unread: dict[tuple[int, str], tuple[str, ...]] = {}

    def note_unread(self, node: JsonObject, known: frozenset[str], of: str, where: str) -> None:
        """Notes the `unread` fields of a part of the document. By references, one part may stand in every operation, so each is
        looked at once."""
        found = self._unread.get((id(node), of))
        if found is None:
            found = self._unread[id(node), of] = unread(node, known, of)
        for what in found:
            self.losses.note(what, where)

    def target(self, ref: str) -> Target:
        """The value that a `$ref` finally leads to: a chain of mere references is followed to its end."""
        found = self._targets.get(ref)
        if found is None:
            found = self._targets[ref] = self._follow(ref)
        return found

    def resolved(self, node: JsonValue, where: str) -> Resolved | None:
        """The mapping behind a parameter, body or response; None, with a warning, if there is none."""
        nodes, problem = self.chain(node)
        last = nodes[-1]
        if problem or not isinstance(last, dict):
            problem = f"the {problem}" if problem else "a mapping is expected and something else is found"
            self.warnings.add(f"{where}: {problem}; it is left out.")
            return None
        described = (one["description"] for one in nodes if one.get("description") is not None)
        return Resolved(last, as_text(next(described, None)))

    def chain(self, node: JsonValue) -> tuple[list[Any], str]:
        """A node and all that its `$ref` leads to, one after the other; and why the last one's leads nowhere, or ""."""
        nodes: list[Any] = [node]
        seen: set[str] = set()
        while isinstance(node, dict) and isinstance(ref := node.get("$ref"), str):
            target = self.target(ref) if ref not in seen else Target(None, "", _IN_A_CIRCLE)
            if target.problem:
                return nodes, f"reference '{truncate(ref, 200)}' {target.problem}"
            seen.add(ref)
            node = target.value
            nodes.append(node)
        return nodes, ""

    def values(self, nodes: Iterable[JsonValue]) -> int:
        """How many values these nodes of the document hold; their references are not followed."""
        total = 0
        for node in nodes:
            if id(node) not in self._values:
                self._values[id(node)] = _values(node)
            total += self._values[id(node)]
        return total

    def _follow(self, ref: str) -> Target:
        seen: set[str] = set()
        while True:
            if not ref.startswith("#"):
                return Target(None, "", "leads outside the document and is not opened")
            if ref in seen or len(seen) > _MAX_HOPS:
                return Target(None, "", _IN_A_CIRCLE)
            seen.add(ref)
            target = self._at(ref)
            value = as_object(target.value)
            following = value.get("$ref")
            if not isinstance(following, str) or (self.siblings_count and len(value) > 1):
                return target
            ref = following

    def _at(self, ref: str) -> Target:
        nothing = Target(None, "", "leads to nothing")
        if not ref.startswith("#/"):
            return nothing
        steps: list[str] = []
        value = walk(self.tree, ref[1:], steps)
        if len(steps) < ref.count("/"):
            return nothing
        return Target(value, "/".join(step.replace("~", "~0").replace("/", "~1") for step in steps))


def unread(node: JsonObject, known: frozenset[str], of: str) -> tuple[str, ...]:
    """What to note of the fields of a part of a document that say something and are neither `known` nor extensions: `'field' of
    parameters`, where `of` is "of parameters". Beyond _MAX_UNREAD only that there are more."""
    fields = [
        key
        for key, value in node.items()
        if key not in known and not key.startswith("x-") and value not in _SAY_NOTHING
    ]
    named = tuple(f"'{truncate(field, 50)}' {of}" for field in fields[:_MAX_UNREAD])
    return (*named, f"further fields {of}") if len(fields) > _MAX_UNREAD else named


def _values(value: JsonValue) -> int:
    count, waiting = 0, [value]
    while waiting:
        count += 1
        value = waiting.pop()
        if isinstance(value, dict | list):
            waiting.extend(value.values() if isinstance(value, dict) else value)
    return count


def walk(value: Any, pointer: str, steps: list[str]) -> JsonValue:
    """The value as far as the pointer leads into another one; `steps` gets the keys on the way."""
    for part in pointer.split("/")[1:]:
        step = _step(value, part)
        if step is None:
            break
        value = value[int(step)] if isinstance(value, list) else value[step]
        steps.append(step)
    found: JsonValue = value
    return found


def _step(value: JsonValue, part: str) -> str | None:
    """The key (or index, as text) that a part of a JSON pointer names in a value, percent-encoded or not."""
    for written in (part, unquote(part)):
        key = written.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key in value:
            return key
        if isinstance(value, list) and re.fullmatch(r"0|[1-9][0-9]{0,6}", key) and int(key) < len(value):
            return key
    return None
