"""A session that a real encoder published and that broke off, as an operator's browser finds it afterwards."""

import csv
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser import DRAWN, saved
from tests.programs import Keys, on_air
from tests.server_process import ServerProcess, wait_for

pytestmark = [pytest.mark.serve, pytest.mark.browser, pytest.mark.clients, pytest.mark.timeout(180)]

MEASURED_S = 3
"""How long each publishes, at least."""


def publish_and_kill(server: ServerProcess, keys: Keys, name: str, clip: Path) -> str:
    """The session's id. The encoder dies without a word."""
    with on_air(server, keys[name], clip) as (encoder, live):
        session = str(live["session_id"])
        wait_measured(server, session)
        encoder.kill()
    server.wait_for_end(f"live/{name}", session)
    server.wait_for_state(f"live/{name}", "offline", 15)
    return session


def wait_measured(server: ServerProcess, session: str) -> None:
    def is_measured() -> bool:
        return int(server.get(f"/api/v1/sessions/{session}/samples")["totals"]["samples"]) >= MEASURED_S

    wait_for(is_measured, timeout_s=30, what="some seconds of samples")


def says(page: Page, number: int) -> str:
    return page.locator(f"[data-question='{number}'] .a").inner_text()


def test_the_page_of_a_session_answers_while_it_lives_and_after(
    page: Page, server: ServerProcess, keys: Keys, clip: Path
) -> None:
    with on_air(server, keys["killed"], clip) as (encoder, live):
        session = live["session_id"]
        page.goto(f"{server.http}/sessions/{session}/")
        expect(page.locator("[data-question='1'] .a")).to_contain_text("It is on air")
        expect(page.locator("[data-chart=bitrate] canvas")).to_be_visible(timeout=15_000)
        wait_measured(server, session)
        encoder.kill()
    # The page hears of the end by itself.
    expect(page.locator("#top .chip")).to_contain_text("Ended: connection reset", timeout=20_000)
    expect(page.locator("[data-question='2'] .a")).to_contain_text("Connection reset")

    page.reload()
    assert says(page, 1).startswith("No, off air for")
    assert says(page, 4) == "None of these"
    assert says(page, 5) == "None"
    assert re.search(r"In the last \d+\s+s the total bitrate", page.locator("[data-question='2']").inner_text())
    expect(page.locator("#plots")).to_be_visible()
    for name in ("bitrate", "fps", "keyframe_interval", "drift_dev", "rtt_ms", "players"):
        assert page.locator(f"[data-chart={name}]").evaluate(DRAWN), name
    for lane in ("State", "Health", "Status", "Operator"):
        expect(page.locator(f"#lanes svg[aria-label^='{lane}: ']")).to_be_visible()
    expect(page.locator("#events .feed li").first).to_contain_text("Session ended")
    expect(page.locator("[data-figure=p95_kbps]")).not_to_have_text("–")

    check_links_to_a_moment(page)
    page.click("#table-toggle")
    expect(page.locator("#plots")).to_be_hidden()
    assert page.locator("#plot-table tbody tr").count() >= MEASURED_S
    page.get_by_text("Operators", exact=True).click()
    expect(page.locator("#events .feed li", has_text="Session ended")).to_be_hidden()

    page.fill("[name=note]", "The battery was empty.")
    page.get_by_role("button", name="Save the note").click()
    expect(page.locator("#events .feed")).to_contain_text("The battery was empty.")
    page.get_by_role("button", name="Acknowledge").click()
    expect(page.locator("#acknowledged")).to_contain_text("Acknowledged by admin")

    rows = list(csv.DictReader(saved(page, page.get_by_role("link", name="CSV").first).decode().splitlines()))
    assert len(rows) >= MEASURED_S
    assert max(float(row["video_kbps"]) for row in rows) > 0


def check_links_to_a_moment(page: Page) -> None:
    """A click on a chart marks a moment, dragging chooses some time: both are in the address, which shows them."""
    whole, row, first = page.url, page.locator("#moment"), page.locator("#events .feed li").first
    expect(row).to_be_hidden()
    box = page.locator("[data-chart=fps] .u-over").bounding_box()
    assert box is not None
    page.locator("[data-chart=fps] .u-over").click(position={"x": box["width"] / 2, "y": box["height"] / 2})
    expect(page).to_have_url(re.compile(r"\?at=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"))
    expect(row.locator("code")).to_have_text(page.url)
    page.goto(page.url)
    moment = page.url.rpartition("T")[2].removesuffix("Z")
    expect(row).to_contain_text(moment)
    expect(page.locator("[data-chart=fps] output")).to_contain_text(moment)
    expect(page.locator("#lanes .pin[visibility=visible]")).to_have_count(4)
    expect(page.locator("#events .feed [data-pointed]")).to_have_count(1)

    chart = page.locator("[data-chart=fps] .u-over")
    chart.drag_to(chart, source_position={"x": 20, "y": 20}, target_position={"x": 200, "y": 20})
    expect(page).to_have_url(re.compile(r"&from=[^&]+Z&until=[^&]+Z$"))
    page.get_by_role("button", name="Whole session").click()
    expect(page).to_have_url(whole)
    expect(row).to_be_hidden()

    first.locator("a").click()
    expect(page).to_have_url(re.compile(r"\?at="))
    expect(first).to_have_attribute("data-pointed", "")
    expect(first.locator(".code")).to_be_hidden()
    page.get_by_role("button", name="Show codes").click()
    page.reload()
    expect(first.locator(".code")).to_have_text("tcp_reset")
    page.get_by_role("button", name="Hide codes").click()


def test_two_sessions_are_found_chosen_and_compared(page: Page, server: ServerProcess, keys: Keys, clip: Path) -> None:
    ids = [publish_and_kill(server, keys, "killed-twice", clip) for _ in range(2)]
    page.goto(f"{server.http}/sessions/")
    page.fill("[name=stream]", "killed-tw")
    expect(page.locator("tr[data-session]")).to_have_count(2)  # By htmx, as it is typed.
    page.wait_for_url("**stream=killed-tw*")
    for session in ids:
        page.locator(f"tr[data-session='{session}'] [name=pick]").check()
    page.click("#compare")
    page.wait_for_url(f"**/sessions/compare/?a={ids[0]}&b={ids[1]}")
    for chart in ("bitrate-A", "bitrate-B", "fps-A", "fps-B"):
        expect(page.locator(f"[data-chart={chart}] canvas")).to_be_visible(timeout=15_000)
        assert page.locator(f"[data-chart={chart}]").evaluate(DRAWN), chart
    expect(page.locator("#measured tr").first).to_contain_text("95th percentile, audio and video")
    page.click("#table-toggle")
    assert page.locator("#plot-table tbody tr").count() >= MEASURED_S

    page.goto(f"{server.http}/sessions/{ids[0]}/")
    assert says(page, 1) == "No, it came back and ended again"
    page.get_by_role("link", name="Open the next session").click()
    page.wait_for_url(f"**/sessions/{ids[1]}/")
