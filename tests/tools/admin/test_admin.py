from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.contenttypes.models import ContentType
from django.test import Client

from embeddings import slots
from embeddings.models import EmbeddingTask
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.clients import join, sign_in
from tests.support.imports.documents import document, import_document
from tests.support.pages.web import seen
from tests.tools.admin.conftest import address
from tools.catalogue import servers, sources
from tools.catalogue.tools import create_tool, update_tool
from tools.models import ManualOverride, McpServer, Source, Tool, ToolEmbedding

pytestmark = pytest.mark.usefixtures("one_or_two_models")
OURS = [
    "tenancy.Tenant", "tenancy.Membership", "tenancy.MembershipEvent", "tenancy.Invitation", "tenancy.ApiKey", "tenancy.ApiKeyEvent", "tenancy.IdempotencyKey", "tenancy.SignIn", "tools.Source", "tools.SourceDocument", "tools.Endpoint",
    "tools.Tool", "tools.ManualOverride", "tools.ToolEmbedding", "embeddings.EmbeddingTask",
    "embeddings.EmbeddingModel", "tools.SourceEvent",
    "tools.ToolEvent", "tools.ManualOverrideEvent", "resilience.Circuit", "resilience.CounterSum", "jobs.Job", "jobs.JobFailure",
    "jobs.WorkerHeartbeat", "tools.McpServer", "tools.McpServerEvent", "tools.Sync", "tools.SyncChange",
]  # fmt: skip
READ_ONLY = [
    name
    for name in OURS
    if name
    not in {
        "tenancy.Membership",
        "tenancy.Invitation",
        "tenancy.ApiKey",
        "tools.Tool",
        "tools.Source",
        "tools.McpServer",
    }
]


def change_form(client: Client, tool: Tool) -> dict[str, Any]:
    form = client.get(address("tools.Tool", "change", tool.pk)).context["adminform"].form
    return {name: form[name].value() for name in form.fields if form[name].value() not in (None, False)}


def test_UI_1_every_model_of_ours_has_an_admin() -> None:
    registered = {model._meta.label for model in admin.site._registry}
    ours = {
        model._meta.label
        for app in ("tenancy", "tools", "embeddings", "jobs", "resilience")
        for model in apps.get_app_config(app).get_models()
        if model._meta.managed  # the others describe the keyword index, which a trigger writes
    }
    assert ours == set(OURS)
    assert ours <= registered


@pytest.mark.parametrize("label", OURS)
def test_UI_1_lists_and_pages_open_without_inline_code_or_vectors(
    superuser: Client, a_row_of_everything: None, label: str
) -> None:
    rows = superuser.get(address(label, "changelist"))
    assert rows.status_code == 200
    row = rows.context["cl"].result_list[0]
    page = superuser.get(address(label, "change", row.pk))
    assert page.status_code == 200
    for html in (rows.content.decode(), page.content.decode()):
        assert "style=" not in html
        assert "<style" not in html
        # A data block is no script; everything else comes from files.
        assert all("src=" in tag or "application/json" in tag for tag in re.findall(r"<script[^>]*>", html))
        assert not re.search(r"field-vector\b", html)
    assert "default-src 'none'" in page["Content-Security-Policy"]


def test_the_admin_says_the_zone_of_its_times_UI_3_0(superuser: Client, imported_tool: Tool) -> None:
    for path in (address("tools.Tool", "changelist"), address("tools.Tool", "change", imported_tool.pk)):
        html = superuser.get(path).content.decode()
        assert re.search(r"\d{1,2} [A-Z][a-z]{2} \d{4}, \d\d:\d\d UTC", html), path
        assert "a.m." not in html


@pytest.mark.parametrize("label", READ_ONLY)
def test_UI_1_states_and_history_are_read_only(
    superuser: Client, a_row_of_everything: None, label: str
) -> None:
    [row, *_] = superuser.get(address(label, "changelist")).context["cl"].result_list
    assert superuser.post(address(label, "change", row.pk), {"status": "ready"}).status_code == 403
    assert superuser.post(address(label, "delete", row.pk), {"post": "yes"}).status_code == 403
    assert superuser.get(address(label, "add")).status_code == 403


def test_SEC_1_the_admin_shows_the_members_tenant_only(
    superuser: Client, make_tenant: Callable[..., Tenant]
) -> None:
    with tenant_context(make_tenant().pk):
        foreign = create_tool(actor="x", tool_id="secret", name="secret plan")
    for label in ("tools.Tool", "tools.ToolEvent", "tools.ToolEmbedding"):
        assert "secret plan" not in superuser.get(address(label, "changelist")).content.decode()
    assert superuser.get(address("tools.Tool", "change", foreign.pk)).status_code == 302


