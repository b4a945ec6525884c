"""The types of JSON values, where no narrower type is known."""

from __future__ import annotations

from typing import Any

JsonObject = dict[str, Any]
