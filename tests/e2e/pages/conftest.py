"""One Chromium and one log-in for the tests of pages. Chromium ends before other tests run their own event loops."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, StorageState, expect

from tests.browser import chromium, log_in, quiet
from tests.server_process import ServerProcess


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="package")
def logged_in(browser: Browser, server: ServerProcess) -> StorageState:
    context = browser.new_context()
    log_in(context.new_page(), server)
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def context(browser: Browser, logged_in: StorageState) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True, storage_state=logged_in)
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext, server: ServerProcess) -> Iterator[Page]:
    """The wall. The test fails on any error of its scripts."""
    with quiet(context) as opened:
        opened.goto(server.http + "/")
        expect(opened.locator("#wall")).to_be_visible()
        yield opened
