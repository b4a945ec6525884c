"""The demo catalogue, and what first_run makes of an empty database: once, and whole or not at all."""

from __future__ import annotations

import io
import json
import stat
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import authenticate, get_user_model
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from manage import role_of
from portal import env
from portal.tenancy.context import tenant_context
from portal.tenancy.keys import find_caller
from portal.tenancy.models import ApiKey, Membership, Role, Scope, Tenant
from tools import demo
from tools.models import Source, Tool

EMPTIED = ("tenancy_tenant", "tenancy_apikey", "tenancy_membership", "auth_user", "tools_source", "tools_endpoint",
           "tools_tool", "tools_toolembedding", "embeddings_embeddingtask")  # fmt: skip


@pytest.fixture
def demo_tools(tenant: Tenant) -> dict[str, Tool]:
    """The demo's tools by tool_id, imported into a tenant by the application's login."""
    demo.import_demo(demo.parse_demo(), tenant_id=tenant.pk, actor="test")
    return {tool.tool_id: tool for tool in Tool.objects.all()}


def use_login(settings: dict[str, Any]) -> None:
    default: Any = connection
    default.close()
    default.close_pool()
    default.settings_dict.update(settings)


@pytest.fixture
def first_run(committed: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Runs the command as the owner of the database, as manage.py does; returns its report and the file's text."""
    monkeypatch.setenv("PORTAL_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("PORT", "8123")
    monkeypatch.delenv("PORTAL_URL", raising=False)
    application = {name: connection.settings_dict[name] for name in env.database_login("DATABASE_URL")}
    use_login(env.database_login("DATABASE_ADMIN_URL"))

    def run(*arguments: str) -> tuple[dict[str, Any], str]:
        out = io.StringIO()
        call_command("first_run", "--json", *arguments, stdout=out)
        return json.loads(out.getvalue()), state_file(tmp_path).read_text(encoding="utf-8")

    yield run
    use_login(application)


def state_file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "first-run.json"


def default_tenant() -> Any:
    return tenant_context(Tenant.objects.get(slug="default").pk)


def row_versions(table: str) -> list[tuple[str, str]]:
    """(ctid, xmin) of every row: any write changes them."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT ctid::text, xmin::text FROM {table} ORDER BY ctid")
        return list(cursor.fetchall())


def test_the_demo_is_some_sixty_tools_of_an_api_an_mcp_server_and_ones_written_by_hand(
    demo_tools: dict[str, Tool],
) -> None:
    assert 55 <= len(demo_tools) <= 70
    assert {tool.source_protocol for tool in demo_tools.values()} == {"openapi", "mcp", "manual"}
    assert Source.objects.count() == 4
    assert demo_tools["read_text_file"].annotations["readOnlyHint"] is True
    assert demo_tools["read_text_file"].output is not None
    assert demo_tools["git_log"].namespace == "git"


def test_the_demo_ships_clock_calculator_and_memory_as_core_tools_rte_2(demo_tools: dict[str, Tool]) -> None:
    core = {tool_id for tool_id, tool in demo_tools.items() if tool.core}
    assert core == {"clock", "calculator", "memory"}


def test_importing_the_demo_again_adds_nothing(demo_tools: dict[str, Tool], tenant: Tenant) -> None:
    assert demo.import_demo(demo.parse_demo(), tenant_id=tenant.pk, actor="test") == len(demo_tools)
    assert {tool.version for tool in Tool.objects.all()} == {1}
    assert Tool.objects.count() == len(demo_tools)


def test_every_question_names_tools_of_the_demo_and_every_tool_is_asked_for_src_10(
    demo_tools: dict[str, Tool],
) -> None:
    asked = demo.questions()
    assert len(asked) >= 60
    assert len({question.qid for question in asked}) == len(asked)
    assert len({question.query for question in asked}) == len(asked)
    assert frozenset().union(*(question.answers() for question in asked)) == demo_tools.keys()
    assert all(set(question.equivalent) <= set(question.relevant) for question in asked)


def test_no_question_repeats_the_text_of_a_tool_src_10(demo_tools: dict[str, Tool]) -> None:
    texts = {
        text.casefold()
        for tool in demo_tools.values()
        for text in (tool.description, *tool.use_cases)
        if text
    }
    assert not [question.query for question in demo.questions() if question.query.casefold() in texts]


def test_the_first_run_makes_a_tenant_an_operator_a_key_and_the_demo(first_run: Any, tmp_path: Path) -> None:
    report, text = first_run()
    run = json.loads(text)
    assert report == {
        "file": str(state_file(tmp_path)),
        "created": True,
        "renewed": False,
        "tools": 64,
        "key_name": "first run",
    }
    assert list(run) == ["url", "username", "password", "api_key"]
    assert run["url"] == "http://127.0.0.1:8123"
    assert stat.S_IMODE(state_file(tmp_path).stat().st_mode) == 0o600
    user = authenticate(username="operator", password=run["password"])
    assert user is not None
    assert user.is_staff
    assert user.is_superuser
    caller = find_caller(run["api_key"])
    assert caller is not None
    assert caller.scopes == set(Scope.values)
    with default_tenant():
        assert ApiKey.objects.get().expires_at > timezone.now() + timedelta(days=364)
        assert Membership.objects.get().role == Role.ADMIN
        assert set(Tool.objects.values_list("updated_by", flat=True)) == {"first run"}


def test_a_second_first_run_writes_no_row_and_keeps_password_and_key(first_run: Any) -> None:
    _, before = first_run()
    rows = {table: row_versions(table) for table in EMPTIED}
    report, after = first_run()
    assert after == before
    assert not report["created"]
    assert not report["renewed"]
    assert {table: row_versions(table) for table in EMPTIED} == rows


def test_demo_tools_that_were_deleted_do_not_come_back(first_run: Any, tmp_path: Path) -> None:
    first_run()
    with default_tenant():
        Source.objects.get(slug="everyday").delete()
        left = Tool.objects.count()
    first_run()
    state_file(tmp_path).unlink()
    first_run()
    with default_tenant():
        assert Tool.objects.count() == left


@pytest.mark.parametrize("damage", ["gone", "[]", '{"api_key": "tp_of_another_database"}', "{"])
def test_lost_secrets_are_made_anew_and_the_earlier_key_stays_valid(
    first_run: Any, tmp_path: Path, damage: str
) -> None:
    earlier = json.loads(first_run("--no-demo")[1])
    if damage == "gone":
        state_file(tmp_path).unlink()
    else:
        state_file(tmp_path).write_text(damage, encoding="utf-8")
    report, text = first_run()
    run = json.loads(text)
    assert report["renewed"]
    assert report["key_name"] == "first run 2"
    assert authenticate(username="operator", password=run["password"]) is not None
    assert authenticate(username="operator", password=earlier["password"]) is None
    assert find_caller(run["api_key"]) is not None
    assert find_caller(earlier["api_key"]) is not None
    assert get_user_model().objects.count() == 1


def test_a_revoked_key_of_the_file_is_not_replaced(first_run: Any) -> None:
    _, before = first_run("--no-demo")
    with default_tenant():
        ApiKey.objects.update(revoked_at="2026-01-01T00:00:00Z")
    assert first_run("--no-demo")[1] == before


def test_without_demo_the_catalogue_is_empty(first_run: Any) -> None:
    assert first_run("--no-demo")[0]["tools"] == 0
    with default_tenant():
        assert not Tool.objects.exists()


def test_a_folder_that_cannot_be_written_is_one_sentence_and_stores_nothing(
    first_run: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PORTAL_STATE", "/proc/nowhere")
    with pytest.raises(SystemExit) as ended:
        first_run("--no-demo")
    assert ended.value.code == 4
    assert capsys.readouterr().err == "/proc/nowhere cannot be written to: No such file or directory.\n"
    assert not Tenant.objects.filter(slug="default").exists()


def test_first_run_uses_the_login_that_may_make_tenants() -> None:
    assert role_of("first_run") == "admin"
