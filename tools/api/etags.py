"""ETags of things that have no version of their own: the moment of their last change, which the database keeps to the
microsecond. What a sync or a health check notes about them leaves it alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from rest_framework.request import Request

from portal.http.conditional import expected_version, seen_versions, version_etag
from portal.http.problems import Problem
from tools.models import McpServer, Source

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _version(row: Source | McpServer) -> int:
    return (row.updated_at - _EPOCH) // timedelta(microseconds=1)


def etag_of(row: Source | McpServer) -> str:
    return version_etag(_version(row))


def require_current(request: Request, row: Source | McpServer) -> None:
    """A Problem 412 unless the caller's If-Match names the row as it is, 428 without one. The row is locked."""
    current = _version(row)
    if expected_version(seen_versions(request), current) != current:
        now = etag_of(row)
        sentence = "This was changed since you read it. Nothing of yours was stored."
        raise Problem(412, sentence, headers={"ETag": now}, current_etag=now)
