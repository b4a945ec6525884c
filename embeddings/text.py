"""Normalises source texts and hashes them. Each entity type decides what its text contains."""

from __future__ import annotations

import hashlib
import re
import unicodedata

_SPACE = re.compile(r"[ \t\r\f\v\u00a0]+")
_LINES = re.compile(r"\s*\n\s*")


def normalise(text: str) -> str:
    """Converts to NFC, joins runs of blanks, and drops blank lines and outer white space, so that layout changes no hash (EMB-1)."""
    composed = unicodedata.normalize("NFC", text)
    return _LINES.sub("\n", _SPACE.sub(" ", composed)).strip()


def source_hash(normalised: str) -> str:
    """SHA-256 of the normalised source text, as 64 hex digits."""
    return hashlib.sha256(normalised.encode()).hexdigest()
