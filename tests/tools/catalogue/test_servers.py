"""CAT-3, SEC-2, S15: MCP servers as data: what may be written, what is sent, and what becomes of it when it is changed (case 29)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from django.urls import resolve

from portal.outbound.errors import FetchError
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.servers.mcp_http_server import answering, result
from tests.support.servers.mcp_servers import BADSERVER, allow, bad, needs_badserver, plain
from tools.catalogue import servers
from tools.catalogue.errors import Invalid, ManagedBySource, NameTaken
from tools.catalogue.tools import update_tool
from tools.imports.fetching.mcp.client import check_connection, list_tools, note_health
from tools.imports.syncing import service as syncs
from tools.models import Health, ManualOverride, McpServer, Source, SourceKind, Tool

pytestmark = pytest.mark.usefixtures("allowed_secrets")

URL = "https://mcp.example.com/mcp"
SECRET = "s3cret-v4lue-of-a-key"


def create(**fields: Any) -> McpServer:
    return servers.create_server(actor="ada", **{"slug": "shop", **fields})


def refused(**fields: Any) -> dict[str, list[str]]:
    with pytest.raises(Invalid) as error:
        create(**fields)
    assert not McpServer.objects.exists()
    return error.value.errors


def history(server: McpServer) -> list[tuple[str, str]]:
    events = (
        McpServer.pgh_event_models["update"].objects.filter(pgh_obj_id=server.pk).order_by("pgh_created_at")
    )
    return [(one.pgh_label, one.pgh_context["actor"]) for one in events]


# --- Written by people ------------------------------------------------------------------------------------------------
def test_cat_3_a_server_is_a_url_or_the_id_of_an_allowed_command(
    tenant: Tenant, settings: Any, tmp_path: Path
) -> None:
    allow(settings, tmp_path, time=["time-server"])
    server = create(url=URL, headers={"Authorization": "MCP_SECRET_SHOP"}, title="Shop")
    assert (server.health, server.synced_at, server.last_error) == (Health.UNKNOWN, None, "")
    assert create(slug="time", command_id="time").command_id == "time"
    with pytest.raises(NameTaken, match="An MCP server with this name exists"):
        create(command_id="time")


@pytest.mark.parametrize(
    ("fields", "field", "sentence"),
    [
        ({}, "url", "Give either a URL or a command, and not both."),
        ({"url": URL, "command_id": "time"}, "url", "Give either a URL or a command, and not both."),
        ({"command_id": "/bin/sh"}, "command_id", "There is no MCP command '/bin/sh': there is time"),
        ({"url": "ftp://mcp.example.com"}, "url", "Give a URL that starts with http"),
        ({"url": "https://ada:pw@mcp.example.com"}, "url", "holds no user or password"),
        ({"url": URL, "slug": "A b"}, "slug", "Use lower-case letters"),
        ({"url": URL, "health": "healthy"}, "health", "cannot be set"),
        ({"url": URL, "command": ["sh"]}, "command", "cannot be set"),
        ({"url": URL, "title": "a\0b"}, "title", "NUL"),
        ({"command_id": "time", "headers": {"X-Key": "MCP_SECRET_A"}}, "headers", "Only a server with a URL"),
        ({"url": "http://mcp.example.com", "headers": {"X-Key": "MCP_SECRET_A"}}, "url", "sent over https only"),
    ],
    ids=lambda value: None if isinstance(value, str) else "-".join(value) or "nothing",
)  # fmt: skip
def test_sec_2_what_is_no_connection_is_refused_with_a_sentence(
    tenant: Tenant, settings: Any, tmp_path: Path, fields: dict[str, Any], field: str, sentence: str
) -> None:
    allow(settings, tmp_path, time=["time-server"])
    assert sentence in refused(**fields)[field][0]


@pytest.mark.parametrize("variable", ["SECRET_KEY", "DATABASE_URL", "PATH", "mcp_secret_a", "MCP_SECRET_A B", "", 7, None, "MCP_SECRET_A\n", "XMCP_SECRET_A", "Bearer abc"])  # fmt: skip
def test_sec_2_a_header_names_a_variable_with_the_prefix_and_nothing_else(
    tenant: Tenant, variable: Any
) -> None:
    (sentence,) = refused(url=URL, headers={"Authorization": variable})["headers"]
    assert (
        sentence
        == "The value of Authorization must be the name of an environment variable that begins with MCP_SECRET_."
    )


@pytest.mark.parametrize("header", ["", "X Key", "X-Key:", "X-Key\r\nHost", "X-Kéy", "Host", "content-length", "Mcp-Session-Id", "Transfer-Encoding", "Proxy-Authorization", "x" * 101])  # fmt: skip
def test_sec_2_a_header_is_one_that_a_person_may_send(tenant: Tenant, header: str) -> None:
    assert "header" in refused(url=URL, headers={header: "MCP_SECRET_A"})["headers"][0].lower()


@pytest.mark.parametrize("headers", [[], "X-Key", {"X-Key": "MCP_SECRET_A", "x-key": "MCP_SECRET_B"}, {f"X-{n}": "MCP_SECRET_A" for n in range(21)}], ids=["list", "text", "twice", "many"])  # fmt: skip
def test_sec_2_headers_are_a_few_names_each_once(tenant: Tenant, headers: Any) -> None:
    assert refused(url=URL, headers=headers)["headers"]


def test_cat_3_cat_8_a_changed_connection_was_not_asked_yet_and_the_history_says_who_changed_it(
    tenant: Tenant,
) -> None:
    server = create(url=URL)
    note_health(server, error="It is away.")
    server.refresh_from_db()
    assert (server.health, server.last_error) == (Health.FAILING, "It is away.")
    servers.update_server(pk=server.pk, actor="bob", title="Shop")
    server.refresh_from_db()
    assert (server.title, server.health) == ("Shop", Health.FAILING)
    servers.update_server(pk=server.pk, actor="eve", url=URL + "2")
    server.refresh_from_db()
    assert (server.url, server.health, server.last_error) == (URL + "2", Health.UNKNOWN, "")
    assert history(server) == [("insert", "ada"), ("update", "bob"), ("update", "eve")]
    before = server.updated_at
    servers.update_server(pk=server.pk, actor="eve", url=URL + "2", title="Shop")
    server.refresh_from_db()
    assert server.updated_at == before
    with pytest.raises(Invalid):
        servers.update_server(pk=server.pk, actor="eve", command_id="time")


def test_cat_3_what_was_asked_of_another_address_says_nothing_of_this_one(tenant: Tenant) -> None:
    asked = create(url=URL)
    servers.update_server(pk=asked.pk, actor="ada", url=URL + "2")
    note_health(asked)
    asked.refresh_from_db()
    assert (asked.health, asked.synced_at) == (Health.UNKNOWN, None)


def test_cat_3_a_server_that_sources_are_read_from_stays(tenant: Tenant) -> None:
    server = create(url=URL)
    source = Source.objects.create(slug="lamps", kind=SourceKind.MCP, server=server)
    with pytest.raises(ManagedBySource, match="these sources are read: lamps"):
        servers.delete_server(pk=server.pk, actor="ada")
    source.delete()
    servers.delete_server(pk=server.pk, actor="ada")
    assert not McpServer.objects.exists()


# --- Asked ------------------------------------------------------------------------------------------------------------
@contextmanager
def listener(settings: Any, *tools: dict[str, Any]) -> Iterator[Any]:
    with answering(settings, result(json.dumps({"tools": tools}))) as running:
        yield running


def keys(running: Any) -> set[Any]:
    """The values of X-Key that a listener was sent."""
    return {headers.get("X-Key") for _, headers in running.seen}


def test_cat_3_a_tested_connection_is_told_and_nothing_is_imported(
    tenant: Tenant, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_SECRET_SHOP", f"  {SECRET}\n")
    odd = {"name": "lamp_on", "description": f"Say {SECRET}."}
    with listener(settings, odd, odd) as running:
        server = create(url=running.url, headers={"X-Key": "MCP_SECRET_SHOP"})
        report = check_connection(server)
        assert keys(running) == {SECRET}
    assert (report.reachable, report.error, report.protocol_version) == (True, "", "2025-06-18")
    assert (report.server_name, report.server_version, report.tools) == ("http", "", ("lamp_on",))
    assert [warning.split(";")[0] for warning in report.warnings] == [
        "The server repeated a secret that it was given in its list",
        "lamp_on: it has no inputSchema, so it is taken to have no parameters.",
        "lamp_on would be left out: an earlier tool of the list has the same name.",
    ]
    assert 0 < report.seconds < 60
    server.refresh_from_db()
    assert (server.health, server.last_error) == (Health.HEALTHY, "")
    assert not Tool.objects.exists()
    assert not Source.objects.exists()


def test_cat_3_a_failed_test_is_told_and_noted(tenant: Tenant, settings: Any, tmp_path: Path) -> None:
    allow(settings, tmp_path, bye=["sh", "-c", "echo the last word >&2"])
    server = create(command_id="bye")
    report = check_connection(server)
    assert not report.reachable
    assert (
        report.error
        == "The server ended before it had answered (exit status 0). Its last words: the last word"
    )
    server.refresh_from_db()
    assert (server.health, server.last_error, server.synced_at) == (Health.FAILING, report.error, None)


@pytest.mark.parametrize(
    "seconds", [pytest.param(2, id="two"), pytest.param(11, id="eleven", marks=pytest.mark.slow)]
)
def test_case_69_a_test_waits_as_long_as_a_sync_and_a_success_sets_the_health_right(
    tenant: Tenant, settings: Any, tmp_path: Path, seconds: int
) -> None:
    allow(settings, tmp_path, slow=plain('{"tools": []}', before=f"import time; time.sleep({seconds})\n"))
    server = create(command_id="slow")
    settings.MCP_SECONDS = 1
    for ask in (check_connection, list_tools):
        with suppress(FetchError):
            ask(server)
        server.refresh_from_db()
        assert (server.health, server.last_error) == (Health.FAILING, "The server did not answer within 1 s.")
        McpServer.objects.update(health=Health.UNKNOWN)
    settings.MCP_SECONDS = 40
    assert check_connection(server).reachable
    server.refresh_from_db()
    assert (server.health, server.last_error) == (Health.HEALTHY, "")


def test_cat_3_a_slow_server_is_asked_outside_of_the_transaction_of_a_page(
    tenant: Tenant, settings: Any, tmp_path: Path
) -> None:
    allow(settings, tmp_path, slow=plain('{"tools": []}', before="import time; time.sleep(1)\n"))
    server = create(command_id="slow")
    assert check_connection(server).reachable
    server.refresh_from_db()
    assert server.health == Health.HEALTHY
    # The page and the API open no transaction around it, which the database would end for being idle.
    page, api = (resolve(f"/servers/{server.pk}/test/").func, resolve("/api/v1/servers/slow/test").func)
    assert getattr(page, "calls_external", False)
    assert getattr(getattr(api, "cls").post, "calls_external", False)  # noqa: B009 - the stubs know no class of a view


def test_s15_a_secret_that_is_missing_unfit_or_not_for_this_host_is_not_sent(
    tenant: Tenant, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listener(settings) as running:
        server = create(url=running.url, headers={"X-Key": "MCP_SECRET_SHOP"})
        for value, hosts, sentence in (
            (None, "", "The header X-Key needs MCP_SECRET_SHOP in the portal's environment."),
            (" ", "", "The header X-Key needs MCP_SECRET_SHOP in the portal's environment."),
            (f"{SECRET}\r\nHost: x", "", "cannot be a header"),
            (f"{SECRET}é", "", "cannot be a header"),
            (SECRET, "api.example.com", r"may be sent only to api.example.com \(MCP_SECRET_SHOP_HOSTS\)"),
        ):
            monkeypatch.delenv("MCP_SECRET_SHOP", raising=False)
            if value is not None:
                monkeypatch.setenv("MCP_SECRET_SHOP", value)
            monkeypatch.setenv("MCP_SECRET_SHOP_HOSTS", hosts)
            with pytest.raises(FetchError, match=sentence) as error:
                list_tools(server)
            assert SECRET not in str(error.value)
            server.refresh_from_db()
            assert SECRET not in server.last_error
        # The settings have become stricter since the server was written.
        settings.MCP_SECRET_PREFIX = "OTHER_"
        with pytest.raises(FetchError, match="begins with OTHER_"):
            list_tools(server)
        assert running.seen == []
        settings.MCP_SECRET_PREFIX = "MCP_SECRET_"
        monkeypatch.setenv("MCP_SECRET_SHOP_HOSTS", "api.example.com, 127.0.0.1")
        list_tools(server)
        assert keys(running) == {SECRET}


def test_s15_a_secret_is_nowhere_after_a_sync(
    committed: Tenant,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    admin_database: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The server says it in every way it can; every text of every table is searched for it."""
    monkeypatch.setenv("MCP_SECRET_SHOP", SECRET)
    told = {
        "name": f"a-{SECRET}",
        "description": SECRET,
        "inputSchema": {"type": "object", "title": SECRET},
        "_meta": {SECRET: SECRET},
    }
    with listener(settings, told) as running:
        with tenant_context(committed.pk):
            server = create(url=running.url, headers={"X-Key": "MCP_SECRET_SHOP"})
            source = Source.objects.create(slug="shop", kind=SourceKind.MCP, server=server)
        planned = syncs.plan_source(tenant_id=committed.pk, source_id=source.pk, actor="ada")
        syncs.apply_sync(tenant_id=committed.pk, sync_id=planned.pk, actor="ada")
        assert keys(running) == {SECRET}
    with tenant_context(committed.pk):
        assert [tool.name for tool in Tool.objects.all()] == ["a-***"]
    tables = admin_database.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    stored = "\n".join(
        row
        for (table,) in tables
        for (row,) in admin_database.execute(f'SELECT t::text FROM "{table}" t').fetchall()
    )
    assert "a-***" in stored
    assert SECRET not in stored
    assert SECRET.encode().hex() not in stored  # documents are bytes
    assert SECRET not in caplog.text


