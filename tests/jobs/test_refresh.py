"""EMB-9: new vectors of chosen tools, while the old ones serve."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from portal.jobs import services
from portal.jobs.errors import AlreadyRunning, InvalidArguments
from tests.embeddings.pipeline import Pipeline
from tests.jobs.desk import Desk
from tests.jobs.scenes import (
    ready_tools,
)
from tools.catalogue.embedding_jobs import REFRESH


class TestRefresh:
    def test_a_selection_gets_new_vectors_while_the_old_ones_serve_EMB_9(
        self, desk: Desk, pipeline: Pipeline, embedder: Any
    ) -> None:
        pks = ready_tools(pipeline, 5)
        calls = len(embedder.calls)
        pk = desk.start(REFRESH, ids=[str(one) for one in pks[:3]], batch_size=2)
        desk.run_until_queued()
        assert {pipeline.status(one) for one in pks} == {"ready"}
        assert desk.tagged() == 3
        assert desk.finish(pk) == "succeeded"
        assert desk.counts(pk) == (3, 3, 0, 0)
        assert len(embedder.calls) == calls + 3

    def test_cancelled_it_leaves_the_vectors_that_serve_EMB_9(self, desk: Desk, pipeline: Pipeline) -> None:
        pks = ready_tools(pipeline, 3)
        before = [pipeline.embedding(one)["vector"] for one in pks]
        pk = desk.start(REFRESH, ids=[str(one) for one in pks])
        desk.run_until_queued()
        desk.do(services.cancel, pk)
        desk.run()
        assert (desk.state(pk), pipeline.tasks()) == ("cancelled", [])
        assert [pipeline.embedding(one)["vector"] for one in pks] == before
        for one in pks:
            pipeline.check_ready(one)

    def test_ids_of_nothing_and_of_another_tenant_are_skipped_and_the_same_choice_twice_is_refused_S1(
        self, desk: Desk, pipeline: Pipeline, make_tenant: Callable[..., Any]
    ) -> None:
        other = Pipeline(make_tenant().pk, pipeline.owner)
        foreign = other.add("Another tenant's.")
        pipeline.work()
        own = ready_tools(pipeline, 1)[0]
        ids = [str(own), str(foreign), str(uuid.uuid4())]
        pk = desk.start(REFRESH, ids=ids)
        with pytest.raises(AlreadyRunning):
            desk.start(REFRESH, ids=list(reversed(ids)))
        before = other.embedding(foreign)
        assert desk.finish(pk) == "succeeded"
        assert desk.counts(pk) == (3, 1, 0, 2)
        assert other.embedding(foreign) == before

    @pytest.mark.parametrize("ids", [None, [], "x", ["x"], [7], [None]])
    def test_ids_that_are_none_are_refused(self, desk: Desk, ids: Any) -> None:
        with desk.in_tenant(), pytest.raises(InvalidArguments, match="ids"):
            services.start(REFRESH, {"ids": ids}, by="test")
