"""What an embedding provider is and how it fails. Which one is in use is said by `get_provider`
(`__init__.py`), whether its reply may be stored by `validation.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
"""float32 [texts, dimension], rows of norm 1, in the order of the texts."""

Kind = Literal["passage", "query"]
"""What a text is: an entry of the catalogue, or a search for one. Some models want the two marked."""


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
    """A provider gave no usable vectors. The message is in the operator's words.

    `permanent`: this text can never work, so trying again is useless. `provider_wide`: the provider is down
    or refuses us, which is no text's fault and costs none an attempt. `lasting`: and it will go on doing so, as with a
    wrong key. `retry_after`: seconds it asks for.
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
