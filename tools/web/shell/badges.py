"""Badges: a status as icon, word and style (templates/shell/badge.html)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Badge:
    """One status; `status` is the style, `hint` a sentence that explains it."""

    status: str
    word: str
    icon: str
    hint: str

    @property
    def is_waiting(self) -> bool:
        return self.status == "pending"
