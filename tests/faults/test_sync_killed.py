"""R16, SYN-4: a runner that is killed at any instant of a sync leaves the catalogue as it was before it or as it is after it,
and the job goes on to its end."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from portal.jobs import services as jobs
from portal.tenancy.context import tenant_context
from tests.support.counts import scaled, share_of_full_count
from tests.support.database import login
from tests.support.faults.portal import ForkServer, Portal
from tests.support.imports.syncs import parse_here
from tests.support.waiting import wait_until
from tools.catalogue.tools import update_tool
from tools.imports.fetching import sandbox
from tools.imports.syncing import service as syncs
from tools.imports.syncing.documents import IncomingDocument
from tools.imports.syncing.jobs import APPLY
from tools.imports.syncing.service import import_document
from tools.models import Tool

OPERATIONS = 300
IN_THE_MIDDLE = 60
"""Kills that must meet a sync between its start and its end, in a full run."""
LOST_SECONDS, LONGEST = 1, 60
# What is killed waits for the test, which looks at the catalogue before it resumes the job.
QUICK = {"JOB_LOST_SECONDS": str(LOST_SECONDS), "JOB_POLL": "0.1", "JOB_MAX_RESUMES": "0"}


def document(version: int) -> bytes:
    """Of 300 operations, 200 of each version say what the other one does not: texts, paths, and the operations themselves."""
    paths: dict[str, Any] = {}
    for number in range(OPERATIONS):
        kind = number % 6
        if kind == 2 and number % 12 // 6 == version:  # in one of the versions only
            continue
        path = f"/v{version}/{number}" if kind == 1 else f"/{number}"
        text = f"Text {version}." if kind in {0, 1, 3} else "Text."
        paths[path] = {
            "get": {
                "operationId": f"op{number}",
                "description": text,
                "responses": {"200": {"description": "ok"}},
            }
        }
    return json.dumps(
        {"openapi": "3.0.0", "info": {"title": "Shop", "version": str(version)}, "paths": paths}
    ).encode()


class Catalogue:
    """The tenant's tools of one source, of which both versions are known to the row."""

    def __init__(self, portal: Portal) -> None:
        self.portal = portal
        self.versions: list[Any] = []
        for version in (0, 1):
            with self.in_tenant():
                import_document(
                    IncomingDocument(raw=document(version), name="shop.json"),
                    tenant_id=portal.tenant_id,
                    actor="importer",
                )
        self.edit()
        for version in (0, 1):
            with self.in_tenant():
                import_document(
                    IncomingDocument(raw=document(version), name="shop.json"),
                    tenant_id=portal.tenant_id,
                    actor="importer",
                )
            self.versions.append(self.read())

    def in_tenant(self) -> Any:
        return tenant_context(self.portal.tenant_id)

    def edit(self) -> None:
        """One in six of all tools has a text of an operator."""
        with self.in_tenant():
            for tool in Tool.objects.filter(tool_id__endswith="3"):
                update_tool(
                    pk=tool.pk, expected_version=tool.version, changes={"description": "Ours."}, actor="olga"
                )

    def read(self) -> list[dict[str, Any]]:
        return self.portal.rows(
            """
            SELECT t.id, t.tool_id, t.name, t.description, t.active, n.key, n.description AS imported, n.active AS present,
                e.source_hash, e.active AS embedded, k.source_hash AS asked, o.value AS override
            FROM tools_tool t JOIN tools_endpoint n ON n.id = t.endpoint_id
            JOIN tools_toolembedding e ON e.entity_id = t.id
            LEFT JOIN embeddings_embeddingtask k ON k.entity_id = t.id
            LEFT JOIN tools_manualoverride o ON o.tool_id = t.id ORDER BY t.tool_id
            """
        )

    def which(self) -> int:
        """The version that the catalogue has; an AssertionError if it is neither."""
        now = self.read()
        assert now in self.versions
        return self.versions.index(now)

    def plan(self, version: int) -> tuple[UUID, UUID]:
        """A job that will apply this version; its id and the sync's."""
        sync = syncs.plan_document(IncomingDocument(raw=document(version), name="shop.json", slug="shop"), tenant_id=self.portal.tenant_id, actor="petra")  # fmt: skip
        with self.in_tenant():
            return jobs.start(APPLY, {"sync": str(sync.pk)}, by="anton").pk, sync.pk

    def job(self, pk: UUID) -> Any:
        with self.in_tenant():
            return jobs.find(pk)

    def sync_state(self, pk: UUID) -> str:
        return str(self.portal.rows("SELECT state FROM tools_sync WHERE id = %s", pk)[0]["state"])


