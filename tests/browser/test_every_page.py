"""Every page and every dialog in a real browser, in each state that there is, on a desk and on a telephone, in light and in dark:
axe finds nothing, and nothing is cut off (UI.md 3.0)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from django.contrib.admin import site
from django.urls import resolve, reverse
from playwright.sync_api import Browser, Page

from bench.stack import Stack, stack
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.database import real_commits
from tests.support.pages.browser import Portal, open_questions, violations
from tests.support.pages.filled import fill
from tools.models import Source, Tool
from tools.web import urls

pytestmark = pytest.mark.slow

SIZES = {"desk": {"width": 1280, "height": 900}, "telephone": {"width": 390, "height": 844}}
# Addresses that show no page: they are posted to, or answer with a part of a page, a file or another address.
NO_PAGES = {
    "home", "logout", "theme", "switch-tenant", "job-pill", "job-resume", "job-retry", "badges", "refresh-selected", "tool-active",
    "tool-embedding-refresh", "override-undo", "server-test", "source-settings", "source-sync", "source-document", "sync-choose", "sync-again",
}  # fmt: skip
# Rules of axe that elements break whose HTML is not ours (CONTRIBUTING.md names them).
OF_DJANGOS_ADMIN = {"label": ".vDateField, .vTimeField", "aria-prohibited-attr": ".help-tooltip"}
OF_SWAGGER_UI = {
    "color-contrast": "#swagger-ui *", "heading-order": ".opblock-tag", "nested-interactive": ".opblock-summary-control", "region": ".information-container",
    "scrollable-region-focusable": "pre.microlight", "select-name": ".parameters select, .examples-select-element",
}  # fmt: skip
# What the document is wider than its window, and what of a page lies beyond the window's edge. Within a frame that scrolls
# sideways everything can be reached.
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
CUT_OFF = """[...document.querySelectorAll('main button, main a, main input, main select, main textarea, header summary, header a')]
    .filter(one => one.checkVisibility() && !one.closest('.table-region, pre, .visually-hidden, .skip-link'))
    .filter(one => { const box = one.getBoundingClientRect(); return box.right > innerWidth + 1 || box.left < -1 })
    .map(one => one.outerHTML.slice(0, 120))"""


@pytest.fixture(scope="module")
def running(
    django_db_blocker: Any, admin_database: psycopg.Connection[Any], chromium: str
) -> Iterator[Stack]:
    """A portal without workers, so that every state stays; it may always switch to the second model."""
    with (
        real_commits(django_db_blocker, admin_database),
        stack(is_migrated=True, EMBEDDING_SWITCH_MAX_MISSING="1") as started,
    ):
        started.start("web")
        yield started


@pytest.mark.parametrize("size", SIZES)
def test_no_page_and_no_dialog_has_a_violation_or_is_cut_off_UI_3_0(
    portal: Portal, sign_in: Callable[..., Page], make_tenant: Callable[..., Tenant], axe: str, size: str
) -> None:
    # First, as a session begins in any of its person's tenants.
    page = sign_in(viewport=SIZES[size])
    made = fill(portal.tenant, make_tenant(), make_tenant(), portal.username)
    found, shown, questions = [], {"login"}, set()

    def look(name: str) -> None:
        found.extend(f"{name}: {one}" for one in violations(page, axe))
        if wider := page.evaluate(WIDER):
            found.append(f"{name} is {wider} pixels wider than the screen")
        found.extend(f"{name} is cut off: {one}" for one in page.evaluate(CUT_OFF))

    for name, path in made.pages.items():
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == (404 if name == "nowhere" else 200), name
        look(name)
        if answer.ok:
            shown.add(str(resolve(urlsplit(path).path).url_name))
        for address, _ in open_questions(page):
            question = str(resolve(urlsplit(address).path).url_name)
            if question not in questions:  # test_dialogs.py opens all of them
                look(f"{name}, {address}")
            questions.add(question)
    page.context.clear_cookies()
    page.goto("/login/")
    look("login")
    assert found == [], "\n".join(found)
    assert {str(one.name) for one in urls.urlpatterns} - NO_PAGES == shown | questions


def admin_pages(portal: Portal) -> Iterator[str]:
    """The addresses of Django's admin: its index, and for each model its list, a new row and one that there is; the history and the
    deletion of a row of the catalogue, which are alike for all models."""
    yield reverse("admin:index")
    for model, one in site._registry.items():
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        yield reverse(f"{name}_changelist")
        yield reverse(f"{name}_add")
        with tenant_context(portal.tenant.pk):
            row = one.model._default_manager.values_list("pk", flat=True).first()
        steps = ("change", "history", "delete") if model in (Tool, Source) else ("change",)
        yield from (reverse(f"{name}_{step}", args=[row]) for step in steps if row is not None)


@pytest.mark.parametrize("size", SIZES)
def test_no_page_of_the_admin_has_a_violation_of_our_own_UI_3_0(
    portal: Portal,
    sign_in: Callable[..., Page],
    browser: Browser,
    make_tenant: Callable[..., Tenant],
    axe: str,
    size: str,
) -> None:
    signed_in = sign_in().context
    fill(portal.tenant, make_tenant(), make_tenant(), portal.username)
    # A console that nobody reads: axe writes elements anew with the styles that scripts gave them, which the policy refuses.
    page = browser.new_context(
        base_url=portal.url, viewport=SIZES[size], storage_state=signed_in.storage_state()
    ).new_page()
    found = []
    for path in admin_pages(portal):
        answer = page.goto(path)
        if (
            answer is not None and answer.status == 403
        ):  # a page that nobody has, such as the one for a new job
            continue
        found += violations(page, axe, others=OF_DJANGOS_ADMIN)
    assert found == [], "\n".join(found)


@pytest.mark.parametrize("size", SIZES)
def test_swagger_ui_has_no_violation_of_our_own_UI_3_0(
    portal: Portal, browser: Browser, axe: str, size: str
) -> None:
    page = browser.new_page(base_url=portal.url, viewport=SIZES[size])
    page.goto("/api/docs")
    page.locator(".opblock-summary-control").first.click()
    page.locator(".opblock-body").first.wait_for()
    found = violations(page, axe, others=OF_SWAGGER_UI)
    assert found == [], "\n".join(found)
