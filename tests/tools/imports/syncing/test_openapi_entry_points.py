"""Cases 11 and 18 beyond their files: a document reaches nothing while it is read, and a broken one stores nothing (SYN-1, SEC-2)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.api import assert_problem, upload
from tests.support.clients import make_api
from tests.support.imports.archives import MAIN, tarred, zipped
from tests.support.imports.documents import INPUTS, document, import_document
from tests.support.imports.parsing import shared
from tools.models import Endpoint, Source, SourceDocument, Sync, Tool

ROOT = Path(__file__).resolve().parents[4]
CASE_18 = sorted(path.name for path in INPUTS.glob("cases/18-*/*") if path.suffix != ".md")
# It happens to be valid YAML, and is taken with its tool.
READABLE = {"trailing-comma.json"}


def rows(tenant: Tenant) -> list[Any]:
    with tenant_context(tenant.pk):
        models = (Source, SourceDocument, Sync, Endpoint, Tool)
        return [sorted(map(str, model.objects.values_list())) for model in models]


@pytest.mark.parametrize("name", CASE_18)
def test_case_18_a_broken_upload_is_a_4xx_that_says_why_and_stores_nothing_SYN_1(
    committed: Tenant, name: str
) -> None:
    agent = make_api(committed)
    import_document(committed, document("a", "b"))
    before = rows(committed)
    raw = shared(f"cases/18-broken-document-said-saved/{name}")
    for source in ("shop", "new"):
        answer = upload(agent, raw, name=name, source=source)
        if name in READABLE:
            assert answer.status_code in (200, 409)
            continue
        assert 400 <= answer.status_code < 500
        said = assert_problem(answer, answer.status_code)["detail"]
        assert len(said) > 20
        assert "Traceback" not in said
        assert "tools.imports" not in said
        assert rows(committed) == before


# What the references of case 11 could reach: other hosts, files of the server, devices, other schemes.
OUTSIDE = [
    "http://127.0.0.1:{port}/a.json#/A", "http://localhost:{port}/a", "//127.0.0.1:{port}/a", "https://127.0.0.1:{port}/a", "file:///etc/hostname",
    "file://127.0.0.1/etc/hostname", "/etc/hostname", "../../../../../../etc/hostname", "..\\..\\etc\\hostname", "%2e%2e/%2e%2e/etc/hostname",
    "/proc/self/environ", "/dev/stdin", "ftp://127.0.0.1:{port}/a", "gopher://127.0.0.1:{port}/_a", "jar:http://127.0.0.1:{port}/a!/b", "\\\\127.0.0.1\\a",
    "data:application/json,%7B%7D", "urn:uuid:1", "mailto:a@b", "#a", "a.json", "./a.yaml#/A", "?a=b", "",
]  # fmt: skip
# Reads documents from its standard input with every event of the interpreter watched: an open file, a socket, a process.
WATCHED = """
import base64, json, sys
from tests.support.imports.limits import parse_document
documents = [base64.b64decode(line) for line in sys.stdin]
for raw in documents:
    parse_document(raw)  # what is imported late is imported now
said = []
sys.addaudithook(lambda event, arguments: said.append(event) if event.split('.')[0] in {NAMES} else None)
told = [[*found.warnings, *(one.reason for one in found.left_out)] for found in map(parse_document, documents)]
seen = sorted(set(said))
HOLE
print(json.dumps({'seen': sorted(set(said)), 'told': told}))
"""
NAMES = {
    "open",
    "socket",
    "subprocess",
    "os",
    "urllib",
    "http",
    "ftplib",
    "exec",
    "compile",
    "import",
    "ctypes",
    "shutil",
    "glob",
}


def watched(*documents: bytes, hole: str = "") -> dict[str, Any]:
    import base64

    code = WATCHED.replace("{NAMES}", repr(NAMES)).replace("HOLE", hole)
    lines = b"\n".join(map(base64.b64encode, documents))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, input=lines, check=True, capture_output=True
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def referring(port: int) -> list[bytes]:
    """Documents in which everything that may be a reference is one that leads outside."""
    refs = [ref.replace("{port}", str(port)) for ref in OUTSIDE]
    made = []
    for version in ("2.0", "3.0.3", "3.1.0"):
        paths: dict[str, Any] = {}
        for number, ref in enumerate(refs):
            node = {"$ref": ref}
            operation = {
                "parameters": [node, {"name": "q", "in": "query", "schema": node}, {"name": "b", "in": "body", "schema": node}],
                "requestBody": node if number % 2 else {"content": {"application/json": {"schema": node, "examples": {"a": node}}}},
                "responses": {"200": node if number % 3 else {"schema": node, "content": {"application/json": {"schema": node}}}},
                "callbacks": {"c": node}, "externalDocs": {"url": ref}, "servers": [{"url": ref}], "security": [node],
            }  # fmt: skip
            paths[f"/{number}"] = {"post": operation}
            paths[f"/path/{number}"] = node
        head = {"swagger": version} if version == "2.0" else {"openapi": version}
        schemas = {f"S{number}": {"allOf": [{"$ref": ref}], "discriminator": {"mapping": {"a": ref}}, "$id": ref, "$schema": ref}
                   for number, ref in enumerate(refs)}  # fmt: skip
        whole = {**head, "info": {"title": "T", "version": "1"}, "$ref": refs[0], "$schema": refs[0], "jsonSchemaDialect": refs[0],
                 "paths": paths, "components": {"schemas": schemas}, "definitions": schemas}  # fmt: skip
        made.append(json.dumps(whole).encode())
    files = {
        "openapi.json": json.loads(made[1]),
        "a/b.json": {"x": {"$ref": "../../../etc/hostname"}},
        "c.yaml": MAIN["info"],
    }
    return [*made, zipped(files), tarred(files)]


def test_case_11_nothing_is_opened_while_a_document_is_read_whatever_it_refers_to_SEC_2() -> None:
    documents = referring(9)
    result = watched(*documents)
    assert result["seen"] == []
    for told in result["told"]:
        assert any("leads outside the document" in sentence for sentence in told)
    secret = Path("/etc/hostname").read_text("utf-8").strip() if Path("/etc/hostname").exists() else ""
    assert not secret or secret not in json.dumps(result)


@pytest.mark.parametrize(
    "hole",
    [
        "open('/etc/hostname')",
        "import socket; socket.socket().connect_ex(('127.0.0.1', 9))",
        "import subprocess; subprocess.run('true')",
    ],
)
def test_case_11_a_reader_that_did_would_be_seen(hole: str) -> None:
    assert watched(json.dumps(MAIN).encode(), hole=hole)["seen"] != []
