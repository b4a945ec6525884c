"""What a visitor had typed into a form when their session was over: it goes through the login in the login's own form, and is
sent again from a page after it (case 62). The server stores nothing of somebody who has not signed in.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from django.conf import settings
from django.http import HttpRequest

from tools.web.shell.addresses import local_address

FIELD = "kept"
# Written by the page, not by its visitor.
_OF_THE_PAGE = {"csrfmiddlewaretoken", "next", "version", "seen", FIELD}
# A form encodes a byte of JSON in up to three.
_ENCODED = 3
# What the login's form holds besides.
_OTHER_FIELDS = 8_000


@dataclass(frozen=True, slots=True)
class Kept:
    """A form that was not sent: the address it goes to, and the names and values of its fields. `is_whole` is False where it was
    too long to be kept, and then it has none."""

    address: str
    fields: list[tuple[str, str]]
    is_whole: bool = True

    @property
    def texts(self) -> list[tuple[str, str]]:
        """What the visitor typed or chose, with the name of the field in words."""
        shown = [(name, value) for name, value in self.fields if name not in _OF_THE_PAGE and value.strip()]
        return [(name.replace("_", " ").capitalize(), value) for name, value in shown]

    def __str__(self) -> str:
        return json.dumps({"address": self.address, "fields": self.fields}, ensure_ascii=False)


def kept_of(request: HttpRequest) -> Kept:
    """The form that this request wanted to send."""
    fields = [
        (name, str(value))
        for name, values in request.POST.lists()
        if name != "csrfmiddlewaretoken"
        for value in values
    ]
    kept = Kept(request.get_full_path(), fields)
    length = _ENCODED * len(str(kept).encode(errors="replace")) + _OTHER_FIELDS
    if length < settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
        return kept
    return Kept(kept.address, [], is_whole=False)


def kept_in(request: HttpRequest) -> Kept | None:
    """The form that came along with this login; None if none did, or if it is not one of this portal."""
    try:
        read = json.loads(request.POST.get(FIELD, ""))
        fields = [(str(name), str(value)) for name, value in read["fields"]]
        address = local_address(request, str(read["address"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return Kept(address, fields) if address else None
