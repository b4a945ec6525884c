"""The shared cases that concern documents, each with the outcome that its case.md calls right (SYN-1)."""

from __future__ import annotations

import dataclasses
import json
import re
import socket
import subprocess
import sys
import time

import jsonschema  # type: ignore[import-untyped]
import pytest

from tests.support.imports.parsing import INPUTS, by_name, case, parse_openapi, parsed, places, shared
from tools.imports.formats.openapi.operations import MAX_INPUT_BYTES
from tools.imports.formats.schema_values import json_size
from tools.imports.formats.specs import DocumentRefused


def test_case_01_one_operation_id_in_two_documents_gives_each_its_own_endpoint_SYN_1() -> None:
    (shop,), (crm,) = case("01", "shop.json").endpoints, case("01", "crm.json").endpoints
    assert (shop.key, shop.name) == ("/items@get", "listItems")
    assert (crm.key, crm.name) == ("/contacts@get", "listItems")
    assert shop.content_hash() != crm.content_hash()


def test_case_03_long_names_are_distinct_and_the_same_on_every_import_SYN_1() -> None:
    names = [endpoint.name for endpoint in case("03", "doc.json").endpoints]
    assert len(set(names)) == len(names) == 5
    assert all(len(name) <= 64 for name in names)
    assert names == [endpoint.name for endpoint in case("03", "doc.json").endpoints]
    assert names[0].startswith("get_environmentId_secret-rotation-policies_by_policyId_")


@pytest.mark.parametrize(("name", "count"), [("cyclic-3.0.yaml", 6), ("cyclic-2.0.json", 2)])
def test_case_04_circular_schemas_are_carried_once_and_can_be_checked_SYN_1(name: str, count: int) -> None:
    started = time.process_time()
    found = case("04", name)
    assert time.process_time() - started < 1
    assert len(found.endpoints) == count
    for endpoint in found.endpoints:
        json.dumps(endpoint.input_schema)
        # A schema whose check never ends would raise RecursionError here.
        validator = jsonschema.Draft202012Validator(endpoint.input_schema)
        assert validator.is_valid({"body": {"next": {"next": {}}, "egg": {"hen": {}}}})


def test_case_04_a_parameter_that_only_circles_is_named_in_a_warning_SYN_1() -> None:
    found = case("04", "cyclic-3.0.yaml")
    assert places(by_name(found)["paramCycle"]) == []
    circling = (
        "/param@get: parameter: the reference '#/components/parameters/P1' leads in a circle; it is left out."
    )
    assert circling in found.warnings


def test_case_06_parameters_of_the_path_are_merged_by_name_and_place_SYN_1() -> None:
    found = by_name(case("06", "doc.yaml"))
    assert places(found["readAccount"]) == [
        ("accountId", "path", True),
        ("dryRun", "query", False),
        ("X-Trace", "header", False),
    ]
    assert places(found["dropAccount"]) == [
        ("accountId", "path", True),
        ("dryRun", "query", False),
        ("x-trace", "header", True),
    ]
    assert found["readAccount"].input_schema["properties"]["dryRun"] == {"type": "boolean"}
    assert found["dropAccount"].input_schema["properties"]["dryRun"]["enum"] == ["plan", "apply"]
    assert places(found["listThings"]) == [("limit", "query", False), ("limit", "header", False)]
    assert set(found["listThings"].input_schema["properties"]) == {"limit", "limit_header"}


def test_case_08_every_body_shows_its_media_type_and_form_fields_their_names_SYN_1() -> None:
    found = by_name(case("08", "doc.yaml"))
    assert len(found) == 9
    bodies = {
        name: (endpoint.metadata["body"]["media_type"], endpoint.metadata["body"]["required"])
        for name, endpoint in found.items()
        if endpoint.metadata["body"]
    }
    assert bodies == {
        "bulkAdd": ("application/json", True),
        "setNote": ("text/plain", False),
        "upload": ("multipart/form-data", False),
        "login": ("application/x-www-form-urlencoded", False),
        "patchCustomer": ("application/merge-patch+json", False),
        "putBlob": ("application/octet-stream", False),
        "addOrder": ("application/json", True),
    }
    assert places(found["upload"]) == [("file", "form", True), ("label", "form", False)]
    assert places(found["login"]) == [("user", "form", False), ("code", "form", False)]
    assert found["bulkAdd"].input_schema["properties"]["body"]["type"] == "array"
    assert found["bulkAdd"].input_schema["required"] == ["body"]
    assert found["putBlob"].input_schema["properties"]["body"] == {"type": "string", "format": "binary"}


def test_case_10_dates_and_words_of_yaml_stay_text_SYN_1() -> None:
    found = case("10", "doc.yaml")
    assert (found.version, len(found.endpoints)) == ("2022-01-16", 2)
    rates = by_name(found)["getRates"]
    assert rates.tags == ("2024", "yes")
    assert rates.input_schema["properties"]["country"]["enum"] == ["de", "no", "on", "off"]
    assert rates.input_schema["properties"]["code"]["examples"] == ["0123"]
    assert by_name(found)["addRate"].title == "12:30:45"
    assert (case("10", "float-version.yaml").format_version, case("10", "float-version.yaml").version) == (
        "3.0",
        "1.10",
    )


def test_case_11_external_references_are_named_and_never_opened_SYN_1() -> None:
    folder = next(iter(INPUTS.glob("cases/11-*")), None)
    raw = shared(f"cases/{folder.name}/doc.yaml" if folder else "missing")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        found = parse_openapi(raw.replace(b"PORT", str(listener.getsockname()[1]).encode()))
        listener.settimeout(0)
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert sorted(by_name(found)) == ["a", "b", "c", "e"]
    assert [left_out.operation for left_out in found.left_out] == ["/d"]
    told = " ".join((*found.warnings, found.left_out[0].reason))
    for reference in (
        "param.json#/P",
        "file:///etc/hostname",
        "../../../../etc/hostname",
        "path.json",
        "redirect-to-secret",
    ):
        assert reference in told


