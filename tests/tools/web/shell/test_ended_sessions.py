"""Case 62: a session that ends while somebody writes takes no text along, and no button leads to an address that is no page."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from portal.tenancy.middleware import FORM_FIELD
from portal.tenancy.models import Membership, Role, Tenant
from tools.models import McpServer, Source, Tool

TYPED = "Lists what is owed;\nwritten for an hour, “with care” & <more>."
PASSWORD = "correct horse battery"


@pytest.fixture
def person(tenant: Tenant) -> str:
    user = get_user_model().objects.create_user("olga", password=PASSWORD)
    Membership.objects.create(user=user, role=Role.ADMIN)
    return "olga"


def hidden(page: str) -> list[tuple[str, str]]:
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page)
    return [(html.unescape(name), html.unescape(value)) for name, value in found]


def sign_in(client: Client, page: str, person: str, password: str = PASSWORD) -> Any:
    return client.post("/login/", {**dict(hidden(page)), "username": person, "password": password})


def send_again(client: Client, page: str) -> Any:
    action = re.search(r'<form method="post" action="([^"]+)" class="panel question"', page)
    assert action
    fields: dict[str, list[str]] = {}
    for name, value in hidden(page):
        fields.setdefault(name, []).append(value)
    return client.post(html.unescape(action[1]), fields)


def test_what_was_typed_is_shown_kept_through_a_wrong_password_and_sent_after_the_login_case_62(
    person: str, tenant: Tenant, make_tool: Callable[..., Tool]
) -> None:
    tool, client = make_tool(), Client()
    path = f"/tools/{tool.pk}/edit/"
    kept = ("name", "tool_type", "lifecycle", "sensitivity", "visibility", "semantic_weight", "version")
    typed = {**{name: getattr(tool, name) for name in kept}, "description": TYPED, "active": "on"}
    answer = client.post(path, {**typed, FORM_FIELD: str(tenant.pk)})
    page = answer.content.decode()
    assert "Your session has ended. Nothing was saved yet." in page
    assert "written for an hour" in page
    page = sign_in(client, page, person, "wrong").content.decode()
    assert "The user name or the password is wrong" in page
    assert "written for an hour" in page
    page = sign_in(client, page, person).content.decode()
    assert "Send your form again?" in page
    assert "written for an hour" in page
    tool.refresh_from_db()
    assert tool.description != TYPED  # only the person sends it
    assert send_again(client, page).status_code == 302
    tool.refresh_from_db()
    assert tool.description == TYPED


def test_a_person_who_signs_in_beside_it_keeps_the_text_as_well_case_62(
    person: str, make_tool: Callable[..., Tool]
) -> None:
    client = Client()
    page = client.post(f"/tools/{make_tool().pk}/edit/", {"description": TYPED}).content.decode()
    client.login(username=person, password=PASSWORD)
    assert "written for an hour" in sign_in(client, page, person).content.decode()


@pytest.mark.parametrize("form", ["edit", "new tool", "new server", "server", "settings", "import", "job"])
def test_every_form_with_text_is_kept_case_62(person: str, make_tool: Callable[..., Tool], form: str) -> None:
    source = Source.objects.create(slug="shop", kind="openapi")
    server = McpServer.objects.create(slug="sums", url="https://sums.example/mcp")
    path = {
        "edit": f"/tools/{make_tool().pk}/edit/", "new tool": "/tools/new/", "new server": "/servers/new/",
        "server": f"/servers/{server.pk}/edit/", "settings": f"/sources/{source.pk}/settings/",
        "import": "/sources/import/", "job": "/jobs/new/",
    }[form]  # fmt: skip
    client = Client()
    page = client.post(path, {"title": TYPED, "plan": "1"}).content.decode()
    page = sign_in(client, page, person).content.decode()
    assert f'action="{path}"' in page
    assert ("plan", "1") in hidden(page)
    assert "written for an hour" in page


def test_a_form_of_htmx_becomes_the_login_with_its_text_and_says_that_a_file_is_not_kept_case_62(
    db: None, anonymous_client: Client
) -> None:
    posted = {"source": "shop", "text": "openapi: 3", "document": SimpleUploadedFile("a.json", b"{}")}
    answer = anonymous_client.post("/sources/import/", posted, headers={"HX-Request": "true"})
    page = answer.content.decode()
    assert (answer["HX-Retarget"], answer["HX-Reswap"]) == ("#main", "innerHTML")
    assert "<html" not in page
    assert "openapi: 3" in page
    assert "A file cannot be kept" in page


def test_a_text_that_is_too_long_to_be_kept_is_said_to_be_case_62(db: None, anonymous_client: Client) -> None:
    page = anonymous_client.post("/tools/new/", {"description": "ä" * 40_000}).content.decode()
    assert "Your text is too long to be kept here. Go back to the form, which still has it" in page
    assert "kept" not in dict(hidden(page))
    answer = anonymous_client.post("/tools/new/", {"description": "ä" * 60_000})
    assert answer.status_code == 403
    assert (
        "Your session has ended, and what you sent was not received. Go back to the form"
        in answer.content.decode()
    )


@pytest.mark.parametrize("button", ["embedding/refresh/", "active/", "delete/"])
def test_a_button_leads_through_the_login_to_the_page_on_which_it_was_pressed_case_62(
    person: str, make_tool: Callable[..., Tool], button: str
) -> None:
    here, client = f"/tools/{make_tool().pk}/", Client()
    answer = client.post(f"{here}{button}", headers={"Referer": f"http://testserver{here}?x=1"})
    assert answer["Location"] == f"/login/?next={here}%3Fx%3D1"
    answer = client.post("/login/", {"next": f"{here}?x=1", "username": person, "password": PASSWORD})
    assert answer["Location"] == f"{here}?x=1"
    for referer in ("https://evil.example/", "", "http://testserver", "http://[", "tools"):
        assert Client().post(f"{here}{button}", headers={"Referer": referer})["Location"] in {
            "/login/?next=/",
            "/login/?next=",
        }


@pytest.mark.parametrize(
    "kept",
    ['{"address": "https://evil.example/", "fields": []}', '{"address": "//evil.example", "fields": []}', "{", "[]",
     '{"address": "/tools/", "fields": [1]}', "[" * 90_000],
)  # fmt: skip
def test_a_login_sends_nobodys_form_elsewhere_case_62(person: str, kept: str) -> None:
    answer = Client().post("/login/", {"kept": kept, "username": person, "password": PASSWORD})
    assert answer.status_code == 302
    assert answer["Location"] == "/"
