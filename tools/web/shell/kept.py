"""What a visitor had typed into a form that was not taken, because their session was over (case 62) or worked in another tenant
meanwhile (S21): it goes through the login, or through the switch of the tenant, in a field of that form, and is sent again from
a page after it. The server stores nothing of it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from urllib.parse import quote_plus

from django.http import HttpRequest

from portal.http.bodies import ANONYMOUS_MAX_BYTES
from portal.tenancy.middleware import FORM_FIELD, tenants_of_form
from tools.web.shell.addresses import local_address
from tools.web.shell.forms import without_credentials

FIELD = "kept"
# Written by the page, not by its visitor; Django's admin begins its own names with an underscore.
_OF_THE_PAGE = {"csrfmiddlewaretoken", "next", "version", "seen", FIELD, FORM_FIELD}
_SECRET = re.compile("password|secret", re.IGNORECASE)
# The login's form, which holds some fields besides, is sent by somebody who has not signed in yet.
_MAX_BYTES = ANONYMOUS_MAX_BYTES - 8_000


@dataclass(frozen=True, slots=True)
class Kept:
    """A form that was not taken: the address it goes to, and the names and values of its fields without secrets. `is_whole` is
    False where it was too long to be kept, and then it has none."""

    address: str
    fields: list[tuple[str, str]]
    is_whole: bool = True

    @property
    def texts(self) -> list[tuple[str, str]]:
        """What the visitor typed or chose, with the name of the field in words."""
        return [
            (name.replace("_", " ").capitalize(), value)
            for name, value in self.fields
            if name not in _OF_THE_PAGE and not name.startswith("_") and value.strip()
        ]

    @property
    def tenant(self) -> str:
        """The id of the tenant that the form was made for; empty if it names none."""
        return dict(self.fields).get(FORM_FIELD, "")

    def __str__(self) -> str:
        return json.dumps({"address": self.address, "fields": self.fields}, ensure_ascii=False)


def kept_of(request: HttpRequest) -> Kept:
    """The form that this request wanted to send."""
    fields = [
        (name, without_credentials(str(value)) if name.endswith("url") else str(value))
        for name, values in request.POST.lists()
        if name not in {"csrfmiddlewaretoken", FORM_FIELD} and not _SECRET.search(name)
        for value in values
    ]
    fields += [(FORM_FIELD, tenant) for tenant in sorted(tenants_of_form(request))]
    kept = Kept(request.get_full_path(), fields)
    if len(quote_plus(str(kept), errors="replace")) < _MAX_BYTES:
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
