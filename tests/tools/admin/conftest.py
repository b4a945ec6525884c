"""The fixtures of the pages' tests."""

from __future__ import annotations

from tests.tools.web.conftest import imported_tool, set_embedding

__all__ = ["imported_tool", "set_embedding"]
