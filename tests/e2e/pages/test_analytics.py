"""A stream's history and the comparison, as an operator's browser shows them: by mouse, by keyboard, on a phone."""

import csv
import io
import json
import re
from datetime import UTC, date, datetime

import pypdf
import pytest
from playwright.sync_api import Page, expect

from tests.browser import DRAWN, saved
from tests.server_process import ServerProcess, wait_for

pytestmark = [pytest.mark.serve, pytest.mark.browser, pytest.mark.clients, pytest.mark.timeout(180)]

FURNISH = """
from datetime import timedelta
from analytics.models import Dimension, Grain, Partition, METRIC_VERSION
from ingest.models import Session
from tests.dashboard.conftest import make_stream
from tests.analytics.rollups import hours_ago, make_rollup
from tests.dashboard.demo_data import make_report
for name, kbps in (("history", 3000.0), ("other", 2000.0)):
    stream = make_stream(name, app="analysed")
    for ago in range(0, 48, 2):
        make_rollup(ago, name, app="analysed", value=f"analysed/{name}", values=[kbps] * 60, reconnects=ago == 4)
    for day in range(8):
        make_rollup(24 * day, name, Grain.DAY, app="analysed", value=f"analysed/{name}", values=[kbps] * 60)
    began = hours_ago(4) + timedelta(minutes=10)
    for start, length, reason in ((began, 600, "tcp_reset"), (began + timedelta(seconds=641), 600, "kicked")):
        Session.objects.create(
            kind="publish", app="analysed", name=name, stream=stream, address="192.0.2.7", started_at=start,
            ended_at=start + timedelta(seconds=length), end_reason=reason,
        )
    make_rollup(4, name, app="analysed", dimension=Dimension.BROADCAST, value=began.isoformat())
make_report()
"""

SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module", autouse=True)
def furnished(server: ServerProcess) -> date:
    """The day of the latest rollups."""
    server.manage("shell", "--no-imports", "-c", FURNISH)
    return datetime.now(UTC).date()


def test_stream_history_shows_charts_table_and_downloads(page: Page, server: ServerProcess) -> None:
    page.goto(f"{server.http}/analytics/?stream=analysed/history")
    expect(page.locator("h1")).to_have_text("history")
    expect(page.locator("#tiles")).to_contain_text("3,000 kbit/s")
    assert page.locator("#bitrate").evaluate(DRAWN)
    for strip in ("health", "uptime", "events"):
        expect(page.locator(f"[data-strip={strip}] svg[role=img]")).to_be_visible()
    expect(page.locator("#broadcasts tbody tr")).to_have_count(1)

    # What happened is pointed at in the chart, by the keyboard too.
    page.locator("#happenings button[data-at]").last.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#bitrate output small")).to_have_text(re.compile(r"\d+\s\w+, \d\d:00"))
    page.locator("#bitrate .plot").focus()
    page.keyboard.press("Escape")
    expect(page.locator("#bitrate output")).to_contain_text("last hour")

    page.click("#table-toggle")
    expect(page.locator("#plots")).to_be_hidden()
    assert page.locator("#chart-table tbody tr").count() == 13
    page.click("#table-toggle")
    expect(page.locator("#plots")).to_be_visible()

    rows = list(csv.DictReader(saved(page, page.locator("#csv")).decode().splitlines()))
    assert {row["video_kbps_p50"] for row in rows} == {"2500.5"}
    assert json.loads(saved(page, page.locator("#json")))["count"] == len(rows) == 13
    assert b"tcp_reset" not in saved(page, page.locator("#happenings a[download]:first-of-type"))


def test_history_range_grain_dates_and_stream_are_chosen(page: Page, server: ServerProcess, furnished: date) -> None:
    page.goto(f"{server.http}/analytics/?stream=analysed/history")
    before = datetime.now(UTC)
    page.get_by_role("link", name="7 days").click()

    def touched() -> set[int]:
        """Seven whole days and today, which has no rollup yet where it has just begun."""
        return {7 if now.date() > furnished else 8 for now in (before, datetime.now(UTC))}

    rows = page.locator("#rollups tbody tr")
    wait_for(lambda: rows.count() in touched(), timeout_s=15, what="a row for each day")
    page.select_option("select[name=grain]", "day")
    expect(page.locator("#bitrate .clip")).to_contain_text("by day")

    # One day, by the keyboard.
    page.get_by_role("button", name="Choose dates").focus()
    page.keyboard.press("Enter")
    expect(page.locator("dialog#dates")).to_be_visible()
    today = page.locator("dialog#dates input[name=to]").input_value()
    page.fill("dialog#dates input[name=from]", today)
    page.select_option("dialog#dates select[name=grain]", "hour")
    page.locator("dialog#dates input[name=to]").press("Enter")
    expect(page.locator(".seg button[aria-current]")).to_contain_text(str(int(today[-2:])))
    assert f"from={today}&to={today}&grain=hour" in page.url
    page.locator("select[name=stream]").select_option("analysed/other")
    expect(page.locator("h1")).to_have_text("other")
    assert f"from={today}" in page.url


