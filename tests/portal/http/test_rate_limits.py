"""API-1, RELIABILITY rule 36: a key's rate is kept to the request, and a broker that is away refuses nobody.

How to see these fail: with GET and SET instead of the script in portal/http/rate_limits.py, fifty threads let more than ten through.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.db import connections
from rest_framework.test import APIClient

from portal.embedded import Services, start
from portal.http import rate_limits
from portal.tenancy.context import tenant_context
from portal.tenancy.models import ApiKey, Tenant
from tests.support.api import assert_problem
from tests.support.clients import make_api

ME = "/api/v1/me"
HEADERS = (
    "RateLimit-Policy",
    "RateLimit",
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
)


@pytest.fixture(autouse=True)
def own_counter(monkeypatch: pytest.MonkeyPatch) -> rate_limits.Counter:
    """A circuit that no other test has opened."""
    counter = rate_limits.Counter()
    monkeypatch.setattr(rate_limits, "counter", counter)
    return counter


def test_api_1_every_answer_says_what_is_left_and_one_too_many_is_a_429(owner: Tenant) -> None:
    client = make_api(owner, requests_per_minute=3)
    for left in (2, 1, 0):
        answer = client.get(ME)
        assert answer.status_code == 200
        assert answer["RateLimit-Policy"] == '"key";q=3;w=60'
        assert re.fullmatch(rf'"key";r={left};t=\d+', answer["RateLimit"])
        assert (answer["X-RateLimit-Limit"], answer["X-RateLimit-Remaining"]) == ("3", str(left))
        assert 0 < int(answer["X-RateLimit-Reset"]) <= 60
    refused = client.get(ME)
    assert_problem(refused, 429, "rate_limited")
    assert 0 < int(refused["Retry-After"]) <= 60
    assert refused["RateLimit"].startswith('"key";r=0;')
    assert client.get(ME).status_code == 429
    assert make_api(owner, requests_per_minute=3).get(ME).status_code == 200, "each key has its own"


def test_api_1_a_refused_request_has_no_effect_and_me_says_the_limit(owner: Tenant) -> None:
    client = make_api(owner, requests_per_minute=1)
    assert client.get(ME).json()["limits"] == {"requests_per_minute": 1}
    assert_problem(client.post("/api/v1/tools", {"tool_id": "a", "name": "a"}, format="json"), 429)
    assert make_api(owner).get("/api/v1/tools/a").status_code == 404


def test_api_1_a_key_without_a_rate_asks_the_broker_nothing(
    owner: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> None:
        raise AssertionError("counted")

    monkeypatch.setattr(rate_limits.Counter, "count", fail)
    answer = make_api(owner).get(ME)
    assert answer.status_code == 200
    assert answer.json()["limits"] == {"requests_per_minute": None}
    assert not any(name in answer for name in HEADERS)
    with pytest.raises(AssertionError, match="counted"):
        make_api(owner, requests_per_minute=1).get(ME)


def test_api_1_fifty_requests_at_once_over_a_limit_of_ten_let_exactly_ten_through(committed: Tenant) -> None:
    client = make_api(committed, requests_per_minute=10)
    together = threading.Barrier(50)

    def ask(_: int) -> int:
        mine = APIClient()
        mine.credentials(**client._credentials)
        together.wait()
        try:
            return int(mine.get(ME).status_code)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(50) as pool:
        assert Counter(pool.map(ask, range(50))) == {200: 10, 429: 40}


def test_api_1_a_window_ends(owner: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limits, "WINDOW_SECONDS", 1)
    client = make_api(owner, requests_per_minute=1)
    assert [client.get(ME).status_code for _ in range(2)] == [200, 429]
    time.sleep(1.1)
    assert client.get(ME).status_code == 200


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    """A broker of this module's own, which may be killed."""
    with start(tmp_path_factory.mktemp("rates"), postgres_settings={"fsync": "off"}) as started:
        yield started


@pytest.mark.parametrize("outage", ["dead", "frozen"])
def test_api_1_a_dead_or_frozen_broker_refuses_nobody_waits_once_and_is_logged_once(
    owner: Tenant, servers: Services, outage: str, settings: Any, caplog: pytest.LogCaptureFixture,
    own_counter: rate_limits.Counter, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    settings.CACHE_URL = servers.urls["REDIS_URL"]
    client = make_api(owner, requests_per_minute=1)
    assert [client.get(ME).status_code for _ in range(2)] == [200, 429]
    pid = servers.pids["valkey"]
    if outage == "dead":
        servers.valkey.stop()
    else:
        os.kill(pid, signal.SIGSTOP)
    try:
        caplog.clear()
        begun = time.monotonic()
        with caplog.at_level(logging.WARNING, "portal.http.rate_limits"):
            answers = [client.get(ME) for _ in range(20)]
        assert time.monotonic() - begun < 10, "each of them waited"
        assert {answer.status_code for answer in answers} == {200}
        assert not any(name in answers[-1] for name in HEADERS)
        assert len([one for one in caplog.records if one.name == "portal.http.rate_limits"]) == 1
    finally:
        if outage == "dead":
            servers.valkey.start()
        else:
            os.kill(pid, signal.SIGCONT)
    monkeypatch.setattr(own_counter, "_closed_until", 0.0)  # the pause is over
    assert 429 in [client.get(ME).status_code for _ in range(3)]


def test_api_1_the_rate_of_a_key_is_bounded_and_given_by_command(owner: Tenant, tmp_path: Path) -> None:
    for wrong in (0, -1, 1_000_001):
        with pytest.raises(ValidationError):
            make_api(owner, requests_per_minute=wrong)
    call_command(
        "create_api_key", "limited", "--tenant", owner.slug, "--scope", "tools:read", "--rate", "600"
    )
    with tenant_context(owner.pk):
        assert ApiKey.objects.get(name="limited").requests_per_minute == 600
