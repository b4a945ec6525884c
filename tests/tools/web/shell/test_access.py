from __future__ import annotations

import io
import threading
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.apps import apps
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client, RequestFactory

from portal.tenancy.context import tenant_context
from portal.tenancy.middleware import FORM_HEADER
from portal.tenancy.models import Membership, Tenant
from tests.support.clients import make_client, sign_in
from tests.support.waiting import wait_until_blocks
from tools.catalogue.tools import create_tool
from tools.models import Source, Tool
from tools.web.shell import errors

PAGES = ["/tools/", "/search/", "/sources/", "/sources/import/", "/tools/new/", "/jobs/", "/jobs/new/"]
POLICY = "default-src 'none'"


@pytest.mark.parametrize("path", PAGES)
def test_anonymous_visitors_are_sent_to_the_login_and_back(
    db: None, anonymous_client: Client, path: str
) -> None:
    answer = anonymous_client.get(path)
    assert answer.status_code == 302
    assert answer["Location"] == f"/login/?next={path}"


def test_a_fragment_of_an_ended_session_moves_the_whole_page_to_the_login(
    db: None, anonymous_client: Client
) -> None:
    headers = {"HX-Request": "true", "HX-Current-URL": "http://testserver/tools/?q=x"}
    answer = anonymous_client.get("/tools/", headers=headers)
    assert answer["HX-Redirect"] == "/login/?next=/tools/%3Fq%3Dx"


def test_a_member_of_nothing_is_told_so(db: None) -> None:
    client = Client()
    client.force_login(get_user_model().objects.create_user("nobody"))
    answer = client.get("/tools/")
    assert answer.status_code == 403
    assert "not a member of any tenant" in answer.content.decode()


def test_a_question_that_has_nothing_to_ask_moves_the_whole_page_and_fills_no_dialog_with_it(
    admin_client: Client, make_tool: Callable[..., Tool]
) -> None:
    tool = make_tool()
    version = apps.get_model("tools", "ToolEvent").objects.get(pgh_obj_id=tool.pk).pgh_id
    for path, there in (
        ("/overrides/reset/?selected=none&next=/overrides/%3Fwho=x", "/overrides/?who=x"),
        (f"/tools/{tool.pk}/history/{version}/restore/", f"/tools/{tool.pk}/history/"),
    ):
        assert admin_client.get(path)["Location"] == there
        answer = admin_client.get(path, headers={"HX-Request": "true"})
        assert (answer.status_code, answer["HX-Redirect"]) == (200, there)


def test_the_root_leads_to_the_tools(viewer_client: Client) -> None:
    assert viewer_client.get("/")["Location"] == "/tools/"


@pytest.mark.parametrize("path", PAGES)
def test_pages_carry_the_strict_policy_and_nothing_inline(operator_client: Client, path: str) -> None:
    answer = operator_client.get(path)
    html = answer.content.decode()
    assert answer.status_code == 200
    assert POLICY in answer["Content-Security-Policy"]
    assert "unsafe" not in answer["Content-Security-Policy"]
    for forbidden in (" style=", "<style", "hx-on", "javascript:", " onclick"):
        assert forbidden not in html
    assert html.count("<h1") == 1
    assert "no-store" in answer["Cache-Control"]
    assert "HX-Request" in answer["Vary"]


@pytest.mark.parametrize(
    ("path", "status"),
    [("/nowhere/", 404), ("/tools/new/", 403), ("/docs/problems/", 200), ("/invitations/", 200), ("/", 302)],
)
def test_no_cache_keeps_a_page_that_names_its_visitor_nor_one_of_an_error_SEC_1(
    viewer_client: Client, path: str, status: int
) -> None:
    answer = viewer_client.get(path)
    assert (answer.status_code, answer["Cache-Control"]) == (status, "private, no-store")


def test_no_cache_keeps_a_form_that_was_refused_SEC_1(viewer_client: Client) -> None:
    answers = [
        viewer_client.post("/password/", headers={FORM_HEADER: made_for}) for made_for in ("", str(uuid4()))
    ]
    forged = Client(enforce_csrf_checks=True)
    forged.cookies = viewer_client.cookies
    answers.append(forged.post("/password/"))
    found = [(answer.status_code, answer.get("Cache-Control")) for answer in answers]
    assert found == [(409, "private, no-store"), (409, "private, no-store"), (403, "private, no-store")]


def test_viewers_see_and_change_nothing(viewer_client: Client, make_tool: Callable[..., Tool]) -> None:
    tool = make_tool()
    html = viewer_client.get(f"/tools/{tool.pk}/").content.decode()
    assert "Deactivate" not in html
    assert "Refresh embedding" not in html
    for path in ("edit/", "active/", "embedding/refresh/", "delete/"):
        assert viewer_client.post(f"/tools/{tool.pk}/{path}").status_code == 403
    for path in ("/tools/new/", "/sources/import/", "/tools/refresh-embeddings/"):
        assert viewer_client.post(path).status_code == 403


