"""R11: whatever fails in the database at a search is a 503 in the API and on the page, and never a 500; then searches go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Role, Tenant
from tests.support.api import assert_problem
from tests.support.clients import make_api, make_client
from tools.catalogue.tools import create_tool

Owner = psycopg.Connection[Any]
SEARCH = "/api/v1/tools/search?query=send"


@contextmanager
def table_gone(owner: Owner, settings: Any) -> Iterator[None]:
    """A ProgrammingError, as of a function that is newer or older than the code."""
    owner.execute("ALTER TABLE tools_posting RENAME TO tools_posting_gone")
    try:
        yield
    finally:
        owner.execute("ALTER TABLE tools_posting_gone RENAME TO tools_posting")


@contextmanager
def number_too_large(owner: Owner, settings: Any) -> Iterator[None]:
    """A DataError, which is the caller's mistake elsewhere: here it is a setting's."""
    usual, settings.SEARCH_EXACT_LIMIT = settings.SEARCH_EXACT_LIMIT, 10**12
    yield
    settings.SEARCH_EXACT_LIMIT = usual


@contextmanager
def table_locked(owner: Owner, settings: Any) -> Iterator[None]:
    """An OperationalError, at the end of the lock_timeout."""
    with owner.transaction():
        owner.execute("LOCK TABLE tools_posting")
        yield


@pytest.mark.parametrize("fault", [table_gone, number_too_large, table_locked], ids=lambda one: one.__name__)
def test_an_error_of_the_database_in_a_search_is_a_503_R11(
    committed: Tenant, admin_database: Owner, settings: Any, fault: Callable[[Owner, Any], Any]
) -> None:
    with tenant_context(committed.pk):
        create_tool(actor="test", tool_id="send", name="send", description="Sends letters.")
    agent, page = make_api(committed), make_client(committed, Role.VIEWER)
    agent.raise_request_exception = page.raise_request_exception = False
    with fault(admin_database, settings):
        body = assert_problem(agent.get(SEARCH), 503, "unavailable")
        assert body["detail"] == "The database could not answer this search. Try again in a moment."
        shown = page.get("/search/?q=send")
        assert shown.status_code == 503
        assert "The database could not answer this search." in shown.content.decode()
    assert [one["tool"]["tool_id"] for one in agent.get(SEARCH).json()["results"]] == ["send"]
    assert page.get("/search/?q=send").status_code == 200
