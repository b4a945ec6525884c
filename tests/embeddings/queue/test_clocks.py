"""R15: workers' clocks differ, so nothing about leases, pauses and orders is decided by one of them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.support.processes import ROOT

FILES = sorted(
    path
    for folder in ("embeddings", "portal/resilience")
    for path in (ROOT / folder).rglob("*.py")
    if not {"migrations", "providers"}
    & set(path.parts)  # a provider compares the dates of HTTP with its own clock
)
CLOCKS = {"now", "utcnow", "today", "time", "time_ns", "localtime", "gmtime"}
OWNERS = {"datetime", "date", "timezone", "time"}


def clocks(code: str) -> list[str]:
    """Where a wall clock is read. `time.monotonic` is none: it measures a span inside one process."""
    tree = ast.parse(code)
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in {"time", "django.utils.timezone"}
        for alias in node.names
        if alias.name in CLOCKS
    }
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        call = node.func
        if isinstance(call, ast.Name) and call.id in imported:
            found.append(f"{node.lineno}: {call.id}")
        if isinstance(call, ast.Attribute) and call.attr in CLOCKS:
            owner = ast.unparse(call.value).rpartition(".")[2]
            if owner in OWNERS:
                found.append(f"{node.lineno}: {owner}.{call.attr}")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_queues_code_reads_no_wall_clock_R15(path: Path) -> None:
    assert clocks(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "line",
    [
        "timezone.now()",
        "django.utils.timezone.now()",
        "datetime.now(UTC)",
        "datetime.datetime.utcnow()",
        "time.time()",
        "from time import time\ntime()",
        "from django.utils.timezone import now as current\ncurrent()",
    ],
)
def test_that_rule_sees_every_way_to_read_one_R15(line: str) -> None:
    assert clocks(line)
    assert not clocks("time.monotonic()")
