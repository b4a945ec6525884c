"""EMBEDDING_PROVIDER=openai-compatible: a server with OpenAI's `POST /embeddings`, of that company or any other.
The call itself and its errors are in `http.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from embeddings.providers.base import Kind, ProviderError, Vectors, checked
from embeddings.providers.http import HttpProvider


class OpenAICompatible(HttpProvider):
    """The provider. `url` is the part of the address before `/embeddings`."""

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """One vector a text, in order of the texts, whatever the order of the reply. Raises ProviderError."""
        body = {
            "model": self.model,
            "input": [self._prefixes[kind] + text for text in texts],
            "dimensions": self.dimension,
            "encoding_format": "float",
        }
        reply = self._post("/embeddings", body, kind)
        return checked(self._in_order(reply, len(texts)), len(texts), self.dimension)

    def _in_order(self, reply: object, count: int) -> list[Any]:
        rows = reply.get("data") if isinstance(reply, dict) else None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise self._without_vectors(reply)
        if len(rows) != count:
            raise ProviderError(f"{self._server.name} returned {len(rows)} vectors for {count} texts.")
        by_index = {row["index"]: row.get("embedding") for row in rows if type(row.get("index")) is int}
        if by_index.keys() != set(range(count)):
            raise ProviderError(f"{self._server.name} does not say which vector is of which text.")
        return [by_index[index] for index in range(count)]
