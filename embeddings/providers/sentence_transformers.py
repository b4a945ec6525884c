"""EMBEDDING_PROVIDER="sentence-transformers": all-MiniLM-L6-v2 in this process, on onnxruntime. Its vectors are those of the
sentence-transformers library, which is not needed (`docs/embedding-model.md`). Works without Django's settings. The graph is
`onnx_model.py`'s, the choice of a provider `__init__.py`'s.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import numpy as np
import onnxruntime
from django.core.exceptions import ImproperlyConfigured
from tokenizers import Tokenizer

from embeddings.providers import onnx_model
from embeddings.providers.base import Kind, ProviderError, Vectors

MAX_TOKENS = 256
"""What the model reads of a text, [CLS] and [SEP] among them."""
MAX_CHARACTERS = 16_384
"""What is tokenized of a text. 256 tokens are some 1,200 characters; tokenizing a megabyte would take a second."""
TOKENS_AT_ONCE = 256
"""Tokens of one run of the model, padding included. More at once is no faster, only padded more and bigger in memory."""
SEP = 102


class SentenceTransformers:
    """The provider. `threads` work on one call's batches at a time, `batch_size` is the most texts of a batch; `timeout` is a
    keyword of every provider and means nothing here. Raises ImproperlyConfigured for a model that it does not have.
    """

    def __init__(
        self,
        *,
        model: str = onnx_model.MODEL,
        dimension: int = onnx_model.DIMENSION,
        batch_size: int = 32,
        threads: int = 1,
        timeout: float | None = None,
    ) -> None:
        if (model, dimension) != (onnx_model.MODEL, onnx_model.DIMENSION):
            raise ImproperlyConfigured(
                f"EMBEDDING_PROVIDER=sentence-transformers has EMBEDDING_MODEL={onnx_model.MODEL} with "
                f"EMBEDDING_DIMENSION={onnx_model.DIMENSION} only, not {model} with {dimension}."
            )
        self.model = model
        self.dimension = dimension
        self._batch_size = batch_size
        self._threads = threads
        self._lock = threading.Lock()
        self._loaded: tuple[int, onnxruntime.InferenceSession] | None = None

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """The texts' vectors, float32 [n, 384], rows of norm 1. `kind` changes nothing: this model knows no prefixes.

        The first call of a process loads the model (50 ms). Safe to call from several threads. Raises ProviderError.
        """
        session = self._session()
        tokens = [self._tokens(text) for text in texts]
        vectors = np.empty((len(tokens), self.dimension), np.float32)

        def run(batch: list[int]) -> None:
            ids = np.zeros((len(batch), len(tokens[batch[0]])), np.int32)
            mask = np.zeros_like(ids)
            for row, index in enumerate(batch):
                ids[row, : len(tokens[index])] = tokens[index]
                mask[row, : len(tokens[index])] = 1
            vectors[batch] = session.run(["embedding"], {"input_ids": ids, "attention_mask": mask})[0]

        batches = self._batches([len(ids) for ids in tokens])
        if min(self._threads, len(batches)) > 1:
            with ThreadPoolExecutor(self._threads) as pool:
                list(pool.map(run, batches))
        else:
            for batch in batches:
                run(batch)
        return vectors

    def count_tokens(self, text: str) -> int:
        """Tokens of the text's first 16,384 characters, [CLS] and [SEP] among them. Some 0.1 ms; the model is not loaded."""
        return len(self._encode(text))

    def truncates(self, text: str) -> bool:
        """Whether the model reads only the beginning of the text (EMB-1)."""
        return len(text) > MAX_CHARACTERS or self.count_tokens(text) > MAX_TOKENS

    def _tokens(self, text: str) -> list[int]:
        ids = self._encode(text)
        return ids if len(ids) <= MAX_TOKENS else [*ids[: MAX_TOKENS - 1], SEP]

    def _encode(self, text: str) -> list[int]:
        # A lone surrogate has no UTF-8, so it becomes U+FFFD, which the model's tokenizer drops, as it drops NUL.
        text = text[:MAX_CHARACTERS].encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        # `encode_batch` would start threads, and a process that forks after that cannot use them.
        ids: list[int] = self._tokenizer.encode(text).ids
        return ids

    def _batches(self, lengths: list[int]) -> list[list[int]]:
        """Indexes of the texts in batches, the longest texts first. Neighbours are of like length, so little is padded."""
        batches: list[list[int]] = []
        for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
            if batches:
                batch = batches[-1]
                if len(batch) < self._batch_size and (len(batch) + 1) * lengths[batch[0]] <= TOKENS_AT_ONCE:
                    batch.append(index)
                    continue
            batches.append([index])
        return batches

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        tokenizer = Tokenizer.from_file(str(onnx_model.wheel_file("tokenizer.json")))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    def _session(self) -> onnxruntime.InferenceSession:
        """This process's session. It is never one from before a fork, whose locks and memory are the parent's."""
        with self._lock:
            if self._loaded is None or self._loaded[0] != os.getpid():
                options = onnxruntime.SessionOptions()
                # A session without threads of its own: they would not survive a fork, and `embed` spreads batches better.
                options.intra_op_num_threads = 1
                options.inter_op_num_threads = 1
                options.add_session_config_entry("session.intra_op.allow_spinning", "0")
                # The graph is written in its final shape; the optimizer would put slower operators in.
                options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
                path = onnx_model.ensure_built()
                try:
                    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
                except Exception as error:  # onnxruntime's errors have no class in common
                    raise ProviderError(f"The model in {path.parent} cannot be loaded: {error}", provider_wide=True) from error
                self._loaded = os.getpid(), session
            return self._loaded[1]
