"""Lists page by page: opaque cursors, so that a page never shifts while the catalogue changes."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

from django.core.exceptions import ValidationError as InvalidValue
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response

from portal.http.bodies import storage_problem
from portal.http.problems import Problem


def invalid_cursor() -> Problem:
    """The refusal of a cursor that no list has given out."""
    return Problem(400, "This cursor is none of ours. Start again without it.", code="invalid_cursor")


class CursorPages(CursorPagination):
    """`limit` (at most 100) and `cursor`; answers {results, next, previous, next_cursor} and a Link header.

    `count=true` adds `total`, which costs a count of everything that the filters let through. The view's `ordering` is that of
    the rows; a cursor holds a value of its first column.
    """

    PARAMETERS = ("limit", "cursor", "count")
    page_size = 20
    max_page_size = 100

    def get_page_size(self, request: Request) -> int:
        given = request.query_params.get("limit")
        if given is None:
            return self.page_size
        # Three digits at most, since Python refuses to read a number of thousands of them.
        if re.fullmatch("[0-9]{1,3}", given) and 1 <= int(given) <= self.max_page_size:
            return int(given)
        raise ValidationError({"limit": f"A number from 1 to {self.max_page_size}, please."})

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any] | None:
        counted = request.query_params.get("count", "false")
        if counted not in {"true", "false"}:
            raise ValidationError({"count": "`true` or `false`, please."})
        rows: list[Any] | None = super().paginate_queryset(queryset, request, view)
        self._total = queryset.count() if counted == "true" else None
        return rows

    def get_ordering(self, request: Request, queryset: Any, view: Any) -> tuple[str, ...]:
        ordering: tuple[str, ...] = view.ordering
        self._column = queryset.model._meta.get_field(ordering[0].lstrip("-"))
        return ordering

    def _is_position(self, position: object) -> bool:
        """Whether the first column of the ordering can be compared with this."""
        try:
            self._column.to_python(position)
        except InvalidValue:
            return False
        return storage_problem(position) is None

    def decode_cursor(self, request: Request) -> Any:
        try:
            cursor = super().decode_cursor(request)
        except NotFound:
            cursor = None
        if "cursor" in request.query_params and (cursor is None or not self._is_position(cursor.position)):
            raise invalid_cursor()
        return cursor

    def get_paginated_response(self, data: object) -> Response:
        following, preceding = self.get_next_link(), self.get_previous_link()
        cursor = parse_qs(urlsplit(following).query)["cursor"][0] if following else None
        links = {"next": following, "prev": preceding}
        header = ", ".join(f'<{link}>; rel="{name}"' for name, link in links.items() if link)
        body = {"results": data, "next": following, "previous": preceding, "next_cursor": cursor}
        if self._total is not None:
            body["total"] = self._total
        return Response(body, headers={"Link": header} if header else None)
