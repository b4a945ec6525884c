"""The pages of MCP servers: who may write them, what the form offers, and the test of a connection."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from portal.tenancy.models import Tenant
from tests.support.pages.web import seen
from tests.support.servers.mcp_servers import allow, plain
from tools.catalogue import servers
from tools.models import Health, McpServer, Source

pytestmark = pytest.mark.usefixtures("allowed_secrets")

HTMX = {"HX-Request": "true"}
FIELDS = {"slug": "sums", "title": "Sums", "command_id": "adder"}


@pytest.fixture
def commands(settings: Any, tmp_path: Path) -> None:
    allow(
        settings,
        tmp_path,
        adder=plain("""{"tools": [{"name": "add"}, {"name": "subtract"}]}"""),
        mute=["false"],
    )


@pytest.fixture
def sums(tenant: Tenant, commands: None) -> McpServer:
    made: McpServer = McpServer.objects.create(slug="sums", command_id="adder")
    return made


def test_CAT_3_an_admin_writes_servers_and_others_only_look(
    admin_client: Client, operator_client: Client, viewer_client: Client, commands: None
) -> None:
    for client in (operator_client, viewer_client):
        assert client.get("/servers/new/").status_code == 403
        assert client.post("/servers/new/", FIELDS).status_code == 403
    assert admin_client.post("/servers/new/", FIELDS).status_code == 302
    server = McpServer.objects.get()
    assert (server.slug, server.title, server.command_id, server.url) == ("sums", "Sums", "adder", "")
    path = f"/servers/{server.pk}/"
    for client in (operator_client, viewer_client):
        assert client.post(f"{path}edit/", FIELDS).status_code == 403
        assert client.post(f"{path}delete/").status_code == 403
        page = client.get(path).content.decode()
        assert f"{path}edit/" not in page
        assert "<strong>MCP server created</strong>" in page
    assert f"{path}test/" in operator_client.get(path).content.decode()
    assert f"{path}test/" not in viewer_client.get(path).content.decode()
    assert viewer_client.post(f"{path}test/").status_code == 403


def test_SEC_2_only_commands_of_the_allow_list_are_offered_or_taken(
    admin_client: Client, commands: None
) -> None:
    page = admin_client.get("/servers/new/").content.decode()
    assert '<option value="adder">' in page
    assert "No other command can be run from here." in page
    answer = admin_client.post("/servers/new/", {**FIELDS, "command_id": "sh"})
    assert answer.status_code == 422
    assert not McpServer.objects.exists()


def test_SEC_2_headers_are_names_of_variables_and_the_form_says_so(
    admin_client: Client, settings: Any
) -> None:
    page = admin_client.get("/servers/new/").content.decode()
    assert "Names only, never a secret" in page
    assert settings.MCP_SECRET_PREFIX in page
    fields = {"slug": "web", "url": "https://mcp.example.org/mcp"}
    for line in ("Authorization = Bearer abc", "Authorization", "Authorization = HOME"):
        answer = admin_client.post("/servers/new/", {**fields, "headers": line})
        assert answer.status_code == 422, line
        assert not McpServer.objects.exists()
    variable = f"{settings.MCP_SECRET_PREFIX}WEB"
    admin_client.post("/servers/new/", {**fields, "headers": f"Authorization = {variable}\n"})
    server = McpServer.objects.get()
    assert server.headers == {"Authorization": variable}
    again = admin_client.get(f"/servers/{server.pk}/edit/").content.decode()
    assert f"Authorization = {variable}" in again


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"slug": "sums"}, "either a URL or a command"),
        ({**FIELDS, "url": "https://mcp.example.org/mcp"}, "not both"),
        ({**FIELDS, "slug": "No Such"}, "Use lower-case letters"),
    ],
    ids=["neither", "both", "slug"],
)
def test_a_refused_server_says_why_beside_the_field(
    admin_client: Client, commands: None, fields: dict[str, str], sentence: str
) -> None:
    answer = admin_client.post("/servers/new/", fields)
    assert answer.status_code == 422
    assert sentence in answer.content.decode()
    assert not McpServer.objects.exists()


def test_R16_a_stale_form_of_a_server_changes_nothing_and_says_who_changed_what(
    admin_client: Client, sums: McpServer
) -> None:
    path = f"/servers/{sums.pk}/edit/"
    opened = seen(admin_client, path)
    servers.update_server(pk=sums.pk, actor="olga", title="Their shop", command_id="mute")
    answer = admin_client.post(path, {**FIELDS, **opened})
    html = answer.content.decode()
    assert answer.status_code == 409
    sums.refresh_from_db()
    assert (sums.title, sums.command_id) == ("Their shop", "mute")
    assert "olga changed this server while you were editing it. Your changes have not been saved yet." in html
    assert "<del>Their shop</del><ins>Sums</ins>" in html
    assert "Taken from their version, because you had not changed it: or a command." in html
    form = answer.context["form"]
    again = {**FIELDS, "command_id": form["command_id"].value(), "seen": form["seen"].value()}
    assert admin_client.post(path, again).status_code == 302
    sums.refresh_from_db()
    assert (sums.title, sums.command_id) == ("Sums", "mute")


def test_CAT_3_a_server_on_a_host_without_a_dot_is_stored_and_changed(admin_client: Client) -> None:
    fields = {"slug": "web", "url": "http://billing:8000/mcp"}
    assert admin_client.post("/servers/new/", fields).status_code == 302
    path = f"/servers/{McpServer.objects.get().pk}/edit/"
    changed = {"slug": "web", "url": "http://billing:8001/mcp", **seen(admin_client, path)}
    assert admin_client.post(path, changed).status_code == 302
    assert McpServer.objects.get().url == "http://billing:8001/mcp"


def test_SEC_2_the_example_of_a_header_is_one_that_would_be_taken(
    admin_client: Client,
) -> None:
    form = admin_client.get("/servers/new/").context["form"]
    headers = form["headers"].field.widget.attrs["placeholder"]
    fields = {"slug": "web", "url": "https://mcp.example.org/mcp", "headers": headers}
    assert admin_client.post("/servers/new/", fields).status_code == 302


def test_a_name_is_taken_once(admin_client: Client, sums: McpServer) -> None:
    answer = admin_client.post("/servers/new/", FIELDS)
    assert answer.status_code == 422
    assert "An MCP server with this name exists." in answer.content.decode()


def test_CAT_3_a_test_names_the_tools_and_notes_the_health(operator_client: Client, sums: McpServer) -> None:
    answer = operator_client.post(f"/servers/{sums.pk}/test/", headers=HTMX)
    html = answer.content.decode()
    assert "<html" not in html
    assert "It answered with 2 tools" in html
    assert "subtract" in html
    sums.refresh_from_db()
    assert sums.health == Health.HEALTHY
    assert "Healthy" in operator_client.get("/servers/").content.decode()


def test_CAT_3_a_failing_server_says_why_on_its_page_and_in_the_list(
    operator_client: Client, sums: McpServer
) -> None:
    McpServer.objects.update(command_id="mute")
    html = operator_client.post(f"/servers/{sums.pk}/test/").content.decode()
    assert "The test failed after" in html
    sums.refresh_from_db()
    assert sums.health == Health.FAILING
    page = operator_client.get("/servers/").content.decode()
    assert "Failing" in page
    assert sums.last_error[:40] in page


def test_CAT_3_a_server_in_use_is_not_deleted_and_says_by_what(admin_client: Client, sums: McpServer) -> None:
    path = f"/servers/{sums.pk}/delete/"
    source = Source.objects.create(slug="sums", kind="mcp", server=sums)
    assert "Delete the server sums?" in admin_client.get(path).content.decode()
    page = admin_client.post(path, follow=True).content.decode()
    assert "where these sources are read: sums" in page
    source.delete()
    assert admin_client.post(path)["Location"] == "/servers/"
    assert not McpServer.objects.exists()
    assert admin_client.get(path).status_code == 404


def test_the_list_has_servers_in_the_order_of_their_names_UI_3_4(
    tenant: Tenant, viewer_client: Client, commands: None
) -> None:
    slugs = ["b", "d", "a", "c"]
    for slug in slugs:
        McpServer.objects.create(slug=slug, command_id="adder")
    rows = viewer_client.get("/servers/").context["rows"]
    assert [server.slug for server, *_ in rows] == sorted(slugs)


def test_the_list_says_what_a_server_is_where_there_is_none_and_who_may_add_one_UI_3_0(
    admin_client: Client, viewer_client: Client
) -> None:
    assert "New server" in admin_client.get("/servers/").content.decode()
    page = viewer_client.get("/servers/").content.decode()
    assert "No MCP servers yet" in page
    assert "requires the role admin; you are viewer" in page


def test_CAT_8_the_history_of_a_server_shows_its_changes_and_fills_the_form_again(
    admin_client: Client, operator_client: Client, sums: McpServer
) -> None:
    path = f"/servers/{sums.pk}/"
    servers.update_server(pk=sums.pk, actor="olga", title="Sums and more")
    assert "<ins>Sums and more</ins>" in operator_client.get(path).content.decode()
    assert "?restore=" not in operator_client.get(path).content.decode()
    (event,) = re.findall(r"\?restore=(\d+)", admin_client.get(path).content.decode())
    form = admin_client.get(f"{path}edit/?restore={event}").context["form"]
    assert (form["title"].value(), form["command_id"].value()) == ("", "adder")
