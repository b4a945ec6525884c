"""Jobs are kept for 90 days after their end, with what failed in them."""

from __future__ import annotations

import io
import json

import pytest
from django.core.management import call_command

from portal.jobs import services
from tests.support.database import login
from tests.support.jobs.harness import JobHarness
from tests.support.jobs.scenarios import put


def test_old_jobs_that_are_over_are_deleted_in_every_tenant_and_others_stay(harness: JobHarness) -> None:
    old = {
        state: put(harness, state, created_at="2020-01-01", heartbeat_at="2020-01-01")
        for state in ("succeeded", "partial", "lost", "queued")
    }
    fresh = [
        put(harness, "succeeded"),
        put(harness, "succeeded", created_at="2020-01-01", heartbeat_at="2020-01-01", finished_at="now"),
    ]
    harness.pipeline.owner.execute(
        "INSERT INTO jobs_jobfailure (id, tenant_id, job_id, item_id, label, error) "
        "VALUES (gen_random_uuid(), %s, %s, gen_random_uuid(), 'l', 'e')",
        [harness.pipeline.tenant_id, old["partial"].pk],
    )
    with login("DATABASE_WORKER_URL"):
        call_command("prune", "--json", stdout=(said := io.StringIO()))
        assert json.loads(said.getvalue()) == {"jobs": 3}
        assert services.prune_jobs() == 0
        with pytest.raises(SystemExit, match="2"):
            call_command("prune", "--jobs", "soon", stderr=io.StringIO())
    left = {row["id"] for row in harness.pipeline.all("SELECT id FROM jobs_job")}
    assert left == {old["queued"].pk, *(job.pk for job in fresh)}
    assert harness.pipeline.all("SELECT 1 FROM jobs_jobfailure") == []
