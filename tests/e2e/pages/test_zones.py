"""The time zone of pages in a browser that has one: what the server learns, what scripts write, what is chosen."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, StorageState, expect

from tests.browser import log_in, quiet
from tests.server_process import ServerProcess

pytestmark = [pytest.mark.serve, pytest.mark.browser, pytest.mark.clients, pytest.mark.timeout(180)]

ST_JOHNS, TOKYO, AUCKLAND = "America/St_Johns", "Asia/Tokyo", "Pacific/Auckland"

WHEN = """async (at) => {
    const { when } = await import("/static/dashboard/js/format.js");
    return when(at).outerHTML;
}"""
BESIDE = r'>12:10:00 <span class="utc">\(00:10:00 UTC\)</span></time>$'

SUMMER = 1_782_864_600
"""00:10 UTC on 1 July 2026."""


@contextmanager
def browsing(browser: Browser, zone: str, state: StorageState | None = None) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, timezone_id=zone, storage_state=state)
    try:
        with quiet(context) as page:
            yield page
    finally:
        context.close()


def zone_of(page: Page, name: str) -> None:
    expect(page.locator("html")).to_have_attribute("data-zone", name)
    expect(page.locator(".rail .zone")).to_contain_text(name)


def test_the_first_page_after_the_log_in_is_in_the_browsers_zone(browser: Browser, server: ServerProcess) -> None:
    with browsing(browser, ST_JOHNS) as page:
        log_in(page, server)
        zone_of(page, ST_JOHNS)
        clock = page.locator(".rail [data-link] time")
        expect(clock).to_have_text(re.compile(r"^\d\d:\d\d:\d\d UTC-[23]:30$"))
        expect(clock).to_have_attribute("title", re.compile(r", \d\d:\d\d:\d\d UTC$"))


def test_page_is_reloaded_only_once_for_a_new_browser_time_zone(
    browser: Browser, server: ServerProcess, logged_in: StorageState
) -> None:
    """Who was logged in before: the page is made again, in the other zone."""
    with browsing(browser, TOKYO, logged_in) as page:
        page.goto(f"{server.http}/system/")
        zone_of(page, TOKYO)
        loads: list[str] = []
        page.on("load", lambda loaded: loads.append(loaded.url))
        page.goto(f"{server.http}/nodes/")
        zone_of(page, TOKYO)
        expect(page.get_by_text(f"Times are in {TOKYO}, now UTC+9").first).to_be_attached()
        assert len(loads) == 1


def test_form_error_page_is_not_reloaded_for_a_new_browser_time_zone(
    browser: Browser, server: ServerProcess, logged_in: StorageState
) -> None:
    """The laptop came to another zone while somebody filled the form in: what is wrong in it stays to be read."""
    with browsing(browser, TOKYO, logged_in) as page:
        page.goto(f"{server.http}/password/")
        zone_of(page, TOKYO)
        posts: list[str] = []
        page.on("request", lambda asked: posts.append(asked.url) if asked.method == "POST" else None)
        page.context.add_cookies([{"name": "browser_zone", "value": AUCKLAND, "url": server.http}])
        page.fill("[name=old_password]", "not the one")
        page.fill("[name=new_password1]", "correct horse battery")
        page.fill("[name=new_password2]", "correct horse battery")
        page.click("main button[type=submit]")
        expect(page.locator("main .err").first).to_be_visible()
        page.wait_for_function("document.cookie.includes('browser_zone=Asia/Tokyo')")
        page.wait_for_load_state("networkidle")
        zone_of(page, AUCKLAND)
        assert posts == [f"{server.http}/password/"]
        page.goto(f"{server.http}/system/")
        zone_of(page, TOKYO)


def test_chosen_time_zone_is_kept_until_it_is_cleared(
    browser: Browser, server: ServerProcess, logged_in: StorageState
) -> None:
    with browsing(browser, TOKYO, logged_in) as page:
        page.goto(f"{server.http}/system/")
        zone_of(page, TOKYO)
        page.click(".rail .zone")
        page.fill("#zone-name", AUCKLAND)
        page.check("[name=shows_utc]")
        page.click("#zone-form button[type=submit]")
        zone_of(page, AUCKLAND)
        assert page.url == f"{server.http}/system/"
        assert re.search(BESIDE, page.evaluate(WHEN, SUMMER))
        page.goto(server.http)
        expect(page.locator(".rail [data-link] time")).to_have_text(re.compile(r"\(.*\d\d:\d\d:\d\d UTC\)$"))
        page.goto(f"{server.http}/sessions/")
        zone_of(page, AUCKLAND)
        page.click(".rail .zone")
        page.fill("#zone-name", "")
        page.uncheck("[name=shows_utc]")
        page.click("#zone-form button[type=submit]")
        zone_of(page, TOKYO)
        assert not re.search("UTC", page.evaluate(WHEN, SUMMER).partition(">")[2])
