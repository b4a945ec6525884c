"""Embedding providers for tests: real implementations of the interface, deterministic and offline. Processes are given
one by its dotted path in EMBEDDING_PROVIDER.
"""

from __future__ import annotations

import hashlib
import os
import re
import resource
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embeddings.providers.base import Kind, ProviderError, TokenStates, Vectors
from embeddings.text import source_hash
from tests.support.waits import wait_for

CANNOT = ProviderError("this text cannot be embedded")
CANNOT_EVER = ProviderError("this text cannot be embedded", permanent=True)
"""What PoisonEmbedder raises; `public` is what the portal shows of it."""


def hash_vector(text: str, dimension: int = 384) -> np.ndarray:
    """A unit vector that only this text has."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    vector = np.random.default_rng(seed).standard_normal(dimension).astype(np.float32)
    return vector / np.linalg.norm(vector)


class HashEmbedder:
    """Vectors from the hash of the text. `calls` holds the catalogue's texts it was given, and so does the file
    TEST_EMBEDDER_LOG of other processes, one hash a line."""

    def __init__(self, *, model: str, dimension: int, **options: object) -> None:
        self.model, self.dimension = model, dimension
        self.calls: list[str] = []

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        wait_for("the provider")
        if kind == "passage":
            self.note(texts)
        return np.stack([hash_vector(text, self.dimension) for text in texts])

    def note(self, texts: Sequence[str]) -> None:
        self.calls += texts
        if log := os.environ.get("TEST_EMBEDDER_LOG"):
            with Path(log).open("a", encoding="utf-8") as file:
                file.write("".join(f"{source_hash(text)}\n" for text in texts))

    def truncates(self, text: str) -> bool:
        return False


class TokenEmbedder(HashEmbedder):
    """Also gives the word pieces: every word is one, with the same state wherever it stands. `vectors` of texts are as before."""

    def embed_with_tokens(self, texts: Sequence[str], kind: Kind) -> tuple[Vectors, list[TokenStates]]:
        return self.embed(texts, kind), [word_states(text, self.dimension) for text in texts]


def word_states(text: str, dimension: int = 384) -> TokenStates:
    """The hash vector of every word of the text, whatever its case."""
    words = list(re.finditer(r"\w+", text))
    states = [hash_vector(word[0].lower(), dimension) for word in words]
    return TokenStates(
        np.array(states, np.float16).reshape(-1, dimension),
        np.array([word.span() for word in words], np.int32).reshape(-1, 2),
    )


class SlowEmbedder(HashEmbedder):
    """Waits TEST_EMBEDDER_SECONDS in each call for the catalogue."""

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        vectors = super().embed(texts, kind)
        if kind == "passage":
            time.sleep(float(os.environ.get("TEST_EMBEDDER_SECONDS", "0.2")))
        return vectors


class GatedEmbedder(HashEmbedder):
    """Holds the first call for the catalogue until the test lets it go on: a slow provider under the test's control."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.begun, self.go_on = threading.Event(), threading.Event()

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        vectors = super().embed(texts, kind)
        if kind == "passage" and not self.begun.is_set():
            self.begun.set()
            if not self.go_on.wait(20):
                raise TimeoutError("the test did not open the gate")
        return vectors


class DownEmbedder(HashEmbedder):
    """Fails as a provider that is down, while the file TEST_EMBEDDER_DOWN exists."""

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        if Path(os.environ["TEST_EMBEDDER_DOWN"]).exists():
            raise ProviderError("the provider cannot be reached", provider_wide=True)
        return super().embed(texts, kind)


class KillerEmbedder(HashEmbedder):
    """Kills its process over a text that holds the word deadly, asks for more memory than it may have over a hungry one, and
    cannot decode a garbled one."""

    die: Callable[[], object] = staticmethod(lambda: os.kill(os.getpid(), signal.SIGKILL))

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        vectors = super().embed(texts, kind)
        if any("deadly" in text for text in texts):
            self.die()
        if any("hungry" in text for text in texts):
            starve()
        if any("garbled" in text for text in texts):
            b"\xff".decode()
        return vectors


def starve() -> None:
    """Allocates past the limit of this process's address space, which is what it has now and a little."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**26, limits[1]))
    try:
        bytearray(2**30)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


class WrongEmbedder(HashEmbedder):
    """Replies as its attribute `reply` says: a provider that keeps no contract."""

    reply: Callable[[Vectors], Any] = staticmethod(lambda vectors: vectors)

    def embed(self, texts: Sequence[str], kind: Kind) -> Any:
        return self.reply(super().embed(texts, kind))


class PoisonEmbedder(HashEmbedder):
    """Fails the whole batch when a text in it holds the word poison (`permanent poison`: for good)."""

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        wait_for("the provider")
        self.note(texts)
        for text in texts:
            if "poison" in text:
                raise ProviderError(str(CANNOT), permanent="permanent poison" in text)
        return np.stack([hash_vector(text, self.dimension) for text in texts])


class SlowPoisonEmbedder(PoisonEmbedder):
    """The same, with time to watch it: waits as many seconds as the file TEST_EMBEDDER_PACE says in each call for the
    catalogue, and knows no poison while the file TEST_EMBEDDER_ANTIDOTE exists."""

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        if kind == "passage":
            time.sleep(float(Path(os.environ["TEST_EMBEDDER_PACE"]).read_text()))
        if Path(os.environ["TEST_EMBEDDER_ANTIDOTE"]).exists():
            texts = [text.replace("poison", "") for text in texts]
        return super().embed(texts, kind)


class ModelEmbedder(HashEmbedder):
    """Vectors that depend on the model as well as on the text: those of two models have nothing in common."""

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        wait_for("the provider")
        if kind == "passage":
            self.note(texts)
        return np.stack([hash_vector(f"{self.model} {text}", self.dimension) for text in texts])


PERMANENT = "A permanent poison."
