"""Parses a document of others in a child process with bounds on memory, processor and time, so that a bomb ends an import
and not a worker. The child (`python -m tools.imports.fetching.sandbox`) knows the pure parsers and nothing of Django.

The child writes its document as lines of JSON: first what operations share (a definition that a thousand of them refer to
is one line), then an endpoint a line, last the document itself. So neither side ever holds the whole as text, and the
parent shares what the child shared.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, replace
from decimal import Decimal
from pathlib import Path
from typing import IO

from portal.json_types import JsonObject, JsonValue
from tools.imports.fetching.spec_validator import findings
from tools.imports.formats.recognise import parse_document
from tools.imports.formats.specs import DocumentRefused, EndpointSpec, LeftOut, Limits, ParsedDocument
from tools.imports.formats.texts import without_controls
from tools.imports.formats.tool_files import parse_tools

log = logging.getLogger(__name__)

MEMORY_BYTES = 512 * 1024 * 1024
CPU_SECONDS = 30
WALL_SECONDS = 60
OUTPUT_BYTES = 256 * 1024 * 1024
TOOLS, ANY = "tools", "any"
REFUSED = 3
_LIMIT_WORDS = (b"MemoryError", b"File too large")
_EXPONENT_FROM = 1e16
# A key that no document can hold, since control characters are removed: its value is the number of something shared.
_SHARED = "\0"


def parse(
    kind: str, raw: bytes, *, name: str, seconds: float | None = None, limits: Limits | None = None
) -> ParsedDocument:
    """The parsed document of a kind of FORMATS, of TOOLS, or of ANY, which recognises it. `seconds` (default WALL_SECONDS) bounds
    the time, `limits` (default: those of the settings) the document. Raises DocumentRefused, also for a document that breaks a bound."""
    seconds = seconds or WALL_SECONDS
    # Control characters can neither be an argument of a program nor be shown.
    command = [
        sys.executable, "-m", "tools.imports.fetching.sandbox", kind, without_controls(name)[0][:1000],
        json.dumps(asdict(limits or limits_of_settings())),
    ]  # fmt: skip
    root = Path(__file__).resolve().parents[3]
    with tempfile.TemporaryFile() as out:
        try:
            # The environment holds the portal's secrets, and the reader needs none of it.
            done = subprocess.run(
                command, input=raw, stdout=out, stderr=subprocess.PIPE, timeout=seconds, cwd=root, env={}, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise DocumentRefused(
                f"The document took more than {seconds:.0f} s to read and was given up."
            ) from None
        if done.returncode == REFUSED:
            raise DocumentRefused(done.stderr.decode())
        if done.returncode < 0 or any(words in done.stderr for words in _LIMIT_WORDS):
            raise DocumentRefused(
                "The document could not be read within the limits of memory and time; it may be built to grow when read."
            )
        if done.returncode != 0:
            log.error("The reader failed on %s:\n%s", name, done.stderr.decode(errors="replace"))
            raise DocumentRefused(
                "The reader failed on this document, which is a fault of ours; the log says more."
            )
        out.seek(0)
        return _read(out)


def limits_of_settings() -> Limits:
    """The limits of a document that the installation has chosen. For the parent only."""
    from django.conf import settings  # noqa: PLC0415 - the child runs this module as well, and starts without Django

    return Limits(
        settings.DOCUMENT_MAX_BYTES, settings.DOCUMENT_MAX_OPERATIONS, settings.DESCRIPTION_MAX_CHARACTERS
    )


def _child(kind: str, name: str, limits: str) -> int:
    os.nice(10)  # requests of the web come first
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (OUTPUT_BYTES, OUTPUT_BYTES))
    try:
        raw = sys.stdin.buffer.read()
        document = (
            parse_tools(raw, name=name)
            if kind == TOOLS
            else parse_document(
                raw,
                limits=Limits(**json.loads(limits)),
                name=name,
                kind="" if kind == ANY else kind,
                check=findings,
            )
        )
    except DocumentRefused as refused:
        sys.stderr.write(str(refused))
        return REFUSED
    _write(document, sys.stdout)
    return 0


def _write(document: ParsedDocument, out: IO[str]) -> None:
    specs = [endpoint.as_json() for endpoint in document.endpoints]
    uses = _uses(specs)
    numbers: dict[int, int] = {}

    def packed(value: JsonValue) -> JsonValue:
        if not isinstance(value, dict | list):
            return value
        if id(value) in numbers:
            return {_SHARED: numbers[id(value)]}
        made: JsonValue = (
            {key: packed(inner) for key, inner in value.items()}
            if isinstance(value, dict)
            else [packed(inner) for inner in value]
        )
        if uses[id(value)] == 1:
            return made
        out.write(f"[{json.dumps(made)}]\n")
        numbers[id(value)] = len(numbers)
        return {_SHARED: numbers[id(value)]}

    for spec in specs:
        out.write(json.dumps({name: packed(value) for name, value in spec.items()}) + "\n")
    out.write(json.dumps({"document": asdict(replace(document, endpoints=()))}) + "\n")


def _uses(specs: Iterable[JsonObject]) -> Counter[int]:
    """How often each dictionary and list is held, by its identity."""
    uses: Counter[int] = Counter()
    waiting: list[JsonValue] = [value for spec in specs for value in spec.values()]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list):
            uses[id(value)] += 1
            if uses[id(value)] == 1:
                waiting.extend(value.values() if isinstance(value, dict) else value)
    return uses


def _number(written: str) -> float | int:
    """The number as jsonb returns it: an integer with all its digits where Python writes an exponent, and no negative zero.
    Otherwise the parsed and the stored document would differ at every sync."""
    number = float(written)
    return int(Decimal(written)) if abs(number) >= _EXPONENT_FROM else number or 0.0


def _read(lines: Iterable[bytes]) -> ParsedDocument:
    shared: list[JsonValue] = []
    endpoints: list[EndpointSpec] = []

    def unpacked(value: JsonObject) -> JsonValue:
        return shared[value[_SHARED]] if _SHARED in value else value

    for line in lines:
        value = json.loads(line, object_hook=unpacked, parse_float=_number)
        if isinstance(value, list):
            shared += value
        elif "document" not in value:
            endpoints.append(EndpointSpec.from_json(value))
    data = value["document"]
    data["left_out"] = tuple(LeftOut(**entry) for entry in data["left_out"])
    data["servers"], data["warnings"] = tuple(data["servers"]), tuple(data["warnings"])
    return ParsedDocument(**{**data, "endpoints": tuple(endpoints)})


if __name__ == "__main__":
    sys.exit(_child(*sys.argv[1:4]))