def test_CAT_1_private_tools_are_for_operators_and_their_owner_and_unlisted_ones_in_no_viewers_list(
    tenant: Tenant, viewer_client: Client, operator_client: Client, make_tool: Callable[..., Tool]
) -> None:
    me = get_user_model().objects.get(pk=viewer_client.session["_auth_user_id"]).get_username()
    shown = {"offered", "mine"}
    tools = {
        name: make_tool(tool_id=name, **fields)
        for name, fields in {
            "offered": {}, "by_its_id": {"visibility": "unlisted"}, "secret": {"visibility": "private"},
            "mine": {"visibility": "private", "owner": me}, "nobodys": {"visibility": "private", "owner": ""},
        }.items()
    }  # fmt: skip

    def listed(client: Client) -> set[str]:
        html = client.get("/tools/").content.decode()
        return {name for name in tools if f">{name}</a>" in html}

    assert (listed(viewer_client), listed(operator_client)) == (shown, set(tools))
    for name, tool in tools.items():
        is_seen = name in {*shown, "by_its_id"}
        for page in ("", "history/", "embedding/"):
            path = f"/tools/{tool.pk}/{page}"
            assert viewer_client.get(path).status_code == (200 if is_seen else 404), path
            assert operator_client.get(path).status_code == 200
        poll = viewer_client.get(
            f"/tools/badges/?id={tool.pk}", headers={"HX-Request": "true"}
        ).content.decode()
        assert (str(tool.pk) in poll) == is_seen


def test_operators_delete_nothing_and_admins_do_after_a_question(
    operator_client: Client, admin_client: Client, make_tool: Callable[..., Tool]
) -> None:
    tool = make_tool()
    path = f"/tools/{tool.pk}/delete/"
    refused = operator_client.post(path)
    assert refused.status_code == 403
    assert "This requires the role admin" in refused.content.decode()
    assert "Delete tool" in admin_client.get(path).content.decode()
    assert Tool.objects.filter(pk=tool.pk).exists()
    assert admin_client.post(path).status_code == 302
    assert not Tool.objects.filter(pk=tool.pk).exists()


def test_SEC_1_another_tenants_tool_is_not_found(
    operator_client: Client, make_tenant: Callable[..., Tenant]
) -> None:
    with tenant_context(make_tenant().pk):
        foreign = create_tool(actor="x", tool_id="secret", name="secret plan")
    for path in ("", "edit/", "history/", "embedding/"):
        answer = operator_client.get(f"/tools/{foreign.pk}/{path}")
        assert answer.status_code == 404
        assert "secret plan" not in answer.content.decode()
    assert operator_client.post(f"/tools/{foreign.pk}/embedding/refresh/").status_code == 404
    assert "secret plan" not in operator_client.get("/tools/?active=all").content.decode()
    assert "secret plan" not in operator_client.get(f"/tools/badges/?id={foreign.pk}").content.decode()


def test_SEC_1_one_works_in_ones_own_tenants_only(
    tenant: Tenant, make_tenant: Callable[..., Tenant], make_tool: Callable[..., Tool]
) -> None:
    make_tool(name="of the first")
    second, third = make_tenant("zz-second"), make_tenant("zz-third")
    user = get_user_model().objects.create_user("two-hats")
    Membership.objects.create(user=user, role="viewer")
    with tenant_context(second.pk):
        Membership.objects.create(user=user, role="operator")
        create_tool(actor="x", tool_id="two", name="of the second")
    client = Client()
    client.force_login(user)
    assert "of the first" in client.get("/tools/").content.decode()
    client.post("/tenant/", {"tenant": str(second.pk)})
    html = client.get("/tools/").content.decode()
    assert "of the second" in html
    assert "of the first" not in html
    client.post("/tenant/", {"tenant": str(third.pk)})
    assert "of the second" in client.get("/tools/").content.decode()


def test_the_theme_is_a_cookie_that_the_server_renders(db: None, anonymous_client: Client) -> None:
    assert 'data-bs-theme="system"' in anonymous_client.get("/login/").content.decode()
    answer = anonymous_client.post("/theme/", {"theme": "dark", "next": "/login/"})
    assert answer["Location"] == "/login/"
    assert 'data-bs-theme="dark"' in anonymous_client.get("/login/").content.decode()
    anonymous_client.post("/theme/", {"theme": "<script>"})
    assert 'data-bs-theme="dark"' in anonymous_client.get("/login/").content.decode()


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example/", "javascript:alert(1)", ""])
def test_a_form_never_redirects_elsewhere(db: None, anonymous_client: Client, target: str) -> None:
    assert anonymous_client.post("/theme/", {"theme": "dark", "next": target})["Location"] == "/"


