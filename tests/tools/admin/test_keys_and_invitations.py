"""Admin of API keys, invitations and members."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from portal.tenancy.keys import find_caller
from portal.tenancy.models import ApiKey, Invitation, Membership
from tests.tools.admin.conftest import address

pytestmark = pytest.mark.usefixtures("one_or_two_models")


def test_API_3_a_new_key_is_shown_once_and_works(superuser: Client) -> None:
    form = {"name": "ci", "scopes": ["search:read"], "max_sensitivity": "internal"}
    answer = superuser.post(address("tenancy.ApiKey", "add"), form)
    found = re.search(r"tp_[0-9A-Za-z]{49}", answer.content.decode())
    assert found
    caller = find_caller(found[0])
    assert caller is not None
    assert (caller.key_name, set(caller.scopes), caller.max_sensitivity) == (
        "ci",
        {"search:read"},
        "internal",
    )
    assert "no-store" in answer["Cache-Control"]
    key = ApiKey.objects.get(name="ci")
    for page in (address("tenancy.ApiKey", "changelist"), address("tenancy.ApiKey", "change", key.pk)):
        assert found[0] not in superuser.get(page).content.decode()
    assert (
        "A key with this name already exists"
        in superuser.post(address("tenancy.ApiKey", "add"), form).content.decode()
    )
    superuser.post(
        address("tenancy.ApiKey", "changelist"), {"action": "revoke", "_selected_action": [key.pk]}
    )
    assert find_caller(found[0]) is None


def test_S21_an_invitation_tells_nobody_whether_a_user_name_exists(superuser: Client) -> None:
    somebody = get_user_model().objects.create_user("somebody").username
    said = {}
    for name in (somebody, "nobody"):
        form = {"username": name, "role": "operator"}
        made = superuser.post(address("tenancy.Invitation", "add"), form, follow=True)
        again = superuser.post(address("tenancy.Invitation", "add"), form)
        assert f"{name} is already invited" in again.content.decode()
        said[name] = [
            re.sub(
                r"[0-9a-f]{8}-[0-9a-f-]{27}|nonce-\S+|value=\"\w{64}\"",
                "",
                answer.content.decode().replace(name, "NAME"),
            )
            for answer in (made, again)
        ]
        withdraw = address("tenancy.Invitation", "delete", Invitation.objects.get().pk)
        superuser.post(withdraw, {"post": "yes"}, follow=True)
    assert said[somebody] == said["nobody"]
    assert not Membership.objects.filter(user__username=somebody).exists()


def test_a_member_is_not_invited_and_nobody_is_made_a_member_unasked(superuser: Client) -> None:
    form = {"username": "root", "role": "operator"}
    refused = superuser.post(address("tenancy.Invitation", "add"), form)
    assert "root is already a member of this tenant" in refused.content.decode()
    assert superuser.get(address("tenancy.Membership", "add")).status_code == 403
    mine = Membership.objects.get()
    other = get_user_model().objects.create_user("newcomer")
    Membership.objects.create(user=get_user_model().objects.create_user("second"), role="admin")
    superuser.post(address("tenancy.Membership", "change", mine.pk), {"role": "viewer", "user": other.pk})
    mine.refresh_from_db()
    assert (mine.user.get_username(), mine.role) == ("root", "viewer")
