"""S7: how often a password may be tried, by account, by address and by both, at every place that asks for one.

How to see these fail: with ModelBackend in AUTHENTICATION_BACKENDS; with GET before INCR in two steps instead of the script fifty
threads try more than five passwords; with `return 0` for the error of a dead cache anybody may try for ever.
"""

from __future__ import annotations

import itertools
import re
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.http import HttpRequest
from django.test import Client, RequestFactory
from django.urls import reverse

from portal.http import sign_in_throttle
from portal.http.sign_in_throttle import (
    OF_ACCOUNT,
    OF_ADDRESS,
    OF_BOTH,
    Attempt,
    SignInRefused,
    client_network,
)
from portal.proxy import CADDYFILE
from portal.tenancy.models import Membership, Role, SignIn, SignInOutcome, Tenant
from tests.support.clients import sign_in

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery"
_numbers = itertools.count(1)


@pytest.fixture(autouse=True)
def quick_hashes(settings: Any) -> None:
    """What is counted does not depend on how long a password is hashed."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def address() -> str:
    """Nobody has tried a password from there."""
    return f"2001:db8:{uuid.uuid4().hex[:4]}:{next(_numbers):x}::1"


@pytest.fixture
def person(tenant: Tenant) -> Any:
    user = get_user_model().objects.create_user(f"olga-{uuid.uuid4().hex[:8]}", password=PASSWORD)
    Membership.objects.create(user=user, role=Role.ADMIN)
    return user


def from_address(address: str) -> HttpRequest:
    return RequestFactory().post("/login/", REMOTE_ADDR=address)


def try_password(name: str, password: str, address: str, client: Client | None = None) -> Any:
    form = {"username": name, "password": password}
    return (client or Client()).post("/login/", form, REMOTE_ADDR=address)


def test_the_sixth_wrong_password_is_not_looked_at_and_neither_is_the_right_one_after_it_S7(
    person: Any, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(OF_BOTH):
        answer = try_password(person.username, "wrong", address)
        assert answer.status_code == 200
        assert "The user name or the password is wrong" in answer.content.decode()
    answer = try_password(person.username, PASSWORD, address)
    assert answer.status_code == 429
    assert 0 < int(answer["Retry-After"]) <= 900
    assert "There were too many wrong passwords. Try again in 15 minutes." in answer.content.decode()
    assert person.username in answer.content.decode()
    # From elsewhere, and for an account that does not exist, it is as before.
    assert try_password(person.username, PASSWORD, "192.0.2.77").status_code == 302
    assert try_password("nobody-at-all", "wrong", address).status_code == 200


def test_an_account_that_does_not_exist_is_refused_in_the_same_words_S7(address: str) -> None:
    for _ in range(OF_BOTH):
        assert try_password("nobody", "wrong", address).status_code == 200
    assert try_password("NOBODY", "wrong", address).status_code == 429


def test_a_right_password_begins_the_count_anew_S7(person: Any, address: str) -> None:
    for _ in range(3):
        for _ in range(OF_BOTH - 1):
            try_password(person.username, "wrong", address)
        assert try_password(person.username, PASSWORD, address).status_code == 302


def test_an_address_and_an_account_have_bounds_of_their_own_S7(address: str) -> None:
    for number in range(OF_ADDRESS):
        Attempt(f"account-{number}", from_address(address))
    with pytest.raises(SignInRefused):
        Attempt("another", from_address(address))
    name = f"victim-{uuid.uuid4()}"
    for number in range(OF_ACCOUNT):
        Attempt(name, from_address(f"198.51.100.{number}"))
    with pytest.raises(SignInRefused):
        Attempt(name, from_address("198.51.100.200"))


def test_of_fifty_attempts_at_the_same_moment_exactly_five_pass_S7(address: str) -> None:
    together = threading.Barrier(50)

    def attempt(_: int) -> bool:
        together.wait()
        try:
            Attempt("victim", from_address(address))
        except SignInRefused:
            return False
        return True

    with ThreadPoolExecutor(50) as pool:
        assert sum(pool.map(attempt, range(50))) == OF_BOTH


@pytest.fixture
def dead_cache(settings: Any) -> Iterator[None]:
    settings.CACHE_URL = "redis://127.0.0.1:1/0"
    yield
    sign_in_throttle.script.cache_clear()


def test_without_the_cache_nobody_may_try_a_password_S7(person: Any, address: str, dead_cache: None) -> None:
    answer = try_password(person.username, PASSWORD, address)
    assert answer.status_code == 503
    assert "Signing in is not possible just now" in answer.content.decode()


def test_the_present_password_of_a_session_is_guessed_no_more_often_S7(
    tenant: Tenant, person: Any, address: str
) -> None:
    client = sign_in(tenant, person)
    form = {
        "old_password": "wrong",
        "new_password1": "a new long password",
        "new_password2": "a new long password",
    }
    for _ in range(OF_BOTH):
        answer = client.post("/password/", form, REMOTE_ADDR=address)
        assert answer.status_code == 422
    answer = client.post("/password/", form, REMOTE_ADDR=address)
    assert answer.status_code == 429
    assert "Your password was not changed." in answer.content.decode()


def test_the_admins_login_is_the_portals_S7(person: Any) -> None:
    answer = Client().get("/admin/login/?next=/admin/tools/tool/")
    assert (answer.status_code, answer["Location"]) == (302, "/login/?next=/admin/tools/tool/")
    answer = Client().post("/admin/login/", {"username": "x", "password": "y"})
    assert answer.status_code == 302
    client = Client()
    client.force_login(person)
    answer = client.get("/admin/", follow=True)
    assert answer.status_code == 403
    assert "Your account may not use the administration." in answer.content.decode()


@pytest.mark.parametrize("page", ["password_change", "password_change/done"])
def test_the_admins_page_for_the_own_password_is_the_portals_S7(
    tenant: Tenant, person: Any, address: str, page: str
) -> None:
    person.is_staff = True
    person.save()
    client = sign_in(tenant, person)
    assert 'href="/password/"' in client.get("/admin/").content.decode()
    form = {
        "old_password": PASSWORD,
        "new_password1": "a new long password",
        "new_password2": "a new long password",
    }
    for answer in (client.get(f"/admin/{page}/"), client.post(f"/admin/{page}/", form, REMOTE_ADDR=address)):
        assert (answer.status_code, answer["Location"]) == (302, "/password/")
    person.refresh_from_db()
    assert person.check_password(PASSWORD)


def test_the_proxy_lets_one_request_at_a_time_to_every_page_that_asks_for_a_password_S7() -> None:
    path = re.search(r"@password \{\s+method POST\s+path (.+)\n", CADDYFILE.read_text(encoding="utf-8"))
    assert path is not None
    assert set(path[1].split()) == {reverse("login"), reverse("password")}


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("", ""),
    ],
)
def test_the_addresses_of_one_network_of_ipv6_are_counted_as_one_S7(address: str, expected: str) -> None:
    assert client_network(from_address(address)) == expected


def test_a_throttled_attempt_stands_among_the_sign_ins_of_the_tenant_S16(person: Any, address: str) -> None:
    for _ in range(OF_BOTH + 2):
        try_password(person.username, "wrong", address)
    found = SignIn.objects.filter(username=person.username).values_list("outcome", flat=True)
    assert sorted(found) == sorted([SignInOutcome.FAILED] * OF_BOTH + [SignInOutcome.THROTTLED])
