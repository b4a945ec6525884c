"""Whatever a document holds, it is read or refused, and what comes out keeps its promises (SYN-1)."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.imports.parsing import parse_openapi
from tools.imports.formats.specs import DocumentRefused, ParsedDocument

# The words of the format, so that arbitrary JSON reaches every branch.
WORDS = """
    openapi swagger info title version paths components schemas parameters requestBody requestBodies
    content schema $ref get put post delete trace query GET additionalOperations responses 200 default
    summary description operationId tags name in required type items properties allOf anyOf oneOf not
    enum nullable example examples style explode servers url variables security webhooks basePath host
    schemes consumes formData body header path cookie x-routing deprecated application/json
    multipart/form-data text/plain encoding additionalProperties const
""".split()  # noqa: SIM905 - a list of seventy lines reads worse
REFERENCES = (
    "#/components/schemas/a",
    "#/components/parameters/b",
    "#/paths/~1a",
    "#",
    "#/",
    "x.yaml",
    "#/info/title",
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 10**30),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from([*WORDS, *REFERENCES, "string", "array", "object", "file"]),
)
KEYS = st.sampled_from([*WORDS, "/a", "/{a}/b", "a", "b"]) | st.text(max_size=4)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=30,
)
OPERATION = st.dictionaries(KEYS, ANYTHING, max_size=5) | ANYTHING
SCHEMA = st.dictionaries(KEYS, ANYTHING, max_size=4) | ANYTHING
ITEM = st.dictionaries(
    st.sampled_from(["get", "post", "GET", "parameters", "$ref", "additionalOperations"]), OPERATION
)
DOCUMENT = st.fixed_dictionaries(
    {"paths": st.dictionaries(st.sampled_from(["/a", "/{a}/b", "c", "x-d"]), ITEM | ANYTHING)},
    optional={
        "openapi": st.sampled_from(["3.0.0", "3.1.0", "3.2.0"]),
        "swagger": st.sampled_from(["2.0", 2]),
        "components": st.fixed_dictionaries(
            {}, optional={"schemas": st.dictionaries(KEYS, SCHEMA), "parameters": ANYTHING}
        ),
        "info": ANYTHING,
        "servers": ANYTHING,
        "security": ANYTHING,
        "webhooks": ANYTHING,
    },
)


def check(found: ParsedDocument) -> None:
    """What holds for every document that is not refused."""
    json.dumps(dataclasses.asdict(found), allow_nan=False).encode()
    assert found.operations == len(found.endpoints) + len(found.left_out)
    names = [endpoint.name for endpoint in found.endpoints]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", name) for name in names)
    assert len({endpoint.key for endpoint in found.endpoints}) == len(names)
    for endpoint in found.endpoints:
        assert endpoint.input_schema["type"] == "object"
        assert all(
            re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name) for name in endpoint.input_schema["properties"]
        )
        for schema in (endpoint.input_schema, endpoint.output_schema or {}):
            references = re.findall(r'"\$ref": "#/\$defs/([^"]*)"', json.dumps(schema))
            assert set(references) <= schema.get("$defs", {}).keys() | {"a"}


@given(DOCUMENT)
@settings(max_examples=250, deadline=None)
def test_any_document_is_read_or_refused_and_read_twice_alike_SYN_1(written: dict[str, Any]) -> None:
    raw = json.dumps(written).encode()
    try:
        found = parse_openapi(raw)
    except DocumentRefused as refused:
        assert str(refused).endswith(".")  # noqa: PT017 - the message is what is tested, whenever there is one
        return
    check(found)
    again = parse_openapi(raw)
    assert again == found
    assert [each.content_hash() for each in again.endpoints] == [
        each.content_hash() for each in found.endpoints
    ]


@given(ANYTHING, st.text(max_size=20))
@settings(max_examples=200, deadline=None)
def test_any_json_is_read_or_refused_SYN_1(written: Any, name: str) -> None:
    try:
        check(parse_openapi(json.dumps(written).encode(), name=name))
    except DocumentRefused as refused:
        assert re.search("[\x00-\x1f\x7f]", str(refused)) is None  # noqa: PT017 - as above


IDS = st.sampled_from(["a", "a.b", "a b", "a_b", "", "é", "2x", "x" * 70, "x" * 71])
PATHS = st.sampled_from(["/a", "/a/{b}", "/a/by/b", "/b", "/ü"])
OPERATIONS = st.lists(st.tuples(IDS, PATHS), max_size=8, unique_by=lambda pair: pair[1])


@given(OPERATIONS, st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_names_do_not_depend_on_the_order_of_operations_SYN_1(
    operations: list[tuple[str, str]], random: Any
) -> None:
    def names(pairs: list[tuple[str, str]]) -> dict[str, str]:
        paths = {path: {"get": {"operationId": operation_id}} for operation_id, path in pairs}
        found = parse_openapi(json.dumps({"openapi": "3.0.0", "paths": paths}).encode())
        return {endpoint.key: endpoint.name for endpoint in found.endpoints}

    before = names(operations)
    random.shuffle(operations)
    assert names(operations) == before
