"""The interface of embedding providers, their errors, and the check of what they return. `get_provider` (`__init__.py`) returns
the one that the settings name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from django.utils.crypto import salted_hmac
from numpy.typing import ArrayLike, NDArray

from portal.service_error import ServiceError

Vectors = NDArray[np.float32]
"""float32 [texts, dimension], rows of norm 1, in the order of the texts."""

Kind = Literal["passage", "query"]
"""The kind of a text: an entry of the catalogue, or the question of a search. Some models have a prefix for each."""

NORM_TOLERANCE = 0.01
"""As in the database's constraint, `vector_norm(vector) BETWEEN 0.99 AND 1.01`."""


class EmbeddingProvider(Protocol):
    """Turns texts into vectors. `get_provider` makes it with the keywords model, dimension, batch_size,
    threads and timeout (seconds), so a class that is named by its dotted path takes these.
    """

    model: str
    """The key of comparability: vectors of two different models are never compared (EMB-10)."""

    dimension: int

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """One vector a text, float32 [n, dimension], rows of norm 1, in order. Raises ProviderError."""
        ...

    def truncates(self, text: str) -> bool:
        """Whether the model reads only the beginning of the text (EMB-1). False if that cannot be known."""
        ...


@dataclass(frozen=True, slots=True)
class TokenStates:
    """The word pieces of one text, as far as the model read it, without its special tokens.

    `states`: what the last layer made of each, float16 [pieces, dimension], of any norm. `spans`: where each stands in the text,
    int32 [pieces, 2], the first character and the one behind the last.
    """

    states: NDArray[np.float16]
    spans: NDArray[np.int32]


@runtime_checkable
class TokenProvider(EmbeddingProvider, Protocol):
    """A provider that also gives the states of the word pieces. Of the built-in ones only the model in this process does; what
    needs them is left out with the others."""

    def embed_with_tokens(self, texts: Sequence[str], kind: Kind) -> tuple[Vectors, list[TokenStates]]:
        """The vectors as `embed` gives them, and the word pieces of each text. Raises ProviderError."""
        ...


class ProviderError(ServiceError):
    """A provider returned no usable vectors.

    The message may name servers, accounts and parts of keys, so it is for those who run the portal: it goes to the log, with
    `incident`. What is stored beside a tool, and so shown to tenants, is `public`.

    `permanent`: this text can never be embedded, so a retry is useless. `provider_wide`: the provider is down or refuses the
    portal, which no text causes and which costs none an attempt. `lasting`: and the next call will fail too, as with a wrong
    key. `retry_after`: the seconds that the provider asks to wait.
    """

    def __init__(
        self,
        message: str,
        *,
        permanent: bool = False,
        provider_wide: bool = False,
        lasting: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, permanent=permanent, lasting=lasting, retry_after=retry_after)
        self.provider_wide = provider_wide

    @property
    def incident(self) -> str:
        """The number of the message in the log: the same for the same message, so that equal failures count as one."""
        return salted_hmac("embeddings.providers", str(self)).hexdigest()[:8]

    @property
    def public(self) -> str:
        """What tenants read: whether their text is at fault, and the number for those who run the portal."""
        if self.permanent:
            sentence = "The embedding provider cannot embed this text."
        elif self.provider_wide and self.lasting:
            sentence = "The embedding provider refuses the portal."
        elif self.provider_wide:
            sentence = "The embedding provider is not available."
        else:
            sentence = "The embedding provider did not return a usable vector."
        return f"{sentence} Those who run the portal find the cause in its log: incident {self.incident}."


def checked(vectors: ArrayLike, count: int, dimension: int) -> Vectors:
    """The vectors as float32 [count, dimension]: the check that every reply passes before it is stored or searched with
    (EMB-7), because pgvector accepts zero vectors. Their order cannot be checked here. Raises ProviderError for any other
    shape and for a row that is not finite or not of norm 1. Another dimension is permanent: trying again does not change a
    model.
    """
    with np.errstate(over="ignore"):  # too large a number becomes infinite, which is refused below
        try:
            array = np.asarray(vectors, dtype=np.float32)
        except (TypeError, ValueError, OverflowError) as error:
            raise ProviderError("The embedding provider's reply is no list of vectors.") from error
    if array.size and array.ndim != 2:
        raise ProviderError("The embedding provider's reply is no list of vectors.")
    if len(array) != count:
        raise ProviderError(f"The embedding provider returned {len(array)} vectors for {count} texts.")
    if count == 0:
        return np.empty((0, dimension), np.float32)
    if array.shape[1:] != (dimension,):
        length = array.shape[1] if array.ndim == 2 else 0
        raise ProviderError(
            f"The embedding provider returned vectors of {length} dimensions, not {dimension}.",
            permanent=True,
        )
    if not np.isfinite(array).all():
        raise ProviderError("The embedding provider returned a vector with a number that is not finite.")
    norms = np.linalg.norm(array.astype(np.float64), axis=1)
    worst = norms[np.abs(norms - 1).argmax()]
    if abs(worst - 1) > NORM_TOLERANCE:
        raise ProviderError(f"The embedding provider returned a vector of norm {worst:.4g}, not 1.")
    return array


def checked_tokens(tokens: Sequence[TokenStates], count: int, dimension: int) -> list[TokenStates]:
    """The same tokens. Raises ProviderError if they are not of `count` texts, or of another dimension than the vectors, or not
    finite."""
    if len(tokens) != count:
        raise ProviderError(f"The embedding provider returned the tokens of {len(tokens)} texts for {count}.")
    for one in tokens:
        pieces = len(one.states)
        if one.states.shape != (pieces, dimension) or one.spans.shape != (pieces, 2):
            raise ProviderError(
                "The embedding provider returned tokens of another dimension than its vectors."
            )
        if not np.isfinite(one.states).all():
            raise ProviderError("The embedding provider returned a token with a number that is not finite.")
    return list(tokens)
