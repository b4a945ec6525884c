"""What the browser tests know of the running portal and of accessibility."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from playwright.sync_api import Locator, Page, expect

from bench.stack import Stack
from portal.tenancy.models import Tenant

# What axe finds once no colour is on its way to another one, but for the elements that a rule's selector names; a shadow root would
# make a target of several parts.
RUN_AXE = """async others => {
    await Promise.all(document.getAnimations().filter(one => one instanceof CSSTransition).map(one => one.finished.catch(() => {})));
    const { violations } = await axe.run(document, { resultTypes: ['violations'] });
    const ours = (rule, node) => !others[rule] || !document.querySelector(node.target[0]).matches(others[rule]);
    return violations.map(one => ({ ...one, nodes: one.nodes.filter(node => ours(one.id, node)) })).filter(one => one.nodes.length);
}"""


def violations(page: Page, axe: str, *, others: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """What axe finds on the page as it is, in light and in dark. `others` maps rules to selectors of the elements that break them and
    whose HTML is not ours."""
    found = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        page.evaluate(axe)
        found += [
            f"{page.url} {scheme}: {one['id']} {[node['html'][:120] for node in one['nodes'][:3]]}"
            for one in page.evaluate(RUN_AXE, dict(others))
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
