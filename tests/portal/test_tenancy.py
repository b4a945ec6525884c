"""The context of a tenant: it nests, survives exceptions, and sticks to nothing."""

from __future__ import annotations

import contextvars
import json
import random
import re
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.db.utils import DataError, ProgrammingError
from django.http import HttpResponse
from django.test import RequestFactory

from portal.tenancy import context
from portal.tenancy.context import NoTenant, current_tenant, tenant_context
from portal.tenancy.models import Tenant
from tests.support.counts import scaled
from tests.support.processes import ROOT, manage, process_environment
from tools.models import Source, SourceKind

# A setting of a custom name that was ever made in a session reads as the empty text afterwards.
NOTHING = (None, "")


def of_database() -> str | None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('portal.tenant', true)")
        row = cursor.fetchone()
    assert row is not None
    told: str | None = row[0]
    return told


def test_sec_1_a_context_nests_and_gives_the_outer_tenant_back(db: None) -> None:
    one, two = uuid.uuid4(), uuid.uuid4()
    with tenant_context(one):
        with tenant_context(two):
            assert current_tenant() == two
            assert of_database() == str(two)
            with tenant_context(two):
                assert of_database() == str(two)
            assert of_database() == str(two)
        assert current_tenant() == one
        assert of_database() == str(one)
    with pytest.raises(NoTenant):
        current_tenant()


def test_sec_1_a_context_inside_a_transaction_without_a_tenant_ends_with_itself(db: None) -> None:
    with transaction.atomic():
        with tenant_context(uuid.uuid4()):
            pass
        assert of_database() in NOTHING
        with (
            pytest.raises((ProgrammingError, DataError)),
            transaction.atomic(),
            connection.cursor() as cursor,
        ):
            cursor.execute("SELECT current_setting('portal.tenant')::uuid")


def test_sec_1_an_exception_gives_the_outer_tenant_back(db: None) -> None:
    one, two = uuid.uuid4(), uuid.uuid4()
    with tenant_context(one):
        with pytest.raises(ZeroDivisionError), tenant_context(two):
            raise ZeroDivisionError
        assert (current_tenant(), of_database()) == (one, str(one))
        with pytest.raises(ProgrammingError), tenant_context(two), connection.cursor() as cursor:
            cursor.execute("SELECT nonsense FROM nowhere")
        assert (current_tenant(), of_database()) == (one, str(one))
        with tenant_context(two):
            transaction.set_rollback(True)
        assert (current_tenant(), of_database()) == (one, str(one))


def test_sec_1_a_thread_that_inherits_the_context_tells_its_own_connection(committed: Tenant) -> None:
    seen: list[str | None] = []

    def work() -> None:
        try:
            with tenant_context(committed.pk):
                seen.append(of_database())
        finally:
            connection.close()

    with tenant_context(committed.pk):
        inherited = contextvars.copy_context()
        thread = threading.Thread(target=inherited.run, args=(work,))
        thread.start()
        thread.join()
    assert seen == [str(committed.pk)]


