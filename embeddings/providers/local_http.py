"""EMBEDDING_PROVIDER=local-http: an embedding server inside the organisation without keys, with the `POST /embed` of
Hugging Face's text-embeddings-inference. The call itself and its errors are in `http.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from embeddings.providers import http
from embeddings.providers.base import Kind, ProviderError, Vectors
from embeddings.providers.validation import checked


class LocalHttp:
    """The provider. `url` is the part of the address before `/embed`. The server chooses the model: `model` is the
    name under which its vectors are stored. Raises ImproperlyConfigured without an address.
    """

    def __init__(
        self,
        *,
        model: str,
        dimension: int,
        url: str = "",
        timeout: float = 30,
        query_prefix: str = "",
        passage_prefix: str = "",
        batch_size: int = 32,
        threads: int = 1,
    ) -> None:
        self.model, self.dimension = model, dimension
        self._server = http.Server(url, timeout)
        self._prefixes: dict[Kind, str] = {"query": query_prefix, "passage": passage_prefix}

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """One vector a text. The reply has no index, so that its order must be trusted. Raises ProviderError."""
        inputs = [self._prefixes[kind] + text for text in texts]
        reply = self._server.post("/embed", {"inputs": inputs, "normalize": True, "truncate": True}, kind)
        if not isinstance(reply, list):
            message = self._server.error_message(reply)
            raise ProviderError(f"{self._server.name} sent no list of vectors{message and ': '}{message}")
        return checked(reply, len(texts), self.dimension)

    def truncates(self, text: str) -> bool:
        """Only the server could know: False."""
        return False
