"""Embedding providers behind one interface (EMB-7): `get_provider` gives the one that the settings name. The interface and its
errors are in `base.py`, the check of what a provider returns in `validation.py`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import cast

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from embeddings.providers.base import EmbeddingProvider, Kind, ProviderError, Vectors

__all__ = ["EmbeddingProvider", "Kind", "ProviderError", "Vectors", "get_provider"]

BUILT_IN = {"sentence-transformers": "embeddings.providers.sentence_transformers.SentenceTransformers"}
DISABLED = "disabled"


def get_provider() -> EmbeddingProvider | None:
    """The provider of the settings, one a process for each choice of settings; None when embeddings are disabled.

    Cheap: the model itself is loaded by the first text. Raises ImproperlyConfigured.
    """
    if settings.EMBEDDING_PROVIDER == DISABLED:
        return None
    return _provider(
        settings.EMBEDDING_PROVIDER,
        model=settings.EMBEDDING_MODEL,
        dimension=settings.EMBEDDING_DIMENSION,
        batch_size=settings.EMBEDDING_BATCH_SIZE,
        threads=settings.EMBEDDING_THREADS,
        timeout=settings.EMBEDDING_TIMEOUT,
    )


@lru_cache
def _provider(name: str, **options: object) -> EmbeddingProvider:
    path = BUILT_IN.get(name, name)
    # Importing here keeps onnxruntime out of processes that embed nothing.
    try:
        provider_class = import_string(path)
    except ImportError as error:
        known = ", ".join([*BUILT_IN, DISABLED])
        raise ImproperlyConfigured(
            f"EMBEDDING_PROVIDER={name!r} is none of {known}, and no class can be imported by that path: {error}"
        ) from error
    return cast(EmbeddingProvider, provider_class(**options))
