"""Addresses of this portal that a browser names: where a form leads back to, and on which page a button was pressed."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.http import HttpRequest
from django.utils.http import url_has_allowed_host_and_scheme


def local_address(request: HttpRequest, wanted: str) -> str:
    """The wanted address if it is a path of this portal; empty if it is anything else."""
    allowed = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    # A bare word would be taken for the name of a page, and for a path beside the present one.
    return wanted if allowed and wanted.startswith("/") else ""


def next_url(request: HttpRequest, default: str) -> str:
    """The address in the field `next` if it is a page of this portal, else `default`."""
    return local_address(request, request.POST.get("next") or request.GET.get("next") or "") or default


def page_before(request: HttpRequest, default: str) -> str:
    """The page of this portal from which the request was sent, else `default`."""
    try:
        here = urlsplit(request.headers.get("HX-Current-URL") or request.headers.get("Referer") or "")
    except ValueError:
        return default
    if here.netloc != request.get_host():
        return default
    return local_address(request, here._replace(scheme="", netloc="", fragment="").geturl()) or default