def test_SEC_1_a_superuser_without_a_tenant_sees_no_tenant_model(db: None) -> None:
    client = Client()
    client.force_login(get_user_model().objects.create_superuser("homeless", password=None))
    assert "Tool embeddings" not in client.get("/admin/").content.decode()
    assert client.get(address("tools.Tool", "changelist")).status_code == 403


def test_the_role_in_the_tenant_bounds_djangos_permissions(
    tenant: Tenant, make_tool: Callable[..., Tool]
) -> None:
    user = get_user_model().objects.create_superuser("looker", password=None)
    join(tenant, user, "viewer")
    client = sign_in(tenant, user)
    tool = make_tool()
    assert client.get(address("tools.Tool", "change", tool.pk)).status_code == 200
    assert client.post(address("tools.Tool", "change", tool.pk), {"name": "x"}).status_code == 403
    assert client.get(address("tenancy.ApiKey", "changelist")).status_code == 403
    assert client.get(address("tenancy.Membership", "changelist")).status_code == 403


@pytest.mark.parametrize(
    ("label", "hidden", "shown"),
    [
        ("tools.Source", "last_error__startswith", "kind__exact"),
        ("embeddings.EmbeddingModel", "url__startswith", "model__startswith"),
        ("tenancy.ApiKey", "digest__isnull", "name"),
        ("tenancy.IdempotencyKey", "body__contains", "status"),
        ("tools.ToolEmbedding", "vector__isnull", "status__exact"),
        ("tools.Tool", "search_text__contains", "source__id__exact"),
    ],
)
def test_no_list_is_filtered_by_a_column_that_it_does_not_show_SEC_4(
    superuser: Client, a_row_of_everything: None, label: str, hidden: str, shown: str
) -> None:
    rows = address(label, "changelist")
    # Else the answers would tell what stands there, letter by letter.
    answers = {superuser.get(f"{rows}?{hidden}={value}").status_code for value in ("0", "1", "r", "nothing")}
    assert answers == {400}
    assert superuser.get(f"{rows}?{shown}=1").status_code in {200, 302}


def test_view_on_site_is_not_found_for_any_kind_of_row_S21(superuser: Client) -> None:
    for kind in ContentType.objects.all():
        for row in (uuid.uuid4(), 1):
            assert (kind, superuser.get(f"/admin/r/{kind.pk}/{row}/").status_code) == (kind, 404)


def test_EMB_2_a_save_in_the_admin_goes_through_the_services(superuser: Client, imported_tool: Tool) -> None:
    form = {**change_form(superuser, imported_tool), "tags": "orders\r\nmoney"}
    assert superuser.post(address("tools.Tool", "change", imported_tool.pk), form).status_code == 302
    saved = Tool.objects.get(pk=imported_tool.pk)
    assert (saved.tags, saved.version, saved.updated_by) == (["orders", "money"], 2, "root")
    assert list(ManualOverride.objects.values_list("field", flat=True)) == ["tags"]


def test_a_stale_form_in_the_admin_is_refused_and_keeps_its_text(
    superuser: Client, make_tool: Callable[..., Tool]
) -> None:
    tool = make_tool()
    form = {**change_form(superuser, tool), "description": "Typed for long."}
    update_tool(pk=tool.pk, expected_version=1, changes={"owner": "o"}, actor="olga")
    answer = superuser.post(address("tools.Tool", "change", tool.pk), form)
    html = answer.content.decode()
    assert answer.status_code == 200
    assert "olga saved this tool" in html
    assert "Typed for long." in html
    assert Tool.objects.get(pk=tool.pk).version == 2


def test_a_tool_is_made_in_the_admin_and_a_taken_name_is_said(superuser: Client) -> None:
    form = {
        "name": "Mail", "tool_id": "mail", "namespace": "public", "source_protocol": "manual", "description": "Sends.",
        "tool_type": "api", "visibility": "public", "sensitivity": "internal", "lifecycle": "active",
        "semantic_weight": "1", "parameters": "{}", "annotations": "{}", "output": "null", "active": "on",
    }  # fmt: skip
    assert superuser.post(address("tools.Tool", "add"), form).status_code == 302
    tool = Tool.objects.get(tool_id="mail")
    assert EmbeddingTask.objects.filter(entity_id=tool.pk).exists()
    assert "exists in this namespace" in superuser.post(address("tools.Tool", "add"), form).content.decode()
    assert (
        "Must be a JSON object"
        in superuser.post(address("tools.Tool", "add"), {**form, "parameters": "[1]"}).content.decode()
    )


