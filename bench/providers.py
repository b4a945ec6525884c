"""A provider that costs nothing, so that what remains is the queue."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from embeddings.providers.base import Kind, Vectors


class Instant:
    """A random direction for each text. The index has to place it, as it does a real one."""

    model = "instant"

    def __init__(self, *, dimension: int, **_: Any) -> None:
        self.dimension = dimension

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        seeds = [int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) for text in texts]
        vectors = np.array([np.random.default_rng(seed).standard_normal(self.dimension) for seed in seeds])
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)

    def truncates(self, text: str) -> bool:
        return False