def test_case_14_doubling_references_cost_neither_time_nor_room_SYN_1() -> None:
    folder = next(iter(INPUTS.glob("cases/14-*")), INPUTS)
    shared(f"cases/{folder.name}/make.py")
    made = subprocess.run([sys.executable, folder / "make.py", "28"], check=True, capture_output=True)
    started = time.process_time()
    (endpoint,) = parse_openapi(made.stdout).endpoints
    assert time.process_time() - started < 1
    assert len(endpoint.input_schema["$defs"]) == 29
    assert json_size(endpoint.input_schema) <= MAX_INPUT_BYTES
    with pytest.raises(DocumentRefused, match="with its aliases it holds more than 2,000,000 values"):
        case("14", "aliases.yaml")


def test_case_16_inputs_of_swagger_2_SYN_1() -> None:
    found = by_name(case("16", "old.json"))
    assert [endpoint.path for endpoint in found.values()] == ["/appointments", "/appointments", "/photos"]
    assert {endpoint.metadata["base_path"] for endpoint in found.values()} == {"/api"}
    assert found["addPhoto"].metadata["servers"] == ["https://old.example.org/api"]
    assert places(found["listAppointments"])[0] == ("page", "query", False)
    assert found["listAppointments"].metadata["parameters"][1]["collectionFormat"] == "csv"
    assert found["listAppointments"].input_schema["properties"]["tags"] == {"type": "array", "items": {}}
    assert found["bookAppointment"].input_schema["required"] == ["body"]
    body = found["bookAppointment"].input_schema["properties"]["body"]
    assert body["properties"]["propertyList"] == {"type": "array", "items": {}}
    assert places(found["addPhoto"]) == [("file", "form", True), ("caption", "form", False)]
    assert found["addPhoto"].metadata["body"]["media_type"] == "multipart/form-data"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("cut.json", "cut.json is cut off: the JSON ends at line 1, column 107 before it is complete."),
        ("tabs.yaml", "tabs.yaml cannot be read as YAML: line 3, column 1: a tab is used to indent"),
        ("html.html", "html.html is an HTML or XML page"),
        ("empty.json", "empty.json is empty."),
        ("array.json", "array.json is not an OpenAPI document: its top level is a list"),
        ("notopenapi.yaml", "is not an OpenAPI document: it has neither 'openapi' nor 'swagger'."),
        ("latin1.yaml", "is not UTF-8 text: byte 0xFC at line 2, column 16."),
        ("twice.json", "twice.json has the key '/x' twice in one object, again at line 1."),
        ("future.yaml", "its 'openapi' is '4.0.0', and the versions read are 2.0, 3.0, 3.1 and 3.2."),
        ("v12.json", "its 'swaggerVersion' is '1.2', and the versions read are"),
    ],
)
def test_case_18_what_cannot_be_read_is_refused_with_a_reason_SYN_1(name: str, says: str) -> None:
    with pytest.raises(DocumentRefused, match=re.escape(says)):
        case("18", name)


def test_case_18_a_trailing_comma_is_taken_with_its_tool_and_a_warning_SYN_1() -> None:
    found = case("18", "trailing-comma.json")
    assert len(found.endpoints) == 1
    assert "not strict JSON" in found.warnings[0]


def test_case_20_what_3_1_writes_in_a_new_way_SYN_1() -> None:
    found = case("20", "doc.yaml")
    assert (found.format_version, sorted(by_name(found))) == ("3.1.1", ["getShared", "listPeople"])
    people = by_name(found)["listPeople"]
    properties = people.input_schema["properties"]
    assert people.deprecated
    assert properties["nick"]["type"] == ["string", "null"]
    assert properties["limit"] == {"type": "integer", "exclusiveMinimum": 0}
    assert properties["mode"] == {"const": "fast"}
    assert properties["lang"] == {"description": "Local words"}


def test_case_31_names_that_clean_to_one_stay_two_and_never_change_places_SYN_1() -> None:
    written = ["item.get", "item get", "item_get"]
    paths = {f"/{number}": {"get": {"operationId": name}} for number, name in enumerate(written)}
    turned = dict(reversed(paths.items()))
    first, second = (
        {endpoint.key: endpoint.name for endpoint in parsed(each).endpoints} for each in (paths, turned)
    )
    assert first == second
    assert first["/2@get"] == "item_get"
    assert len(set(first.values())) == 3


def test_case_40_the_name_as_written_is_kept_for_the_search_EMB_1() -> None:
    found = case("40", "doc.json")
    written = {endpoint.name: endpoint.metadata["operation_id"] for endpoint in found.endpoints}
    assert written["chat_postMessage"] == "chat.postMessage"
    assert written["C_Symbols"] == "C++Symbols"
    assert written["getUserById"] == "getUserById"


def test_case_42_control_characters_go_by_one_rule_everywhere_SYN_1() -> None:
    found = case("42", "doc.json")
    assert (len(found.endpoints), found.title) == (4, "Nultitle")
    assert [endpoint.title for endpoint in found.endpoints][:2] == ["beforeafter", "[31mred[0m bell"]
    assert found.endpoints[3].path == "/dd"
    everything = json.dumps(dataclasses.asdict(found), ensure_ascii=False)
    assert not re.search(r"\\u00|[\x00-\x1f\x7f-\x9f\ufffe\ud800-\udfff]", everything)
    assert any(warning.startswith("Control characters") for warning in found.warnings)
