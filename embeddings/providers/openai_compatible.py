"""EMBEDDING_PROVIDER=openai-compatible: a server with OpenAI's `POST /embeddings`, of that company or any other.
The call itself and its errors are in `http.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from embeddings.providers import http
from embeddings.providers.base import Kind, ProviderError, Vectors
from embeddings.providers.validation import checked


class OpenAICompatible:
    """The provider. `url` is the part of the address before `/embeddings`. The prefixes are for models that want passages and
    queries marked (`passage: `, `query: `). Raises ImproperlyConfigured without an address.
    """

    def __init__(
        self,
        *,
        model: str,
        dimension: int,
        url: str = "",
        api_key: str = "",
        timeout: float = 30,
        query_prefix: str = "",
        passage_prefix: str = "",
        batch_size: int = 32,
        threads: int = 1,
    ) -> None:
        self.model, self.dimension = model, dimension
        self._server = http.Server(url, timeout, api_key)
        self._prefixes: dict[Kind, str] = {"query": query_prefix, "passage": passage_prefix}

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """One vector a text, in order of the texts, whatever the order of the reply. Raises ProviderError."""
        body = {
            "model": self.model,
            "input": [self._prefixes[kind] + text for text in texts],
            "dimensions": self.dimension,
            "encoding_format": "float",
        }
        reply = self._server.post("/embeddings", body, kind)
        return checked(self._in_order(reply, len(texts)), len(texts), self.dimension)

    def truncates(self, text: str) -> bool:
        """Only the server could know: False."""
        return False

    def _in_order(self, reply: object, count: int) -> list[http.JsonValue]:
        rows = reply.get("data") if isinstance(reply, dict) else None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            message = self._server.error_message(reply)
            raise ProviderError(f"{self._server.name} sent no list of vectors{message and ': '}{message}")
        if len(rows) != count:
            raise ProviderError(f"{self._server.name} returned {len(rows)} vectors for {count} texts.")
        by_index = {row["index"]: row.get("embedding") for row in rows if type(row.get("index")) is int}
        if by_index.keys() != set(range(count)):
            raise ProviderError(f"{self._server.name} does not say which vector is of which text.")
        return [by_index[index] for index in range(count)]
