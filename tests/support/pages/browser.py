"""What the browser tests know of the running portal and of accessibility."""

from __future__ import annotations

from dataclasses import dataclass

from playwright.sync_api import Page

from bench.stack import Stack
from portal.tenancy.models import Tenant


def violations(page: Page, axe: str) -> list[str]:
    """What axe finds on the page as it is, in light and in dark."""
    found = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        page.evaluate(axe)
        said = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        found += [
            f"{page.url} {scheme}: {one['id']} {[node['html'][:120] for node in one['nodes'][:3]]}"
            for one in said["violations"]
        ]
    return found


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