def test_streams_are_compared(page: Page, server: ServerProcess) -> None:
    page.goto(f"{server.http}/analytics/?stream=analysed/history&range=7d")
    page.get_by_role("link", name="Compare").click()
    expect(page.locator("h1")).to_have_text("Streams compared")
    expect(page.locator("#lines > div")).to_have_count(1)
    page.locator("tr[data-value='analysed/other'] input").check()
    page.get_by_role("button", name="Compare selected in a chart").click()
    expect(page.locator("#lines > div")).to_have_count(2)
    assert page.locator("#overlay").evaluate(DRAWN)
    page.locator("#overlay .plot").press("ArrowLeft")
    expect(page.locator("#overlay output")).to_have_text(re.compile(r"\d+\s\w+, \d\d:00"))
    page.click("#table-toggle")
    expect(page.locator("#chart-table thead")).to_contain_text("analysed/other")
    page.click("#table-toggle")

    page.locator("#compared thead").get_by_role("link", name="Egress").click()
    expect(page.locator("#compared th[aria-sort=descending]")).to_contain_text("Egress")
    expect(page.locator("#lines > div")).to_have_count(2)
    page.get_by_role("link", name="Take analysed/other out of the chart").click()
    expect(page.locator("#lines > div")).to_have_count(1)
    rows = {row["value"]: row for row in csv.DictReader(saved(page, page.locator("#csv")).decode().splitlines())}
    assert float(rows["analysed/history"]["video_kbps_p50"]) == pytest.approx(3000, rel=0.01)

    page.select_option("select[name=by]", "node")
    expect(page.locator("h1")).to_have_text("Nodes compared")


@pytest.mark.parametrize("path", ["/analytics/?stream=analysed/history", "/analytics/compare/"])
def test_names_stay_in_view_while_a_table_is_scrolled_on_a_phone(page: Page, server: ServerProcess, path: str) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(server.http + path)
    table = page.locator("#rollups, #compared")
    name = table.locator("tbody tr").first.locator("th, td:not(.pick)").first
    table.locator("..").evaluate("scroll => scroll.scrollTo(scroll.scrollWidth, 0)")
    left, right = (
        table.locator("..").evaluate(f"scroll => scroll.getBoundingClientRect().{side}") for side in ("left", "right")
    )
    box = name.bounding_box()
    assert box is not None
    assert left - 1 <= box["x"]
    assert box["x"] + box["width"] < (left + right) / 2 + 20
    inside = "(cell, at) => cell.contains(document.elementFromPoint(at.x, at.y))"
    name.scroll_into_view_if_needed()
    box = name.bounding_box()
    assert box is not None
    assert name.evaluate(inside, {"x": box["x"] + 20, "y": box["y"] + box["height"] / 2}), "nothing covers it"


def test_report_unfolds_more_tiles_on_request_and_when_printed(page: Page, server: ServerProcess) -> None:
    page.goto(f"{server.http}/reports/")
    page.locator("#reports tbody a").first.click()
    more = page.locator(".folded .tiles")
    expect(more).to_be_hidden()
    page.locator(".folded summary").focus()
    page.keyboard.press("Enter")
    expect(more).to_be_visible()
    page.keyboard.press("Enter")
    expect(more).to_be_hidden()
    paper = pypdf.PdfReader(io.BytesIO(page.pdf()))
    assert "Mean recovery" in "".join(sheet.extract_text() for sheet in paper.pages)
    expect(more).to_be_hidden()


@pytest.mark.parametrize(
    "path", ["/analytics/?stream=analysed/history&range=7d", "/analytics/compare/?pick=analysed/history"]
)
@pytest.mark.parametrize("width", [360, 2560])
def test_nothing_stands_out_sideways(page: Page, server: ServerProcess, path: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(server.http + path)
    assert page.evaluate(SIDEWAYS) == 0
