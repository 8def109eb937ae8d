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

FORMATS = """async (at) => {
    const { day, time, timeWithUtc, utc } = await import("/static/dashboard/js/format.js");
    return [time(at), day(at), utc(at), timeWithUtc(at)];
}"""

WHEN = """async (at) => {
    const { when } = await import("/static/dashboard/js/format.js");
    return when(at).outerHTML;
}"""
BESIDE = r'>12:10:00 <span class="utc">\(00:10:00 UTC\)</span></time>$'

TICKS = """async ([from, until]) => {
    const { moment, offset } = await import("/static/dashboard/js/zone.js");
    const found = [];
    for (let local = Math.ceil((from + offset(from)) / 3600) * 3600; moment(local) < until; local += 3600)
        found.push(moment(local));
    return found;
}"""

SUMMER, WINTER = 1_782_864_600, 1_796_083_800
"""00:10 UTC on 1 July 2026, where it is 21:40 of the day before in St. John's; on 1 December 20:40."""

CLOCKS_GO_BACK = 1_793_507_400
"""04:30 UTC on 1 November 2026: there 02:00 of summer, and 01:00 again."""


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
        assert page.evaluate(FORMATS, SUMMER) == [
            "21:40:00",
            "30\u00a0Jun",
            "1\u00a0Jul, 00:10:00 UTC",
            "21:40:00 (1\u00a0Jul, 00:10:00 UTC)",
        ]
        assert page.evaluate(FORMATS, WINTER)[0] == "20:40:00"
        hours = page.evaluate(TICKS, [CLOCKS_GO_BACK - 5400, CLOCKS_GO_BACK + 5400])
        assert {(at - CLOCKS_GO_BACK) % 3600 for at in hours} == {0}, "round times of its clocks, also as they change"


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
