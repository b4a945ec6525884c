"""R6: a commit that checks a foreign key waits for no writer of the row that the key names."""

from __future__ import annotations

import re

import pytest

from tests.support.processes import ROOT

LOCK = re.compile(r"select_for_update\(([^()]*(?:\([^()]*\)[^()]*)*)\)")


def locks_without_no_key(code: str) -> list[str]:
    return [options for options in LOCK.findall(code) if "no_key=True" not in options]


def test_every_row_lock_is_for_no_key_update_R6() -> None:
    """FOR UPDATE deadlocks an edit with a backfill: tests/embeddings/backfill/test_backfill_beside_writes.py has the order."""
    modules = [
        path
        for package in ("embeddings", "portal", "tools")
        for path in sorted((ROOT / package).rglob("*.py"))
    ]
    found = {path: path.read_text(encoding="utf-8") for path in modules}
    assert sum(len(LOCK.findall(code)) for code in found.values()) > 20
    assert {str(path): bad for path, code in found.items() if (bad := locks_without_no_key(code))} == {}


@pytest.mark.parametrize("options", ["", "skip_locked=True", 'of=("self",)'])
def test_a_lock_for_update_is_noticed(options: str) -> None:
    assert locks_without_no_key(f"rows.select_for_update({options}).get(pk=pk)") == [options]
