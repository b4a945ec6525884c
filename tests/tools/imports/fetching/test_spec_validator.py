"""What openapi-spec-validator finds is a warning and never a gate (SYN-1), whatever the document does to it (S10)."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from tests.support.imports.limits import LIMITS
from tests.support.imports.parsing import document, shared
from tools.imports.fetching import sandbox
from tools.imports.fetching.spec_validator import MAX_FINDINGS, MAX_VALUES
from tools.imports.formats.specs import ParsedDocument

NAME = "openapi-spec-validator"
OK = {"200": {"description": "ok"}}


def read(raw: bytes) -> ParsedDocument:
    return sandbox.parse("openapi", raw, name="a.json", limits=LIMITS)


def found(raw: bytes) -> list[str]:
    """The findings; the document has given its one tool all the same."""
    parsed = read(raw)
    assert len(parsed.endpoints) == 1
    return [one for one in parsed.warnings if one.startswith(NAME)]


def with_schema(schema: Any, **fields: Any) -> bytes:
    parameter = {"name": "a", "in": "query", "schema": schema}
    return document({"/x": {"get": {"parameters": [parameter], "responses": OK}}}, **fields)


@pytest.mark.parametrize("version", ["2.0", "3.0.3", "3.1.0", "3.2.0"])
def test_what_the_validator_finds_is_a_warning_and_costs_no_tool_SYN_1(version: str) -> None:
    assert found(document({"/x": {"get": {"responses": OK}}}, version=version)) == []
    (finding,) = found(document({"/x": {"get": {"responses": OK, "summary": 7}}}, version=version))
    assert finding.startswith(f"{NAME}: #/paths/~1x")


def test_findings_have_a_bound_SYN_1() -> None:
    wrong = {f"/x{number}": {"get": {"responses": OK, "summary": 7}} for number in range(100)}
    findings = [one for one in read(document(wrong)).warnings if one.startswith(NAME)]
    assert len(findings) == MAX_FINDINGS + 1
    assert findings[-1] == f"{NAME} finds more than these {MAX_FINDINGS}."


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_a_reference_to_another_server_is_not_followed_by_the_check_S10(version: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/a.json"
        findings = found(with_schema({"allOf": [{"$ref": url}], "default": 1}, version=version))
        assert findings == [f"{NAME} did not come to its end: Unresolvable: {url}."]
        with pytest.raises(TimeoutError):
            listener.accept()


def test_a_pattern_that_never_ends_stops_the_check_alone_S10() -> None:
    schema = {"type": "string", "pattern": "^(a+)+$", "default": "a" * 40 + "!"}
    # What it found before depends on the processor, so a later import would tell of other findings.
    raw = document(
        {
            "/x": {
                "get": {
                    "parameters": [{"name": "a", "in": "query", "schema": schema}],
                    "responses": OK,
                    "summary": 7,
                }
            }
        }
    )
    assert found(raw) == [f"{NAME} was stopped before its end, so what it found is not shown."]


def test_a_large_document_is_not_checked_whatever_time_there_is_SYN_1() -> None:
    paths = {"/x": {"get": {"responses": OK, "summary": 7}}}
    assert len(found(document(paths, **{"x-values": [0] * (MAX_VALUES - 20)}))) == 1
    assert found(document(paths, **{"x-values": [0] * MAX_VALUES})) == [
        f"{NAME} was not asked: the document has more than 20,000 values."
    ]
    warnings = read(shared("openapi/netbox-3.0.json")).warnings
    assert warnings[-1] == f"{NAME} was not asked: the document has more than 20,000 values."


def test_case_57_variables_in_other_dress_get_no_warning_from_the_check_either_SYN_1() -> None:
    assert read(shared("cases/57-variables-in-other-dress/files.json")).warnings == ()


def test_a_document_of_numbers_that_json_writes_otherwise_is_checked_SYN_1() -> None:
    raw = with_schema({"type": "number", "default": 1.5}).replace(b"1.5", b"1.50")
    assert json.loads(raw)
    assert found(raw) == []
