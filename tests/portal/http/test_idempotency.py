"""API-1: a POST with an Idempotency-Key takes effect once, however often and at whatever moment it is sent.

How to see these fail: without `@idempotent` on `ToolListView.post` every test here fails but the last; without `_lock`
in portal/http/idempotency.py the one with fifty threads does.
"""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, connections
from rest_framework.test import APIClient

from portal.http.idempotency import prune_idempotency_keys
from portal.tenancy.context import tenant_context
from portal.tenancy.models import ApiKey, IdempotencyKey, Tenant
from tests.support.api import PETS, TOOLS, assert_problem, upload
from tests.support.clients import make_api
from tests.support.database import login
from tools.models import Source, Tool

ToolOf = Callable[..., Tool]


def post(client: APIClient, key: str, path: str = TOOLS, **changes: Any) -> Any:
    body = {"tool_id": "send_mail", "name": "Send", "description": "Sends.", **changes}
    return client.post(path, body, format="json", headers={"Idempotency-Key": key})


def test_api_1_the_same_request_gets_the_stored_answer_and_has_one_effect(
    owner: Tenant, agent: APIClient
) -> None:
    first, second = post(agent, "a"), post(agent, "a")
    assert first.status_code == second.status_code == 201
    assert second.content == first.content
    assert [second[name] for name in ("Location", "ETag")] == [first[name] for name in ("Location", "ETag")]
    assert "Idempotency-Replayed" not in first
    assert second["Idempotency-Replayed"] == "true"
    with tenant_context(owner.pk):
        assert Tool.objects.count() == 1


def test_api_1_another_body_is_a_422_and_another_key_or_path_or_caller_is_another_request(
    owner: Tenant, agent: APIClient
) -> None:
    assert post(agent, "a").status_code == 201
    assert_problem(post(agent, "a", name="Other"), 422, "idempotency_mismatch")
    assert_problem(post(agent, "b"), 409, "name_taken")
    assert_problem(post(make_api(owner), "a"), 409, "name_taken")
    assert_problem(post(agent, "a", path=f"{TOOLS}?x=1"), 409, "name_taken")


def test_a_key_that_may_see_less_by_now_is_not_told_again_what_it_was_told_SEC_4(
    owner: Tenant, agent: APIClient
) -> None:
    assert post(agent, "a", sensitivity="restricted").status_code == 201
    with tenant_context(owner.pk):
        ApiKey.objects.update(max_sensitivity="internal")
    assert_problem(post(agent, "a", sensitivity="restricted"), 403, "permission_denied")


def test_api_1_a_refusal_is_not_stored_so_the_key_is_free_for_the_corrected_request(agent: APIClient) -> None:
    assert_problem(post(agent, "a", name=""), 400)
    assert_problem(post(agent, "a", parameters=[1]), 422)
    assert post(agent, "a").status_code == 201


def test_api_1_our_own_mistake_is_not_stored_and_leaves_no_effect(
    owner: Tenant, agent: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError

    agent.raise_request_exception = False
    with monkeypatch.context() as broken:
        broken.setattr(
            "portal.http.idempotency.IdempotencyKey.objects.create", fail
        )  # after the tool was made
        assert_problem(post(agent, "a"), 500)
    with tenant_context(owner.pk):
        assert (Tool.objects.count(), IdempotencyKey.objects.count()) == (0, 0)
    assert post(agent, "a").status_code == 201


@pytest.mark.parametrize("key", ["", " ", "x" * 256, "é", "a\tb"])
def test_api_1_an_unfit_key_is_a_400_that_names_the_header(agent: APIClient, key: str) -> None:
    problem = assert_problem(post(agent, key), 400, "validation_error")
    assert problem["errors"][0]["pointer"] == "/Idempotency-Key"


def test_api_1_an_upload_and_a_refresh_are_repeatable_too(
    owner: Tenant, agent: APIClient, tool_of: ToolOf
) -> None:
    agent.credentials(**agent._credentials, HTTP_IDEMPOTENCY_KEY="a")
    first, second = upload(agent, PETS, source="pets"), upload(agent, PETS, source="pets")
    assert (first.status_code, second.status_code) == (200, 200), first.content
    assert first.json()["added"] == second.json()["added"] == 2
    assert second["Idempotency-Replayed"] == "true"
    assert_problem(upload(agent, PETS + b" ", source="pets"), 422, "idempotency_mismatch")
    with tenant_context(owner.pk):
        assert Source.objects.count() == 1
    path = f"{TOOLS}/{tool_of().pk}/embedding/refresh"
    assert agent.post(path).status_code == 202
    assert agent.post(path)["Idempotency-Replayed"] == "true"


def test_api_1_after_24_hours_a_key_is_new_and_its_row_is_pruned(owner: Tenant, agent: APIClient) -> None:
    assert post(agent, "old").status_code == 201
    assert post(agent, "new", tool_id="other").status_code == 201
    with tenant_context(owner.pk), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE tenancy_idempotencykey SET created_at = now() - interval '24 hours' WHERE key = 'old'"
        )
    assert_problem(post(agent, "old"), 409, "name_taken")
    assert post(agent, "new", tool_id="other")["Idempotency-Replayed"] == "true"


