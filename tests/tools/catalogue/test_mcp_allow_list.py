"""SEC-2, S15: commands and secrets of MCP servers belong to tenants. Whoever asks, and by whichever way, what another tenant may use
and what nobody may use are refused in the same words."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.test import Client
from rest_framework.test import APIClient

from portal.outbound.errors import FetchError
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Membership, Role, Tenant
from tests.support.clients import make_api, sign_in
from tests.support.servers.mcp_servers import plain, write_allow_list
from tools.catalogue import servers
from tools.catalogue.errors import Invalid, SyncFailed
from tools.catalogue.mcp_allow_list import check_file
from tools.imports.fetching.mcp.client import check_connection, list_tools
from tools.imports.syncing import service as syncs
from tools.models import McpServer, Source, SourceKind

URL = "https://mcp.example.com/mcp"
SERVERS = "/api/v1/servers"
HUSH = "hush-hush-of-the-neighbour"


@pytest.fixture(autouse=True)
def _neighbours(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that this installation has belongs to another tenant."""
    monkeypatch.setenv("MCP_SECRET_THEIRS", HUSH)
    write_allow_list(
        settings, tmp_path,
        commands={"theirs": {"command": plain('{"tools": []}'), "tenants": ["neighbour"]}},
        secrets={"MCP_SECRET_THEIRS": {"tenants": ["neighbour"]}},
    )  # fmt: skip


@pytest.fixture
def agent(committed: Tenant) -> APIClient:
    return make_api(committed)


@pytest.fixture
def superuser(tenant: Tenant) -> Client:
    user = get_user_model().objects.create_superuser("root", password=None)
    Membership.objects.create(user=user, role=Role.ADMIN)
    return sign_in(tenant, user)


def give(settings: Any, tmp_path: Path, *slugs: str) -> None:
    """Lets these tenants use both."""
    write_allow_list(
        settings, tmp_path,
        commands={"theirs": {"command": plain('{"tools": []}'), "tenants": list(slugs)}},
        secrets={"MCP_SECRET_THEIRS": {"tenants": list(slugs)}},
    )  # fmt: skip


def refusals(ask: Callable[[str, str], str]) -> None:
    """`ask` gets a command and a variable, and returns what was answered: the same for those of others as for none at all."""
    theirs = ask("theirs", "MCP_SECRET_THEIRS")
    nobodys = ask("nobody", "MCP_SECRET_NOBODY")
    assert theirs.replace("theirs", "nobody").replace("THEIRS", "NOBODY") == nobodys
    assert "none is allowed here" in theirs
    assert HUSH not in theirs


def test_a_service_refuses_what_belongs_to_another_tenant_S15(tenant: Tenant) -> None:
    def ask(command: str, variable: str) -> str:
        said = []
        for fields in ({"command_id": command}, {"url": URL, "headers": {"X-Key": variable}}):
            with pytest.raises(Invalid) as refused:
                servers.create_server(actor="ada", slug="shop", **fields)
            said.append(json.dumps(refused.value.errors))
        return " ".join(said)

    refusals(ask)
    assert not McpServer.objects.exists()


def test_rest_refuses_what_belongs_to_another_tenant_S15(agent: APIClient) -> None:
    made = agent.post(SERVERS, {"slug": "mine", "url": URL}, format="json")
    current = {"If-Match": made["ETag"]}

    def ask(command: str, variable: str) -> str:
        answers = [
            agent.post(SERVERS, {"slug": "a", "command_id": command}, format="json"),
            agent.post(SERVERS, {"slug": "a", "url": URL, "headers": {"X-Key": variable}}, format="json"),
            agent.patch(f"{SERVERS}/mine", {"headers": {"X-Key": variable}}, format="json", headers=current),
            agent.patch(
                f"{SERVERS}/mine", {"url": "", "command_id": command}, format="json", headers=current
            ),
        ]
        assert {answer.status_code for answer in answers} == {422}
        return " ".join(json.dumps(answer.json().get("errors")) for answer in answers)

    refusals(ask)


def test_pages_and_admin_refuse_what_belongs_to_another_tenant_S15(
    admin_client: Client, superuser: Client
) -> None:
    page = admin_client.get("/servers/new/").content.decode()
    assert "theirs" not in page
    assert "THEIRS" not in page
    assert "This tenant may use: none yet." in page

    assert admin_client.post("/servers/new/", {"slug": "a", "command_id": "theirs"}).status_code == 422
    given = {"slug": "a", "url": URL}
    for variable in ("MCP_SECRET_THEIRS", "MCP_SECRET_NOBODY"):
        answer = admin_client.post("/servers/new/", {**given, "headers": f"X-Key = {variable}"})
        assert answer.status_code == 422
        assert f"There is no secret {variable}: none is allowed here" in answer.content.decode()
        headers = json.dumps({"X-Key": variable})
        refused = superuser.post("/admin/tools/mcpserver/add/", {**given, "headers": headers})
        assert f"There is no secret {variable}: none is allowed here" in refused.content.decode()
    for command in ("theirs", "nobody"):
        refused = superuser.post(
            "/admin/tools/mcpserver/add/", {"slug": "a", "headers": "{}", "command_id": command}
        )
        assert refused.status_code == 200
    assert not McpServer.objects.exists()


