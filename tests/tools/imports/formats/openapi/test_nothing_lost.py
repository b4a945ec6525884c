"""SYN-1, point by point of any document: what it says of an operation's inputs, schemas, choices, examples and texts is shown by the
tool or named in a warning; and a tool's schemas refuse nothing that the document allows, and demand nothing that it forbids.

The oracles share no code with the importer: `tests/support/imports/said` walks the document, openapi-schema-validator judges values.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.imports.documents import OPENAPI, needs_inputs
from tests.support.imports.generated import VERSIONS, Maker
from tests.support.imports.instances import refused
from tests.support.imports.limits import load_document
from tests.support.imports.parsing import parse_openapi
from tests.support.imports.said import METHODS, alone, lost_in_silence

NAMES = sorted(path.name for path in OPENAPI.glob("*.*")) if OPENAPI.is_dir() else []
# Real documents are read one operation at a time, so that a warning of one cannot stand for another's loss.
QUICK_OPERATIONS, QUICK_BYTES = 3, 600_000
GENERATED, VALUES = 120, 6


def operations(tree: Any) -> list[tuple[str, str]]:
    return [
        (path, method)
        for path, item in (tree.get("paths") or {}).items()
        for method in METHODS
        if isinstance(item, dict) and isinstance(item.get(method), dict)
    ]


def check(tree: Any, chance: random.Random, values: int) -> int:
    """Both properties of one document; returns how many values were tried."""
    found = parse_openapi(json.dumps(tree).encode(), name="document.json")
    assert lost_in_silence(tree, found) == []
    tried = 0
    for spec in found.endpoints:
        count, wrong = refused(tree, spec, chance, values)
        assert wrong == []
        tried += count
    return tried


def check_real(name: str, count: int, values: int) -> None:
    tree: Any = load_document((OPENAPI / name).read_bytes()).value
    chance = random.Random(name)
    found = operations(tree)
    for path, method in chance.sample(found, min(count, len(found))):
        check(alone(tree, path, method), chance, values)


@needs_inputs
@pytest.mark.parametrize("name", [one for one in NAMES if (OPENAPI / one).stat().st_size < QUICK_BYTES])
def test_nothing_of_a_real_document_is_lost_in_silence_or_refused_SYN_1(name: str) -> None:
    check_real(name, QUICK_OPERATIONS, VALUES)


@pytest.mark.slow
@needs_inputs
@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_any_real_operation_is_lost_in_silence_or_refused_SYN_1(name: str) -> None:
    check_real(name, 60, 20)


def generated(seed: int, version: str, values: int) -> int:
    chance = random.Random(seed)
    return check(Maker(chance, version).document(), chance, values)


@given(st.integers(0, 2**32), st.sampled_from(VERSIONS))
@settings(max_examples=GENERATED, deadline=None, derandomize=True)
def test_nothing_of_a_generated_document_is_lost_in_silence_or_refused_SYN_1(seed: int, version: str) -> None:
    generated(seed, version, VALUES)


def test_the_check_notices_what_no_warning_names_and_what_a_schema_refuses_SYN_1() -> None:
    silent = narrow = 0
    for seed, version in enumerate(VERSIONS * 5):
        chance = random.Random(seed)
        tree = Maker(chance, version).document()
        found = parse_openapi(json.dumps(tree).encode(), name="document.json")
        silent += bool(lost_in_silence(tree, replace(found, warnings=())))
        (spec,) = found.endpoints
        demands = replace(spec, input_schema={**spec.input_schema, "required": ["no such input"]})
        narrow += bool(refused(tree, demands, chance, VALUES)[1])
    assert silent > 10
    assert narrow > 10


@pytest.mark.slow
@given(st.integers(0, 2**32), st.sampled_from(VERSIONS))
@settings(max_examples=4_000, deadline=None, derandomize=True)
def test_nothing_of_thousands_of_generated_documents_is_lost_in_silence_or_refused_SYN_1(
    seed: int, version: str
) -> None:
    generated(seed, version, VALUES)