def test_api_1_the_worker_prunes_in_every_tenant(
    committed: Tenant, make_tenant: Callable[..., Tenant], admin_database: Any
) -> None:
    for tenant in (committed, make_tenant()):
        client = make_api(tenant)
        for key in ("old", "new"):
            assert post(client, key, tool_id=key).status_code == 201
    admin_database.execute(
        "UPDATE tenancy_idempotencykey SET created_at = now() - interval '25 hours' WHERE key = 'old'"
    )
    with login("DATABASE_WORKER_URL"):
        assert prune_idempotency_keys() == 2
        assert prune_idempotency_keys() == 0
    left = admin_database.execute("SELECT key FROM tenancy_idempotencykey").fetchall()
    assert left == [("new",), ("new",)]


def test_api_1_fifty_threads_with_one_key_have_one_effect(committed: Tenant) -> None:
    client = make_api(committed)
    together = threading.Barrier(50)

    def send(_: int) -> tuple[int, str]:
        mine = APIClient()
        mine.credentials(**client._credentials)
        together.wait()
        try:
            answer = post(mine, "a")
            return answer.status_code, answer.json().get("title", answer.get("Idempotency-Replayed", "first"))
        finally:
            connections.close_all()

    with ThreadPoolExecutor(50) as pool:
        answers = Counter(pool.map(send, range(50)))
    assert answers.pop((201, "first")) == 1
    assert set(answers) <= {(409, "already_running"), (201, "true")}
    with tenant_context(committed.pk):
        assert (Tool.objects.count(), IdempotencyKey.objects.count()) == (1, 1)


def test_api_1_while_the_first_runs_the_second_is_told_and_a_holder_that_vanishes_frees_the_key(
    committed: Tenant, monkeypatch: pytest.MonkeyPatch, admin_database: Any
) -> None:
    client = make_api(committed)
    client.raise_request_exception = False
    inside, go_on = threading.Event(), threading.Event()
    from tools.catalogue.tools import create_tool

    original = create_tool

    def slow(**fields: Any) -> Any:
        made = original(**fields)
        inside.set()
        go_on.wait(30)
        return made

    def send() -> int:
        try:
            return int(post(client, "a").status_code)
        finally:
            connections.close_all()

    with monkeypatch.context() as slowed, ThreadPoolExecutor(1) as pool:
        slowed.setattr("tools.api.tools.views.create_tool", slow)
        running = pool.submit(send)
        assert inside.wait(30)
        problem = post(client, "a")
        assert_problem(problem, 409, "already_running")
        assert problem["Retry-After"] == "1"
        # The holder's session ends as in a crash, with its tool made and nothing committed.
        ended = admin_database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND database = "
            "(SELECT oid FROM pg_database WHERE datname = current_database())"
        ).fetchall()
        assert len(ended) == 1
        go_on.set()
        assert running.result(30) >= 500
    assert post(client, "a").status_code == 201
    with tenant_context(committed.pk):
        assert Tool.objects.count() == 1


def test_without_a_key_nothing_is_stored(owner: Tenant, agent: APIClient) -> None:
    assert agent.post(TOOLS, {"tool_id": uuid.uuid4().hex, "name": "x"}, format="json").status_code == 201
    with tenant_context(owner.pk):
        assert IdempotencyKey.objects.count() == 0
