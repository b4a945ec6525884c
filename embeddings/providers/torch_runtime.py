"""EMBEDDING_RUNTIME=torch for EMBEDDING_PROVIDER=sentence-transformers: the sentence-transformers library itself, for other
models or a GPU. The settings refuse it where the extra `[torch]` is missing. Of all-MiniLM-L6-v2 it gives the vectors that `sentence_transformers.py`
gives, from the same weights; `make test-torch` proves that. Reads no settings.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from embeddings.providers import onnx_model
from embeddings.providers.base import Kind, ProviderError, Vectors
from embeddings.providers.sentence_transformers import readable

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


class TorchRuntime:
    """The provider. `model` is a name or a folder that the library knows, `batch_size` the most texts of one run,
    `threads` the processor's threads. `timeout` means nothing here. The prefixes are for models that want passages and
    queries marked; all-MiniLM-L6-v2 does not.
    """

    def __init__(
        self,
        *,
        model: str = onnx_model.MODEL,
        dimension: int = onnx_model.DIMENSION,
        batch_size: int = 32,
        threads: int = 1,
        timeout: float | None = None,
        device: str = "auto",
        query_prefix: str = "",
        passage_prefix: str = "",
    ) -> None:
        self.model, self.dimension = model, dimension
        self._batch_size, self._threads, self._device = batch_size, threads, device
        marked = model != onnx_model.MODEL
        self._prefixes: dict[Kind, str] = {
            "query": query_prefix if marked else "",
            "passage": passage_prefix if marked else "",
        }
        # The library's tokenizer changes while it is used, so that one thread at a time has it.
        self._lock = threading.Lock()
        self._loaded: tuple[int, SentenceTransformer] | None = None

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """One vector a text, float32 [n, dimension], rows of norm 1. The first call of a process loads the model, which
        takes seconds. Raises ProviderError."""
        with self._lock:
            model = self._model()
            if not texts:
                return np.empty((0, self.dimension), np.float32)
            return np.asarray(
                model.encode(
                    [self._prefixes[kind] + readable(text) for text in texts],
                    batch_size=self._batch_size,
                    normalize_embeddings=True,
                    show_progress_bar=False,
                ),
                np.float32,
            )

    def truncates(self, text: str) -> bool:
        """Whether the model reads only the beginning of the text (EMB-1)."""
        text = self._prefixes["passage"] + text
        shown = readable(text)
        with self._lock:
            model = self._model()
            if len(shown) < len(text) or model.max_seq_length is None:
                return len(shown) < len(text)
            tokens = model.tokenizer(shown, truncation=False, verbose=False)["input_ids"]
        return len(tokens) > int(model.max_seq_length)

    def _model(self) -> SentenceTransformer:
        """The model of this process; after a fork a new one, since the old one's locks are the parent's."""
        if self._loaded is None or self._loaded[0] != os.getpid():
            self._loaded = os.getpid(), self._load()
        return self._loaded[1]

    def _load(self) -> SentenceTransformer:
        place = self.model
        if self.model == onnx_model.MODEL:
            place = str(onnx_model.published_weights().parent)
        try:
            # Seconds of import, which only the processes that embed are to pay.
            import torch
            from sentence_transformers import SentenceTransformer

            torch.set_num_threads(self._threads)
            return SentenceTransformer(place, device=None if self._device == "auto" else self._device)
        except Exception as error:  # the libraries' errors have no class in common
            raise ProviderError(
                f"The model {self.model} cannot be loaded: {error}", provider_wide=True
            ) from error
