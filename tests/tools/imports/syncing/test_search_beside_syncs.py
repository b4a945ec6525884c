"""Case 48: searches run without a pause while sources and operations come and go (SRC-1, SYN-6).

Proven: every search is answered, every result can be opened, and every result is a tool that was there at some moment of
the request. A search that answers from a moment ago is found out by the same watch.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from django.db import connection
from rest_framework.test import APIClient

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from portal.tenancy.rights import Rights
from tests.support.clients import make_api
from tests.support.counts import SCALE
from tests.support.embeddings.pipeline import Pipeline
from tests.support.imports.documents import document, import_document
from tools.api.search import views
from tools.catalogue.sources import delete_source
from tools.models import Source, Tool

SEARCH = "/api/v1/tools/search"
A_SECOND = 20
SECONDS = min(30.0, 5 * SCALE)
STAYING = [f"list_parcels_{number}" for number in range(5)]
GOING = [f"find_parcel_{number}" for number in range(5)]
QUESTIONS = ("find a parcel", "parcel", "list parcels", "find_parcel_3", "where is my parcel?")


class Changes:
    """What the other side does: it keeps note of when each tool went."""

    def __init__(self, tenant: Tenant, pipeline: Pipeline) -> None:
        self.tenant, self.pipeline = tenant, pipeline
        self.going: set[str] = set()
        self.gone: dict[str, float] = {}
        self.rounds = 0

    def run(self, enough: threading.Event) -> None:
        try:
            while not enough.is_set():
                self._round()
                self.rounds += 1
        finally:
            connection.close()

    def _round(self) -> None:
        self._bring(STAYING + GOING)
        self._take(GOING, lambda: import_document(self.tenant, document(*STAYING), confirm_removals=True))
        self._bring(STAYING + GOING)
        self._take(STAYING + GOING, self._delete)

    def _bring(self, names: list[str]) -> None:
        with tenant_context(self.tenant.pk):
            for pk in Tool.objects.values_list("pk", flat=True):
                self.gone.pop(str(pk), None)  # it may be back at any moment from now on
        import_document(self.tenant, document(*names))
        # Found by its vector as well from now on.
        self.pipeline.work()

    def _take(self, names: list[str], step: Callable[[], object]) -> None:
        with tenant_context(self.tenant.pk):
            ids = {str(pk) for pk in Tool.objects.filter(name__in=names).values_list("pk", flat=True)}
        self.going |= ids
        step()
        self.gone |= dict.fromkeys(ids, time.monotonic())
        time.sleep(0.1)

    def _delete(self) -> None:
        with tenant_context(self.tenant.pk):
            delete_source(pk=Source.objects.get().pk, actor="olga")


@pytest.fixture
def changes(committed: Tenant, admin_database: psycopg.Connection[Any], settings: Any) -> Changes:
    settings.EMBEDDING_PROVIDER = "tests.support.embeddings.providers.HashEmbedder"
    import_document(committed, document(*STAYING))
    return Changes(committed, Pipeline(committed.pk, admin_database))


def watched(
    changes: Changes, seconds: float, *, rounds: int, wrong_is_enough: bool = False
) -> tuple[int, list[str]]:
    """Searches twenty times a second and opens what is found while the changes run, so many rounds at least; how much was
    found, and what was wrong."""
    enough = threading.Event()
    other = threading.Thread(target=changes.run, args=(enough,))
    api = make_api(changes.tenant)
    # The answer to a fault is an answer too, and not an exception in the test.
    api.raise_request_exception = False
    results, wrong = 0, []
    other.start()
    until = time.monotonic() + seconds
    for question in itertools.cycle(QUESTIONS):
        began = time.monotonic()
        answer = api.post(SEARCH, {"query": question, "top_k": 10}, format="json")
        if answer.status_code == 200:
            found = [result["tool"]["id"] for result in answer.json()["results"]]
            results += len(found)
            for tool in found:
                wrong += _wrong_with(tool, began, changes, api)
        else:
            wrong.append(f"{question!r} was answered with {answer.status_code}: {answer.content[:300]!r}")
        is_over = began >= until and changes.rounds >= rounds
        if is_over or not other.is_alive() or (wrong_is_enough and wrong):
            break
        time.sleep(max(0.0, began + 1 / A_SECOND - time.monotonic()))
    enough.set()
    other.join()
    return results, wrong


def _wrong_with(tool: str, began: float, changes: Changes, api: APIClient) -> list[str]:
    went = changes.gone.get(tool)
    if went is not None and went < began:
        return [f"{tool} was found {began - went:.3f} s after it had gone"]
    opened = api.get(f"/api/v1/tools/{tool}")
    if opened.status_code == 200 or (opened.status_code == 404 and tool in changes.going):
        return []
    return [f"{tool} was found and is answered with {opened.status_code}"]


@pytest.mark.parametrize(
    "seconds", [pytest.param(1, id="short"), pytest.param(SECONDS, id="full", marks=pytest.mark.slow)]
)
def test_case_48_no_search_fails_and_no_result_was_gone_before_it_SYN_6(
    changes: Changes, figure: Callable[[str], None], seconds: float
) -> None:
    results, wrong = watched(changes, seconds, rounds=2)
    assert wrong == []
    assert changes.rounds >= 2
    assert results > 0
    figure(
        f"case 48: {results} results opened in {seconds:.0f} s while the source came and went {changes.rounds} times"
    )


@pytest.mark.slow
def test_case_48_a_search_that_answers_from_a_moment_ago_is_found_out(
    changes: Changes, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = views.search
    answers: dict[str, Any] = {}

    def stale(rights: Rights, query: Any) -> Any:
        answer = answers.get(query.text) or search(rights, query)
        if answer.hits:
            answers[query.text] = answer
        return answer

    monkeypatch.setattr(views, "search", stale)
    _, wrong = watched(changes, 0, rounds=3, wrong_is_enough=True)
    assert any("after it had gone" in one or "answered with 404" in one for one in wrong)
