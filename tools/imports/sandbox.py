"""Parses a stranger's document in a child process with bounds on memory, processor and time, so that a bomb costs an
import and not a worker. The child (`python -m tools.imports.sandbox`) knows the pure parsers and nothing of Django.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.imports.jsonl import parse_tools
from tools.imports.recognise import READERS, parse_document
from tools.imports.specs import DocumentRefused, EndpointSpec, LeftOut, ParsedDocument

log = logging.getLogger(__name__)

MEMORY_BYTES = 1_500_000_000
CPU_SECONDS = 60
WALL_SECONDS = 90
TOOLS, ANY = "tools", "any"
KINDS = (*READERS, TOOLS, ANY)
REFUSED = 3


def parse(kind: str, raw: bytes, *, name: str) -> ParsedDocument:
    """The parsed document of one of KINDS; ANY recognises it. Raises DocumentRefused, also for one that breaks the bounds."""
    command = [sys.executable, "-m", "tools.imports.sandbox", kind, name]
    root = Path(__file__).resolve().parents[2]
    try:
        # The environment holds the portal's secrets, and the reader needs none of it.
        done = subprocess.run(
            command, input=raw, capture_output=True, timeout=WALL_SECONDS, cwd=root, env={}, check=False
        )
    except subprocess.TimeoutExpired:
        raise DocumentRefused(
            f"The document took more than {WALL_SECONDS} s to read and was given up."
        ) from None
    if done.returncode == REFUSED:
        raise DocumentRefused(done.stderr.decode())
    if done.returncode < 0 or b"MemoryError" in done.stderr:
        raise DocumentRefused(
            "The document could not be read within the limits of memory and time; it may be built to grow when read."
        )
    if done.returncode != 0:
        log.error("The reader failed on %s:\n%s", name, done.stderr.decode(errors="replace"))
        raise DocumentRefused(
            "The reader failed on this document, which is a fault of ours; the log says more."
        )
    return _from_json(json.loads(done.stdout))


def _from_json(data: dict[str, Any]) -> ParsedDocument:
    endpoints = tuple(EndpointSpec(**{**spec, "tags": tuple(spec["tags"])}) for spec in data.pop("endpoints"))
    left_out = tuple(LeftOut(**entry) for entry in data.pop("left_out"))
    data["servers"], data["warnings"] = tuple(data["servers"]), tuple(data["warnings"])
    return ParsedDocument(endpoints=endpoints, left_out=left_out, **data)


def _child(kind: str, name: str) -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    try:
        raw = sys.stdin.buffer.read()
        document = (
            parse_tools(raw, name=name)
            if kind == TOOLS
            else parse_document(raw, name=name, kind="" if kind == ANY else kind)
        )
    except DocumentRefused as refused:
        sys.stderr.write(str(refused))
        return REFUSED
    # Written level by level: `asdict` would copy every definition that the specs share.
    json.dump(document, sys.stdout, default=_fields)
    return 0


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


if __name__ == "__main__":
    sys.exit(_child(*sys.argv[1:3]))
