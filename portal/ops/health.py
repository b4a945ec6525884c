"""What the people who run the portal ask it: is the process alive, and can it serve."""

from __future__ import annotations

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse
from redis.backoff import NoBackoff
from redis.retry import Retry


def livez(request: HttpRequest) -> JsonResponse:
    """200 while the process answers at all; asks nothing else."""
    return JsonResponse({"status": "ok"})


def readyz(request: HttpRequest) -> JsonResponse:
    """200 when the database answers, else 503. Broker and cache are reported, but no request needs them."""
    checks = {
        "database": _database(),
        "broker": _redis(settings.CELERY_BROKER_URL),
        "cache": _redis(settings.CACHE_URL),
    }
    ready = checks["database"] == "ok"
    return JsonResponse({"status": "ok" if ready else "unavailable", **checks}, status=200 if ready else 503)


def _database() -> str:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return "unavailable"
    return "ok"


def _redis(url: str) -> str:
    try:
        with redis.Redis.from_url(
            url, socket_timeout=1, socket_connect_timeout=1, retry=Retry(NoBackoff(), 0)
        ) as client:
            client.ping()
    except redis.RedisError:
        return "unavailable"
    return "ok"
