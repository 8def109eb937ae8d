"""What the dashboard and the API say of a part that is away: which, and since when."""

from datetime import datetime

from playwright.sync_api import Page

from tests.production import settings as limits
from tests.production.installation import Production
from tests.server_process import wait_for

TOLD_S = limits.PROCESS_LATE_S + 11.0
"""A worker is late after the first of it; the web process looks each 2 s, with a limit of 3 s; a page each 3 s."""
OVER_S = 15.0

SINCE_S = 8.0
"""By how much the time that is told may differ: what beats each 5 s was last heard of before it died."""


def open_wall(production: Production, page: Page) -> None:
    page.goto(production.http + "/")
    page.wait_for_selector("#wall")


def check_told(production: Production, page: Page, kind: str, since: float) -> None:
    """The open page shows a banner, the API says the same. `since`: seconds since the epoch."""
    page.wait_for_selector(f'#outages [data-kind="{kind}"]', timeout=TOLD_S * 1000)
    assert "since" in page.inner_text(f'#outages [data-kind="{kind}"]')

    def item() -> dict[str, str] | None:
        _status, answer = production.request("/api/v1/system")
        return next((item for item in answer["items"] if item["kind"] == kind and item["state"] != "ok"), None)

    told = wait_for(item, timeout_s=TOLD_S, what=f"the API says that {kind} is down")
    assert told["advice"]
    assert abs(datetime.fromisoformat(told["since"]).timestamp() - since) <= SINCE_S


def check_over(page: Page, kind: str) -> None:
    """The banner goes by itself."""
    page.wait_for_selector(f'#outages [data-kind="{kind}"]', state="detached", timeout=OVER_S * 1000)
