"""SYN-5: which parameters a schema has, what is said of each, and saying something else of one alone."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.catalogue.parameter_descriptions import parameter_descriptions, parameter_places, with_descriptions

Json = dict[str, Any]

PET: Json = {
    "type": "object",
    "required": ["body", "z"],
    "properties": {
        "a": {"description": "A."},
        "any": True,
        "none": False,
        "z": {"type": "string"},
        "body": {"$ref": "#/$defs/Pet", "description": "A pet."},
    },
    "$defs": {
        "Pet": {"allOf": [
            {"required": ["name"], "properties": {"name": {"type": "string"}}},
            {"properties": {"name": {"description": "Later."}, "pet": {"$ref": "#/$defs/Pet"}}},
        ]},
    },
}  # fmt: skip


def test_parameters_are_the_top_and_the_bodys_fields_behind_references_required_first() -> None:
    assert list(parameter_descriptions(PET).items()) == [
        ("body", "A pet."), ("body.name", "Later."), ("body.pet", ""), ("z", ""), ("a", "A."), ("any", ""), ("none", ""),
    ]  # fmt: skip
    assert [place.name for place in parameter_places(PET) if place.required] == ["body", "body.name", "z"]


def test_a_new_description_stands_alone_and_the_given_schema_stays() -> None:
    before = copy.deepcopy(PET)
    changed = with_descriptions(
        PET, {"body.name": "N.", "any": "Any.", "none": "None.", "a": "", "gone": "x"}
    )
    assert before == PET
    assert parameter_descriptions(changed) == {
        **parameter_descriptions(PET), "body.name": "N.", "any": "Any.", "none": "None.", "a": "",
    }  # fmt: skip
    assert changed["properties"]["any"] == {"description": "Any."}
    assert changed["properties"]["none"] == {"not": {}, "description": "None."}
    assert changed["properties"]["a"] == {}
    assert changed["properties"]["body"] == PET["properties"]["body"]
    assert with_descriptions(PET, {}) == PET


@pytest.mark.parametrize(
    "odd",
    [{}, {"properties": []}, {"properties": {"a": 5}}, {"required": 5, "properties": {"a": {}}}, {"allOf": {"a": 1}},
     {"$ref": "#/$defs/X", "$defs": {"X": {"$ref": "#/$defs/X"}}}, {"$ref": 5, "$defs": []}, {"$ref": "#/$defs/none"},
     {"properties": {"body": {"allOf": [{"$ref": "#/$defs/B"}]}}, "$defs": {"B": {"allOf": [{"$ref": "#/$defs/B"}]}}},
     {"properties": {"a": {"description": {"no": "text"}}}}]
)  # fmt: skip
def test_odd_schemas_and_circles_end_and_lose_nothing(odd: Json) -> None:
    names = parameter_descriptions(odd)
    assert with_descriptions(odd, {}) == odd
    texts = dict.fromkeys(names, "Said.")
    assert parameter_descriptions(with_descriptions(odd, texts)) == texts


schemas = st.recursive(
    st.fixed_dictionaries({}, optional={"type": st.just("string"), "description": st.text(max_size=5)}),
    lambda inner: st.fixed_dictionaries(
        {"properties": st.dictionaries(st.sampled_from(["a", "b", "body"]), inner, max_size=3)},
        optional={"required": st.lists(st.sampled_from(["a", "b"])), "allOf": st.lists(inner, max_size=2)},
    ),
    max_leaves=8,
)


@given(schemas, st.dictionaries(st.sampled_from(["a", "b", "body", "body.a", "body.b"]), st.text(max_size=5)))
def test_what_is_said_is_what_is_read_and_nothing_else_moves(schema: Json, texts: dict[str, str]) -> None:
    before = parameter_descriptions(schema)
    changed = with_descriptions(schema, texts)
    assert parameter_descriptions(changed) == {
        **before, **{name: text for name, text in texts.items() if name in before},
    }  # fmt: skip
    assert changed.keys() == schema.keys()
