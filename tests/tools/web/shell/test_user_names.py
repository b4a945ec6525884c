"""A login that fails tells nobody whether the user name exists, neither by its text nor by its time (S21, S7)."""

from __future__ import annotations

import re
from typing import Any

from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.auth.models import User
from django.test import Client


class CountedHasher(PBKDF2PasswordHasher):
    """Counts what takes nearly all of a login's time."""

    iterations = 1
    count = 0

    def encode(self, password: Any, salt: str, iterations: int | None = None) -> str:
        CountedHasher.count += 1
        return super().encode(password, salt, iterations)


def test_a_failed_login_is_the_same_for_every_user_name_S21(db: None, settings: Any) -> None:
    settings.PASSWORD_HASHERS = [f"{__name__}.CountedHasher"]
    User.objects.create_user("exists", password="right", is_staff=True)
    User.objects.create_user("inactive", password="right", is_staff=True, is_active=False)
    User.objects.create_user("without-password", is_staff=True)
    said = []
    for name in ("exists", "inactive", "without-password", "nobody"):
        password = "right" if name == "inactive" else "wrong"
        CountedHasher.count = 0
        answer = Client().post("/login/", {"username": name, "password": password})
        text = re.sub(r'nonce-\S+|value="\w{64}"|"X-CSRFToken": "\w+"', "", answer.content.decode())
        said.append((answer.status_code, CountedHasher.count, text.replace(name, "NAME")))
    assert said[0][:2] == (200, 1)
    assert all(one == said[0] for one in said), [one[:2] for one in said]
