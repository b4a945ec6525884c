"""The bodies of requests: how large one may be, and which characters it may hold.

One rule for all of the API's JSON and for every value that a service is about to store. Documents of imports have
a rule of their own, which repairs instead of refusing (tools/imports/formats/texts.py).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser, MultiPartParser

from portal.http.problems import Problem

MAX_DEPTH = 100
# A document comes in a form, whose own lines and fields take some room.
_FORM_BYTES = 100_000
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def storage_problem(value: object) -> str | None:
    """Why PostgreSQL cannot hold this JSON value, as half a sentence ("holds …"); None if it can."""
    level = [value]
    for _ in range(MAX_DEPTH):
        below: list[object] = []
        for one in level:
            if isinstance(one, str) and _UNSTORABLE.search(one):
                return "holds a NUL character or half of a surrogate pair"
            if isinstance(one, float) and not math.isfinite(one):
                return "holds a number that JSON does not have"
            if isinstance(one, Mapping):
                below += [*one.keys(), *one.values()]
            elif isinstance(one, list | tuple):
                below += one
        if not below:
            return None
        level = below
    return f"is nested deeper than {MAX_DEPTH} levels"


class JsonBody(JSONParser):
    """A JSON body of at most DATA_UPLOAD_MAX_MEMORY_SIZE bytes, every value of which can be stored."""

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        raw = stream.read(limit + 1)
        if len(raw) > limit:
            raise too_large(limit)
        try:
            data = json.loads(raw.decode(), parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            why = "is nested too deeply" if isinstance(error, RecursionError) else f"is no JSON: {error}"
            raise ParseError(f"The body {why}.") from None
        if reason := storage_problem(data):
            raise ParseError(f"The body {reason}.")
        return data


class DocumentForm(MultiPartParser):
    """A form with one document, of at most DOCUMENT_MAX_BYTES; what is longer is not even received."""

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        length = parser_context["request"].META.get("CONTENT_LENGTH") if parser_context else None
        if int(length or 0) > settings.DOCUMENT_MAX_BYTES + _FORM_BYTES:
            raise too_large(settings.DOCUMENT_MAX_BYTES)
        return super().parse(stream, media_type, parser_context)


def too_large(limit: int) -> Problem:
    return Problem(413, f"The body is larger than {limit / 1_000_000:g} MB.")


def _no_number(token: str) -> None:
    raise ValueError(f"{token} is no number of JSON")
