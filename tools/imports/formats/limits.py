"""How large a document may be. The parent process makes the limits of its settings (DOCUMENT_MAX_BYTES,
DOCUMENT_MAX_OPERATIONS) and hands them to the child that parses, which reads no settings.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """`document_bytes` of one document, unpacked; `operations` (or tools) that it may describe."""

    document_bytes: int
    operations: int
