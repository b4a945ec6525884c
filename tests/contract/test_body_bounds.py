"""S19, S8: no route reads a body beyond its bound, before or after a login, whether its length is declared or found out.

How to see it fail: without BodyLimitMiddleware all routes with a form take 20 MB of anybody; without the proxy's question the
declared lengths are still refused, and those in chunks are read to their end.
"""

from __future__ import annotations

import logging
import re
import socket
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.test import Client as Visitor

from bench.stack import Stack, stack
from portal.http.bodies import ANONYMOUS_MAX_BYTES
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Membership, Role, Tenant
from tests.support.database import real_commits
from tests.support.world import NOT_OF_A_THING, routes

SMALL, DOCUMENT = settings.DATA_UPLOAD_MAX_MEMORY_SIZE, settings.DOCUMENT_MAX_BYTES
HUGE = 400_000_000
CHUNK_BYTES = 65_536
CHUNK = b"10000\r\n" + b"a" * CHUNK_BYTES + b"\r\n"
TAKE_DOCUMENTS = {"/api/v1/sources", "/sources/import/"}


@pytest.fixture(scope="module")
def portal(django_db_blocker: Any, admin_database: psycopg.Connection[Any]) -> Iterator[Stack]:
    with (
        real_commits(django_db_blocker, admin_database),
        stack(is_migrated=True, EMBEDDING_PROVIDER="disabled") as started,
    ):
        started.start("web")
        yield started


def every_path() -> list[str]:
    """An address of every route, of things that need not exist."""
    values = {
        "pk": str(uuid.uuid4()), "sync": str(uuid.uuid4()), "document": str(uuid.uuid4()), "event": "1", "ref": "x", "slug": "x",
        "field": "name", "name": "x", "object_id": "1", "content_type_id": "1", "app_label": "tools",
    }  # fmt: skip
    return sorted(
        {
            NOT_OF_A_THING.get(route.pattern)
            or re.sub(r"\^|\$", "", route.path({name: values.get(name, "1") for name in route.parameters}))
            for route in routes()
        }
    )


class Sent:
    """A request: in chunks, which are sent until somebody answers or `most` bytes are, or with this Content-Length, and then the
    body is sent only if it `is_whole`."""

    def __init__(
        self, port: int, path: str, most: int, *, is_chunked: bool, headers: str = "", is_whole: bool = False
    ) -> None:
        length = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {most}"
        self.bytes = 0
        with socket.create_connection(("127.0.0.1", port), timeout=30) as one:
            one.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{headers}{length}\r\n\r\n".encode())
            if not is_chunked:
                one.sendall(b"a" * most if is_whole else b"")
                self.status = self._status(one)
                return
            one.settimeout(0.02)
            self.status = 0
            while self.bytes < most and not self.status:
                try:
                    one.settimeout(30)
                    one.sendall(CHUNK)
                    self.bytes += CHUNK_BYTES
                    one.settimeout(0.0005)
                    self.status = self._status(one)
                except TimeoutError:
                    continue
            if not self.status:
                one.settimeout(30)
                one.sendall(b"0\r\n\r\n")
                self.status = self._status(one)

    def _status(self, one: socket.socket) -> int:
        head = one.recv(65_536)
        return int(head.split(b" ", 2)[1]) if head else -1


def test_every_route_refuses_a_huge_body_by_its_declared_length_without_reading_it_S19(portal: Stack) -> None:
    answers = {path: Sent(portal.port, path, HUGE, is_chunked=False).status for path in every_path()}
    assert len(answers) > 80
    assert {path: status for path, status in answers.items() if status != 413} == {}


def test_every_route_refuses_of_a_stranger_what_is_longer_than_a_form_without_reading_it_S19(
    portal: Stack,
) -> None:
    length = ANONYMOUS_MAX_BYTES + 1
    answers = {path: Sent(portal.port, path, length, is_chunked=False).status for path in every_path()}
    expected = {path: 401 if path.startswith("/api/") else 403 for path in answers}
    assert answers == expected


@pytest.mark.parametrize("most", [CHUNK_BYTES, 10 * SMALL], ids=["short", "long"])
def test_every_route_refuses_a_body_in_chunks_before_much_of_it_is_read_S19(portal: Stack, most: int) -> None:
    answers = {path: Sent(portal.port, path, most, is_chunked=True) for path in every_path()}
    assert {path: sent.status for path, sent in answers.items() if sent.status != 413} == {}
    assert max(sent.bytes for sent in answers.values()) < 4 * SMALL


@pytest.fixture
def senders(portal: Stack, make_tenant: Callable[..., Tenant]) -> dict[str, str]:
    """What a key and a signed-in operator send in their headers, by the path that takes documents."""
    tenant = make_tenant()
    user = get_user_model().objects.create_user(f"operator-{uuid.uuid4().hex[:6]}")
    with tenant_context(tenant.pk):
        Membership.objects.create(user=user, role=Role.OPERATOR)
    visitor = Visitor()
    visitor.force_login(user)
    key = portal.new_tenant(f"keys-{uuid.uuid4().hex[:6]}")
    cookie = visitor.cookies[settings.SESSION_COOKIE_NAME].value
    return {
        "/api/v1/sources": f"Authorization: Bearer {key}\r\n",
        "/sources/import/": f"Cookie: {settings.SESSION_COOKIE_NAME}={cookie}\r\n",
    }


@pytest.mark.parametrize("path", sorted(TAKE_DOCUMENTS))
def test_a_document_is_read_to_its_bound_of_those_who_may_send_one_and_of_nobody_else_S19(
    portal: Stack, senders: dict[str, str], path: str
) -> None:
    header = "Content-Type: text/plain\r\n"
    known = Sent(portal.port, path, DOCUMENT, is_chunked=False, headers=header + senders[path], is_whole=True)
    assert known.status in {403, 415}  # by a view: no form with a token, no type that it takes
    too_long = Sent(portal.port, path, 2 * DOCUMENT, is_chunked=False, headers=header + senders[path])
    assert too_long.status == 413
    stranger = Sent(portal.port, path, DOCUMENT, is_chunked=False, headers=header)
    assert stranger.status in {401, 403}


def test_no_other_route_takes_more_of_those_who_signed_in_S19(portal: Stack, senders: dict[str, str]) -> None:
    for path in ("/tools/new/", "/password/", "/login/", "/admin/tools/tool/add/"):
        sent = Sent(portal.port, path, SMALL + 1, is_chunked=False, headers=senders["/sources/import/"])
        assert (path, sent.status) == (path, 413)
    sent = Sent(portal.port, "/api/v1/tools", SMALL + 1, is_chunked=False, headers=senders["/api/v1/sources"])
    assert sent.status == 413


def test_a_body_that_is_too_long_for_a_page_writes_nothing_to_the_log_S19(
    db: None, caplog: pytest.LogCaptureFixture
) -> None:
    answer = Visitor().post("/login/", {"username": "x" * (SMALL + 1)})
    assert answer.status_code == 413
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
