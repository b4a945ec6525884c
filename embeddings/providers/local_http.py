"""EMBEDDING_PROVIDER=local-http: an embedding server inside the organisation without keys, with the `POST /embed` of
Hugging Face's text-embeddings-inference. The call itself and its errors are in `http.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from embeddings.providers.base import Kind, Vectors, checked
from embeddings.providers.http import HttpProvider


class LocalHttp(HttpProvider):
    """The provider. `url` is the part of the address before `/embed`. The server chooses the model: `model` is the
    name under which its vectors are stored.
    """

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """One vector a text. The reply has no index, so that its order must be trusted. Raises ProviderError."""
        inputs = [self._prefixes[kind] + text for text in texts]
        reply = self._post("/embed", {"inputs": inputs, "normalize": True, "truncate": True}, kind)
        if not isinstance(reply, list):
            raise self._without_vectors(reply)
        return checked(reply, len(texts), self.dimension)