# --- Case 29 ----------------------------------------------------------------------------------------------------------
@needs_badserver
def test_case_29_a_changed_address_is_followed_and_tools_keep_ids_and_overrides_CAT_3(
    committed: Tenant, settings: Any, tmp_path: Path
) -> None:
    """From one URL to another and on to a command; the listeners count who asks them."""
    import runpy

    lists = runpy.run_path(str(BADSERVER))
    ok, v2 = (
        lists["OK"],
        [lists["OK"][0], lists["tool"]("ticket_list", "List them all."), lists["tool"]("ticket_assign")],
    )

    def sync() -> list[str]:
        planned = syncs.plan_source(tenant_id=committed.pk, source_id=source.pk, actor="ada")
        if planned.state == "planned":
            syncs.apply_sync(tenant_id=committed.pk, sync_id=planned.pk, actor="ada", confirm_removals=True)
        with tenant_context(committed.pk):
            return list(
                source.tools.filter(active=True).order_by("tool_id").values_list("tool_id", flat=True)
            )

    def change(**fields: Any) -> None:
        with tenant_context(committed.pk):
            servers.update_server(pk=server.pk, actor="ada", **fields)

    with listener(settings, *ok) as first, listener(settings, *v2) as second:
        with tenant_context(committed.pk):
            server = create(url=first.url)
            source = Source.objects.create(slug="tickets", kind=SourceKind.MCP, server=server)
        assert sync() == ["ticket_close", "ticket_list", "ticket_open"]
        with tenant_context(committed.pk):
            ids = dict(source.tools.values_list("tool_id", "pk"))
            kept = source.tools.get(tool_id="ticket_list")
            update_tool(
                pk=kept.pk, expected_version=kept.version, changes={"description": "Ours."}, actor="ada"
            )
        hits = len(first.seen)
        assert hits >= 2

        change(url=second.url)
        assert sync() == ["ticket_assign", "ticket_list", "ticket_open"]
        assert (len(first.seen), len(second.seen) >= 2) == (hits, True)

        hits = (len(first.seen), len(second.seen))
        allow(settings, tmp_path, tickets=bad("ok"))
        change(url="", command_id="tickets")
        assert sync() == ["ticket_close", "ticket_list", "ticket_open"]
        assert (len(first.seen), len(second.seen)) == hits
    with tenant_context(committed.pk):
        found = dict(source.tools.values_list("tool_id", "pk"))
        assert found.items() >= ids.items()
        assert source.tools.get(tool_id="ticket_list").description == "Ours."
        assert ManualOverride.objects.get().tool_id == ids["ticket_list"]


def test_case_29_a_server_that_is_away_takes_no_tool_with_it_CAT_3(
    committed: Tenant, settings: Any, tmp_path: Path
) -> None:
    allow(settings, tmp_path, it=plain('{"tools": [{"name": "lamp_on"}]}'))
    with tenant_context(committed.pk):
        server = create(command_id="it")
        source = Source.objects.create(slug="lamps", kind=SourceKind.MCP, server=server)
    planned = syncs.plan_source(tenant_id=committed.pk, source_id=source.pk, actor="ada")
    syncs.apply_sync(tenant_id=committed.pk, sync_id=planned.pk, actor="ada")
    allow(settings, tmp_path, it=["false"])
    with pytest.raises(syncs.SyncFailed, match="ended before it had answered"):
        syncs.plan_source(tenant_id=committed.pk, source_id=source.pk, actor="ada")
    with tenant_context(committed.pk):
        assert [tool.active for tool in source.tools.all()] == [True]
        server.refresh_from_db()
        source.refresh_from_db()
        assert (server.health, server.last_error) == (Health.FAILING, source.last_error)
        assert server.synced_at is not None
