"""What the browser tests know of the running portal and of accessibility."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from playwright.sync_api import Locator, Page, expect

from bench.stack import Stack
from portal.tenancy.models import Tenant


def violations(page: Page, axe: str, *, without: Collection[str] = ()) -> list[str]:
    """What axe finds on the page as it is, in light and in dark, by its rules but for those `without`."""
    options = {"resultTypes": ["violations"], "rules": {rule: {"enabled": False} for rule in without}}
    found = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        page.evaluate(axe)
        said = page.evaluate(f"axe.run(document, {json.dumps(options)})")
        found += [
            f"{page.url} {scheme}: {one['id']} {[node['html'][:120] for node in one['nodes'][:3]]}"
            for one in said["violations"]
        ]
    return found


def open_questions(page: Page) -> Iterator[tuple[str, Locator]]:
    """Opens each question of the page as a dialog, one after the other, and leaves it by its own way out: the address that it was
    asked at, and the open dialog."""
    questions = page.locator('[hx-target="#dialog"]')
    for number in range(questions.count()):
        question = questions.nth(number)
        if not question.is_visible():  # within what is folded
            question.evaluate("one => one.closest('details').open = true")
        address = question.get_attribute("hx-get") or question.get_attribute("hx-post") or ""
        question.click()
        dialog = page.locator("dialog#dialog")
        expect(dialog.get_by_role("heading", level=1), f"{page.url} {address}").to_be_visible()
        yield address, dialog
        dialog.locator("[data-close-dialog]").click()
        expect(dialog).to_be_hidden()


@dataclass
class Portal:
    """The running portal of one test, its tenant and its operator."""

    running: Stack
    tenant: Tenant
    username: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.running.port}"

    def manage(self, *arguments: str) -> str:
        return self.running.manage(*arguments, "--tenant", self.tenant.slug)
