"""S10: documents that are made to hurt cost an import, and neither a worker nor its memory."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.imports import bombs
from tests.support.imports.documents import document, import_document
from tests.support.imports.limits import LIMITS
from tools.imports.fetching import sandbox
from tools.imports.fetching.spec_validator import CPU_SECONDS
from tools.imports.formats.specs import DocumentRefused
from tools.models import Endpoint, Source, SourceDocument, Tool

ROOT = Path(__file__).resolve().parents[4]
SECONDS = 2
MEGABYTES = 512


@pytest.fixture(scope="module")
def measuring() -> Iterator[subprocess.Popen[str]]:
    """The process that starts the sandbox as a worker does: told the name of a bomb, it says what became of it."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.imports.bombs", "-"],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        yield process
        process.communicate()


@pytest.fixture
def measured(measuring: subprocess.Popen[str]) -> Callable[[str], dict[str, Any]]:
    """Reads a bomb and holds it against the bounds."""

    def once(name: str) -> dict[str, Any]:
        assert measuring.stdin is not None
        assert measuring.stdout is not None
        measuring.stdin.write(f"{name}\n")
        measuring.stdin.flush()
        result: dict[str, Any] = json.loads(measuring.stdout.readline())
        assert result["child_mb"] <= MEGABYTES
        # The parent read the bomb and gave it on.
        assert result["parent_mb"] <= MEGABYTES / 2
        return result

    def measure(name: str) -> dict[str, Any]:
        # What is read is checked too, for a time that has a bound of its own.
        seconds = SECONDS + (CPU_SECONDS if name in bombs.READ else 0)
        # The processor's time, as other programs may run on the machine; they slow its caches too, so the best of three counts.
        for _ in range(3):
            result = once(name)
            if result["cpu"] <= seconds:
                return result
        raise AssertionError(f"{name} took {result['cpu']} s of the processor, more than {seconds} s.")

    return measure


def test_there_are_enough_bombs_S10() -> None:
    assert len(bombs.REFUSED) >= 40


@pytest.mark.alone
@pytest.mark.parametrize("name", bombs.REFUSED)
def test_a_bomb_is_refused_soon_with_one_clear_sentence_S10(
    measured: Callable[[str], dict[str, Any]], name: str
) -> None:
    said = measured(name)["said"]
    assert re.search(bombs.REFUSED[name][1], said)
    assert said.endswith(".")
    assert len(said) < 300
    assert not re.search(r"[\x00-\x1f]|Traceback|Error\b|tools[./]imports|a fault of ours", said)


@pytest.mark.alone
@pytest.mark.parametrize("name", bombs.READ)
def test_what_only_looks_like_a_bomb_is_read_as_soon_S10(
    measured: Callable[[str], dict[str, Any]], name: str
) -> None:
    assert re.fullmatch(r"[1-9][0-9]* tools", measured(name)["said"])


def test_without_its_limits_the_child_would_take_more_S10() -> None:
    """So the figures above are the limits' doing, and a limit that is gone would be seen."""
    unbound = (
        "import resource; resource.setrlimit = lambda *arguments: None\n"
        "from tools.imports.fetching import sandbox\n"
        f"assert sandbox._child('any', 'bomb', {json.dumps(asdict(LIMITS))!r}) == sandbox.REFUSED\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)\n"
    )
    raw = bombs.REFUSED["tar with a long name"][0]()
    done = subprocess.run(
        [sys.executable, "-c", unbound], cwd=ROOT, input=raw, capture_output=True, check=True
    )
    assert int(done.stdout) > MEGABYTES


STORED = (
    "yaml aliases",
    "json deep, objects",
    "json key twice",
    "UTF-16",
    "one form everywhere",
    "zip bomb",
    "tar with a long name",
)


@pytest.mark.parametrize("name", STORED)
def test_a_refused_bomb_stores_nothing_and_leaves_what_was_there_S10(committed: Tenant, name: str) -> None:
    def rows() -> list[Any]:
        with tenant_context(committed.pk):
            models = (Source, SourceDocument, Endpoint, Tool)
            return [sorted(map(str, model.objects.values_list())) for model in models]

    import_document(committed, document("a", "b"))
    before = rows()
    raw = bombs.REFUSED[name][0]()
    for slug in ("shop", "new"):
        with pytest.raises(DocumentRefused):
            import_document(committed, raw, slug=slug)
    assert rows() == before


def test_the_sentence_of_a_killed_reader_names_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox.sys, "executable", "/bin/false")
    with pytest.raises(DocumentRefused, match="a fault of ours"):
        sandbox.parse("any", b"{}", name="a.json")
    assert sandbox.MEMORY_BYTES <= MEGABYTES * 1024 * 1024
    assert sandbox.CPU_SECONDS < sandbox.WALL_SECONDS <= 60