def test_EMB_9_the_admins_action_refreshes(
    superuser: Client, make_tool: Callable[..., Tool], set_embedding: Callable[..., None]
) -> None:
    tool = make_tool()
    set_embedding(tool, "ready")
    form = {"action": "refresh_embedding", "_selected_action": [tool.pk]}
    answer = superuser.post(address("tools.Tool", "changelist"), form, follow=True)
    assert "queued for 1 of 1 tool." in answer.content.decode()
    row = ToolEmbedding.serving().get(entity=tool)
    answer = superuser.post(
        address("tools.ToolEmbedding", "changelist"), {**form, "_selected_action": [row.pk]}, follow=True
    )
    assert "queued for 1 of 1 tool." in answer.content.decode()
    tasks = list(EmbeddingTask.objects.filter(entity_id=tool.pk).values_list("model", flat=True))
    assert sorted(tasks) == sorted(slot.model for slot in slots.all())


def test_EMB_10_the_admin_lists_each_tool_and_its_embedding_once(
    superuser: Client, make_tool: Callable[..., Tool], set_embedding: Callable[..., None]
) -> None:
    set_embedding(make_tool(name="broken"), "failed", error="x")
    make_tool(name="waiting")

    def listed(label: str, **query: str) -> list[str]:
        rows = superuser.get(address(label, "changelist"), query).context["cl"].result_list
        return sorted(str(getattr(row, "entity", row)) for row in rows)

    assert listed("tools.Tool") == ["broken", "waiting"] == listed("tools.ToolEmbedding")
    assert listed("tools.Tool", embedding_status="failed") == ["broken"]
    assert listed("tools.Tool", embedding_status="pending") == ["waiting"]
    assert listed("tools.ToolEmbedding", status__exact="pending") == ["waiting"]


def test_SYN_5_the_admins_action_resets_overrides(superuser: Client, a_row_of_everything: None) -> None:
    row = ManualOverride.objects.get()
    superuser.post(
        address("tools.ManualOverride", "changelist"),
        {"action": "reset_to_imported", "_selected_action": [row.pk]},
    )
    assert not ManualOverride.objects.exists()
    assert Tool.objects.get().description == "Lists the orders of the shop."


def test_deletes_in_the_admin_go_through_the_services(
    superuser: Client, make_tool: Callable[..., Tool], imported_tool: Tool
) -> None:
    tool = make_tool()
    assert "tool_0" in superuser.get(address("tools.Tool", "delete", tool.pk)).content.decode()
    superuser.post(address("tools.Tool", "delete", tool.pk), {"post": "yes"})
    assert not EmbeddingTask.objects.filter(entity_id=tool.pk).exists()
    kept = superuser.post(address("tools.Tool", "delete", imported_tool.pk), {"post": "yes"}, follow=True)
    assert "Deactivate it instead" in kept.content.decode()
    form = {"action": "delete_selected", "_selected_action": [imported_tool.pk], "post": "yes"}
    other = make_tool()
    form["_selected_action"] = [other.pk, imported_tool.pk]
    refused = superuser.post(address("tools.Tool", "changelist"), form, follow=True).content.decode()
    assert "Nothing was deleted." in refused
    assert "Deactivate it instead" in refused
    assert "Successfully" not in refused
    assert Tool.objects.count() == 2
    delete = address("tools.Source", "delete", imported_tool.source_id)
    superuser.post(delete, {"post": "yes", "tools": "delete"})
    assert list(Tool.objects.all()) == [other]


def test_a_source_is_deleted_in_the_admin_after_a_question_about_its_tools_SYN_6(
    superuser: Client, tenant: Tenant
) -> None:
    for slug in ("one", "two", "three"):
        import_document(tenant, document(slug), slug)
    empty = Source.objects.create(slug="empty", kind="openapi")
    one = address("tools.Source", "delete", Source.objects.get(slug="one").pk)
    assert superuser.get(one).content.decode().count('name="tools"') == 2
    unanswered = superuser.post(one, {"post": "yes"}, follow=True)
    assert "Choose what becomes of its tools." in unanswered.content.decode()
    assert Source.objects.filter(slug="one").exists()
    superuser.post(one, {"post": "yes", "tools": "deactivate"})
    kept = Tool.objects.get(name="one")
    assert (kept.active, kept.source, kept.endpoint) == (False, None, None)
    some = Source.objects.filter(slug__in=("two", "three")).values_list("pk", flat=True)
    form = {"action": "delete_selected", "_selected_action": list(some)}
    many = address("tools.Source", "changelist")
    assert superuser.post(many, form).content.decode().count('name="tools"') == 2
    refused = superuser.post(many, {**form, "post": "yes"}, follow=True).content.decode()
    assert "Nothing was deleted." in refused
    assert "Successfully" not in refused
    superuser.post(many, {**form, "post": "yes", "tools": "deactivate"})
    assert set(Tool.objects.values_list("name", "active")) == {
        ("one", False),
        ("two", False),
        ("three", False),
    }
    superuser.post(address("tools.Source", "delete", empty.pk), {"post": "yes"})
    assert not Source.objects.exists()


