"""The product's real processes on throwaway servers. Only what was started here is signalled, by its pid."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import httpx
import psycopg
import pytest
from psycopg.rows import dict_row

from portal.embedded import Services
from portal.tenancy.context import tenant_context
from tests.support.database import login
from tests.support.embeddings.pipeline import check_in_step
from tests.support.processes import ROOT, process_environment
from tests.support.waiting import wait_until
from tools.catalogue import embedding_text
from tools.catalogue.tools import create_tool, sync_embeddings
from tools.models import Tool

T = TypeVar("T")
# Short pauses, so that a recovery that takes a minute in production takes seconds here.
QUICK = {
    "EMBEDDING_PROVIDER": "tests.support.embeddings.providers.HashEmbedder",
    "EMBEDDING_LEASE": "2",
    "EMBEDDING_POLL": "0.2",
    "EMBEDDING_RETRY_BASE": "0.05",
    "EMBEDDING_CIRCUIT_SECONDS": "0.5",
    "PYTHONPATH": str(ROOT),
    "DJANGO_SETTINGS_MODULE": "portal.settings",
}
CELERY = (
    "-m",
    "celery",
    "--quiet",
    "-A",
    "portal",
    "worker",
    "-Q",
    "embeddings",
    "-P",
    "solo",
    "--without-gossip",
    "--without-mingle",
)
# As portal.ops.prepare, but with an empty catalogue.
PREPARE = """
import django
django.setup()
from django.core.management import call_command
call_command("create_logins")
call_command("migrate", verbosity=0)
call_command("create_tenant", "faults")
"""
FAKETIME = "usr/lib/*/faketime/libfaketimeMT.so.1"


def batched(things: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (things[start : start + size] for start in range(0, len(things), size))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@dataclass(frozen=True)
class ForkServer:
    """Forks processes of `manage.py` (fork_server.py), which end with it."""

    process: subprocess.Popen[str]

    def fork(self, command: str = "embed_worker") -> int:
        """The pid of one more."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


