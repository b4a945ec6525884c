"""The types of JSON values, where no narrower type is known."""

from __future__ import annotations

from typing import Any

JsonObject = dict[str, Any]
JsonValue = JsonObject | list[Any] | str | int | float | bool | None
"""A value that is not checked yet: ask what it is (`isinstance`) before it is used."""
