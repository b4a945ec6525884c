"""NUL in the address of a page: PostgreSQL holds no such character, and every parameter may reach it (case 63)."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

_NUL, _REPLACEMENT = "%00", "%EF%BF%BD"


class NulReplacedMiddleware:
    """Reads NUL as U+FFFD, as browsers do, so that a filter with it matches nothing and is shown. The API refuses it in words of
    its own."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if _NUL in request.META.get("QUERY_STRING", "") and not request.path.startswith("/api/"):
            request.META["QUERY_STRING"] = request.META["QUERY_STRING"].replace(_NUL, _REPLACEMENT)
        return self.get_response(request)
