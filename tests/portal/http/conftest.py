from __future__ import annotations

from tests.support.api_fixtures import agent, hash_embedder, owner, tool_of

__all__ = ["agent", "hash_embedder", "owner", "tool_of"]
