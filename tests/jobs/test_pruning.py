"""Jobs are kept for 90 days after their end, with what failed in them."""

from __future__ import annotations

import io
import json

import pytest
from django.core.management import call_command

from portal.jobs import services
from tests.embeddings.pipeline import login
from tests.jobs.desk import Desk
from tests.jobs.test_states import put


def test_old_jobs_that_are_over_are_deleted_in_every_tenant_and_others_stay(desk: Desk) -> None:
    old = {
        state: put(desk, state, created_at="2020-01-01", heartbeat_at="2020-01-01")
        for state in ("succeeded", "partial", "lost", "queued")
    }
    fresh = [
        put(desk, "succeeded"),
        put(desk, "succeeded", created_at="2020-01-01", heartbeat_at="2020-01-01", finished_at="now"),
    ]
    desk.pipeline.owner.execute(
        "INSERT INTO jobs_jobfailure (id, tenant_id, job_id, item_id, label, error) "
        "VALUES (gen_random_uuid(), %s, %s, gen_random_uuid(), 'l', 'e')",
        [desk.pipeline.tenant_id, old["partial"].pk],
    )
    with login("DATABASE_WORKER_URL"):
        call_command("prune", "--json", stdout=(said := io.StringIO()))
        assert json.loads(said.getvalue()) == {"jobs": 3}
        assert services.prune_jobs() == 0
        with pytest.raises(SystemExit, match="2"):
            call_command("prune", "--jobs", "soon", stderr=io.StringIO())
    left = {row["id"] for row in desk.pipeline.all("SELECT id FROM jobs_job")}
    assert left == {old["queued"].pk, *(job.pk for job in fresh)}
    assert desk.pipeline.all("SELECT 1 FROM jobs_jobfailure") == []
