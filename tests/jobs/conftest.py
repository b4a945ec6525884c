"""Jobs over real commits: the pipeline of the embedding tests, and a desk from which its jobs are run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.embeddings.conftest import embedder, pipeline, use
from tests.embeddings.pipeline import Pipeline
from tests.jobs.desk import Desk

__all__ = ["embedder", "pipeline", "use"]


@pytest.fixture
def desk(pipeline: Pipeline) -> Desk:
    return Desk(pipeline)


@pytest.fixture
def processes(pipeline: Pipeline) -> Iterator[Callable[..., Any]]:
    """Starts a process of the product on this test's database; what still runs is killed at the end."""
    from tests.jobs.desk import spawn

    started: list[Any] = []

    def start(*command: str, **environment: str) -> Any:
        started.append(spawn(*command, **environment))
        return started[-1]

    yield start
    for child in started:
        if child.poll() is None:
            child.kill()
        with child:
            child.wait()
