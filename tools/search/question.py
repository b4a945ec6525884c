"""A question as the model reads it: its vector, and the states of its word pieces where the provider gives them, from one run of
the model. The newest are remembered in this process.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from dataclasses import dataclass

from django.conf import settings

from embeddings.providers import EmbeddingProvider, ProviderError
from embeddings.providers.base import TokenProvider, TokenStates, Vectors, checked, checked_tokens
from embeddings.slots import Slot
from portal.resilience import circuit_breaker
from portal.tenancy.rights import Audience, Rights

log = logging.getLogger(__name__)

# Nine digits tell every float32 from the next; Python's own, of the same number as a double, are twice as long to parse.
_VECTOR_TEXT = f"[{','.join(['%.9g'] * settings.EMBEDDING_DIMENSION)}]"


@dataclass(frozen=True, slots=True)
class QuestionEmbedding:
    """`vector` in pgvector's text form. `tokens` is None where the provider gives no word pieces."""

    vector: str
    tokens: TokenStates | None

    @property
    def size(self) -> int:
        """Bytes, about."""
        tokens = self.tokens
        return len(self.vector) + (tokens.states.nbytes + tokens.spans.nbytes if tokens else 0)


def vector_text(vector: Vectors) -> str:
    """One vector in pgvector's text form."""
    return _VECTOR_TEXT % tuple(vector.tolist())


def embed(rights: Rights, slot: Slot, text: str) -> tuple[QuestionEmbedding | None, tuple[str, ...]]:
    """The question's embedding, or None with the reason."""
    if not settings.SEARCH_SEMANTIC:
        return None, ("semantic_search_off",)
    if settings.EMBEDDING_PROVIDER == "disabled":
        return None, ("embedding_disabled",)
    key = (rights.audience, slot, text)
    try:
        known = remembered.get(key)
        if known is None:
            known = _embed(slot, text)
            remembered.put(key, known)
    except ProviderError as error:
        log.warning("Searching by keyword alone (incident %s): %s", error.incident, error)
        return None, ("embedding_unavailable",)
    return known, ()


class Remembered:
    """The newest embeddings of questions: SEARCH_QUERY_CACHE of them, and `most_bytes` in all, since the word pieces of a long
    question take 200 kB. Several threads may use it.

    The embedding is the same for every audience. It is remembered for each apart, because a remembered one comes sooner, and
    that would tell whoever measures the time, or reads `Server-Timing`, what another tenant has asked (S4).
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Audience, Slot, str], QuestionEmbedding] = OrderedDict()
        self.bytes = 0

    def get(self, key: tuple[Audience, Slot, str]) -> QuestionEmbedding | None:
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key]

    def put(self, key: tuple[Audience, Slot, str], embedding: QuestionEmbedding) -> None:
        with self._lock:
            before = self._kept.pop(key, None)
            self._kept[key] = embedding
            self.bytes += embedding.size - (before.size if before else 0)
            while self._kept and (
                len(self._kept) > settings.SEARCH_QUERY_CACHE or self.bytes > self._most_bytes
            ):
                self.bytes -= self._kept.popitem(last=False)[1].size

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
            self.bytes = 0


remembered = Remembered(32_000_000)


def _embed(slot: Slot, text: str) -> QuestionEmbedding:
    """Asks the provider unless its circuit is open. One slow failure opens it, as the searcher waits for each (R11)."""
    provider = slot.embedder()
    assert provider is not None  # noqa: S101 - the caller has looked at the setting
    try:
        vector, tokens = circuit_breaker.call(
            slot.model,
            "query",
            lambda: _call_provider(provider, text),
            slow_seconds=settings.EMBEDDING_QUERY_SLOW,
        )
    except circuit_breaker.CircuitOpen as error:
        raise ProviderError(str(error)) from error
    return QuestionEmbedding(vector_text(vector), tokens)


def _call_provider(provider: EmbeddingProvider, text: str) -> tuple[Vectors, TokenStates | None]:
    dimension = settings.EMBEDDING_DIMENSION
    tokens: TokenStates | None = None
    try:
        if isinstance(provider, TokenProvider):
            vectors, [tokens] = provider.embed_with_tokens([text], "query")
            checked_tokens([tokens], 1, dimension)
        else:
            vectors = provider.embed([text], "query")
    except ProviderError:
        raise
    except Exception as error:
        raise ProviderError(f"unexpected error of the provider: {type(error).__name__}: {error}") from error
    vector: Vectors = checked(vectors, 1, dimension)[0]
    return vector, tokens
