"""How Django writes times: with their zone, which is UTC everywhere. Pages have `ago`; these are mostly those of the admin."""

from __future__ import annotations

DATETIME_FORMAT = r"j M Y, H:i \U\T\C"
SHORT_DATETIME_FORMAT = DATETIME_FORMAT
