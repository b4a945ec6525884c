"""Case 60: schemas that are referred to by $anchor, $id or the document's own name are found without opening anything (SYN-1)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.imports.limits import parse_document
from tests.support.imports.parsing import by_name, case, document

DOG = {"type": "object", "required": ["barks"], "properties": {"barks": {"type": "boolean"}}}


def refer(ref: str, schemas: Any, *, version: str = "3.1.0", name: str = "zoo.yaml") -> Any:
    """The document with one body that is this reference, as parsed."""
    body = {"content": {"application/json": {"schema": {"$ref": ref}}}}
    raw = document(
        {"/x": {"post": {"summary": "X", "requestBody": body}}},
        version=version,
        components={"schemas": schemas},
    )
    return parse_document(raw, name=name)


def definitions(found: Any) -> list[Any]:
    return list(found.endpoints[0].input_schema.get("$defs", {}).values())


def test_case_60_anchor_id_and_own_name_lead_into_the_document_SYN_1() -> None:
    found = case("60", "kennel.yaml")
    assert found.warnings == ()
    required = {name: one.input_schema["$defs"] for name, one in by_name(found).items()}
    assert {name: [one["required"] for one in defs.values()] for name, defs in required.items()} == {
        "addDog": [["barks"]],
        "addCat": [["lives"]],
        "addBird": [["wingspan"]],
    }


@pytest.mark.parametrize(
    ("ref", "schemas"),
    [
        ("#dog", {"Dog": {"$anchor": "dog", **DOG}}),
        ("https://a.example/dog", {"Dog": {"$id": "https://a.example/dog", **DOG}}),
        ("https://a.example/dog#", {"Dog": {"$id": "https://a.example/dog#", **DOG}}),
        ("https://a.example/pets#dog", {"Pets": {"$id": "https://a.example/pets", "$defs": {"D": {"$anchor": "dog", **DOG}}}}),
        ("https://a.example/pets#/$defs/D", {"Pets": {"$id": "https://a.example/pets", "$defs": {"D": DOG}}}),
        ("dog", {"Dog": {"$id": "dog", **DOG}}),
        ("zoo.yaml#/components/schemas/Dog", {"Dog": DOG}),
        ("./zoo.yaml#/components/schemas/Dog", {"Dog": DOG}),
        ("zoo.yaml#dog", {"Dog": {"$anchor": "dog", **DOG}}),
    ],
)  # fmt: skip
def test_a_name_of_the_document_is_followed_inside_it_SYN_1(ref: str, schemas: Any) -> None:
    found = refer(ref, schemas)
    assert [one["required"] for one in definitions(found)] == [["barks"]]
    assert found.warnings == ()


def test_a_reference_inside_a_schema_with_an_id_is_relative_to_it_SYN_1() -> None:
    pets = {"$id": "https://a.example/pets", "type": "object", "properties": {"dog": {"$ref": "#/$defs/Dog"},
            "other": {"$ref": "dog2"}, "whole": {"$ref": "#/components/schemas/Cat"}}, "$defs": {"Dog": DOG}}  # fmt: skip
    schemas = {"Pets": pets, "Dog2": {"$id": "https://a.example/dog2", **DOG}, "Cat": {"type": "string"}}
    found = refer("#/components/schemas/Pets", schemas)
    assert found.warnings == ()
    assert [one.get("required", one.get("type")) for one in definitions(found)] == ["object", ["barks"], ["barks"], "string"]  # fmt: skip


def test_what_no_schema_is_called_is_told_and_not_opened_SYN_1() -> None:
    for ref in ("other.yaml#/components/schemas/Dog", "https://a.example/none", "file:///etc/passwd", "http://[", "#none"):  # fmt: skip
        found = refer(ref, {"Dog": DOG})
        assert any(ref in warning for warning in found.warnings), ref
        assert definitions(found) == []


def test_an_example_that_looks_like_a_schema_gives_no_name_SYN_1() -> None:
    found = refer("#dog", {"Dog": {"type": "object", "example": {"$anchor": "dog", **DOG}}})
    assert any("'#dog' leads to nothing" in warning for warning in found.warnings)
    # A property, an answer or a schema may be called so.
    found = refer("#dog", {"Dog": {"type": "object", "properties": {"default": {"$anchor": "dog", **DOG}}}})
    assert [one["required"] for one in definitions(found)] == [["barks"]]


def test_before_3_1_an_id_says_nothing_SYN_1() -> None:
    schemas = {"Dog": {"$id": "https://a.example/dog", "type": "object", "properties": {"a": {"$ref": "#/components/schemas/A"}}}, "A": {"type": "string"}}  # fmt: skip
    found = refer("#/components/schemas/Dog", schemas, version="3.0.3")
    assert found.warnings == ()
    assert json.dumps({"type": "string"}) in [json.dumps(one) for one in definitions(found)]


def test_a_dynamic_reference_is_named_in_a_warning_SYN_1() -> None:
    found = refer("#/components/schemas/Tree", {"Tree": {"type": "object", "properties": {"child": {"$dynamicRef": "#node"}}}})  # fmt: skip
    assert any(
        "'$dynamicRef' of schemas" in one and "#/components/schemas/Tree" in one for one in found.warnings
    )
