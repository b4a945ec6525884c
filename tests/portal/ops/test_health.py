"""`/livez` and `/readyz`: the database decides whether the portal can serve; broker and cache are reported only (OPS-2)."""

from __future__ import annotations

from typing import Any

from django.test import Client

UNREACHABLE = "redis://127.0.0.1:9/0"


def test_it_works(db: None) -> None:
    answer = Client().get("/readyz")
    assert answer.status_code == 200
    assert answer.json() == {"status": "ok", "database": "ok", "broker": "ok", "cache": "ok"}
    assert Client().get("/livez").json() == {"status": "ok"}


def test_a_broker_or_a_cache_that_is_down_is_reported_and_the_portal_serves(db: None, settings: Any) -> None:
    for setting, name in (("CELERY_BROKER_URL", "broker"), ("CACHE_URL", "cache")):
        usual = getattr(settings, setting)
        setattr(settings, setting, UNREACHABLE)
        answer = Client().get("/readyz")
        assert (answer.status_code, answer.json()[name]) == (200, "unavailable")
        setattr(settings, setting, usual)
