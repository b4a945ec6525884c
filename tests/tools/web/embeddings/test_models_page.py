"""The page of the models (EMB-10), by the web's login: what serves, how far the second is, switch, switch back, drop."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from embeddings import slots
from embeddings.providers import ProviderError
from portal.resilience import circuit_breaker
from portal.tenancy.models import Role, Tenant
from tests.support.clients import join, make_client, sign_in
from tests.support.database import login
from tests.support.embeddings.pipeline import Pipeline

HTMX = {"HX-Request": "true"}


@pytest.fixture
def two_models(pipeline: Pipeline, use: Callable[..., Any]) -> Iterator[Pipeline]:
    """Four tools with vectors of model-1, which serves; model-2 has a slot and nothing in it."""
    name(pipeline, use, "model-1")
    for number in range(4):
        pipeline.add(f"Text {number}.")
    pipeline.work()
    name(pipeline, use, "model-2")
    yield pipeline
    pipeline.owner.execute("DELETE FROM embeddings_embeddingmodel")


def name(pipeline: Pipeline, use: Callable[..., Any], model: str) -> None:
    """As a start of the portal with EMBEDDING_MODEL=model does."""
    use("ModelEmbedder", EMBEDDING_MODEL=model)
    with login("DATABASE_ADMIN_URL"):
        slots.ensure_slot()


def fill(pipeline: Pipeline) -> None:
    from embeddings.queue.reconcile import reconcile

    with login("DATABASE_WORKER_URL"):
        reconcile()
    pipeline.work()


@pytest.fixture
def superuser(committed: Tenant) -> Client:
    user = get_user_model().objects.create_user("root", is_staff=True, is_superuser=True)
    join(committed, user, Role.ADMIN)
    return sign_in(committed, user)


def page(client: Client, **headers: str) -> str:
    return " ".join(client.get("/models/", headers=headers).content.decode().split())


def polls(html: str) -> bool:
    return "data-poll" in html.partition('id="models"')[2].partition(">")[0]


def test_one_model_is_shown_with_how_to_change_it_EMB_10(superuser: Client) -> None:
    html = page(superuser)
    assert "all-MiniLM-L6-v2" in html
    assert "No second model" in html
    assert "EMBEDDING_MODEL" in html
    assert not polls(html)  # nothing will change by itself
    for path in ("/models/switch/", "/models/drop/"):
        assert superuser.get(path)["Location"] == "/models/"


def test_an_incomplete_model_cannot_be_switched_to_and_the_page_says_what_is_missing_EMB_10(
    superuser: Client, two_models: Pipeline
) -> None:
    html = page(superuser)
    assert "The switch waits for 4 more vectors." in html
    assert "At most 0.5 % (0 of 4) may be missing or failed." in html
    assert 'href="/models/switch/"' not in html
    assert "every 2s" in html
    assert "No worker is consuming queue embeddings." in html
    assert not re.search(r" style=|<style|hx-on| onclick|javascript:", html)
    superuser.post("/models/switch/", {"model": "model-2"})
    assert "model-2 is not complete: 0 of 4 vectors are ready, 0 failed." in page(superuser)
    assert slots.all()[0].model == "model-1"


def test_failed_vectors_block_the_switch_by_name_EMB_10(superuser: Client, two_models: Pipeline) -> None:
    fill(two_models)
    two_models.owner.execute(
        "UPDATE tools_toolembedding SET status = 'failed' WHERE slot = 1 AND entity_id = (SELECT max(entity_id::text)::uuid FROM tools_toolembedding)"
    )
    html = page(superuser)
    assert "Too many failed" in html
    assert "The switch waits for 1 more vector." in html
    assert not polls(html)  # the workers have given up, so nothing changes by itself


def test_switch_switch_back_and_drop_each_ask_first_EMB_10(superuser: Client, two_models: Pipeline) -> None:
    fill(two_models)
    assert "Switch back" not in page(superuser)
    question = superuser.get("/models/switch/").content.decode()
    assert "Switch to model-2?" in question
    assert '<input type="hidden" name="model" value="model-2">' in question
    assert slots.all()[0].model == "model-1"  # asking changes nothing
    for _ in range(2):  # the second press changes nothing more
        assert superuser.post("/models/switch/", {"model": "model-2"}).status_code == 302
        assert "model-2 is serving now." in page(superuser)
    assert slots.all()[0].model == "model-2"

    assert "Switch back" in page(superuser)
    assert "Switch back to model-1?" in superuser.get("/models/switch/", headers=HTMX).content.decode()
    superuser.post("/models/switch/", {"model": "model-1"})
    assert slots.all()[0].model == "model-1"

    assert "Drop model-2?" in superuser.get("/models/drop/").content.decode()
    superuser.post("/models/drop/", {"model": "model-1"})  # the button of an old page: it serves again
    assert "The second model is model-2 now, and not model-1." in page(superuser)
    assert len(slots.all()) == 2
    superuser.post("/models/drop/", {"model": "model-2"})
    assert "model-2 was dropped." in page(superuser)
    assert [slot.model for slot in slots.all()] == ["model-1"]
    fill(two_models)
    assert two_models.all("SELECT 1 FROM tools_toolembedding WHERE slot = 1") == []


def test_a_provider_that_is_down_is_named_with_since_when_why_and_the_next_try_EMB_10_EMB_5(
    superuser: Client, two_models: Pipeline
) -> None:
    wrong_key = ProviderError("401: wrong key", provider_wide=True, lasting=True)
    with login("DATABASE_WORKER_URL"):
        circuit_breaker.record_failure("model-2", "passage", wrong_key)
    html = page(superuser)
    first, _, second = html.partition('id="model-second"')
    assert "has been down since" not in first
    assert "The provider of model-2 has been down since" in second
    assert wrong_key.public in second
    assert "401" not in second
    assert "Next try" in second
    with login("DATABASE_WORKER_URL"):
        circuit_breaker.record_success("model-2", "passage")
    assert "has been down since" not in page(superuser)


def test_a_tenants_admin_sees_what_serves_and_neither_counts_nor_buttons_EMB_10_SEC_1(
    committed: Tenant, two_models: Pipeline
) -> None:
    fill(two_models)
    admin = make_client(committed, Role.ADMIN)
    html = page(admin)
    assert "model-1" in html
    assert "It is complete and can serve. Switching requires a superuser" in html
    assert "ready here" not in html
    assert 'href="/models/switch/"' not in html
    for path in ("/models/switch/", "/models/drop/"):
        for answer in (admin.get(path), admin.post(path, {"model": "model-2"})):
            assert answer.status_code == 403
            assert "This requires a superuser" in answer.content.decode()
    assert len(slots.all()) == 2
    assert make_client(committed, Role.OPERATOR).get("/models/").status_code == 403