def test_errors_are_pages_of_the_portal_with_a_request_id(viewer_client: Client) -> None:
    answer = viewer_client.get("/nowhere/", headers={"X-Request-ID": "abc-123"})
    html = answer.content.decode()
    assert answer.status_code == 404
    assert "There is no page at this address." in html
    assert "abc-123" in html
    assert answer["X-Request-ID"] == "abc-123"


def test_R16_a_second_press_of_delete_waits_and_then_finds_nothing(
    committed: Tenant, admin_database: psycopg.Connection[Any]
) -> None:
    with tenant_context(committed.pk):
        source = Source.objects.create(slug="shop", kind="openapi")
    client, answers = make_client(committed, "admin"), []

    def press() -> None:
        answers.append(client.post(f"/sources/{source.pk}/delete/"))
        connection.close()

    lock = f"hashtextextended('source {committed.pk} shop', 0)"
    admin_database.execute(f"SELECT pg_advisory_lock({lock})")
    pressed = threading.Thread(target=press)
    pressed.start()
    wait_until_blocks(
        admin_database.info.backend_pid, admin_database, "the press waits for the source's lock"
    )
    with tenant_context(committed.pk):
        source.delete()
    admin_database.execute(f"SELECT pg_advisory_unlock({lock})")
    pressed.join()
    assert answers[0].status_code == 404
    assert "This no longer exists: somebody has deleted it." in answers[0].content.decode()


def test_errors_of_fragments_are_one_alert(viewer_client: Client) -> None:
    html = viewer_client.get("/nowhere/", headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in html
    assert "data-toast" in html


def test_a_fault_shows_the_request_id_and_asks_nothing_of_the_database(
    viewer_client: Client, monkeypatch: pytest.MonkeyPatch, rf: RequestFactory
) -> None:
    def fails(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("tools.web.search.views.search", fails)
    viewer_client.raise_request_exception = False
    answer = viewer_client.get("/search/?q=x")
    assert answer.status_code == 500
    assert "boom" not in answer.content.decode()
    assert answer["X-Request-ID"] in answer.content.decode()
    assert errors.bad_request(rf.get("/")).status_code == 400


def test_a_foreign_host_and_too_many_fields_are_refused_in_sentences_of_ours_UI_3_0(
    viewer_client: Client,
) -> None:
    for path, said in (
        ("/login/", "Whoever runs it can add the name to the setting ALLOWED_HOSTS."),
        ("/api/v1/me", "or it names a host that is not among ALLOWED_HOSTS."),
    ):
        answer = Client(HTTP_HOST="evil.example").get(path)
        assert answer.status_code == 400
        assert said in answer.content.decode()
    answer = viewer_client.post("/theme/", {f"field-{number}": "" for number in range(1500)})
    assert answer.status_code == 413
    assert "The form has more than 1,000 fields. Send fewer at a time." in answer.content.decode()
    files = {f"file-{number}": io.BytesIO(b"x") for number in range(150)}
    answer = viewer_client.post("/theme/", files)
    assert answer.status_code == 413
    assert "The form has more than 100 files. Send fewer at a time." in answer.content.decode()


def test_a_forged_form_is_refused_in_plain_words(db: None) -> None:
    answer = Client(enforce_csrf_checks=True).post("/theme/", {"theme": "dark"})
    assert answer.status_code == 403
    assert "This form has expired" in answer.content.decode()
    assert "<style" not in answer.content.decode()


def test_a_viewer_changes_her_own_password_and_her_other_sessions_end(tenant: Tenant) -> None:
    user = get_user_model().objects.create_user("vera", password=(old := "correct horse battery"))
    Membership.objects.create(user=user, role="viewer")
    client, elsewhere, new = sign_in(tenant, user), sign_in(tenant, user), "staple correct horse"
    assert 'href="/password/"' in client.get("/tools/").content.decode()

    def change(present: str, first: str, second: str) -> Any:
        fields = {"old_password": present, "new_password1": first, "new_password2": second}
        return client.post("/password/", fields)

    for fields in (("wrong", new, new), (old, "short", "short"), (old, new, "another one of length")):
        refused = change(*fields)
        assert refused.status_code == 422
        assert "Your password was not changed." in refused.content.decode()
        assert new not in refused.content.decode()
    assert change(old, new, new)["Location"] == "/tools/"
    user.refresh_from_db()
    assert user.check_password(new)
    assert client.get("/tools/").status_code == 200
    assert elsewhere.get("/tools/")["Location"].startswith("/login/")
