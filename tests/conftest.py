"""Fixtures of the whole suite: tenants, people, tools, and real commits where a test needs them.

Tenants are made by the owner's login, as in the product; everything else runs as the application.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Generator, Iterator
from http.server import ThreadingHTTPServer
from typing import Any

import psycopg
import pytest
from django.conf import settings as django_settings
from django.db import connection
from django.test import Client
from rest_framework.test import APIClient

from embeddings import providers, slots
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Role, Tenant
from tests.support import waits
from tests.support.clients import find_static_files_once, make_api, make_client
from tests.support.database import real_commits
from tests.support.embeddings.pipeline import Pipeline
from tests.support.imports import children
from tests.support.jobs.harness import JobHarness, spawn
from tests.support.servers import mcp_servers
from tests.support.servers.http_server import Handler
from tools.catalogue.tools import create_tool
from tools.models import Tool

waits.install()
children.install()
find_static_files_once()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    """No test sees a provider, a server or a document waited for inside of a transaction."""
    with waits.watched():
        return (yield)


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Notes what a test measured; the run's last lines say it."""
    return lambda text: record_property("figure", text)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    noted = [
        text
        for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
        if report.when == "call"
        for name, text in report.user_properties
        if name == "figure"
    ]
    if noted:
        terminalreporter.section("figures")
        for text in sorted(noted):
            terminalreporter.line(text)


@pytest.fixture(scope="session")
def django_db_setup() -> None:
    """The database of this worker was made by tests/plugin.py."""


@pytest.fixture(scope="session")
def admin_database() -> Iterator[psycopg.Connection[Any]]:
    """The owner's login on this worker's database, autocommit."""
    with psycopg.connect(os.environ["DATABASE_ADMIN_URL"], autocommit=True) as owner:
        yield owner


@pytest.fixture
def make_tenant(admin_database: psycopg.Connection[Any]) -> Callable[..., Tenant]:
    """Makes a committed tenant; its slug is unique, so it need not be cleaned up."""

    def make(slug: str | None = None) -> Tenant:
        tenant = Tenant(slug=slug or f"t-{uuid.uuid4().hex[:12]}")
        tenant.name = tenant.slug
        admin_database.execute(
            "INSERT INTO tenancy_tenant (id, slug, name, created_at) VALUES (%s, %s, %s, now())",
            [tenant.pk, tenant.slug, tenant.name],
        )
        return tenant

    return make


@pytest.fixture
def tenant(db: None, make_tenant: Callable[..., Tenant]) -> Iterator[Tenant]:
    """A tenant that is the current one during the test, whose writes are rolled back."""
    made = make_tenant()
    with tenant_context(made.pk):
        yield made


@pytest.fixture
def committed(
    django_db_blocker: Any, admin_database: psycopg.Connection[Any], make_tenant: Callable[..., Tenant]
) -> Iterator[Tenant]:
    """A tenant for a test with real commits. The test opens its own `tenant_context(committed.pk)`."""
    with real_commits(django_db_blocker, admin_database):
        yield make_tenant()


@pytest.fixture
def make_tool(tenant: Tenant) -> Callable[..., Tool]:
    """Makes a hand-written tool in the current tenant."""
    numbers = iter(range(1_000_000))

    def make(**fields: Any) -> Tool:
        number = next(numbers)
        fields.setdefault("tool_id", f"tool_{number}")
        fields.setdefault("name", fields["tool_id"])
        fields.setdefault("description", f"Does thing number {number}.")
        return create_tool(actor="test", **fields)

    return make


@pytest.fixture
def anonymous_client() -> Client:
    return Client()


@pytest.fixture
def viewer_client(tenant: Tenant) -> Client:
    return make_client(tenant, Role.VIEWER)


@pytest.fixture
def operator_client(tenant: Tenant) -> Client:
    return make_client(tenant, Role.OPERATOR)


@pytest.fixture
def admin_client(tenant: Tenant) -> Client:
    return make_client(tenant, Role.ADMIN)


@pytest.fixture
def api(tenant: Tenant) -> APIClient:
    """A client with a key of every scope in the current tenant."""
    return make_api(tenant)


@pytest.fixture
def rows() -> Callable[[str], list[tuple[Any, ...]]]:
    """Rows of a statement in the current connection."""

    def fetch(statement: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            return cursor.fetchall()

    return fetch


@pytest.fixture
def use(settings: Any) -> Iterator[Callable[..., Any]]:
    """Chooses a fresh provider of tests/support/embeddings/providers.py by the name of its class, and returns it."""

    overridden: set[str] = set()

    def choose(name: str, **options: Any) -> Any:
        options["EMBEDDING_PROVIDER"] = (
            name if name == "disabled" else f"tests.support.embeddings.providers.{name}"
        )
        for option, value in options.items():
            # Every override by `settings` lies over those before it: a state machine's hundreds would be too deep to look through.
            setattr(django_settings if option in overridden else settings, option, value)
            overridden.add(option)
        providers._provider.cache_clear()
        slots.clear_cache()
        return providers.get_provider()

    yield choose
    providers._provider.cache_clear()
    slots.clear_cache()


@pytest.fixture(params=["one model", "two models"])
def one_or_two_models(
    request: pytest.FixtureRequest, admin_database: psycopg.Connection[Any]
) -> Iterator[None]:
    """Runs a test twice: as usual, and while a second model fills. Then the model of the settings serves from slot 1, and each tool
    has a row for the other one in slot 0, too."""
    models = [(1, django_settings.EMBEDDING_MODEL, True), (0, "another-model", False)]
    for slot, model, serves in models if request.param == "two models" else ():
        admin_database.execute(
            "INSERT INTO embeddings_embeddingmodel (slot, model, provider, url, serves) VALUES (%s, %s, %s, '', %s)",
            [slot, model, "tests.support.embeddings.providers.HashEmbedder", serves],
        )
    slots.clear_cache()
    yield
    admin_database.execute("DELETE FROM embeddings_embeddingmodel")
    slots.clear_cache()


@pytest.fixture
def embedder(use: Callable[..., Any]) -> Any:
    """The provider of tests that do not care which: quick, and every text has a vector of its own."""
    return use("HashEmbedder", EMBEDDING_MODEL="model-1")


@pytest.fixture
def pipeline(committed: Tenant, admin_database: psycopg.Connection[Any], embedder: Any) -> Pipeline:
    return Pipeline(committed.pk, admin_database)


@pytest.fixture
def harness(pipeline: Pipeline) -> JobHarness:
    return JobHarness(pipeline)


@pytest.fixture
def processes(pipeline: Pipeline) -> Iterator[Callable[..., Any]]:
    """Starts a process of the product on this test's database; what still runs is killed at the end."""
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


@pytest.fixture
def server(settings: Any) -> Iterator[str]:
    """`host:port` of a server on loopback, which the settings allow."""
    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running.daemon_threads = True
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    host = f"127.0.0.1:{running.server_port}"
    settings.IMPORT_ALLOWED_HOSTS = [host]
    yield host
    running.shutdown()
    thread.join()
    running.server_close()


@pytest.fixture
def allowed_secrets(settings: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Every tenant may use the secrets that tests name, and no command."""
    mcp_servers.allow(settings, tmp_path_factory.mktemp("allow"))
