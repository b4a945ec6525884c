"""Names: of tools, of their parameters and of the schemas that they share.

Every name is made from the thing itself (an operation's id, or its method and path), never from its
neighbours' order, so that it is the same at every import. A name that had to be shortened, or that two things
would share, ends in a short hash of the thing's own key.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

MAX_NAME = 64
_HASH = 8
_TOOL_NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_-]{{0,{MAX_NAME - 1}}}")
_PROPERTY_NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{MAX_NAME}}}")
_PATH_WORD = re.compile(r"\{([^{}]*)\}|([^{}/]+)")


class NamedOperation(NamedTuple):
    """What an operation's name is made from; `operation_id` is empty where the document gives none."""

    key: str
    method: str
    path: str
    operation_id: str


def operation_names(operations: Sequence[NamedOperation]) -> list[str]:
    """A legal and distinct name for each operation, in the same order.

    Where several operations would get one name, it goes to the only one that wrote it exactly so as its
    operationId; all others, or all when two did, get a hash of their key.
    """
    candidates = [_candidate(operation) for operation in operations]
    claims: dict[str, list[int]] = {}
    for index, candidate in enumerate(candidates):
        claims.setdefault(candidate, []).append(index)
    names: dict[int, str] = {}
    for candidate, indexes in claims.items():
        exact = [index for index in indexes if operations[index].operation_id == candidate]
        winners = indexes if len(indexes) == 1 else exact if len(exact) == 1 else []
        names.update(dict.fromkeys(winners, candidate))
    taken = set(names.values())
    for index in sorted(range(len(operations)), key=lambda index: operations[index].key):
        if index not in names:
            names[index] = unused_name(candidates[index], operations[index].key, taken)
            taken.add(names[index])
    return [names[index] for index in range(len(operations))]


def property_names(parameters: Sequence[tuple[str, str]]) -> list[str]:
    """A property name for each (place, name), in the same order, legal as a key for every agent format.

    The first place that uses a name keeps it (the caller orders the places), a later one adds its own:
    `limit`, `limit_header`. Names that are legal as written go before names that had to be cleaned.
    """
    names: dict[int, str] = {}
    taken: set[str] = set()
    legal = {index for index, (_, name) in enumerate(parameters) if _PROPERTY_NAME.fullmatch(name)}
    for index in sorted(range(len(parameters)), key=lambda index: (index not in legal, index)):
        place, name = parameters[index]
        wanted = name if index in legal else _cleaned(name, "_.-")[:MAX_NAME] or place
        if wanted in taken:
            wanted = f"{wanted[: MAX_NAME - len(place) - 1]}_{place}"
        if wanted in taken:
            wanted = unused_name(wanted, f"{place}:{name}", taken)
        names[index] = wanted
        taken.add(wanted)
    return [names[index] for index in range(len(parameters))]


def definition_name(pointer: str) -> str:
    """The name under `$defs` of the schema at a JSON pointer: its own, where it is a named component."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")]
    is_component = steps[:-1] in (["components", "schemas"], ["definitions"])
    if is_component and _PROPERTY_NAME.fullmatch(steps[-1]):
        return steps[-1]
    return hashed_name(_cleaned(steps[-1] if is_component else "_".join(steps[-2:]), "_.-"), pointer)


def hashed_name(name: str, key: str) -> str:
    """The name, shortened if need be, with the hash of a key behind it."""
    return f"{name[: MAX_NAME - _HASH - 1]}_{short_hash(key)}"


def short_hash(key: str, length: int = _HASH) -> str:
    """The first hexadecimal digits of the key's SHA-256."""
    return hashlib.sha256(key.encode()).hexdigest()[:length]


def _candidate(operation: NamedOperation) -> str:
    written = operation.operation_id
    if _TOOL_NAME.fullmatch(written):
        return written
    cleaned = _starting_well(_cleaned(written, "_-"))
    if not cleaned:
        return _generated(operation)
    if len(cleaned) <= MAX_NAME:
        return cleaned
    return hashed_name(cleaned, operation.key)


def _generated(operation: NamedOperation) -> str:
    """From method and path, `get_users_by_id`; of a long path the end is kept, which tells most."""
    method = operation.method.lower()
    # A long path is cut before it is searched: its name could not hold more of it anyway.
    words = [method]
    for variable, text in _PATH_WORD.findall(operation.path[-500:]):
        if word := _cleaned(variable or text, "_-"):
            words.extend(["by", word] if variable else [word])
    name = "_".join(words) if words[1:] else f"{method}_root"
    if len(name) > MAX_NAME:
        tail = name[-(MAX_NAME - len(method) - _HASH - 2) :]
        # A word that would be cut in two goes as a whole, unless it is all there is.
        tail = (tail.partition("_")[2] or tail).lstrip("_-")
        name = f"{method}_{tail}_{short_hash(operation.key)}"
    return _starting_well(name)


def _cleaned(text: str, allowed: str) -> str:
    """Letters, digits and `allowed` stay, accents go, and any run of other characters becomes one `_`."""
    plain = "".join(
        char for char in unicodedata.normalize("NFKD", text[:500]) if not unicodedata.combining(char)
    )
    return re.sub(rf"[^A-Za-z0-9{re.escape(allowed)}]+", "_", plain).strip("_-.")


def _starting_well(name: str) -> str:
    return name if not name or name[0].isalpha() or name[0] == "_" else f"_{name}"


def unused_name(candidate: str, key: str, taken: set[str]) -> str:
    """The candidate with a hash of the key behind it that is none of the names `taken`."""
    for length in range(_HASH, 64):
        digits = short_hash(key, length)
        name = f"{candidate[: MAX_NAME - length - 1]}_{digits}"[:MAX_NAME]
        if name not in taken:
            return name
    raise AssertionError(f"two operations have one key: {key}")
