"""Which stored endpoint each operation of a document is (SYN-6), and which name it has for it. Pure.

An operation is the stored one of its key and operationId; else the one of its operationId, which moved; else the one of its
key, whose operationId was changed. A tool that exists keeps its name: a new operation that wants the same one has to do
with another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from tools.imports.formats.names import short_hash, unused_name
from tools.imports.formats.specs import EndpointSpec


class ExistingEndpoint(NamedTuple):
    """A stored endpoint; `layered` if more than one document describes it."""

    pk: UUID
    key: str
    content_hash: str
    active: bool
    operation_id: str | None
    name: str
    layered: bool


class Matches(NamedTuple):
    """The stored endpoint of each operation, by the operation's key; and the keys of those that could be another one as well."""

    by_key: dict[str, ExistingEndpoint]
    unsure: list[str]


def operation_id_of(spec: EndpointSpec | None) -> str:
    """The operationId; empty where the document gives none."""
    return str(spec.metadata.get("operation_id") or "") if spec else ""


def match_endpoints(
    wanted: Mapping[str, str], existing: Collection[ExistingEndpoint], *, is_whole: bool, ids_win: bool
) -> Matches:
    """`wanted` maps each key that a source will have to its operationId. `is_whole`: what is not in it has gone. `ids_win`: an
    operation at the path of another one is the one of its operationId, so a path can be taken over.

    Nothing is guessed between two: an operationId decides only where one operation has it, before and after.
    """
    stored = {one.key: one for one in existing}
    found = {key: stored[key] for key, own in wanted.items() if key in stored and _own(stored[key]) == own}
    free = [
        one
        for one in existing
        if one.key not in found and (ids_win or one.key not in wanted) and (is_whole or not one.active)
    ]
    before, after = Counter(map(_own, free)), Counter(wanted.values())
    held = {_own(one) for one in existing if one.active} - {_own(one) for one in free if one.active}
    by_id = {_own(one): one for one in free}
    for key, own in wanted.items():
        # Where only what is at hand of a list is known, a path that is stored stays whose it is.
        is_open = key not in found and (is_whole or key not in stored)
        if own and is_open and own not in held and before[own] == after[own] == 1:
            found[key] = by_id[own]
    used = {one.pk for one in found.values()}
    by_path = {
        key: stored[key]
        for key in wanted
        if key not in found and key in stored and stored[key].pk not in used
    }
    ids = Counter(map(_own, existing))
    unsure = [key for key, one in by_path.items() if ids_win and wanted[key] and ids[wanted[key]]]
    return Matches(found | by_path, unsure)


def _own(one: ExistingEndpoint) -> str:
    return one.operation_id or ""


def vacated_key(key: str, pk: UUID) -> str:
    """The key of an endpoint whose path another one has taken over. No document has such a key."""
    return f"{key}~{short_hash(str(pk))}"


def with_kept_names(
    specs: Sequence[EndpointSpec], matches: Mapping[str, ExistingEndpoint], others: Iterable[str]
) -> list[EndpointSpec]:
    """The specs with the names that their tools have, as long as their operationIds stay; `others` are names of the source's
    tools that the document does not speak of."""
    names: dict[str, str] = {}
    taken = set(others)
    # Where two tools have one name, the one that agents have seen last keeps it.
    for spec in sorted(specs, key=lambda spec: spec.key in matches and not matches[spec.key].active):
        known = matches.get(spec.key)
        if known and _own(known) == operation_id_of(spec) and known.name not in taken:
            names[spec.key] = known.name
            taken.add(known.name)
    for spec in specs:
        if spec.key not in names and spec.name not in taken:
            names[spec.key] = spec.name
            taken.add(spec.name)
    for spec in specs:
        if spec.key not in names:
            names[spec.key] = unused_name(spec.name, spec.key, taken)
            taken.add(names[spec.key])
    return [spec if names[spec.key] == spec.name else replace(spec, name=names[spec.key]) for spec in specs]
