"""API-1, S13: Swagger UI and the pages of problem types work under the strict policy, from our own files alone."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page

from tests.support.pages.browser import Portal

# In the page before its own scripts, as violations are told to the document only.
WATCH = """
window.violations = [];
document.addEventListener('securitypolicyviolation', event => violations.push(event.violatedDirective + ' ' + event.blockedURI));
"""


def watched(browser: Browser, portal: Portal) -> tuple[Page, list[str]]:
    page = browser.new_page(base_url=portal.url)
    page.set_default_timeout(20_000)
    page.add_init_script(WATCH)
    hosts: list[str] = []
    page.on("request", lambda request: hosts.append(urlsplit(request.url).netloc))
    return page, hosts


def test_api_1_swagger_ui_shows_the_operations_without_a_csp_report_or_a_foreign_host(
    portal: Portal, browser: Browser
) -> None:
    page, hosts = watched(browser, portal)
    page.goto("/api/docs")
    page.locator(".opblock-summary-path", has_text="search").first.wait_for()
    assert page.locator(".opblock").count() >= 12
    page.locator(".opblock-summary-control").first.click()
    page.locator(".opblock-body").first.wait_for()
    assert page.evaluate("violations") == []
    assert {host for host in hosts if host} == {urlsplit(portal.url).netloc}


@pytest.mark.slow
def test_s13_the_watch_for_violations_sees_one(portal: Portal, browser: Browser) -> None:
    page, _ = watched(browser, portal)
    page.goto("/api/docs")
    page.locator(".opblock").first.wait_for()
    page.evaluate(
        "() => { const it = document.createElement('script'); it.textContent = '1'; document.body.append(it); }"
    )
    page.wait_for_function("violations.length > 0")


@pytest.mark.slow
def test_api_1_a_problem_page_is_legible_in_light_and_dark(portal: Portal, browser: Browser) -> None:
    colours = set()
    for scheme in ("light", "dark"):
        page, _ = watched(browser, portal)
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.goto("/docs/problems/rate_limited")
        assert page.get_by_role("heading", name="rate_limited").is_visible()
        assert page.evaluate("violations") == []
        colours.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.close()
    assert len(colours) == 2
