"""The check that every reply of a provider passes before it is stored or searched with (EMB-7), because pgvector takes zero
vectors and a wrong order without a word. Order is the provider's own duty: a matrix of vectors does not show it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from embeddings.providers.base import ProviderError, Vectors

NORM_TOLERANCE = 0.01  # the database's own check is no wider (`vector_norm(v) BETWEEN 0.99 AND 1.01`)


def checked(vectors: ArrayLike, count: int, dimension: int) -> Vectors:
    """The vectors as float32 [count, dimension]. Raises ProviderError on any other shape, or where a row is not finite or
    not of norm 1 (a zero vector included).
    """
    try:
        array = np.asarray(vectors, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ProviderError("The embedding provider's reply is not a list of vectors of one length.") from error
    if array.ndim != 2 and count:
        raise ProviderError("The embedding provider's reply is not a list of vectors.")
    if len(array) != count:
        raise ProviderError(f"The embedding provider returned {len(array)} vectors for {count} texts.")
    if not count:
        return np.empty((0, dimension), np.float32)
    if array.shape[1] != dimension:
        raise ProviderError(
            f"The embedding provider returned vectors of {array.shape[1]} dimensions, not {dimension}.",
            permanent=True,
        )
    if not np.isfinite(array).all():
        raise ProviderError("The embedding provider returned a vector with a value that is not a finite number.")
    norms = np.linalg.norm(array, axis=1)
    worst = float(norms[np.argmax(np.abs(norms - 1))])
    if abs(worst - 1) > NORM_TOLERANCE:
        raise ProviderError(f"The embedding provider returned a vector of norm {worst:.4g}, not 1.")
    return array