class Portal:
    """The servers, one tenant, and the product's processes."""

    def __init__(self, servers: Services, folder: Path) -> None:
        self.servers, self.folder = servers, folder
        self.environment = {**servers.urls, **QUICK}
        self.address = ""
        self.owner: psycopg.Connection[Any]
        self.tenant_id: UUID
        self.http: httpx.Client

    def reconnect(self) -> None:
        self.owner = psycopg.connect(self.servers.urls["DATABASE_ADMIN_URL"], autocommit=True)

    @contextmanager
    def process(
        self, *command: str, role: str, env: Mapping[str, str] | None = None, **options: Any
    ) -> Iterator[subprocess.Popen[Any]]:
        """A process of the product, ended by SIGTERM, or killed if it will not."""
        environment = process_environment({**self.environment, **(env or {})})
        log = (self.folder / "processes.log").open("a", encoding="utf-8")
        with log:
            child = subprocess.Popen(
                [sys.executable, *command], cwd=ROOT, env={**environment, "PORTAL_DB_ROLE": role},
                stderr=log, **{"stdout": log, **options},
            )  # fmt: skip
        try:
            yield child
        finally:
            if child.poll() is None:
                child.send_signal(signal.SIGCONT)
                child.terminate()
                try:
                    child.wait(5)
                except subprocess.TimeoutExpired:
                    child.kill()
            with child:  # closes its pipes
                child.wait()

    def celery(self, **env: str) -> Any:
        return self.process(*CELERY, "-n", f"{time.monotonic_ns()}@test", role="worker", env=env)

    def embed_worker(self, **env: str) -> Any:
        return self.process("manage.py", "embed_worker", role="worker", env=env)

    @contextmanager
    def fork_server(self, **env: str) -> Iterator[ForkServer]:
        with self.process(
            "-m", "tests.support.faults.fork_server", role="worker", env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:  # fmt: skip
            yield ForkServer(process)

    def clear(self) -> None:
        self.owner.execute(
            "TRUNCATE tools_tool, tools_toolembedding, embeddings_embeddingtask, embeddings_embeddingcircuit, jobs_job CASCADE"
        )

    # --- Tools, by the real service ----------------------------------------------------------------------------------

    def add(self, *descriptions: str) -> list[UUID]:
        made = []
        with login("DATABASE_URL", url=self.servers.urls["DATABASE_URL"]), tenant_context(self.tenant_id):
            for description in descriptions:
                name = f"tool_{time.monotonic_ns()}"
                made.append(create_tool(actor="test", tool_id=name, name=name, description=description).pk)
        return made

    def fill(self, *descriptions: str, enqueue: bool = True) -> list[UUID]:
        """As `add`, for thousands: the same rows and the same tasks (or none, for a backfill), in few statements."""
        with login("DATABASE_URL", url=self.servers.urls["DATABASE_URL"]):
            start = time.monotonic_ns()
            tools = [
                Tool(tenant_id=self.tenant_id, tool_id=f"tool_{n}", name=f"tool_{n}", description=text)
                for n, text in enumerate(descriptions, start)
            ]
            for tool in tools:
                tool.search_text = embedding_text.search_text(tool)
            for some in batched(tools, 500):
                with tenant_context(self.tenant_id):
                    made = Tool.objects.bulk_create(some)
                    if enqueue:
                        sync_embeddings(made)
        return [tool.pk for tool in tools]

    def check_indexes(self) -> int:
        """Every b-tree holds what its table holds, after crashes of the database (amcheck); returns how many there are."""
        self.owner.execute("CREATE EXTENSION IF NOT EXISTS amcheck")
        checked = self.rows(
            """
            SELECT bt_index_check(c.oid, heapallindexed => true) FROM pg_class c
            JOIN pg_am am ON am.oid = c.relam AND am.amname = 'btree'
            WHERE c.relkind = 'i' AND c.relnamespace = 'public'::regnamespace
            """
        )
        assert len(checked) > 20
        return len(checked)

    def edit(self, pk: UUID, description: str, version: int) -> int:
        """Saves, and returns the new version; the answer's time is held to RELIABILITY R6's bound."""
        started = time.monotonic()
        answer = self.http.patch(
            f"/api/v1/tools/{pk}", json={"description": description}, headers={"If-Match": f'"v{version}"'}
        )
        took = time.monotonic() - started
        assert answer.status_code == 200, answer.text
        assert took < 1.5, f"the save took {took:.2f} s"
        return int(answer.headers["ETag"].strip('"').removeprefix("v"))

    def search(self, query: str) -> list[str]:
        answer = self.http.get("/api/v1/tools/search", params={"query": query, "top_k": 10})
        assert answer.status_code == 200, answer.text
        return [result["tool"]["id"] for result in answer.json()["results"]]

    def rows(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        with self.owner.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(statement, parameters).fetchall()

    def statuses(self) -> set[str]:
        return {row["status"] for row in self.rows("SELECT DISTINCT status FROM tools_toolembedding")}

    def settled(self) -> bool:
        """Every tool is ready, and nothing waits."""
        return self.statuses() == {"ready"} and not self.rows("SELECT FROM embeddings_embeddingtask LIMIT 1")

    def wait_until_all_ready(self, seconds: float) -> None:
        wait_until(lambda: self.statuses() == {"ready"}, seconds=seconds, what="every tool is ready")

    def check_nothing_lost_nor_stale(self, acknowledged: Mapping[UUID, str]) -> None:
        """Each tool holds the last text that was answered with 200, and the vector of exactly that text."""
        found = {
            row["entity_id"]: row
            for row in self.rows("SELECT *, vector::text AS vector FROM tools_toolembedding WHERE active")
        }
        with login("DATABASE_URL", url=self.servers.urls["DATABASE_URL"]), tenant_context(self.tenant_id):
            tools = {tool.pk: tool for tool in Tool.objects.filter(pk__in=list(acknowledged))}
            for pk, description in acknowledged.items():
                assert tools[pk].description == description
                check_in_step(found[pk], embedding_text.source_text(tools[pk]))
        assert self.rows("SELECT * FROM embeddings_embeddingtask") == []


def wrong_clock(minutes: int) -> dict[str, str]:
    """The environment of a process whose clock is wrong by so much; its timers are right."""
    library = next(iter(Path("/").glob(FAKETIME)), None)
    if library is None:
        if os.environ.get("CI") == "true":
            pytest.fail("The gates need faketime: make faketime, as root.")
        pytest.skip("no libfaketime here: make faketime, as root")
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME": f"{minutes:+d}m",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def calls(log: Path) -> list[str]:
    """The hash of each text that the providers with this TEST_EMBEDDER_LOG were given."""
    return log.read_text(encoding="utf-8").split() if log.exists() else []
