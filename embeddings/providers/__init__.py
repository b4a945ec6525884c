"""Embedding providers behind one interface (EMB-7): `get_provider` gives the one that the settings name. The
interface, its errors and the check of what a provider returns are in `base.py`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import cast

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from embeddings.providers.base import EmbeddingProvider, Kind, ProviderError, Vectors

__all__ = ["EmbeddingProvider", "Kind", "ProviderError", "Vectors", "get_provider"]

BUILT_IN = {
    "sentence-transformers": "embeddings.providers.sentence_transformers.SentenceTransformers",
    "openai-compatible": "embeddings.providers.openai_compatible.OpenAICompatible",
    "local-http": "embeddings.providers.local_http.LocalHttp",
}
TORCH = "embeddings.providers.torch_runtime.TorchRuntime"
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
    name = provider or settings.EMBEDDING_PROVIDER
    of_model = model or settings.EMBEDDING_MODEL
    options: dict[str, object] = {
        "model": of_model,
        "dimension": settings.EMBEDDING_DIMENSION,
        "batch_size": settings.EMBEDDING_BATCH_SIZE,
        "threads": settings.EMBEDDING_THREADS,
        "timeout": settings.EMBEDDING_TIMEOUT,
    }
    address = settings.EMBEDDING_URL if url is None else url
    prefixes = (
        {"query_prefix": settings.EMBEDDING_QUERY_PREFIX, "passage_prefix": settings.EMBEDDING_PASSAGE_PREFIX}
        if of_model == settings.EMBEDDING_MODEL
        else {
            "query_prefix": settings.EMBEDDING_PREVIOUS_QUERY_PREFIX,
            "passage_prefix": settings.EMBEDDING_PREVIOUS_PASSAGE_PREFIX,
        }
    )
    if name == "openai-compatible":
        options |= {"url": address, "api_key": _api_key(of_model, address), **prefixes}
    elif name == "local-http":
        options |= {"url": address, **prefixes}
    elif name == "sentence-transformers":
        if settings.EMBEDDING_RUNTIME == "torch":
            return _provider(TORCH, **options, **prefixes, device=settings.EMBEDDING_DEVICE)
    elif address:
        options["url"] = address
    return _provider(name, **options)


def _api_key(model: str, url: str) -> str:
    """The key for a model at an address. The settings' key goes to the settings' address only."""
    if model != settings.EMBEDDING_MODEL and settings.EMBEDDING_PREVIOUS_API_KEY:
        return str(settings.EMBEDDING_PREVIOUS_API_KEY)
    return str(settings.EMBEDDING_API_KEY) if url == settings.EMBEDDING_URL else ""


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