@pytest.fixture
def catalogue(portal: Portal, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalogue]:
    settings.JOB_LOST_SECONDS, settings.JOB_MAX_RESUMES = LOST_SECONDS, 0
    monkeypatch.setattr(sandbox, "parse", parse_here)
    with login("DATABASE_URL", url=portal.servers.urls["DATABASE_URL"]):
        yield Catalogue(portal)
    portal.owner.execute("TRUNCATE tools_source CASCADE")


def kill_after(seconds: float, catalogue: Catalogue, fork_server: ForkServer, pk: UUID) -> None:
    """Kills a runner so long after it took the job, or once the job is over; returns when the job is over or lost."""
    runner = fork_server.fork("job_worker")
    wait_until(lambda: catalogue.job(pk).effective_state != "queued", seconds=20, what="the job is taken up")
    instant = time.monotonic() + seconds
    while time.monotonic() < instant and catalogue.job(pk).is_active:
        time.sleep(0.01)
    os.kill(runner, signal.SIGKILL)
    wait_until(
        lambda: not catalogue.job(pk).is_active, seconds=20, what="nobody waits for the runner any more"
    )


@share_of_full_count()
def test_killed_at_any_instant_of_a_sync_it_is_before_or_after_and_never_between_R16_SYN_4(
    portal: Portal, catalogue: Catalogue, seen: Callable[..., None], share: float
) -> None:
    kills, halves, whole, wanted = 0, 0, 0, scaled(IN_THE_MIDDLE * share)
    with portal.fork_server(**QUICK) as fork_server:
        job, _ = catalogue.plan(0)
        runner = fork_server.fork("job_worker")
        wait_until(lambda: not catalogue.job(job).is_active, seconds=60, what="the job is over")
        os.kill(runner, signal.SIGKILL)
        seconds = (catalogue.job(job).finished_at - catalogue.job(job).claimed_at).total_seconds()
        version = 0
        assert (catalogue.job(job).effective_state, catalogue.which()) == ("succeeded", 0)
        while halves < wanted:
            assert kills < 20 + 10 * wanted, "no kill meets a sync in its middle"
            version = 1 - version
            job, sync = catalogue.plan(version)
            while catalogue.job(job).effective_state != "succeeded":
                # The last sync goes on to its end: on a machine that has become slower every kill would come too soon.
                after = random.uniform(0, seconds) if halves < wanted else LONGEST
                kill_after(after, catalogue, fork_server, job)
                kills += 1
                is_applied = catalogue.sync_state(sync) == "applied"
                assert catalogue.which() == (version if is_applied else 1 - version)
                halves += not is_applied
                if catalogue.job(job).effective_state == "lost":
                    with catalogue.in_tenant():
                        jobs.resume(job)
                else:
                    assert catalogue.job(job).effective_state == "succeeded"
            whole += 1
            assert (catalogue.which(), catalogue.sync_state(sync)) == (version, "applied")
    seen(kills=kills, in_the_middle=halves, applied=whole, seconds_of_a_sync=f"{seconds:.1f}")


def test_the_test_of_kills_notices_a_tool_that_is_not_as_before_nor_after_R16(
    portal: Portal, catalogue: Catalogue
) -> None:
    assert catalogue.which() == 1
    portal.owner.execute("UPDATE tools_tool SET description = 'Text 0.' WHERE tool_id = 'op0'")
    with pytest.raises(AssertionError):
        catalogue.which()
