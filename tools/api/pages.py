"""Lists page by page: opaque cursors, so that a page never shifts while the catalogue changes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response

from portal.bodies import unstorable
from portal.problems import Problem


def refuse_unknown(given: Iterable[Any], known: Collection[str]) -> None:
    """A mistyped filter that is quietly ignored would answer with the whole catalogue."""
    if unknown := sorted(set(given) - set(known)):
        sentence = f"There is no such parameter. Known: {', '.join(sorted(known))}."
        raise ValidationError(dict.fromkeys(unknown, sentence))


class ToolPages(CursorPagination):
    """`limit` (at most 100) and `cursor`; answers {results, next, previous, next_cursor} and a Link header."""

    PARAMETERS = ("limit", "cursor")
    page_size = 20
    page_size_query_param = "limit"
    max_page_size = 100
    ordering = ("name", "id")

    def get_page_size(self, request: Request) -> int | None:
        given = request.query_params.get("limit")
        if given is not None and not (given.isascii() and given.isdigit() and int(given) > 0):
            raise ValidationError({"limit": f"A number from 1 to {self.max_page_size}, please."})
        return super().get_page_size(request)

    def decode_cursor(self, request: Request) -> Any:
        try:
            cursor = super().decode_cursor(request)
        except NotFound:
            cursor = None
        if "cursor" in request.query_params and (cursor is None or unstorable(cursor.position)):
            raise Problem(400, "This cursor is none of ours. Start again without it.", code="invalid_cursor")
        return cursor

    def get_paginated_response(self, data: Any) -> Response:
        following, preceding = self.get_next_link(), self.get_previous_link()
        cursor = parse_qs(urlsplit(following).query)["cursor"][0] if following else None
        links = {"next": following, "prev": preceding}
        header = ", ".join(f'<{link}>; rel="{name}"' for name, link in links.items() if link)
        return Response(
            {"results": data, "next": following, "previous": preceding, "next_cursor": cursor},
            headers={"Link": header} if header else None,
        )
