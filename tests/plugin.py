"""Gives the test run its own PostgreSQL and broker, before Django's settings are read.

The first process starts a throwaway set of the embedded services (or takes the servers of DATABASE_ADMIN_URL and the
like), migrates a template database once, and every xdist worker works in a copy of its own, as the application's login.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

TEMPLATE = "portal_test_template"
DATABASE_VARIABLES = ("DATABASE_URL", "DATABASE_WORKER_URL", "DATABASE_ADMIN_URL")
_stack = ExitStack()
# The helpers assert as tests do, so that a failure shows its values.
pytest.register_assert_rewrite("tests.support")


def with_database(url: str, name: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    os.environ["PORTAL_DB_ROLE"] = "app"
    # Its thread has a connection of its own, beside the transactions that tests roll back; tests/metrics/ switches it on.
    os.environ.setdefault("SEARCH_LOG", "off")
    os.environ.setdefault(
        "SEARCH_RESULT_CACHE", "0"
    )  # tests change settings and rows behind the database's back
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None and "PORTAL_TEST_TEMPLATE" not in os.environ:
        _start_services()
    _own_database(worker or "main")


def _start_services() -> None:
    if "DATABASE_ADMIN_URL" not in os.environ:
        from portal.embedded import start

        folder = _stack.enter_context(tempfile.TemporaryDirectory(prefix="portal-test-"))
        # What a crash would lose is thrown away anyway; crash tests bring servers of their own.
        services = _stack.enter_context(
            start(folder, postgres_settings={"fsync": "off", "max_connections": "200"})
        )
        os.environ.update(services.urls)
    admin = os.environ["DATABASE_ADMIN_URL"]
    with psycopg.connect(with_database(admin, "postgres"), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {TEMPLATE} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {TEMPLATE}")
    from tests.support.processes import manage

    template = {name: with_database(os.environ[name], TEMPLATE) for name in DATABASE_VARIABLES}
    manage("create_logins", env=template)
    manage("migrate", "--verbosity", "0", env=template)
    os.environ["PORTAL_TEST_TEMPLATE"] = TEMPLATE


def _own_database(worker: str) -> None:
    name = f"portal_test_{worker}"
    with psycopg.connect(
        with_database(os.environ["DATABASE_ADMIN_URL"], "postgres"), autocommit=True
    ) as connection:
        # Two workers may copy the template at one moment, which PostgreSQL refuses; one waits for the other.
        connection.execute("SELECT pg_advisory_lock(8014)")
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
    for variable in DATABASE_VARIABLES:
        os.environ[variable] = with_database(os.environ[variable], name)
    # Two database numbers for each worker: the broker's, and the next one, which is the cache's (portal/env.py).
    number = 2 * (int(worker.removeprefix("gw")) + 1) if worker.startswith("gw") else 0
    os.environ["REDIS_URL"] = urlunsplit(urlsplit(os.environ["REDIS_URL"])._replace(path=f"/{number}"))
    for variable in ("BROKER_URL", "CACHE_URL"):
        os.environ.pop(variable, None)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    _stack.close()