def interleave(tenants: list[Tenant], count: int) -> tuple[list[str], int]:
    """`count` units of work of random tenants in 4 threads that share the pool's connections; what went wrong."""
    wrong: list[str] = []
    done = [0]

    def unit(dice: random.Random, tenant: Tenant) -> None:
        left = of_database()
        if left not in NOTHING:
            wrong.append(f"a connection came with the tenant {left}")
        with tenant_context(tenant.pk):
            slugs = list(Source.objects.values_list("slug", flat=True))
            with connection.cursor() as cursor:
                cursor.execute("SELECT slug FROM tools_source")
                slugs += [slug for (slug,) in cursor.fetchall()]
            if set(slugs) != {tenant.slug}:
                wrong.append(f"{tenant.slug} saw {slugs}")
            fate = dice.random()
            if fate < 0.2:
                raise ZeroDivisionError
            if fate < 0.3:
                with connection.cursor() as cursor:
                    cursor.execute("SELECT 1 / 0")
            if fate < 0.4:
                transaction.set_rollback(True)

    def work(seed: int) -> None:
        dice = random.Random(seed)
        for _ in range(count // 4):
            try:
                unit(dice, dice.choice(tenants))
            except (ZeroDivisionError, DataError):
                pass
            finally:
                done[0] += 1
                connection.close()  # back to the pool, as at the end of a request

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong, done[0]


@pytest.fixture
def four_tenants(committed: Tenant, make_tenant: Callable[..., Tenant]) -> list[Tenant]:
    tenants = [committed, *(make_tenant() for _ in range(3))]
    for tenant in tenants:
        with tenant_context(tenant.pk):
            Source.objects.create(slug=tenant.slug, kind=SourceKind.OPENAPI)
    connection.close()
    return tenants


def test_sec_1_nothing_sticks_to_a_pooled_connection(four_tenants: list[Tenant]) -> None:
    wrong, done = interleave(four_tenants, scaled(2000))
    assert wrong == []
    assert done == scaled(2000)


def test_sec_1_that_test_sees_a_setting_that_sticks(
    four_tenants: list[Tenant], monkeypatch: pytest.MonkeyPatch
) -> None:
    def for_the_session(tenant_id: uuid.UUID | None) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('portal.tenant', %s, false)", [str(tenant_id or "")])

    monkeypatch.setattr(context, "_tell_database", for_the_session)
    wrong, _ = interleave(four_tenants, 200)
    assert any("a connection came with the tenant" in sentence for sentence in wrong)
    # Connections of this pool are spoilt now.
    connection.close_pool()


def test_sec_1_a_pages_writes_are_undone_when_its_view_fails(committed: Tenant) -> None:
    from django.contrib.auth import get_user_model

    from portal.tenancy.middleware import SESSION_KEY, TenantMiddleware
    from portal.tenancy.models import Membership, Role

    user = get_user_model().objects.create_user(username="u")
    with tenant_context(committed.pk):
        Membership.objects.create(user=user, role=Role.VIEWER)

    def view(request: Any) -> Any:
        Source.objects.create(slug="half", kind=SourceKind.OPENAPI)
        # Django's handler makes an answer of an exception before it reaches a middleware.
        middleware.process_exception(request, RuntimeError())
        return HttpResponse(status=500)

    middleware = TenantMiddleware(view)
    request = RequestFactory().get("/")
    request.user, request.session = user, {SESSION_KEY: str(committed.pk)}  # type: ignore[assignment]
    middleware(request)
    assert request.member.role == Role.VIEWER  # type: ignore[attr-defined]
    with tenant_context(committed.pk):
        assert not Source.objects.exists()


def test_sec_1_a_member_works_in_the_tenant_of_the_session_only_if_it_is_theirs(
    committed: Tenant, make_tenant: Callable[..., Tenant]
) -> None:
    from django.contrib.auth import get_user_model

    from portal.tenancy.middleware import SESSION_KEY, TenantMiddleware
    from portal.tenancy.models import Membership

    second, foreign = make_tenant(), make_tenant()
    user = get_user_model().objects.create_user(username="u")
    for tenant in (committed, second):
        with tenant_context(tenant.pk):
            Membership.objects.create(user=user)
    seen = []

    def view(request: Any) -> HttpResponse:
        seen.append(request.member and current_tenant())
        return HttpResponse()

    middleware = TenantMiddleware(view)
    for wanted in (second, foreign):
        request = RequestFactory().get("/")
        request.user, request.session = user, {SESSION_KEY: str(wanted.pk)}  # type: ignore[assignment]
        middleware(request)
    assert seen == [second.pk, None], "a session never moves to another tenant by itself"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command in this process."""
    try:
        call_command(*arguments)
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    except CommandError:  # what the command line makes exit code 2 of
        code = 2
    return code, *capsys.readouterr()


def test_api_3_a_key_made_by_command_is_shown_once_and_a_taken_name_is_refused(
    committed: Tenant, capsys: pytest.CaptureFixture[str]
) -> None:
    create = ("create_api_key", "ci", "--tenant", committed.slug, "--scope", "search:read")
    code, out, _ = run(capsys, *create, "--json")
    made = json.loads(out)
    assert code == 0
    assert re.fullmatch(r"tp_[0-9A-Za-z]{49}", made["api_key"])
    code, out, err = run(capsys, *create, "--json")
    assert (code, out) == (3, "")
    assert len(err.strip().splitlines()) == 1
    for wrong in (
        ("create_api_key", "x", "--tenant", "nobody", "--scope", "search:read"),
        ("create_api_key", "x", "--tenant", committed.slug, "--scope", "everything"),
        ("create_api_key", "x", "--tenant", committed.slug),
        (*create, "--expires-in-days", "0"),
        (*create, "--expires-in-days", "-1"),
        (*create, "--expires-in-days", "99999999999"),
    ):
        assert run(capsys, *wrong)[:2] == (2, ""), wrong


def test_create_tenant_runs_as_the_owner_and_a_database_that_is_down_is_exit_code_4(
    committed: Tenant,
) -> None:
    assert json.loads(manage("create_tenant", "acme", "--json"))["tenant"] == "acme"
    down = subprocess.run(
        [sys.executable, "manage.py", "import_openapi", "/dev/null", "--json"],
        env=process_environment({"DATABASE_URL": "postgresql://a:b@127.0.0.1:9/portal"}),
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (down.returncode, down.stdout) == (4, "")
    assert down.stderr.strip().splitlines()[-1].startswith("The database does not answer")
