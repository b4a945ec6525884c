"""Embedding providers behind one interface (EMB-7): `get_provider` gives the one that the settings name. The
interface and its errors are in `base.py`, the check of what a provider returns in `validation.py`.
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


def get_provider(
    *, provider: str | None = None, model: str | None = None, url: str | None = None
) -> EmbeddingProvider | None:
    """The provider of a model, the settings' one by default, or None when embeddings are disabled. Raises
    ImproperlyConfigured.

    A process has one provider for each choice. The model is loaded by the first text, not here.
    """
    if settings.EMBEDDING_PROVIDER == DISABLED:
        return None
    options: dict[str, object] = {
        "model": model or settings.EMBEDDING_MODEL,
        "dimension": settings.EMBEDDING_DIMENSION,
        "batch_size": settings.EMBEDDING_BATCH_SIZE,
        "threads": settings.EMBEDDING_THREADS,
        "timeout": settings.EMBEDDING_TIMEOUT,
    }
    if address := url or settings.EMBEDDING_URL:
        options["url"] = address
    return _provider(provider or settings.EMBEDDING_PROVIDER, **options)


@lru_cache
def _provider(name: str, **options: object) -> EmbeddingProvider:
    # By path, so that a process without embeddings does not import onnxruntime.
    try:
        provider_class = import_string(BUILT_IN.get(name, name))
    except ImportError as error:
        raise ImproperlyConfigured(
            f"EMBEDDING_PROVIDER={name} is none of {', '.join([*BUILT_IN, DISABLED])}, "
            f"nor the dotted path of a class: {error}"
        ) from error
    return cast(EmbeddingProvider, provider_class(**options))
