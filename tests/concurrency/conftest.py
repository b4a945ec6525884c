from __future__ import annotations

from tests.embeddings.conftest import embedder, pipeline, use

__all__ = ["embedder", "pipeline", "use"]
