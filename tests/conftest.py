"""Fixtures of the whole suite: tenants, people, tools, and real commits where a test needs them.

Tenants are made by the owner's login, as in the product; everything else runs as the application.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.contrib.auth import get_user_model
from django.db import connection, connections
from django.test import Client
from rest_framework.test import APIClient

from portal.tenancy.context import tenant_context
from portal.tenancy.keys import create_api_key
from portal.tenancy.models import Membership, Role, Scope, Tenant
from tools.catalogue import tools as services
from tools.models import Tool

SCALE = float(os.environ.get("PORTAL_TEST_SCALE", "1"))


def scaled(count: int) -> int:
    """A count of a test, times PORTAL_TEST_SCALE (`make soak` sets 10)."""
    return max(1, int(count * SCALE))


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


TABLES = """
SELECT string_agg(format('%I', tablename), ', ') FROM pg_tables
WHERE schemaname = 'public' AND tablename NOT IN ('django_migrations', 'django_content_type', 'auth_permission')
"""


@contextmanager
def real_commits(django_db_blocker: Any, admin_database: psycopg.Connection[Any]) -> Iterator[None]:
    """A block whose writes are really committed: other processes see them. Tables are emptied afterwards."""
    with django_db_blocker.unblock():
        yield
        for one in connections.all():
            one.close()
    row = admin_database.execute(TABLES).fetchone()
    assert row is not None
    admin_database.execute(f"TRUNCATE {row[0]} CASCADE")


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
        return services.create_tool(actor="test", **fields)

    return make


def make_client(tenant: Tenant, role: str) -> Client:
    user = get_user_model().objects.create_user(username=f"{role}-{uuid.uuid4().hex[:8]}", password=None)
    with tenant_context(tenant.pk):
        Membership.objects.create(user=user, role=role)
    client = Client()
    client.force_login(user)
    return client


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


def make_api(tenant: Tenant, *scopes: str, **options: Any) -> APIClient:
    with tenant_context(tenant.pk):
        _, key = create_api_key(name=uuid.uuid4().hex, scopes=scopes or Scope.values, **options)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {key}")
    return client


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
