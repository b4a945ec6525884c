"""A backfill in a real browser, with the product's own processes: watched, cancelled, resumed, its failures retried; and a
worker that is not there is named. Nobody reloads a page here, unless a test says so."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from playwright.sync_api import Page, expect

from bench.stack import Stack
from portal.jobs import heartbeats
from portal.tenancy.context import tenant_context
from tests.support.embeddings.providers import CANNOT_EVER
from tests.support.pages.browser import Portal
from tools.catalogue.tools import create_tool
from tools.models import ToolEmbedding

TOOLS = 60
SLOW, QUICK = 1.0, 0.0  # seconds that the provider takes for two texts
PATIENCE = 60_000  # ms, a guard only


class Provider:
    """How the provider of the portal's processes behaves: slow, and unable to embed what holds poison, unless it is told."""

    def __init__(self, folder: Path) -> None:
        self.pace, self.antidote = folder / "pace", folder / "antidote"

    def be(self, seconds: float, *, able: bool = True) -> None:
        self.pace.write_text(str(seconds))
        self.antidote.touch() if able else self.antidote.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Provider:
    made = Provider(tmp_path_factory.mktemp("provider"))
    made.be(QUICK)
    return made


@pytest.fixture(scope="module")
def portal_environment(provider: Provider) -> dict[str, str]:
    """A worker that was killed counts as dead after two seconds."""
    return {
        "EMBEDDING_PROVIDER": "tests.support.embeddings.providers.SlowPoisonEmbedder",
        "TEST_EMBEDDER_PACE": str(provider.pace),
        "TEST_EMBEDDER_ANTIDOTE": str(provider.antidote),
        "EMBEDDING_BATCH_SIZE": "2",
        "EMBEDDING_POLL": "0.2",
        "JOB_POLL": "0.2",
        "JOB_LOST_SECONDS": "2",
        "JOB_MAX_RESUMES": "0",
    }


@pytest.fixture(scope="module")
def portal_queues() -> tuple[str, ...]:
    return ()


@pytest.fixture
def workers(running: Stack) -> Iterator[Callable[..., None]]:
    """Lets the workers of these queues run and no others, by the commands that the pages name; none is left after a test."""

    def only(*queues: str) -> None:
        for queue, command in heartbeats.COMMANDS.items():
            if queue in running.processes and queue not in queues:
                running.stop(queue)
            if queue in queues and queue not in running.processes:
                running.spawn(queue, [sys.executable, *command.split()[1:]])

    yield only
    only()


@pytest.fixture
def catalogue(portal: Portal, admin_database: psycopg.Connection[Any]) -> None:
    """Sixty tools whose embedding has failed, as a provider that was down for long leaves them; three cannot be embedded at all."""
    with tenant_context(portal.tenant.pk):
        for number in range(TOOLS):
            text = f"Does a permanent poison {number}." if number % 20 == 7 else f"Does thing {number}."
            create_tool(actor="test", tool_id=f"tool_{number}", name=f"tool_{number}", description=text)
    for table in ("embeddings_embeddingtask", "tools_toolembedding"):
        admin_database.execute(
            f"UPDATE {table} SET status = 'failed' WHERE tenant_id = %s", [portal.tenant.pk]
        )


def start_backfill(page: Page) -> None:
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Jobs").click()
    page.get_by_role("link", name="New backfill").first.click()
    page.get_by_role("button", name="Dry run").click()
    expect(page.locator(".counts")).to_contain_text(re.compile(rf"to embed\s*{TOOLS}|{TOOLS}\s*to embed"))
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Backfill of all embeddings")


def state(page: Page, word: str) -> None:
    expect(page.locator("#job .status").first).to_have_text(word, timeout=PATIENCE)


@pytest.mark.slow
def test_a_backfill_is_watched_cancelled_resumed_and_its_failures_retried_UI_3_6_EMB_8_EMB_9(
    portal: Portal,
    sign_in: Callable[..., Page],
    workers: Callable[..., None],
    catalogue: None,
    provider: Provider,
) -> None:
    provider.be(SLOW, able=False)
    workers("embeddings", "jobs")
    page = sign_in()
    start_backfill(page)
    page.evaluate("window.notReloaded = true")
    state(page, "Running")
    # It gets on before one's eyes: line, bar and tab.
    expect(page.locator(".job-line")).to_have_text(
        re.compile(r"^([4-9]|\d\d) of 60 · .* left$"), timeout=PATIENCE
    )
    expect(page).to_have_title(re.compile(r"^[1-9]\d? % Backfill"), timeout=PATIENCE)
    assert int(page.locator("#job progress").get_attribute("value") or 0) > 0
    expect(page.locator("#jobs-count")).to_have_text("1 job")

    page.get_by_role("link", name="Cancel").click()
    question = page.get_by_role("dialog")
    expect(question).to_contain_text("The current batch is finished")
    question.get_by_role("button", name="Keep running").click()
    expect(question).to_be_hidden()

    provider.be(QUICK, able=False)
    state(page, "Partial")
    expect(page.locator(".job-line")).to_contain_text("60 of 60 · 3 failed")
    reasons = page.get_by_role("table", name="Reasons")
    expect(reasons).to_contain_text(CANNOT_EVER.public)
    expect(reasons.get_by_role("cell", name="3", exact=True)).to_be_visible()

    provider.be(QUICK)
    page.get_by_role("button", name="Retry failed (3)").click()
    state(page, "Succeeded")
    expect(page.locator(".job-line")).to_contain_text("60 of 60")
    expect(page.get_by_role("table", name="Reasons")).to_be_hidden()
    assert page.evaluate("window.notReloaded") is True
    page.goto("/tools/")
    expect(page.get_by_role("link", name="Ready 60")).to_be_visible()

    # Cancelled, a job counts what it has queued as done; resumed, it looks for the rest.
    with tenant_context(portal.tenant.pk):
        ToolEmbedding.objects.update(status="failed")
    provider.be(SLOW)
    start_backfill(page)
    state(page, "Running")
    expect(page.locator(".job-line")).to_have_text(re.compile(r"^[1-9]\d? of 60"), timeout=PATIENCE)
    page.get_by_role("link", name="Cancel").click()
    question.get_by_role("button", name="Cancel the job").click()
    state(page, "Cancelled")
    assert page.locator("#job").get_attribute("hx-trigger") is None  # polling has ended by itself
    done = int((page.locator(".job-line").inner_text()).split()[0])
    assert 0 < done <= TOOLS
    provider.be(QUICK)
    page.get_by_role("button", name="Resume").click()
    state(page, "Succeeded")
    page.goto("/tools/")
    expect(page.locator("#jobs-count")).to_be_hidden()


