"""The WSGI application that gunicorn serves."""

from __future__ import annotations

import os
from typing import Any, BinaryIO

from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

from portal.embedded.spawn import hide_from_own_user
from portal.http import bulkhead  # noqa: F401 - before the workers are forked, who share its file

hide_from_own_user()
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

_django = get_wsgi_application()
# Imports every view now, once for all workers; the first request of each would wait for it.
_ = get_resolver().url_patterns


class WholeBody:
    """The body of a request, which breaks off with an OSError where fewer bytes come than were declared: Django would take what it
    has for all of it, and save a text that is cut off."""

    def __init__(self, stream: BinaryIO, length: int) -> None:
        self._stream, self._missing = stream, length

    def read(self, size: int = -1) -> bytes:
        return self._checked(self._stream.read(size), size)

    def readline(self, size: int = -1) -> bytes:
        return self._checked(self._stream.readline(size), size)

    def _checked(self, data: bytes, size: int) -> bytes:
        self._missing -= len(data)
        if self._missing > 0 and (size < 0 or (size > 0 and not data)):
            raise OSError("The body broke off.")
        return data


def application(environ: dict[str, Any], start_response: Any) -> Any:
    """Django behind the proxy (portal/Caddyfile), which says where a request comes from.

    Django may answer without having read the body. It is read to its end here: the socket would else be closed with bytes in
    it, which takes the answer from the proxy. They are bounded, and have arrived already.
    """
    environ["REMOTE_ADDR"] = environ.pop("HTTP_X_FORWARDED_FOR", environ["REMOTE_ADDR"])
    body = environ["wsgi.input"]
    environ["wsgi.input"] = WholeBody(body, int(environ.get("CONTENT_LENGTH") or 0))
    answer = _django(environ, start_response)
    while body.read(65_536):
        pass
    return answer
