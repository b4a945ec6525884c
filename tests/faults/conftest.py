"""A portal of its own for fault tests: throwaway servers that may be killed, and the product's real processes.

Only what was started here is signalled, by its pid; what is frozen is always thawed.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import psycopg
import pytest
from psycopg.rows import dict_row

from portal.embedded import Services, start
from portal.tenancy.context import tenant_context
from portal.tenancy.keys import create_api_key
from portal.tenancy.models import Scope
from tests.embeddings.conftest import embedder, pipeline, use
from tests.embeddings.pipeline import check_in_step, login
from tests.plugin import ROOT, process_environment
from tools import embedding, services
from tools.models import Tool

__all__ = ["embedder", "pipeline", "use"]

# Short pauses, so that a recovery that takes a minute in production takes seconds here.
QUICK = {
    "EMBEDDING_PROVIDER": "tests.providers.HashEmbedder",
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

# As portal.prepare, but with an empty catalogue.
PREPARE = """
import django
django.setup()
from django.core.management import call_command
call_command("create_logins")
call_command("migrate", verbosity=0)
call_command("create_tenant", "faults")
"""
logging.getLogger("httpx").setLevel(logging.WARNING)


def wait_until(condition: Callable[[], Any], *, seconds: float, what: str) -> Any:
    """The condition's first true value; an AssertionError after `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what}")


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


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

    def clear(self) -> None:
        self.owner.execute("TRUNCATE tools_tool, tools_toolembedding, embeddings_embeddingtask CASCADE")

    # --- Tools, by the real door ----------------------------------------------------------------------------------

    def add(self, *descriptions: str) -> list[UUID]:
        made = []
        with login("DATABASE_URL", url=self.servers.urls["DATABASE_URL"]), tenant_context(self.tenant_id):
            for description in descriptions:
                name = f"tool_{time.monotonic_ns()}"
                made.append(
                    services.create_tool(actor="test", tool_id=name, name=name, description=description).pk
                )
        return made

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
                check_in_step(found[pk], embedding.source_text(tools[pk]))
        assert self.rows("SELECT * FROM embeddings_embeddingtask") == []


@pytest.fixture(scope="package")
def running_portal(tmp_path_factory: pytest.TempPathFactory, django_db_blocker: Any) -> Iterator[Portal]:
    folder = tmp_path_factory.mktemp("faults")
    with (
        start(folder / "services", postgres_settings={"fsync": "off"}) as servers,
        django_db_blocker.unblock(),
    ):
        portal = Portal(servers, folder)
        portal.reconnect()
        with portal.process("-c", PREPARE, role="admin") as prepare:
            assert prepare.wait(120) == 0
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with portal.process(
            "-m", "gunicorn", "portal.wsgi", "-c", "portal/gunicorn.py",
            role="app", env={"HOST": "127.0.0.1", "PORT": str(port), "WEB_CONCURRENCY": "1"},
        ):  # fmt: skip
            portal.tenant_id = portal.rows("SELECT id FROM tenancy_tenant")[0]["id"]
            with login("DATABASE_URL", url=servers.urls["DATABASE_URL"]), tenant_context(portal.tenant_id):
                _, key = create_api_key(name="faults", scopes=Scope.values)
            headers = {"Authorization": f"Bearer {key}"}
            with httpx.Client(
                base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=30
            ) as portal.http:

                def answers() -> bool:
                    try:
                        return portal.http.get("/livez").status_code == 200
                    except httpx.TransportError:
                        return False

                wait_until(answers, seconds=30, what="the web answers")
                yield portal
        portal.owner.close()


@pytest.fixture
def portal(running_portal: Portal) -> Portal:
    """The running portal with an empty catalogue."""
    running_portal.clear()
    return running_portal
