"""Embedding providers for tests: real implementations of the interface, deterministic and offline. Processes are given
one by its dotted path in EMBEDDING_PROVIDER.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from embeddings.providers.base import Kind, ProviderError, Vectors


def hash_vector(text: str, dimension: int = 384) -> np.ndarray:
    """A unit vector that only this text has."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    vector = np.random.default_rng(seed).standard_normal(dimension).astype(np.float32)
    return vector / np.linalg.norm(vector)


class HashEmbedder:
    """Vectors from the hash of the text; `calls` counts texts."""

    def __init__(self, *, model: str, dimension: int, **options: object) -> None:
        self.model, self.dimension = model, dimension
        self.calls: list[str] = []

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        self.calls += texts
        return np.stack([hash_vector(text, self.dimension) for text in texts])

    def truncates(self, text: str) -> bool:
        return False


class SlowEmbedder(HashEmbedder):
    """Waits TEST_EMBEDDER_SECONDS in each call."""

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        time.sleep(float(os.environ.get("TEST_EMBEDDER_SECONDS", "0.2")))
        return super().embed(texts, kind)


class GatedEmbedder(HashEmbedder):
    """Tells when a call has begun and waits to be let through: a slow provider under the test's control."""

    begun = threading.Event()
    go_on = threading.Event()

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        if kind == "passage":
            self.begun.set()
            if not self.go_on.wait(20):
                raise TimeoutError("the test did not open the gate")
        return super().embed(texts, kind)


class DownEmbedder(HashEmbedder):
    """Fails as a provider that is down, while the file TEST_EMBEDDER_DOWN exists."""

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        if Path(os.environ["TEST_EMBEDDER_DOWN"]).exists():
            raise ProviderError("the provider cannot be reached", provider_wide=True)
        return super().embed(texts, kind)


class PoisonEmbedder(HashEmbedder):
    """Fails the whole batch when a text in it holds the word poison (`permanent poison`: for good)."""

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        for text in texts:
            if "poison" in text:
                raise ProviderError("this text cannot be embedded", permanent="permanent poison" in text)
        return super().embed(texts, kind)
