"""Static files with a digest of their content in the address, so that a browser keeps them for ever, and compressed. Both are made
when a process first needs them: there is no build step, and nothing lies on the disk that could be of an older release.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from typing import Any

from django.conf import settings
from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import StaticFilesStorage
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from whitenoise.middleware import WhiteNoiseMiddleware

_DIGITS = 12
_WITH_DIGEST = re.compile(rf"(?P<stem>/.+)\.[0-9a-f]{{{_DIGITS}}}(?P<suffix>\.\w+)")
_TEXTS = {".css", ".js", ".json", ".svg"}
_FOR_EVER = "max-age=31536000, public, immutable"


@cache
def _found(name: str) -> Path | None:
    """The file of this name in the repository or an app."""
    found = finders.find(name)
    return Path(found) if isinstance(found, str) else None


@cache
def _name_with_digest(name: str) -> str:
    """`portal/portal.css` as `portal/portal.0123456789ab.css`; a name without a file as it is."""
    path = _found(name)
    if path is None:
        return name
    digest = sha256(path.read_bytes()).hexdigest()[:_DIGITS]
    return str(PurePosixPath(name).with_suffix(f".{digest}{path.suffix}"))


@cache
def _packed(path: Path) -> bytes:
    return gzip.compress(path.read_bytes(), compresslevel=9, mtime=0)


class DigestStorage(StaticFilesStorage):
    """Gives templates the addresses. In debugging, when files change under a running process, they stay plain."""

    def url(self, name: str | None) -> str:
        return super().url(_name_with_digest(name) if name and not settings.DEBUG else name)


class StaticFilesMiddleware:
    """Answers these addresses, and the plain ones, for which a browser asks again after an hour."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._plain: Any = WhiteNoiseMiddleware(get_response)

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        files, prefix, address = self._plain.files, self._plain.static_prefix, request.path_info
        # The digest of a page of another release, too: it gets the file of this one.
        found = _WITH_DIGEST.fullmatch(address)
        plain = f"{found['stem']}{found['suffix']}" if found else address
        if plain not in files:
            plain = address
        if plain not in files or self._plain.autorefresh:
            answer: HttpResponseBase = self._plain(request)
            return answer
        name = plain.removeprefix(prefix)
        answer = _compressed(files[plain], _found(name), request) or self._plain.serve(files[plain], request)
        if plain != address == f"{prefix}{_name_with_digest(name)}":
            answer["Cache-Control"] = _FOR_EVER
        answer["Vary"] = "Accept-Encoding"
        return answer


def _compressed(static_file: Any, path: Path | None, request: HttpRequest) -> HttpResponse | None:
    """The whole file with gzip; None where that is not what is asked for."""
    accepted = "gzip" in request.headers.get("Accept-Encoding", "")
    if path is None or path.suffix not in _TEXTS or not accepted or request.method not in {"GET", "HEAD"}:
        return None
    asked = static_file.get_response("HEAD", request.META)  # which opens nothing
    if asked.status != HTTPStatus.OK:
        return None
    packed = _packed(path)
    headers = {**dict(asked.headers), "Content-Encoding": "gzip", "Content-Length": str(len(packed))}
    return HttpResponse(packed, headers=headers)
