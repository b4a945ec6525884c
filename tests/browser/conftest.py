"""A real portal (web and embedding worker) and a real browser: Debian's chromium, driven by playwright.

Without chromium these tests skip with one sentence; in CI that is an error.
"""

from __future__ import annotations

import os
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.contrib.auth import get_user_model
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright

from bench.stack import Stack, stack
from portal.jobs import heartbeats
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Membership, Role, Tenant
from tests.support.database import real_commits
from tests.support.pages.browser import Portal

AXE = Path(__file__).resolve().parents[2] / ".venv-mcp" / "node_modules" / "axe-core" / "axe.min.js"
PASSWORD = "correct horse battery staple"
# Chromium asks for nothing but what the test asks it for.
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(autouse=True)
def orm_beside_playwright(monkeypatch: pytest.MonkeyPatch) -> None:
    """Playwright keeps an event loop running in this thread, which Django takes for an async caller."""
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")


@pytest.fixture(scope="session")
def chromium() -> str:
    path = shutil.which("chromium")
    if path is None and os.environ.get("CI") == "true":
        pytest.fail("The browser tests need chromium, and this is CI.")
    if path is None:
        pytest.skip("The browser tests need chromium: apt-get install chromium")
    return path


@pytest.fixture(scope="session")
def axe() -> str:
    """The script of axe-core, which `make mcp-servers` installs beside the real servers."""
    if AXE.is_file():
        return AXE.read_text("utf-8")
    if os.environ.get("CI") == "true":
        pytest.fail("The checks of accessibility need axe-core, and this is CI.")
    pytest.skip("The checks of accessibility need axe-core: make mcp-servers")


@pytest.fixture(scope="module")
def portal_environment() -> dict[str, str]:
    """The settings of a module's portal; a module may have its own."""
    return {"EMBEDDING_POLL": "0.2"}


@pytest.fixture(scope="module")
def portal_queues() -> tuple[str, ...]:
    """The queues that have a worker from the start; a module may have its own."""
    return (heartbeats.EMBEDDINGS,)


@pytest.fixture(scope="module")
def running(
    django_db_blocker: Any,
    admin_database: psycopg.Connection[Any],
    chromium: str,
    portal_environment: dict[str, str],
    portal_queues: tuple[str, ...],
) -> Iterator[Stack]:
    """One portal for the tests of a module; each has a tenant of its own in it."""
    with (
        real_commits(django_db_blocker, admin_database),
        stack(is_migrated=True, **portal_environment) as started,
    ):
        started.start("web")
        for queue in portal_queues:
            started.spawn(queue, [sys.executable, *heartbeats.COMMANDS[queue].split()[1:]])
        yield started


@pytest.fixture
def portal(running: Stack, make_tenant: Callable[..., Tenant]) -> Portal:
    tenant = make_tenant()
    username = f"operator-{uuid.uuid4().hex[:6]}"
    user = get_user_model().objects.create_user(
        username=username, password=PASSWORD, is_staff=True, is_superuser=True
    )
    with tenant_context(tenant.pk):
        Membership.objects.create(user=user, role=Role.ADMIN)
    return Portal(running, tenant, username)


@pytest.fixture
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def sign_in(portal: Portal, browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a signed-in page in a browser context of its own; complaints of the browser's console fail the test."""
    complaints: list[str] = []
    contexts: list[BrowserContext] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error" and "Failed to load resource" not in message.text:
            complaints.append(message.text)

    def open_page(**options: Any) -> Page:
        context = browser.new_context(base_url=portal.url, **options)
        context.set_default_timeout(20_000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", note)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto("/login/")
        page.get_by_label("User name").fill(portal.username)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/tools/**")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
