"""What openapi-spec-validator finds in a document, as warnings: never a gate (SYN-1).

It is asked in a process forked for it by the one that reads the document, under the same bounds and fewer seconds, because it
runs the document's own patterns and follows its references. That process can open nothing (no file, no connection), and whatever
becomes of it costs no tool.

What it says of one document is the same each time, also on a busy machine: a large document is not checked, by the number of its
values and not by the clock; one that takes too long all the same loses all findings, not those that time was left for.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any, NoReturn

from tools.imports.formats.specs import JsonObject, JsonValue
from tools.imports.formats.texts import one_line, truncate

CPU_SECONDS = 2.0
"""How long it may look, beside the third of a second in which it starts."""
MAX_VALUES = 20_000
"""Of a document that is checked; so many take it a quarter of that time."""
MAX_FINDINGS = 20
_WALL_SECONDS = 10.0
_MAX_LENGTH = 300
_NAME = "openapi-spec-validator"
_DONE = f"{_NAME}: done"
_MINIMAL: JsonObject = {"info": {"title": "T", "version": "1"}, "paths": {}}


def findings(tree: JsonObject) -> tuple[str, ...]:
    """At most MAX_FINDINGS sentences on an OpenAPI document, and one more where there are more; or one that says why there are none."""
    if _has_more_values(tree, MAX_VALUES):
        return (f"{_NAME} was not asked: the document has more than {MAX_VALUES:,} values.",)
    reader, writer = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(writer)
        os.close(reader)
        return (f"{_NAME} could not be started.",)
    if pid == 0:
        _check(tree, writer)
    os.close(writer)
    try:
        said = _lines(reader, time.monotonic() + _WALL_SECONDS)
    finally:
        os.close(reader)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    if said[-1:] == [_DONE]:
        return tuple(said[:-1])
    return (f"{_NAME} was stopped before its end, so what it found is not shown.",)


def _has_more_values(tree: JsonObject, limit: int) -> bool:
    waiting: list[JsonValue] = [tree]
    while waiting and limit >= 0:
        value = waiting.pop()
        limit -= 1
        if isinstance(value, dict | list):
            waiting.extend(value.values() if isinstance(value, dict) else value)
    return limit < 0


def _lines(reader: int, deadline: float) -> list[str]:
    """The whole lines that come until the other side ends or time is over."""
    found = b""
    while select.select([reader], [], [], max(deadline - time.monotonic(), 0))[0]:
        part = os.read(reader, 65_536)
        if not part:
            break
        found += part
    return found.decode(errors="replace").split("\n")[:-1]


def _check(tree: JsonObject, out: int) -> NoReturn:
    """Writes a line for each finding. The lines together are shorter than what a pipe holds, so writing never waits."""

    def say(sentence: str) -> None:
        os.write(out, (one_line(sentence, limit=_MAX_LENGTH) + "\n").encode())

    try:
        version = "swagger" if "openapi" not in tree else str(tree["openapi"])[:3]
        validator = _validators()[version]
        # What is loaded at the first use is loaded now.
        key = "swagger" if version == "swagger" else "openapi"
        list(validator({**_MINIMAL, key: tree[key]}).iter_errors())
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        # It knows JSON's own numbers only.
        one = validator(json.loads(json.dumps(tree)))
        for number, finding in enumerate(islice(_findings(one), MAX_FINDINGS + 1)):
            say(finding if number < MAX_FINDINGS else f"{_NAME} finds more than these {MAX_FINDINGS}.")
    except BaseException as error:  # noqa: BLE001 - whatever it is, the document is read
        say(f"{_NAME} did not come to its end: {type(error).__name__}: {str(error)[:500]}.")
    finally:
        os.write(out, f"{_DONE}\n".encode())
        os._exit(0)


def _findings(validator: Any) -> Iterator[str]:
    for error in validator.schema_validator.iter_errors(validator.schema):
        yield f"{_NAME}: {_place(error)}{_words(error)}"
    for error in validator.root_validator(validator.schema_path):
        # The reader says itself which operationId is there twice, and which variable of a path is no parameter; it knows more
        # ways to write those.
        if type(error).__name__ not in ("DuplicateOperationIDError", "UnresolvableParameterError"):
            yield f"{_NAME}: {_words(error)}"


def _validators() -> dict[str, Any]:
    # Only the forked process loads it: every other import would wait for it in vain.
    import openapi_spec_validator as osv  # noqa: PLC0415

    return {
        "swagger": osv.OpenAPIV2SpecValidator,
        "3.0": osv.OpenAPIV30SpecValidator,
        "3.1": osv.OpenAPIV31SpecValidator,
        "3.2": osv.OpenAPIV32SpecValidator,
    }


def _words(error: Any) -> str:
    return f"{truncate(str(error.message)[:2_000], _MAX_LENGTH - 140).rstrip('.')}."


def _place(error: Any) -> str:
    steps = [str(step).replace("~", "~0").replace("/", "~1") for step in error.absolute_path]
    return f"{truncate('#/' + '/'.join(steps), 100)}: " if steps else ""
