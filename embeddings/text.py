"""The identity of what is embedded: normalised text and its hash. What goes into the text is each entity's own affair."""

from __future__ import annotations

import hashlib
import re
import unicodedata

_SPACE = re.compile(r"[ \t\r\f\v\u00a0]+")
_LINES = re.compile(r"\s*\n\s*")


def normalise(text: str) -> str:
    """NFC, runs of blanks to one, blank lines and outer white space dropped, so that layout is no meaning (EMB-1)."""
    composed = unicodedata.normalize("NFC", text)
    return _LINES.sub("\n", _SPACE.sub(" ", composed)).strip()


def source_hash(normalised: str) -> str:
    """SHA-256 of the normalised source text, as 64 hex digits."""
    return hashlib.sha256(normalised.encode()).hexdigest()