def test_the_command_refuses_what_belongs_to_another_tenant_S15(
    committed: Tenant, capsys: pytest.CaptureFixture[str]
) -> None:
    def ask(command: str, _: str) -> str:
        with pytest.raises(SystemExit):
            call_command("import_mcp", "--command", command, "--tenant", committed.slug)
        return capsys.readouterr().err

    refusals(ask)


def test_a_stored_server_that_names_what_is_not_its_tenants_is_never_asked_S15(
    committed: Tenant, settings: Any, tmp_path: Path
) -> None:
    """As a row from before tenants, from a restored dump, or after the file was changed; jobs and syncs go the same way."""
    with tenant_context(committed.pk):
        stored = [
            McpServer.objects.create(slug="command", command_id="theirs"),
            McpServer.objects.create(slug="header", url=URL, headers={"X-Key": "MCP_SECRET_THEIRS"}),
        ]
        sources = [Source.objects.create(slug=one.slug, kind=SourceKind.MCP, server=one) for one in stored]
    for server, source in zip(stored, sources, strict=True):
        with pytest.raises(FetchError, match="none is allowed here"):
            list_tools(server)
        assert "none is allowed here" in check_connection(server).error
        with pytest.raises(SyncFailed, match="none is allowed here"):
            syncs.plan_source(tenant_id=committed.pk, source_id=source.pk, actor="ada")
    give(settings, tmp_path, committed.slug)
    assert check_connection(stored[0]).reachable


def test_the_workers_login_reads_the_name_of_a_tenant_S15(committed: Tenant) -> None:
    """By which a sync in a worker asks what the tenant may use."""
    with psycopg.connect(os.environ["DATABASE_WORKER_URL"]) as worker:
        found = worker.execute("SELECT slug FROM tenancy_tenant WHERE id = %s", [committed.pk]).fetchall()
    assert found == [(committed.slug,)]


def test_a_secret_of_one_tenant_is_saved_by_it_and_by_no_other_S15(
    tenant: Tenant, make_tenant: Callable[..., Tenant], settings: Any, tmp_path: Path
) -> None:
    give(settings, tmp_path, tenant.slug)
    made = servers.create_server(actor="ada", slug="shop", url=URL, headers={"X-Key": "MCP_SECRET_THEIRS"})
    assert made.headers == {"X-Key": "MCP_SECRET_THEIRS"}
    with tenant_context(make_tenant().pk), pytest.raises(Invalid, match="There is no secret"):
        servers.create_server(actor="ada", slug="shop", url=URL, headers={"X-Key": "MCP_SECRET_THEIRS"})


def test_a_broken_file_gives_nothing_and_names_nothing_to_tenants_S15(
    agent: APIClient, settings: Any
) -> None:
    Path(settings.MCP_COMMANDS_FILE).write_text('{"commands": {"theirs": {"command": ["a"]}}}')
    refused = agent.post(SERVERS, {"slug": "a", "command_id": "theirs"}, format="json")
    assert refused.status_code == 422
    assert "MCP_COMMANDS_FILE cannot be used; `manage.py check` says why." in refused.content.decode()


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('{"time": {"command": ["time"]}}', "it is of the old form, which named no tenants"),
        ('{"commands": {"time": {"command": ["time"]}}}', "time has no tenants; write, for example"),
        ('{"commands": {"time": {"command": ["time"], "tenant": ["a"]}}}', "time holds tenant, and may hold"),
        ('{"secrets": {"MCP_SECRET_A": {"tenants": "*"}}}', "tenants of MCP_SECRET_A must be a list"),
        ('{"secret": {}}', "the file holds secret, and may hold commands, secrets"),
    ],
)  # fmt: skip
def test_an_old_or_broken_file_is_told_to_those_who_run_the_portal_and_allows_nothing_SEC_2(
    settings: Any, written: str, said: str
) -> None:
    Path(settings.MCP_COMMANDS_FILE).write_text(written)
    (found,) = check_file()
    assert (found.id, said in str(found.msg)) == ("tools.W001", True), found.msg
    err = io.StringIO()
    call_command("check", stderr=err)
    assert said in err.getvalue()


def test_a_secret_that_belongs_to_nobody_is_told_with_what_to_write_S15(settings: Any) -> None:
    Path(settings.MCP_COMMANDS_FILE).write_text("{}")
    (found,) = check_file()
    assert '{"secrets": {"MCP_SECRET_THEIRS": {"tenants": ["default"]}}}' in str(found.msg)
    assert HUSH not in str(found.msg)
