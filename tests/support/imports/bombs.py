"""Documents that are made to hurt whoever reads them, small ones mostly (S10); and a program that reads them one by one.

`python -m tests.support.imports.bombs` prints one JSON line for each: what was said, seconds, and the memory of both sides.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import re
import resource
import struct
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.imports.limits import LIMITS
from tools.imports.fetching import sandbox
from tools.imports.formats.specs import DocumentRefused

HEAD = '"openapi":"3.0.3","info":{"title":"T","version":"1"}'
ONE = '"paths":{"/x":{"get":{"operationId":"x","summary":"X","responses":{}}}}'
MB = 1_000_000


def whole(**parts: Any) -> bytes:
    """A document with one harmless operation, unless `parts` says otherwise."""
    document = {
        "openapi": "3.0.3",
        "info": {"title": "T", "version": "1"},
        **json.loads(f"{{{ONE}}}"),
        **parts,
    }
    return json.dumps(document).encode()


def beside(text: str) -> bytes:
    """The same with some JSON text under a key of its own."""
    return f'{{{HEAD},{ONE},"x-bomb":{text}}}'.encode()


def schemas(**named: Any) -> bytes:
    """A document whose one operation takes the schema A."""
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}}
    operation = {"operationId": "x", "summary": "X", "requestBody": body, "responses": {}}
    return whole(paths={"/x": {"post": operation}}, components={"schemas": named})


def doubled(lines: int, times: int) -> bytes:
    grown = [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * times)}]" for n in range(1, lines)]
    return "\n".join(["a0: &a0 [x]", *grown]).encode()


def zipped(*entries: tuple[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return made.getvalue()


def tarred(*entries: tarfile.TarInfo | tuple[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz", compresslevel=1) as archive:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                archive.addfile(entry)
            else:
                info = tarfile.TarInfo(entry[0])
                info.size = len(entry[1])
                archive.addfile(info, io.BytesIO(entry[1]))
    return made.getvalue()


def lying(size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """A tar.gz whose first header claims a size, and is followed by zeros."""
    info = tarfile.TarInfo("openapi.json")
    info.type = kind
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[124:136] = (b"\xff" if size < 0 else b"\x80") + (size % 256**11).to_bytes(11, "big")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return gzip.compress(bytes(header) + bytes(min(max(size, 0), 600 * MB)), 1)


def link(name: str, target: str, kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def overlapping(times: int) -> bytes:
    """A zip whose many entries are all one and the same compressed text."""
    one = zipped(("openapi.json", b" " * 40 * MB))
    at = one.index(b"PK\x01\x02")
    end = one.index(b"PK\x05\x06")
    return (
        one[:at]
        + one[at:end] * times
        + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, times, times, (end - at) * times, at, 0)
    )


def shared_path(item: Any, paths: int) -> bytes:
    """Many paths that are all one by reference."""
    return whole(
        openapi="3.1.0",
        paths={f"/p{n}": {"$ref": "#/components/pathItems/A"} for n in range(paths)},
        components={"pathItems": {"A": item}},
    )


def operations(count: int, **operation: Any) -> dict[str, Any]:
    return {f"/p{n}": {"get": {"responses": {}, **operation}} for n in range(count)}


def everywhere(kind: str, component: Any, paths: Any) -> bytes:
    """Many operations that all take one component, which is called A."""
    return whole(paths=paths, components={kind: {"A": component}})


REF = {"$ref": "#/components/parameters/A"}
WORDS = [f"{n:03}" + "w" * 190 for n in range(50)]
PARAMETERS = [{"name": f"p{n}", "in": "query", "schema": {"type": "string"}} for n in range(1000)]
FORM = {"type": "object", "properties": {f"f{n}": {"type": "string"} for n in range(1000)}}
WIDE = {
    "type": "object",
    "properties": {f"p{n}": {"type": "string", "description": "word " * 40} for n in range(60)},
}

# By name: what makes it, and what its refusal says.
REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    # YAML
    "yaml aliases": (lambda: doubled(40, 9), "with its aliases it holds more than 2,000,000 values"),
    "yaml aliases, twice each": (lambda: doubled(200, 2), "with its aliases it"),
    "yaml aliases of a long text": (lambda: b"a: &a " + b"x" * MB + b"\nb: [" + b"*a," * 60 + b"]", "more than 40,000,000 characters"),
    "yaml aliases of one another": (lambda: doubled(80, 1), "nested deeper than 64 levels"),
    "yaml anchor in itself": (lambda: b"a: &a [*a]", "stands inside its own anchor"),
    "yaml anchor in its own mapping": (lambda: b"a: &a\n  b: {c: *a}", "stands inside its own anchor"),
    "yaml merge of many": (
        lambda: b"a: &a {" + b",".join(b"k%d: 1" % n for n in range(2000)) + b"}\nb: {<<: [" + b"*a," * 2000 + b"]}",
        "more than 2,000,000 values"),
    "yaml merge upon merge": (
        lambda: "\n".join(["m0: &m0 {a: 1}", *(f"m{n}: &m{n} {{<<: *m{n - 1}, k{n}: 1}}" for n in range(1, 5000))]).encode(),
        "nested deeper than 64 levels"),
    "yaml deep, flow": (lambda: b"a: " + b"[" * 100_000, "nested deeper than 64 levels"),
    "yaml deep, braces": (lambda: b"a: " + b"{a: " * 100_000, "nested deeper than 64 levels"),
    "yaml deep, lists": (lambda: b"- " * 100_000 + b"a", "nested deeper than 64 levels"),
    "yaml deep, keys": (lambda: b"? " * 100_000 + b"a", "keys are text"),
    "yaml deep, indented": (lambda: b"".join(b" " * n + b"a:\n" for n in range(3000)), "nested deeper than 64 levels"),
    "yaml python object": (lambda: b"openapi: !!python/object/apply:os.system ['touch /tmp/hacked']", "'openapi' is 'no text'"),
    "yaml python name": (lambda: b"!!python/name:os.system {}", "neither 'openapi' nor 'swagger'"),
    "yaml many documents": (lambda: b"---\na: 1\n" * 200_000, "a second YAML document begins"),
    "yaml key twice": (lambda: b"a: 1\n" * 500_000, "the key 'a' stands twice"),
    "yaml long tag": (
        lambda: b"%TAG !e! tag:" + b"x" * 50_000 + b"\n---\n[" + b"!e!a b," * 100_000 + b"]", "its top level is a list"),
    # JSON
    "json deep, objects": (lambda: b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested deeper than 64 levels"),
    "json deep, lists": (lambda: b"[" * 2 * MB + b"]" * 2 * MB, "nested deeper than 64 levels|more than 2,000,000 values"),
    "json many values": (lambda: beside("[" + "[]," * 2_100_000 + "[]]"), "holds more than 2,000,000 values"),
    "json key twice": (lambda: b'{"a":1,"b":[{"c":1,"c":2}]}', "has the key 'c' twice"),
    "json key twice, many times": (lambda: b"{" + b'"a":1,' * 900_000 + b'"a":1}', "has the key 'a' twice"),
    "json cut off": (lambda: beside("[" + "1," * 500_000)[:-4], "is cut off|cannot be read"),
    "json unclosed text": (lambda: b'{"a":"' + b'\\"' * 5 * MB, "is cut off|cannot be read"),
    # Encodings
    "UTF-16": (lambda: whole().decode().encode("utf-16"), "is UTF-16 or UTF-32 text"),
    "UTF-16 without a mark": (lambda: whole().decode().encode("utf-16-le"), "is UTF-16 or UTF-32 text"),
    "UTF-32": (lambda: whole().decode().encode("utf-32-be"), "is UTF-16 or UTF-32 text"),
    "UTF-7": (lambda: b"+" + base64.b64encode(whole().decode().encode("utf-16-be")).rstrip(b"=") + b"-", "top level is a single value"),
    "overlong": (lambda: b'{"a":"\xc0\xaf"}', "is not UTF-8 text: byte 0xC0 at line 1, column 7"),
    "XML entities": (
        lambda: b'<!DOCTYPE l [<!ENTITY a "ha">' + b"".join(b'<!ENTITY a%d "&a%d;&a%d;">' % (n, n - 1, n - 1) for n in range(1, 50)) + b"]>",
        "is an HTML or XML page"),
    "blanks": (lambda: b" \n" * 10 * MB, "is empty"),
    "a byte too many": (lambda: b" " * 20_000_001, r"has 20,000,001 bytes; the limit is 20,000,000"),
    # References
    "20,001 operations": (lambda: whole(paths=operations(20_001)), "more than 20,000 operations"),
    "one path two thousand times": (
        lambda: shared_path({"get": {"responses": {str(n): {} for n in range(2000)}}}, 2000), "with its references, more than 2,000,000 values"),
    "parameters of one path everywhere": (lambda: shared_path({"get": {}, "parameters": PARAMETERS}, 2000), "with its references, more than"),
    "one form everywhere": (
        lambda: whole(
            paths=operations(20_000, requestBody={"$ref": "#/components/requestBodies/A"}),
            components={"requestBodies": {"A": {"content": {"multipart/form-data": {"schema": FORM}}}}}),
        "too many parameters: 150,000 beyond the first 50 of each"),
    "one list of needs everywhere": (
        lambda: whole(paths=operations(20_000), security=[{f"{n}{word}": [] for word in WORDS} for n in range(50)]),
        "describes tools of more than 64 MB in all"),
    # Archives
    "zip bomb": (lambda: zipped(("openapi.json", b" " * 60 * MB)), "unpacks to more than 50 MB"),
    "zip bomb in pieces": (lambda: zipped(*((f"{n}.json", b" " * 6 * MB) for n in range(12))), "unpacks to more than 50 MB"),
    "zip that overlaps": (lambda: overlapping(1000), "unpacks to more than 50 MB|cannot be read as an archive|has 41"),
    "zip of many": (lambda: zipped(*((f"{n}.txt", b"") for n in range(20_001))), "holds more than 20,000 entries"),
    "zip of many documents": (lambda: zipped(*((f"{n}.json", b"{}") for n in range(1001))), "holds no OpenAPI document"),
    "zip in a zip": (lambda: zipped(("openapi.zip", zipped(("openapi.json", whole())))), "holds no OpenAPI document"),
    "gzip bomb": (lambda: gzip.compress(bytes(500 * MB), 1), "unpacks to more than 20,000,000 bytes"),
    "tar bomb": (lambda: tarred(("a.bin", bytes(60 * MB))), "unpacks to more than 50 MB"),
    "tar that lies": (lambda: lying(8**11), "unpacks to more than 50 MB"),
    "tar with a size below zero": (lambda: lying(-1024), "cannot be read as an archive"),
    "tar with a long name": (lambda: lying(600 * MB, tarfile.GNUTYPE_LONGNAME), "within the limits of memory|cannot be read as an archive"),
    "tar of many": (lambda: tarred(*(tarfile.TarInfo(f"{n}") for n in range(20_001))), "holds more than 20,000 entries"),
    "tar of links": (
        lambda: tarred(*(link("openapi.json", to, kind) for to in ("/etc/passwd", "../../etc/passwd") for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE))),
        "holds no OpenAPI document"),
    "tar that climbs": (lambda: tarred(("../../openapi.json", whole())), "holds no OpenAPI document"),
}  # fmt: skip

# By name: what is read all the same, since it can be without cost.
READ: dict[str, Callable[[], bytes]] = {
    "doubling references": lambda: schemas(
        A={"$ref": "#/components/schemas/S0"},
        **{f"S{n}": {"properties": {side: {"$ref": f"#/components/schemas/S{n + 1}"} for side in "lr"}} for n in range(60)}),
    "references in circles": lambda: schemas(
        A={"$ref": "#/components/schemas/B"}, B={"$ref": "#/components/schemas/A"}, C={"allOf": [{"$ref": "#/components/schemas/C"}]}),
    "a long chain of references": lambda: schemas(
        A={"$ref": "#/components/schemas/S0"}, **{f"S{n}": {"$ref": f"#/components/schemas/S{n + 1}"} for n in range(50_000)}),
    "a long chain of allOf": lambda: schemas(
        A={"$ref": "#/components/schemas/S0"}, **{f"S{n}": {"allOf": [{"$ref": f"#/components/schemas/S{n + 1}"}]} for n in range(20_000)}),
    "everything refers to everything": lambda: schemas(
        **{name: {"properties": {f"p{n}": {"$ref": f"#/components/schemas/S{n}"} for n in range(300)}}
           for name in ["A", *(f"S{n}" for n in range(300))]}),
    "wide schemas everywhere": lambda: whole(
        paths=operations(3000, requestBody={"content": {"a/json": {"schema": {"$ref": "#/components/schemas/S0"}}}}),
        components={"schemas": {f"S{n}": {**WIDE, "additionalProperties": {"$ref": f"#/components/schemas/S{n + 1}"}} for n in range(8)}}),
    "external references": lambda: whole(paths=operations(
        500, parameters=[{"$ref": "http://127.0.0.1:1/a"}, {"$ref": "file:///etc/passwd"}, {"$ref": "\\\\host\\share"}])),
    "expensive patterns": lambda: schemas(A={"type": "string", "pattern": "(a+)+" * 300 + "$"}),
    "expensive texts": lambda: whole(paths=operations(1, summary="<" * MB, description="&" * MB + "<!--" * MB + "`" * MB)),
    "a number of 100,000 digits": lambda: beside("9" * 100_000),
    "a number of 19 MB": lambda: beside("9" * 19 * MB),
    "a fraction of 19 MB": lambda: beside("0." + "1" * 19 * MB),
    "a million keys": lambda: beside("{" + ",".join(f'"{n}":0' for n in range(MB)) + "}"),
    "a key of 19 MB": lambda: beside(json.dumps({"k" * 19 * MB: 1})),
    "a text of 19 MB": lambda: beside(json.dumps("x" * 19 * MB)),
    "three million NULs": lambda: beside('"' + "\\u0000" * 3 * MB + '"'),
    "halves of characters": lambda: beside('"' + "\\ud800" * MB + '"'),
    "NaN and Infinity": lambda: beside("[NaN, Infinity, -Infinity, 1e999, -1e999]"),
    "a mark at the start": lambda: b"\xef\xbb\xbf" + whole(),
    "a comment of 19 MB": lambda: b"# " + b"x" * 19 * MB + b"\n" + whole(),
    "words that nobody knows": lambda: whole(paths=operations(1, **{f"k{n}": 0 for n in range(500_000)})),
    "one description everywhere": lambda: everywhere(
        "parameters", {"name": "a", "in": "query", "description": "<p>x &amp; " * 100_000}, operations(3000, parameters=[REF])),
    "one example everywhere": lambda: everywhere(
        "parameters", {"name": "a", "in": "query", "example": [1] * 200_000}, operations(2000, parameters=[REF])),
    "one form of choices everywhere": lambda: everywhere(
        "schemas", {"oneOf": [{"properties": {"a": {}}}] * 20_000},
        operations(2000, requestBody={"content": {"multipart/form-data": {"schema": {"$ref": "#/components/schemas/A"}}}})),
    "a hundred thousand media types everywhere": lambda: everywhere(
        "requestBodies", {"content": {f"a/b{n}": {} for n in range(100_000)}},
        operations(2000, requestBody={"$ref": "#/components/requestBodies/A"})),
    "variables of signs": lambda: whole(
        paths={f"/{n}{{{'+' * 800}a{'+*' * 400}!}}": {"get": {"summary": "X", "responses": {}}} for n in range(500)}),
    "many anchors": lambda: whole()[:-1] + b", x: [" + b"".join(b"&a%d x," % n for n in range(100_000)) + b"]}",
}  # fmt: skip


MAKERS = {**{name: make for name, (make, _) in REFUSED.items()}, **READ}


def said_of(raw: bytes) -> str:
    try:
        document = sandbox.parse(sandbox.ANY, raw, name="bomb", limits=LIMITS)
    except DocumentRefused as refused:
        return str(refused)
    return f"{len(document.endpoints)} tools"


def measure(name: str) -> dict[str, Any]:
    """Reads the bomb as a worker does; returns what was said, the seconds, and the megabytes of both processes."""
    raw = MAKERS[name]()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # The bomb was made here, which took memory too: from now on the peak is counted anew.
    Path("/proc/self/clear_refs").write_text("5", "ascii")
    started = time.monotonic()
    said = said_of(raw)
    seconds = time.monotonic() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text("ascii"))
    assert peak is not None
    return {
        "name": name, "said": said, "seconds": round(seconds, 2),
        "cpu": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2),
        "child_mb": after.ru_maxrss // 1024, "parent_mb": int(peak[1]) // 1024, "raw_mb": len(raw) // MB,
    }  # fmt: skip


def main() -> None:
    """Each bomb is measured by a process forked for it: its peak and its children's are its own, and imports are paid once."""
    for line in sys.stdin if sys.argv[1:] == ["-"] else sys.argv[1:] or MAKERS:
        pid = os.fork()
        if pid == 0:
            sys.stdout.write(json.dumps(measure(line.strip())) + "\n")
            sys.stdout.flush()
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        if status:
            sys.exit(f"{line.strip()}: the measuring process ended with {status}")


if __name__ == "__main__":
    main()
