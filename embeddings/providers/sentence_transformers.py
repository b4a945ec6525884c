"""EMBEDDING_PROVIDER=sentence-transformers: all-MiniLM-L6-v2 in this process, on onnxruntime. Its vectors are
those of the sentence-transformers library, which is not needed (`docs/embedding-model.md`). Reads no
settings. The graph comes from `onnx_model.py`, the choice of a provider from `__init__.py`.
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
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from embeddings.providers import onnx_model
from embeddings.providers.base import Kind, ProviderError, TokenStates, Vectors

MAX_TOKENS = 256
"""Tokens of a text that the model reads, with [CLS] and [SEP]."""
MAX_CHARACTERS = 16_384
"""Characters of a text that are tokenized: many times 256 tokens. Tokenizing a megabyte would take a second."""
TOKENS_AT_ONCE = 256
"""Tokens of one run, padding among them. More are no faster, but are padded more and take more memory."""
SEP = 102


def readable(text: str) -> str:
    """Cuts the text for the tokenizer and replaces lone surrogates, which have no UTF-8, by U+FFFD, which the tokenizer drops."""
    return text[:MAX_CHARACTERS].encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class SentenceTransformers:
    """The provider. `batch_size` is the most texts of one run, `threads` the most runs at a time within one
    call. `timeout` is ignored. Raises ImproperlyConfigured for another model.
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
                f"EMBEDDING_PROVIDER=sentence-transformers has only EMBEDDING_MODEL={onnx_model.MODEL} with "
                f"EMBEDDING_DIMENSION={onnx_model.DIMENSION}, not {model} with {dimension}; "
                "EMBEDDING_RUNTIME=torch has others."
            )
        self.model = model
        self.dimension = dimension
        self._batch_size = batch_size
        self._threads = threads
        self._lock = threading.Lock()
        self._loaded: tuple[int, onnxruntime.InferenceSession] | None = None

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """One vector a text, float32 [n, 384], rows of norm 1. This model ignores `kind`.

        The first call of a process loads the model. Several threads may call it. Raises ProviderError.
        """
        return self._run(texts, ["embedding"])[0]

    def embed_with_tokens(self, texts: Sequence[str], kind: Kind) -> tuple[Vectors, list[TokenStates]]:
        """The same vectors, and the states of the word pieces, of the same run of the model. Raises ProviderError."""
        vectors, encodings, states = self._run(texts, ["embedding", "hidden"])
        tokens = []
        for encoding, own in zip(encodings, states, strict=True):
            spans = np.array(encoding.offsets[1 : 1 + len(own)], np.int32).reshape(-1, 2)
            tokens.append(TokenStates(own, spans))
        return vectors, tokens

    def _run(
        self, texts: Sequence[str], outputs: list[str]
    ) -> tuple[Vectors, list[Encoding], list[NDArray[np.float16]]]:
        """The vectors, the encodings, and, if the output `hidden` is asked for, the states of each text's own tokens."""
        session = self._session()
        encodings = [self._encode(text) for text in texts]
        tokens = [_read(encoding.ids) for encoding in encodings]
        vectors = np.empty((len(tokens), self.dimension), np.float32)
        states = [np.empty((0, self.dimension), np.float16)] * len(tokens)

        def run(batch: list[int]) -> None:
            ids = np.zeros((len(batch), len(tokens[batch[0]])), np.int32)
            mask = np.zeros_like(ids)
            for row, index in enumerate(batch):
                ids[row, : len(tokens[index])] = tokens[index]
                mask[row, : len(tokens[index])] = 1
            found = session.run(outputs, {"input_ids": ids, "attention_mask": mask})
            vectors[batch] = found[0]
            for hidden in found[1:]:
                for row, index in enumerate(batch):
                    states[index] = hidden[row, 1 : len(tokens[index]) - 1].astype(np.float16)

        batches = self._batches([len(ids) for ids in tokens])
        if min(self._threads, len(batches)) > 1:
            with ThreadPoolExecutor(self._threads) as pool:
                list(pool.map(run, batches))
        else:
            for batch in batches:
                run(batch)
        return vectors, encodings, states

    def count_tokens(self, text: str) -> int:
        """Tokens of the first 16,384 characters, [CLS] and [SEP] among them. Does not load the model."""
        return len(self._encode(text).ids)

    def truncates(self, text: str) -> bool:
        """Whether the model reads only the beginning of the text (EMB-1)."""
        return len(text) > MAX_CHARACTERS or self.count_tokens(text) > MAX_TOKENS

    def _encode(self, text: str) -> Encoding:
        # One by one, since `encode_batch` starts threads that a fork would not survive.
        return self._tokenizer.encode(readable(text))

    def _batches(self, lengths: list[int]) -> list[list[int]]:
        """Indexes of the texts, longest first, in batches that are padded to their first text's length."""
        batches: list[list[int]] = []
        for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
            batch = batches[-1] if batches else []
            if batch and len(batch) < min(self._batch_size, TOKENS_AT_ONCE // lengths[batch[0]]):
                batch.append(index)
            else:
                batches.append([index])
        return batches

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        tokenizer = Tokenizer.from_file(str(onnx_model.wheel_file("tokenizer.json")))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    def _session(self) -> onnxruntime.InferenceSession:
        """The session of this process; after a fork a new one, since the old one's locks are the parent's."""
        with self._lock:
            if self._loaded is None or self._loaded[0] != os.getpid():
                self._loaded = os.getpid(), _load()
            return self._loaded[1]


def _read(ids: list[int]) -> list[int]:
    """The tokens that the model reads, [CLS] and [SEP] among them."""
    return ids if len(ids) <= MAX_TOKENS else [*ids[: MAX_TOKENS - 1], SEP]


def _load() -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    # The session has no threads of its own: several runs at a time, as in `embed`, use the cores better.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # The graph has its final shape; the full optimizer would put slower operators in (`onnx_model.py`).
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    path = onnx_model.ensure_built()
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors have no class in common
        raise ProviderError(f"The model {path} cannot be loaded: {error}", provider_wide=True) from error