@pytest.mark.usefixtures("allowed_secrets")
def test_CAT_3_a_server_is_written_in_the_admin_through_its_services(superuser: Client) -> None:
    add, given = address("tools.McpServer", "add"), {"slug": "shop", "title": "Shop", "headers": "{}"}
    page = superuser.post(add, {**given, "url": "https://mcp.example.com/mcp", "command_id": "sh"})
    assert "Give either a URL or a command, and not both." in page.content.decode()
    refused = superuser.post(add, {**given, "url": "https://ada:pw@mcp.example.com/mcp"}).content.decode()
    assert "holds no user or password" in refused
    assert "pw@" not in refused
    assert superuser.post(add, {**given, "url": "https://mcp.example.com/mcp"}).status_code == 302
    server = McpServer.objects.get()
    change = address("tools.McpServer", "change", server.pk)
    given |= seen(superuser, change)
    wrong = {**given, "url": server.url, "headers": '{"X-Key": "SECRET_KEY"}'}
    assert "begins with MCP_SECRET_" in superuser.post(change, wrong).content.decode()
    sent = {
        **given,
        "url": "https://mcp.example.com/2",
        "headers": '{"X-Key": "MCP_SECRET_SHOP"}',
        "health": "healthy",
    }
    assert superuser.post(change, sent).status_code == 302
    server.refresh_from_db()
    assert (server.url, server.headers, server.health) == (
        sent["url"],
        {"X-Key": "MCP_SECRET_SHOP"},
        "unknown",
    )
    assert superuser.post(address("tools.McpServer", "delete", server.pk), {"post": "yes"}).status_code == 302
    assert not McpServer.objects.exists()


def test_R16_a_stale_form_of_settings_is_refused_in_the_admin_too(
    superuser: Client, imported_tool: Tool
) -> None:
    source = imported_tool.source
    assert source is not None
    path = address("tools.Source", "change", source.pk)
    opened = seen(superuser, path)
    sources.update_source(pk=source.pk, actor="olga", sync_wins=True)
    answer = superuser.post(path, opened)
    assert "Somebody changed this while you were editing it." in answer.content.decode()
    assert Source.objects.get().sync_wins
    assert superuser.post(path, seen(superuser, path)).status_code == 302
    assert not Source.objects.get().sync_wins
    server = servers.create_server(actor="x", slug="s", url="https://mcp.example.com/mcp")
    path = address("tools.McpServer", "change", server.pk)
    fields = {"slug": "s", "url": server.url, "headers": "{}", **seen(superuser, path)}
    servers.update_server(pk=server.pk, actor="olga", title="Theirs")
    answer = superuser.post(path, fields)
    assert "Somebody changed this while you were editing it." in answer.content.decode()
    assert McpServer.objects.get().title == "Theirs"


def test_CAT_3_a_server_on_a_host_without_a_dot_is_written_in_the_admin(superuser: Client) -> None:
    path = address("tools.McpServer", "add")
    fields = {"slug": "billing", "url": "http://billing:8000/mcp", "headers": "{}"}
    refused = superuser.post(path, {**fields, "url": "https://ada:pw@mcp.example.com/mcp"})
    assert "holds no user or password" in refused.content.decode()
    assert superuser.post(path, fields).status_code == 302
    assert McpServer.objects.get().url == "http://billing:8000/mcp"


def test_R16_a_source_that_is_being_synced_is_not_deleted_in_the_admin_and_says_why(
    superuser: Client, tenant: Tenant, admin_database: psycopg.Connection[Any]
) -> None:
    source = Source.objects.create(slug="shop", kind="openapi")
    lock = f"hashtextextended('source {source.tenant_id} {source.slug}', 0)"
    admin_database.execute(f"SELECT pg_advisory_lock({lock})")
    try:
        one = superuser.post(address("tools.Source", "delete", source.pk), {"post": "yes"}, follow=True)
        fields = {"action": "delete_selected", "_selected_action": [str(source.pk)], "post": "yes"}
        many = superuser.post(address("tools.Source", "changelist"), fields, follow=True)
    finally:
        admin_database.execute(f"SELECT pg_advisory_unlock({lock})")
    for answer in (one, many):
        assert "Another write, such as a sync, is changing this right now." in answer.content.decode()
    assert Source.objects.filter(pk=source.pk).exists()
