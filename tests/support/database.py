"""Connections, logins and commits of tests that need more than pytest-django's transaction."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import psycopg
from django.db import connections
from django.db.backends.postgresql.base import DatabaseWrapper

from portal import env

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


@contextmanager
def login(variable: str, *, url: str | None = None) -> Iterator[None]:
    """Within it, this thread's database connection is the one of that URL (`DATABASE_WORKER_URL`: the worker's)."""
    usual = connections["default"]
    with mock.patch.dict(os.environ, {variable: url} if url else {}):
        chosen = env.database_login(variable)
    options = {key: value for key, value in usual.settings_dict["OPTIONS"].items() if key != "pool"}
    other = DatabaseWrapper({**usual.settings_dict, **chosen, "OPTIONS": options}, "default")
    connections["default"] = other
    try:
        yield
    finally:
        other.close()
        connections["default"] = usual


@contextmanager
def held_snapshot() -> Iterator[None]:
    """As of a dump or a report that runs for long: what was deleted since cannot be cleared away."""
    with psycopg.connect(os.environ["DATABASE_ADMIN_URL"]) as holder:
        holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        holder.execute("SELECT 1 FROM embeddings_embeddingtask LIMIT 1")
        yield
