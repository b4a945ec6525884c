"""EMB-9: new vectors of chosen tools, while the old ones serve."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from portal.jobs import services
from portal.jobs.errors import AlreadyRunning, InvalidArguments
from portal.tenancy.models import Scope, Sensitivity
from portal.tenancy.rights import Rights, acting_with
from tests.support.embeddings.pipeline import Pipeline
from tests.support.jobs.harness import JobHarness
from tests.support.jobs.scenarios import ready_tools
from tools.catalogue.embedding_jobs import REFRESH


class TestRefresh:
    def test_a_selection_gets_new_vectors_while_the_old_ones_serve_EMB_9(
        self, harness: JobHarness, pipeline: Pipeline, embedder: Any
    ) -> None:
        pks = ready_tools(pipeline, 5)
        calls = len(embedder.calls)
        pk = harness.start(REFRESH, ids=[str(one) for one in pks[:3]], batch_size=2)
        harness.run_until_queued()
        assert {pipeline.status(one) for one in pks} == {"ready"}
        assert harness.tagged() == 3
        assert harness.finish(pk) == "succeeded"
        assert harness.counts(pk) == (3, 3, 0, 0)
        assert len(embedder.calls) == calls + 3

    def test_cancelled_it_leaves_the_vectors_that_serve_EMB_9(
        self, harness: JobHarness, pipeline: Pipeline
    ) -> None:
        pks = ready_tools(pipeline, 3)
        before = [pipeline.embedding(one)["vector"] for one in pks]
        pk = harness.start(REFRESH, ids=[str(one) for one in pks])
        harness.run_until_queued()
        harness.do(services.cancel, pk)
        harness.run()
        assert (harness.state(pk), harness.tagged()) == ("cancelled", 0)
        assert len(pipeline.tasks()) == 3
        assert [pipeline.embedding(one)["vector"] for one in pks] == before
        assert {pipeline.status(one) for one in pks} == {"ready"}
        pipeline.work()
        for one in pks:
            pipeline.check_ready(one)

    def test_ids_of_nothing_and_of_another_tenant_are_skipped_and_the_same_choice_twice_is_refused_S1(
        self, harness: JobHarness, pipeline: Pipeline, make_tenant: Callable[..., Any]
    ) -> None:
        other = Pipeline(make_tenant().pk, pipeline.owner)
        foreign = other.add("Another tenant's.")
        pipeline.work()
        own = ready_tools(pipeline, 1)[0]
        ids = [str(own), str(foreign), str(uuid.uuid4())]
        pk = harness.start(REFRESH, ids=ids)
        with pytest.raises(AlreadyRunning):
            harness.start(REFRESH, ids=list(reversed(ids)))
        before = other.embedding(foreign)
        assert harness.finish(pk) == "succeeded"
        assert harness.counts(pk) == (3, 1, 0, 2)
        assert other.embedding(foreign) == before

    @pytest.mark.parametrize("ids", [None, [], "x", ["x"], [7], [None]])
    def test_ids_that_are_none_are_refused(self, harness: JobHarness, ids: Any) -> None:
        with harness.in_tenant(), pytest.raises(InvalidArguments, match="ids"):
            services.start(REFRESH, {"ids": ids}, by="test")


def test_a_runner_works_with_the_rights_of_who_started_the_job_and_no_others_SEC_4(
    harness: JobHarness,
) -> None:
    pipeline = harness.pipeline
    hidden, shown = (pipeline.add(sensitivity=one) for one in ("restricted", "public"))
    pipeline.work()
    low = Rights(pipeline.tenant_id, "low", frozenset({Scope.ADMIN}), Sensitivity.PUBLIC)
    before = pipeline.embedding(hidden)
    with acting_with(low):
        pk = harness.start(REFRESH, ids=[str(hidden), str(shown)])
    harness.run_until_queued()
    assert pipeline.task(shown) is not None
    assert (pipeline.task(hidden), pipeline.embedding(hidden)) == (None, before)
    assert harness.find(pk).own_rights.max_sensitivity == Sensitivity.PUBLIC
