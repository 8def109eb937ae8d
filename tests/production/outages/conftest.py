"""Three streams with two players each, measured all the time that a file's tests run."""

import logging
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.browser import log_in_as
from tests.production.installation import Production
from tests.production.outages import aftermath
from tests.production.outages.steady import Steady
from tests.production.outages.taking import STREAMS, Keys

logger = logging.getLogger(__name__)

OTHERS = ("leaving", "kicked", "new", "disk-1", "disk-2", "disk-3")

USER, PASSWORD = "outage", "the password of a test"


@pytest.fixture(scope="package")
def keys(production: Production) -> Keys:
    """By the stream's name; all are of the application `live`."""
    production.manage("application", "set", "live")
    made = production.create_keys([f"live/{name}" for name in (*STREAMS, *OTHERS)])
    return {path.partition("/")[2]: key for path, key in made.items()}


@pytest.fixture(scope="module")
def steady(production: Production, keys: Keys) -> Iterator[Steady]:
    """On the first node; they last as long as the file's tests."""
    first = next(iter(production.nodes.values()))
    with Steady(first, {name: keys[name] for name in STREAMS}) as streams:
        yield streams
    for each in streams.measured:
        logger.info("%s: %s", each.what, each.window)


@pytest.fixture
def sessions(production: Production, steady: Steady) -> list[str]:
    """The measured streams' sessions, publishers' and players', before anything is taken away."""
    found = aftermath.open_sessions(production, STREAMS)
    assert len(found) == steady.sessions
    return found


@pytest.fixture(scope="package")
def page(production: Production, browser: Browser) -> Page:
    """An administrator's."""
    production.create_admin(USER, PASSWORD)
    opened = browser.new_context().new_page()
    log_in_as(opened, production.http, USER, PASSWORD)
    return opened
