"""Jobs of some tools, queued or claimed by a runner."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from portal.jobs import services
from portal.jobs.context import Context
from portal.jobs.models import Job
from tools.models import Tool

Make = Callable[..., Job]


@pytest.fixture
def start(make_tool: Callable[..., Tool]) -> Make:
    """A queued backfill of `tools` new tools, asked for by `by`."""

    def make(*, tools: int = 4, by: str = "ada") -> Job:
        for _ in range(tools):
            make_tool()
        return services.start("backfill_embeddings", {}, by=by)

    return make


@pytest.fixture
def running(start: Make) -> Callable[..., Context]:
    """The same, claimed by a runner; what it is given is noted as one batch."""

    def make(*, tools: int = 4, by: str = "ada", **batch: Any) -> Context:
        queued = start(tools=tools, by=by)
        job = Job.objects.claim(kinds=["backfill_embeddings"], pk=queued.pk)
        assert job is not None
        context = Context(job, threading.Event())
        context.batch(**{"total": 100, **batch})
        return context

    return make
