"""The interface of embedding providers and their errors. `get_provider` (`__init__.py`) returns the one that the settings name;
`validation.py` checks its reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
"""float32 [texts, dimension], rows of norm 1, in the order of the texts."""

Kind = Literal["passage", "query"]
"""The kind of a text: an entry of the catalogue, or the question of a search. Some models have a prefix for each."""


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


class ProviderError(Exception):
    """A provider returned no usable vectors. The message is for operators.

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
        super().__init__(message)
        self.permanent = permanent
        self.provider_wide = provider_wide
        self.lasting = lasting
        self.retry_after = retry_after
