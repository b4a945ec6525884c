"""SRC-6: whatever changes what a search may answer raises the version of the tenant's catalogue, once, and with its commit.

How to see it fail: drop a trigger in `changes`, as the last test does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction

from metrics.models import ToolStatistics
from portal.tenancy.catalogue_version import catalogue_version
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.search import place, toward
from tools.catalogue.tools import create_tool, update_tool
from tools.models import Source, Tool, ToolEmbedding

Version = Callable[[], int]


@pytest.fixture
def version(committed: Tenant) -> Version:
    def current() -> int:
        with tenant_context(committed.pk):
            return catalogue_version()

    return current


@pytest.fixture
def tool(committed: Tenant) -> Tool:
    with tenant_context(committed.pk):
        made = create_tool(actor="test", tool_id="a", name="a", description="Does a thing.")
        place(made, toward("a thing", 0.9, "a"))
        return made


CHANGES: dict[str, Callable[[Tool], object]] = {
    "an edit": lambda tool: update_tool(pk=tool.pk, expected_version=tool.version, changes={"description": "Does another thing."}, actor="test"),
    "a bulk update": lambda tool: Tool.objects.filter(pk=tool.pk).update(active=False),
    "a deletion": lambda tool: Tool.objects.filter(pk=tool.pk).delete(),
    "a vector": lambda tool: place(tool, toward("a thing", 0.5, "b")),
    "a status": lambda tool: ToolEmbedding.objects.filter(entity=tool).update(status="pending"),
    "a quarantine": lambda tool: ToolStatistics.objects.create(tool_id=tool.pk, calls=1, quarantined_until="2100-01-01T00:00Z"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_what_changes_an_answer_raises_the_version_once_SRC_6(
    version: Version, tool: Tool, committed: Tenant, name: str
) -> None:
    before = version()
    with tenant_context(committed.pk):
        tool.refresh_from_db()
        CHANGES[name](tool)
        assert catalogue_version() == before  # at the commit, and not before
    assert version() == before + 1


def test_a_source_that_gets_another_name_raises_it_SRC_6(version: Version, committed: Tenant) -> None:
    with tenant_context(committed.pk):
        source = Source.objects.create(slug="a", kind="openapi", title="A")
    before = version()
    with tenant_context(committed.pk):
        Source.objects.filter(pk=source.pk).update(title="B")
    assert version() == before
    with tenant_context(committed.pk):
        Source.objects.filter(pk=source.pk).update(slug="b")
    assert version() == before + 1


def test_many_changes_of_one_transaction_raise_it_once_and_a_rollback_not_at_all_SRC_6(
    version: Version, committed: Tenant
) -> None:
    before = version()
    with tenant_context(committed.pk):
        for number in range(20):
            create_tool(actor="test", tool_id=f"t{number}", name=f"t{number}", description="Does it.")
    assert version() == before + 1
    with pytest.raises(ZeroDivisionError), tenant_context(committed.pk), transaction.atomic():
        create_tool(actor="test", tool_id="x", name="x", description="Does it.")
        raise ZeroDivisionError
    assert version() == before + 1


def test_a_call_that_is_counted_raises_nothing_SRC_6(version: Version, tool: Tool, committed: Tenant) -> None:
    with tenant_context(committed.pk):
        ToolStatistics.objects.create(tool_id=tool.pk, calls=1)
    before = version()
    with tenant_context(committed.pk):
        ToolStatistics.objects.filter(tool_id=tool.pk).update(calls=2)
    assert version() == before


def test_the_version_of_another_tenant_stays_SRC_6(
    version: Version, tool: Tool, make_tenant: Callable[..., Tenant]
) -> None:
    before = version()
    with tenant_context(make_tenant("another").pk):
        create_tool(actor="test", tool_id="b", name="b", description="Does it.")
    assert version() == before


def test_nobody_raises_it_by_hand_SRC_6(tool: Tool, committed: Tenant) -> None:
    with pytest.raises(Exception, match="permission denied"), tenant_context(committed.pk):
        Tenant.objects.filter(pk=committed.pk).update(catalogue_version=7)
    with (
        pytest.raises(Exception, match="permission denied"),
        tenant_context(committed.pk),
        connection.cursor() as cursor,
    ):
        cursor.execute("SELECT portal_raise_catalogue_version()")


@pytest.fixture
def without_trigger(admin_database: psycopg.Connection[Any]) -> Iterator[None]:
    statement = "ALTER TABLE tools_tool {} TRIGGER tools_tool_catalogue_version_updated"
    admin_database.execute(statement.format("DISABLE"))
    yield
    admin_database.execute(statement.format("ENABLE"))


@pytest.mark.usefixtures("without_trigger")
def test_without_the_trigger_an_edit_raises_nothing(version: Version, tool: Tool, committed: Tenant) -> None:
    before = version()
    with tenant_context(committed.pk):
        Tool.objects.filter(pk=tool.pk).update(description="x")
    assert version() == before
