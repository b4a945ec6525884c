"""SYN-1: a document in several files, uploaded as a zip or tar.gz; and archives that are made to hurt."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import time
from collections.abc import Callable

import pytest

from tests.support.imports.archives import MAIN, Files, _bytes, tarred, zipped
from tests.support.imports.limits import parse_document
from tests.support.imports.parsing import INPUTS, case
from tools.imports.formats.specs import DocumentRefused

USERS = {"get": {"operationId": "listUsers", "summary": "Lists users.", "parameters": [{"$ref": "../parts.yaml#/parameters/Page"}],
                 "responses": {"200": {"content": {"application/json": {"schema": {"$ref": "../openapi.json#/components/schemas/U"}}}}}}}  # fmt: skip
PARTS = {
    "parameters": {"Page": {"name": "page", "in": "query", "schema": {"$ref": "#/number"}}},
    "number": {"type": "integer"},
}
GOOD: Files = {
    "openapi.json": {**MAIN, "components": {"schemas": {"U": {"type": "string"}}}},
    "paths/users.json": USERS,
    "parts.yaml": PARTS,
}


def referring(count: int) -> Files:
    """A document with so many references to other files."""
    schemas = {f"S{n}": {"$ref": f"{n}.json"} for n in range(count)}
    return {**MAIN, "paths": {}, "components": {"schemas": schemas}}


@pytest.mark.parametrize("pack", [zipped, tarred])
@pytest.mark.parametrize("folder", ["", "api-main/", "./"])
def test_references_from_file_to_file_are_followed_inside_the_archive_SYN_1(
    pack: Callable[..., bytes], folder: str
) -> None:
    found = parse_document(pack(GOOD, folder), name="api.zip")
    (endpoint,) = found.endpoints
    assert (endpoint.key, endpoint.name) == ("/users@get", "listUsers")
    assert list(endpoint.input_schema["properties"]) == ["page"]
    assert list(endpoint.input_schema["$defs"].values()) == [{"type": "integer"}]
    assert endpoint.output_schema == {"type": "string"}
    assert found.warnings == ()


@pytest.mark.skipif(not INPUTS.is_dir(), reason="needs ../shared/inputs")
def test_a_real_document_in_five_files_gives_its_four_operations_SYN_1() -> None:
    root = INPUTS / "openapi" / "external-refs"
    files = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*.yaml")}
    found = parse_document(zipped(files), name="accounts.zip")
    assert [endpoint.key for endpoint in found.endpoints] == [
        f"/user_account@{method}" for method in ("get", "post", "delete", "patch")
    ]
    assert found.left_out == ()


def test_what_is_not_in_the_archive_is_named_and_not_opened_SYN_1() -> None:
    refs = [
        "../../etc/passwd",
        "/etc/passwd",
        "file:///etc/passwd",
        "http://127.0.0.1/x.json",
        "missing.json#/a",
    ]
    paths = {f"/{n}": {"get": {"parameters": [{"$ref": ref}]}} for n, ref in enumerate(refs)}
    found = parse_document(zipped({"openapi.json": {**MAIN, "paths": paths}}), name="api.zip")
    assert len(found.endpoints) == len(refs)
    assert found.warnings[0].startswith("References that lead to no file of the archive: 3")
    assert "root:" not in json.dumps(found.warnings)
    for ref in refs:
        assert any(f"'{ref}' leads outside the document" in warning for warning in found.warnings)


def test_files_that_refer_to_each_other_in_circles_are_read_once_SYN_1() -> None:
    files = {
        "openapi.json": {**MAIN, "paths": {"/a": {"get": {"requestBody": {"content": {"application/json": {
            "schema": {"$ref": "a.json"}}}}}}}},
        "a.json": {"type": "object", "properties": {"b": {"$ref": "b.json#/"}}},
        "b.json": {"type": "object", "properties": {"a": {"$ref": "a.json#"}}},
    }  # fmt: skip
    (endpoint,) = parse_document(zipped(files), name="api.zip").endpoints
    assert len(endpoint.input_schema["$defs"]) >= 1


def test_what_an_alias_shares_keeps_its_references_SYN_1() -> None:
    parts = (
        b"one: &one {schema: {$ref: '#/number'}, name: page, in: query}\ntwo: *one\nnumber: {type: integer}"
    )
    parameters = [{"$ref": "parts.yaml#/one"}, {"$ref": "parts.yaml#/two"}]
    main = {**MAIN, "paths": {"/a": {"get": {"summary": "A", "parameters": parameters}}}}
    found = parse_document(zipped({"openapi.json": main, "parts.yaml": parts}), name="api.zip")
    assert list(found.endpoints[0].input_schema["$defs"].values()) == [{"type": "integer"}]
    assert [warning for warning in found.warnings if "stands twice" not in warning] == []


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (zipped({"readme.md": b"hello"}), "holds no OpenAPI document"),
        (zipped({"a.json": {"x": 1}}), "holds no OpenAPI document"),
        (zipped({"a.json": MAIN, "b.json": MAIN}), r"several OpenAPI documents \(a.json, b.json\)"),
        (zipped({"openapi.json": b'{"openapi": '}), "openapi.json in api.zip is cut off"),
        (zipped(GOOD)[:200], "cannot be read as an archive"),
        (tarred(GOOD)[:60], "cannot be read as an archive"),
        (b"PK\x03\x04 nothing", "cannot be read as an archive"),
        (b"\x1f\x8b nothing", "cannot be read as an archive"),
        (zipped({f"{n}.json": {} for n in range(1001)}), "holds no OpenAPI document"),
        (
            zipped({"openapi.json": referring(1_001), **{f"{n}.json": {} for n in range(1_001)}}),
            "more than 1,000 files",
        ),
        (
            zipped({"openapi.yaml": b"openapi: 3.0.0\n\tpaths: {}", "x/openapi.json": MAIN}),
            "openapi.yaml in api.zip",
        ),
    ],
    ids=[
        "a readme",
        "no document",
        "two documents",
        "cut json",
        "cut zip",
        "cut tar",
        "no zip",
        "no gzip",
        "many files without a document",
        "many files that references lead to",
        "a broken document above a good one",
    ],
)
def test_an_archive_that_does_not_hold_one_document_is_refused_SYN_1(raw: bytes, said: str) -> None:
    with pytest.raises(DocumentRefused, match=said):
        parse_document(raw, name="api.zip")


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_an_archive_that_unpacks_to_much_is_refused_soon_S10(pack: Callable[..., bytes]) -> None:
    bomb = pack({"openapi.json": MAIN, **{f"{n}.json": b" " * 15_000_000 for n in range(12)}})
    assert len(bomb) < 300_000
    began = time.process_time()
    with pytest.raises(DocumentRefused, match="unpacks to more than 50 MB"):
        parse_document(bomb, name="api.zip")
    assert time.process_time() - began < 2


def test_links_and_paths_out_of_the_archive_are_passed_over_S10() -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, value in {"openapi.json": MAIN, "../../evil.json": USERS}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(_bytes(value))
            archive.addfile(entry, io.BytesIO(_bytes(value)))
        link = tarfile.TarInfo("paths/users.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    found = parse_document(made.getvalue(), name="api.tar.gz")
    assert (found.endpoints, found.operations) == ((), 1)


@pytest.mark.skipif(not INPUTS.is_dir(), reason="needs ../shared/inputs")
@pytest.mark.parametrize(
    "name", ["plain.zip", "k8s.zip", "helm.zip", "tsconfig.zip", "mac.tar.gz", "windows.zip"]
)
def test_case_59_files_that_no_reference_leads_to_are_not_read_SYN_1(name: str) -> None:
    found = case("59", name)
    (endpoint,) = found.endpoints
    assert endpoint.name == "listTrips"
    assert endpoint.output_schema is not None
    assert list(endpoint.output_schema["properties"]) == ["leavesAt"]
    assert found.warnings == ()


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_case_59_what_a_reference_leads_to_and_cannot_be_read_is_named_SYN_1(
    pack: Callable[..., bytes],
) -> None:
    files = {"notes.json": b"{broken", "more/openapi-template.yaml": b"openapi: {{ .Values.version }}"}
    broken = {"paths/users.json": b'{"get": '}
    found = parse_document(pack({**GOOD, **files, **broken}), name="api.zip")
    assert found.endpoints == ()
    assert [warning for warning in found.warnings if "paths/users.json in api.zip is cut off" in warning]
    assert "notes.json" not in json.dumps(found.warnings)


def test_case_58_a_document_that_is_packed_by_itself_is_unpacked_SYN_1() -> None:
    raw = json.dumps({**MAIN, "paths": {"/a": {"get": {"summary": "A", "operationId": "a"}}}}).encode()
    (endpoint,) = parse_document(gzip.compress(raw), name="doc.json.gz").endpoints
    assert endpoint.name == "a"
    (endpoint,) = parse_document(gzip.decompress(tarred({"openapi.json": raw})), name="api.tar").endpoints
    assert endpoint.name == "a"


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (gzip.compress(b" " * 30_000_000, mtime=0), "unpacks to more than 20,000,000 bytes"),
        (gzip.compress(b"{}" * 1_000, mtime=0)[:-9], "ends before it is complete"),
        (gzip.compress(b"hello", mtime=0), "is not an OpenAPI document"),
    ],
)
def test_case_58_a_packed_document_has_the_bounds_of_any_other_S10(raw: bytes, said: str) -> None:
    with pytest.raises(DocumentRefused, match=said):
        parse_document(raw, name="doc.json.gz")
