"""Conditional requests (RFC 9110, 13.1): ETag, If-Match, If-None-Match."""

from __future__ import annotations

import re

from django.utils.http import parse_etags
from rest_framework.request import Request
from rest_framework.response import Response

from portal.http.problems import Problem

ANY = "*"
_VERSION = re.compile(r'"v([0-9]{1,18})"')
# A proxy that compresses an answer makes its ETag weak, or names its method in it: Apache makes "v1-gzip" of "v1".
_CHANGED_BY_PROXY = re.compile(r'^W/|-(?:gzip|br|zstd|deflate)(?="$)')


def version_etag(version: int) -> str:
    return f'"v{version}"'


def seen_versions(request: Request) -> list[int] | None:
    """Returns the versions that If-Match names, None for `*`. Raises Problem 428 without the header, 412 if no tag is a version."""
    given = request.headers.get("If-Match", "")
    if not given:
        raise Problem(428, 'Send the version you have seen as `If-Match: "v17"` (the ETag of the GET).')
    tags = _etags(given)
    if tags == [ANY]:
        return None
    versions = [int(found[1]) for tag in tags if (found := _VERSION.fullmatch(tag))]
    if not versions:
        raise Problem(412, f"{given!r} is no version of this thing.")
    return versions


def expected_version(seen: list[int] | None, current: int) -> int:
    """Returns the version that a change was made for: `current` if the caller has seen it, else a stale one."""
    return current if seen is None or current in seen else seen[0]


def tagged(request: Request, data: object, etag: str, **headers: str) -> Response:
    """Answers a GET with its ETag, or with 304 and no body if If-None-Match names that."""
    headers = {**headers, "ETag": etag}
    known = _etags(request.headers.get("If-None-Match", ""))
    if known == [ANY] or etag.removeprefix("W/") in known:
        return Response(status=304, headers=headers)
    return Response(data, headers=headers)


def _etags(header: str) -> list[str]:
    """Parses a list of entity tags into the tags that the portal sent, for weak comparison; `*` alone means any."""
    return [_CHANGED_BY_PROXY.sub("", tag) for tag in parse_etags(header)]
