"""Jobs over real commits: the pipeline of the embedding tests, and a harness that starts and runs its jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.embeddings.pipeline import Pipeline
from tests.support.jobs.harness import JobHarness


@pytest.fixture
def harness(pipeline: Pipeline) -> JobHarness:
    return JobHarness(pipeline)


@pytest.fixture
def processes(pipeline: Pipeline) -> Iterator[Callable[..., Any]]:
    """Starts a process of the product on this test's database; what still runs is killed at the end."""
    from tests.support.jobs.harness import spawn

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
