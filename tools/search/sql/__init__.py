"""The search's SQL, as the migrations run it."""

from __future__ import annotations

from pathlib import Path


def statements(name: str) -> str:
    """The text of one file of this folder."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")
