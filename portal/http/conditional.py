"""Versions of things in HTTP's terms: ETag, If-Match, If-None-Match."""

from __future__ import annotations

import re
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.http.problems import Problem

# Weak in the eyes of a proxy that compressed the answer: it names the same version.
_VERSION = re.compile(r'(?:W/)?"v([0-9]{1,18})"')
_TAG = re.compile(r'(?:W/)?"[^"]*"')


def version_etag(version: int) -> str:
    return f'"v{version}"'


def expected_version(request: Request) -> int:
    """The version in If-Match; a Problem 428 without one, 412 for what is none of ours."""
    given = request.headers.get("If-Match", "")
    if not given:
        raise Problem(428, 'Send the version you have seen as `If-Match: "v17"` (the ETag of the GET).')
    version = _VERSION.fullmatch(given.strip())
    if version is None:
        raise Problem(412, f"{given!r} is no version of this thing.")
    return int(version[1])


def tagged(request: Request, data: Any, etag: str, **headers: str) -> Response:
    """The answer to a GET with its ETag; 304 without a body if the caller has exactly this."""
    headers = {**headers, "ETag": etag}
    given = request.headers.get("If-None-Match", "")
    known = {tag.removeprefix("W/") for tag in _TAG.findall(given)}
    if given.strip() == "*" or etag.removeprefix("W/") in known:
        return Response(status=304, headers=headers)
    return Response(data, headers=headers)
