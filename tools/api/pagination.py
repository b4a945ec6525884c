"""Lists page by page: opaque cursors, so that a page never shifts while the catalogue changes."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.http.bodies import storage_problem
from portal.http.problems import Problem


def invalid_cursor() -> Problem:
    """The refusal of a cursor that no list has given out."""
    return Problem(400, "This cursor is none of ours. Start again without it.", code="invalid_cursor")


class CursorPages(CursorPagination):
    """`limit` (at most 100) and `cursor`; answers {results, next, previous, next_cursor} and a Link header.

    `count=true` adds `total`, which costs a count of everything that the filters let through.
    """

    PARAMETERS = ("limit", "cursor", "count")
    page_size = 20
    max_page_size = 100
    ordering = ("name", "id")

    def get_page_size(self, request: Request) -> int:
        given = request.query_params.get("limit")
        if given is None:
            return self.page_size
        # Three digits at most, since Python refuses to read a number of thousands of them.
        if re.fullmatch("[0-9]{1,3}", given) and 1 <= int(given) <= self.max_page_size:
            return int(given)
        raise ValidationError({"limit": f"A number from 1 to {self.max_page_size}, please."})

    def paginate_queryset(
        self, queryset: Any, request: Request, view: APIView | None = None
    ) -> list[Any] | None:
        counted = request.query_params.get("count", "false")
        if counted not in {"true", "false"}:
            raise ValidationError({"count": "`true` or `false`, please."})
        rows: list[Any] | None = super().paginate_queryset(queryset, request, view)
        self._total = queryset.count() if counted == "true" else None
        return rows

    def is_position(self, position: object) -> bool:
        """Whether the first field of the ordering can be compared with this."""
        return storage_problem(position) is None

    def decode_cursor(self, request: Request) -> Any:
        try:
            cursor = super().decode_cursor(request)
        except NotFound:
            cursor = None
        if "cursor" in request.query_params and (cursor is None or not self.is_position(cursor.position)):
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


class BySlug(CursorPages):
    """In the order of the slugs."""

    ordering = ("slug", "pk")


class ByKey(CursorPages):
    """In the order of the keys of endpoints."""

    ordering = ("key", "pk")


class NewestFirst(CursorPages):
    """Newest first."""

    ordering = ("-created_at", "-pk")

    def is_position(self, position: object) -> bool:
        return position is None or _is(datetime.fromisoformat, str(position))


class ByItem(CursorPages):
    """In the order of the items."""

    ordering = ("item_id", "pk")

    def is_position(self, position: object) -> bool:
        return position is None or _is(UUID, str(position))


def _is(kind: Callable[[str], object], text: str) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True