@pytest.mark.slow
def test_a_stopped_worker_is_named_with_its_command_and_the_line_goes_when_it_is_back_UI_3_6(
    portal: Portal,
    sign_in: Callable[..., Page],
    workers: Callable[..., None],
    catalogue: None,
    provider: Provider,
) -> None:
    provider.be(QUICK)
    page = sign_in()
    start_backfill(page)
    line = page.get_by_text("No worker is consuming queue embeddings.")
    other = page.get_by_text("No worker is consuming queue jobs.")
    expect(line).to_be_visible()
    expect(page.get_by_text("python manage.py embed_worker")).to_be_visible()
    state(page, "Queued")
    workers("jobs")
    expect(other).to_be_hidden(timeout=PATIENCE)
    expect(line).to_be_visible()
    workers("embeddings", "jobs")
    expect(line).to_be_hidden(timeout=PATIENCE)
    expect(page.locator(".job-line")).to_have_text(re.compile(r"^[1-9]\d* of 60"), timeout=PATIENCE)


@pytest.mark.slow
def test_a_killed_runner_is_said_to_be_lost_and_resume_goes_on_UI_3_6_EMB_8(
    portal: Portal,
    sign_in: Callable[..., Page],
    workers: Callable[..., None],
    catalogue: None,
    running: Stack,
    provider: Provider,
) -> None:
    provider.be(SLOW)
    workers("embeddings", "jobs")
    page = sign_in()
    start_backfill(page)
    state(page, "Running")
    runner = running.processes.pop("jobs")
    runner.kill()
    runner.wait()
    state(page, "Lost")
    expect(page.get_by_text("The worker of this job stopped reporting")).to_be_visible()
    provider.be(QUICK)
    workers("embeddings", "jobs")
    page.get_by_role("button", name="Resume").click()
    state(page, "Succeeded")
    expect(page.locator(".job-line")).to_contain_text("60 of 60")


@pytest.mark.slow
def test_jobs_work_without_javascript_UI_3_0(
    portal: Portal,
    sign_in: Callable[..., Page],
    workers: Callable[..., None],
    catalogue: None,
    provider: Provider,
) -> None:
    provider.be(SLOW)
    workers("embeddings", "jobs")
    page = sign_in(java_script_enabled=False)
    start_backfill(page)
    # The page reloads itself, and there is a link for those who do not wait.
    expect(page.locator(".job-line")).to_have_text(re.compile(r"^[1-9]\d* of 60"), timeout=PATIENCE)
    expect(page.get_by_role("link", name="Reload")).to_be_visible()
    page.get_by_role("link", name="Cancel").click()
    page.get_by_role("button", name="Cancel the job").click()
    expect(page.locator("#job .status").first).to_have_text("Cancelled", timeout=PATIENCE)
    provider.be(QUICK)
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_text("The job was queued to continue where it stopped.")).to_be_visible()


def test_the_models_page_switches_by_its_buttons_EMB_10(
    portal: Portal,
    sign_in: Callable[..., Page],
    admin_database: psycopg.Connection[Any],
) -> None:
    admin_database.execute("DELETE FROM tools_toolembedding")  # nothing that serves, so nothing is missing
    admin_database.execute(
        "INSERT INTO embeddings_embeddingmodel (slot, model, provider, url, serves) VALUES "
        "(0, 'one', 'tests.support.embeddings.providers.HashEmbedder', '', true), (1, 'two', 'tests.support.embeddings.providers.HashEmbedder', '', false)"
    )
    try:
        page = sign_in()
        page.get_by_role("link", name="Models").click()
        expect(page.locator("#model-serving")).to_have_text("one")
        page.get_by_role("link", name="Switch").click()
        page.get_by_role("dialog").get_by_role("button", name="Switch to two").click()
        expect(page.locator("#model-serving")).to_have_text("two")
        page.get_by_role("link", name="Switch").click()
        page.get_by_role("dialog").get_by_role("button", name="Switch to one").click()
        expect(page.locator("#model-serving")).to_have_text("one")
        page.get_by_role("link", name="Drop").click()
        page.get_by_role("dialog").get_by_role("button", name="Drop two").click()
        expect(page.get_by_role("heading", name="No second model")).to_be_visible()
    finally:
        admin_database.execute("DELETE FROM embeddings_embeddingmodel")
