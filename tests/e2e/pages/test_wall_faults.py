"""The wall on a real server, while encoders are refused, killed and stopped: what it shows, and how soon."""

import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, StorageState, expect

from tests.programs import Keys, key_url, on_air, publishing
from tests.server_process import ServerProcess, wait_for

pytestmark = [pytest.mark.serve, pytest.mark.browser, pytest.mark.clients, pytest.mark.timeout(180)]

TOLD = """
    window.told = [];
    window.WebSocket = class extends WebSocket {
        constructor(...address) {
            super(...address);
            this.addEventListener("message", ({ data }) => window.told.push(JSON.parse(data)));
        }
    };
"""
"""Keeps what a page is told: times are the product's own, how busy the machine is does not count."""


def told(page: Page) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page.evaluate("told")
    return found


def refused_since(page: Page, began: float) -> tuple[float, dict[str, Any]] | None:
    """The first group of refusals of the wrong key that goes on since then, and when it was told."""
    groups = [(each["at"], group) for each in told(page) for node in each["nodes"] for group in node.get("refused", [])]
    return next(((at, group) for at, group in groups if group["name"] == "rk…" and group["at"] >= began), None)


@pytest.fixture
def wall(page: Page) -> Page:
    """It has heard of the node."""
    page.context.add_init_script(TOLD)
    page.reload()
    wait_for(lambda: [each for each in told(page) if each["kind"] == "update"], timeout_s=20, what="an update")
    return page


@pytest.mark.slow("encoders are refused in real time")
@pytest.mark.journey
def test_wrong_keys_stand_in_the_strip_and_at_the_menu(
    wall: Page, server: ServerProcess, keys: Keys, short_clip: Path
) -> None:
    known = server.count_attempts("key_unknown")
    secret = "rk_" + "wrong" * 8
    began = time.time()
    wrong = publishing(short_clip, key_url(keys["killed"] | {"key": secret}, server.rtmp))
    for _ in range(2):
        assert subprocess.run(wrong, capture_output=True, timeout=30, check=False).returncode
    item = wall.locator('#strip [data-item="refused"]', has_text="Wrong key")
    expect(item).to_contain_text(re.compile(r"\d+ in .*, from 127\.0\.0\.1"))
    expect(item).to_contain_text("For live/rk…")
    badge = wall.locator("[data-refused-count]").first
    expect(badge).to_be_visible()
    at, first = wait_for(lambda: refused_since(wall, began), timeout_s=20, what="the wall is told")
    assert at - first["at"] < 2
    assert secret not in wall.content() + str(told(wall))
    wait_for(lambda: server.count_attempts("key_unknown") == known + 2, timeout_s=20, what="they are written")
    wall.goto(f"{server.http}/sessions/")
    expect(badge).to_be_visible()
    wall.locator('.nav a[href="/attempts/"]').click()
    expect(badge).to_be_hidden()
    wall.goto(server.http)
    expect(wall.locator("#nodes [data-node]")).to_have_count(1)
    expect(item).to_have_count(0)


@pytest.mark.slow("an encoder publishes in real time")
@pytest.mark.journey
def test_an_encoder_that_is_killed_is_bad_until_somebody_has_seen_it(
    wall: Page, server: ServerProcess, keys: Keys, clip: Path, browser: Browser, logged_in: StorageState
) -> None:
    path = "live/killed-on-the-wall"
    card = wall.locator(f'.stream[data-stream="{path}"]')
    with on_air(server, keys["killed-on-the-wall"], clip) as (encoder, live):
        expect(card).to_have_attribute("data-state", "live")
        encoder.kill()
        killed_at = time.time()
        expect(card).to_have_attribute("data-state", "dropped")
    expect(card.locator(".why")).to_contain_text("Dropped: connection reset.")
    assert wall.locator(".stream h3 a").first.get_attribute("title") == path
    drops = [(each["at"], drop) for each in told(wall) for drop in each.get("drops", [])]
    at, drop = next(each for each in drops if each[1]["id"] == live["session_id"])
    assert at - drop["at"] < 2
    assert drop["at"] - killed_at < 1
    wall.goto(f"{server.http}/sessions/")
    expect(wall.locator("[data-bad-count]").first).to_be_visible()
    server.wait_for_end(path, live["session_id"])
    other = browser.new_context(storage_state=logged_in).new_page()
    for page in (other, wall):
        page.goto(server.http)
        expect(card if page is wall else page.locator(f'.stream[data-stream="{path}"]')).to_be_visible()
    card.get_by_role("button", name="Seen").click()
    for page in (other, wall):
        expect(page.locator(f'.stream[data-stream="{path}"]')).to_have_count(0)
        expect(page.locator(f'#strip [data-dropped="{path}"]')).to_contain_text("Off for")
    other.context.close()


def test_an_encoder_that_is_stopped_is_off_air_and_no_drop(
    wall: Page, server: ServerProcess, keys: Keys, clip: Path
) -> None:
    path = "live/stopped-on-the-wall"
    with on_air(server, keys["stopped-on-the-wall"], clip) as (encoder, live):
        expect(wall.locator(f'.stream[data-stream="{path}"]')).to_have_attribute("data-state", "live")
        encoder.send_signal(signal.SIGINT)
        encoder.wait(20)
    assert server.wait_for_end(path, live["session_id"])["end_reason"] == "client_unpublish"
    expect(wall.locator(f'#offline a[data-stream="{path}"]')).to_be_visible()
    expect(wall.locator(f'[data-dropped="{path}"]')).to_have_count(0)
