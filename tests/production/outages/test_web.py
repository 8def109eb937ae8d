"""The web process is away while three streams go on: nothing else notices, and pages find back."""

import pytest
from playwright.sync_api import Page, expect

from tests.production.installation import Production
from tests.production.outages.steady import Steady
from tests.production.outages.taking import STREAMS, Keys, away, check_accepted, check_after, guests, wait_seen
from tests.production.outages.told import check_over, open_wall

pytestmark = [
    pytest.mark.production,
    pytest.mark.measures_time,
    pytest.mark.timeout(180),
    pytest.mark.slow("a part is away for as long as it takes to be told of"),
]

RECONNECTED_MS = 20_000
"""A page tries again ever later, up to each 15 s."""


def test_it_is_away(production: Production, steady: Steady, keys: Keys, sessions: list[str], page: Page) -> None:
    open_wall(production, page)
    for name in STREAMS:
        page.wait_for_selector(f'[data-stream="live/{name}"][data-state="live"]')
    with guests(production, keys) as others:
        with steady.undisturbed("the web process is away"):
            with away(production.web) as outage:
                expect(page.locator("#stale")).to_be_visible()
                check_accepted(production, keys["new"])
                others.leave()
                page.wait_for_selector('#outages [data-kind="web"]')
            wait_seen(production)
            expect(page.locator("#stale")).to_be_hidden(timeout=RECONNECTED_MS)
            check_over(page, "web")
            page.wait_for_selector('[data-stream="live/kicked"][data-state="live"]')
        others.check(outage)
    check_after(production, steady, sessions)
