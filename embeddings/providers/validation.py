"""The check that every reply of a provider passes before it is stored or searched with (EMB-7), because
pgvector accepts zero vectors. The order of the vectors cannot be checked here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from embeddings.providers.base import ProviderError, Vectors

NORM_TOLERANCE = 0.01
"""As in the database's constraint, `vector_norm(vector) BETWEEN 0.99 AND 1.01`."""


def checked(vectors: ArrayLike, count: int, dimension: int) -> Vectors:
    """The vectors as float32 [count, dimension]. Raises ProviderError for any other shape and for a row that
    is not finite or not of norm 1. Another dimension is permanent: trying again does not change a model.
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
