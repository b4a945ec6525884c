"""A cross-encoder of the sentence-transformers library (extra `[torch]`) in this process as the judge of an order."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import cache
from typing import Any

from portal.service_error import ServiceError


class CrossEncoder:
    """The model `name`: one that Hugging Face's cache on this machine holds, or a folder. It is loaded at the first use."""

    def __init__(self, name: str) -> None:
        self.name = name

    def order(self, question: str, tools: Sequence[str]) -> list[int]:
        """Indexes of the tools' texts, best first. Raises ServiceError."""
        try:
            scores = _model(self.name).predict([(question, text) for text in tools], show_progress_bar=False)
        except (ImportError, OSError) as error:  # without the library, or without the model
            raise ServiceError(
                f"The cross-encoder {self.name} cannot be loaded: {error}", lasting=True
            ) from error
        return sorted(range(len(tools)), key=lambda index: -float(scores[index]))


@cache
def _model(name: str) -> Any:
    return importlib.import_module("sentence_transformers").CrossEncoder(
        name, device="cpu", local_files_only=True
    )
