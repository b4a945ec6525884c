"""The SQL of search, one statement or function a file.

A numbered file belongs to the migration of that number, which runs it. It is never edited, so that an old migration always
does what it did when it was written; a new version of a function is a new file and a new migration
(tests/contract/test_frozen_sql.py). The files without a number are the statements that `tools/search/service.py` calls.
"""

from __future__ import annotations

from pathlib import Path


def load(name: str) -> str:
    """The text of one file of this folder, such as `search_candidates.sql`. Raises FileNotFoundError."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")
