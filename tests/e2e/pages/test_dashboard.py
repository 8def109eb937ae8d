"""An operator's browser on a real publisher: what the pages show, and how soon."""

import re
import time
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import log_in
from tests.e2e.accepted import on_air
from tests.e2e.conftest import CLIP_S
from tests.e2e.programs import Keys, key_url, publishing
from tests.media import of_kind, read_packets
from tests.server_process import ServerProcess, program, wait_for

pytestmark = [
    pytest.mark.serve,
    pytest.mark.browser,
    pytest.mark.clients,
    pytest.mark.timeout(180),
]


LOOPED = ("-stream_loop", "-1")

NOTE = """
    window.told = [];
    window.WebSocket = class extends WebSocket {
        constructor(...address) {
            super(...address);
            this.addEventListener("message", ({ data }) => {
                const message = { ...JSON.parse(data), shown: null };
                window.told.push(message);
                const look = () => {
                    message.shown = !!document.querySelector('[data-stream="PATH"][data-state="live"]');
                };
                requestAnimationFrame(() => requestAnimationFrame(look));
            });
        }
    };
"""
"""Keeps what a page is told, and whether it shows the live stream PATH once it has drawn that: `told`."""


def test_pages_ask_for_a_login(browser: Browser, server: ServerProcess) -> None:
    page = browser.new_page()
    for path in ("/", "/streams/live/demo/", "/attempts/", "/analytics/"):
        page.goto(server.http + path)
        expect(page.locator("input[name=password]")).to_be_visible()
    page.close()


def test_the_wall_shows_a_stream_and_its_end_with_the_tick_that_finds_it(
    page: Page, server: ServerProcess, keys: Keys, clip: Path
) -> None:
    """Ticks are a second apart: so both are on the wall within two. How busy the machine is does not count."""
    path = "live/on-the-wall"
    page.context.add_init_script(NOTE.replace("PATH", path))
    page.reload()

    def updates(after: float) -> list[dict[str, Any]]:
        """Of the node, which the page has drawn; `after`: for a time of the node's clock, told in milliseconds."""
        told = page.evaluate("told.filter((message) => message.kind === 'update' && message.shown !== null)")
        return [update for update in told if update["at"] > after - 0.001]

    def states(update: dict[str, Any]) -> set[str]:
        """That it tells of the stream."""
        return {stream["state"] for stream in update["streams"] if stream["id"] == live["id"] and "state" in stream}

    wait_for(lambda: updates(0), timeout_s=20, what="an update")
    sending = publishing(clip, key_url(keys["on-the-wall"], server.rtmp, "name"), *LOOPED)
    with on_air(server, path, sending) as (encoder, live):
        session = f"/api/v1/sessions/{live['session_id']}"

        def measured() -> float | None:
            found = server.request(f"{session}/samples")[1]
            rates = zip(found["at"], found["values"].get("video_kbps", ()), strict=False)  # There are none at first.
            return next((at for at, kbps in rates if kbps), None)

        first = wait_for(measured, timeout_s=20, what="a sample")
        update = wait_for(lambda: updates(first), timeout_s=20, what="the update of its tick")[0]
        assert (states(update), update["shown"]) == ({"live"}, True)
        encoder.terminate()
        encoder.wait(20)
    ended = wait_for(lambda: server.request(session)[1]["ended_at"], timeout_s=20, what="the session has ended")
    # A tick that had begun by then is told after it.
    after = datetime.fromisoformat(ended).timestamp()
    second = wait_for(lambda: updates(after)[1:2], timeout_s=20, what="two updates after the end")[0]
    off = [each for each in updates(first) if live["id"] in each["gone"] or states(each) == {"offline"}]
    assert (len(off), off[0]["at"] <= second["at"], off[0]["shown"]) == (1, True, False)


@pytest.mark.slow("health is judged by what streams did for seconds")
def test_figures_follow_the_media_within_five_percent(
    page: Page, server: ServerProcess, keys: Keys, clip: Path
) -> None:
    """The stream page's bitrate and frame rate, read once a second, against the clip's own.

    Each is a mean of 5 s. An encoder that stands still for a second makes the next of them too low, and those 5 s later
    too high, as what it sends at once when it begins does: so the median of what is read later, while the clip is sent
    once, is what counts.
    """
    video = of_kind(read_packets(str(clip)), "video")
    own_kbps = sum(map(len, video)) * 8 / CLIP_S / 1000
    figures: list[tuple[float, float]] = []

    def look() -> tuple[float, float]:
        kbps = page.locator('#tiles [data-field="video_kbps"]').inner_text()
        fps = page.locator('#tiles [data-field="fps"]').inner_text()
        return float(kbps.replace(",", "")), float(fps)

    def follow() -> bool:
        page.wait_for_timeout(1000)
        figures.append(look())
        kbps, fps = (median(values) for values in zip(*figures[-CLIP_S:], strict=True))
        return len(figures) >= CLIP_S and (kbps, fps) == pytest.approx((own_kbps, 30), rel=0.05)

    sending = publishing(clip, key_url(keys["steady"], server.rtmp, "name"), *LOOPED)
    with on_air(server, "live/steady", sending) as (_, live):
        begun = datetime.fromisoformat(live["since"]).timestamp() + 6
        page.goto(f"{server.http}/streams/live/steady/")
        expect(page.locator("#tiles")).to_be_visible()
        fps = page.locator('#tiles [data-field="fps"]')
        wait_for(
            lambda: time.time() > begun and "." in fps.inner_text(), timeout_s=15, what="a mean without its beginning"
        )
        wait_for(follow, timeout_s=20, what=f"{own_kbps:.0f} kbit/s and 30 frames a second")


def test_what_the_headers_tell_is_shown(page: Page, server: ServerProcess, keys: Keys, clip: Path) -> None:
    sending = publishing(clip, key_url(keys["told"], server.rtmp, "name"), *LOOPED)
    with on_air(server, "live/told", sending) as (_, told):
        page.goto(f"{server.http}/streams/live/told/")
        claims = page.locator("#claims tbody")
        strings = f"{told['video_codec_string']}, {told['audio_codec_string']}"
        expect(claims.locator("tr", has_text="Codec strings")).to_contain_text(strings)
        profile = f"{told['video_codec']} {told['profile']} {told['level']}"
        expect(claims.locator("tr", has_text="Video codec")).to_contain_text(profile)
        expect(claims.locator("tr", has_text="Frame rate, header")).to_contain_text("30")
        expect(claims.locator("tr", has_text="Faulty messages")).to_have_count(0)


def test_charts_move(page: Page, server: ServerProcess, keys: Keys, clip: Path) -> None:
    with on_air(server, "live/charts", publishing(clip, key_url(keys["charts"], server.rtmp, "name"), *LOOPED)):
        page.goto(f"{server.http}/streams/live/charts/")
        canvas = page.locator('[data-chart="bitrate"] canvas').first
        expect(canvas).to_be_visible()
        before = canvas.evaluate("canvas => canvas.toDataURL()")
        wait_for(
            lambda: canvas.evaluate("canvas => canvas.toDataURL()") != before, timeout_s=15, what="the chart has moved"
        )


def test_an_operator_kicks_a_publisher_from_the_page(page: Page, server: ServerProcess, keys: Keys, clip: Path) -> None:
    sending = publishing(clip, key_url(keys["kicked"], server.rtmp, "name"), *LOOPED)
    with on_air(server, "live/kicked", sending) as (encoder, live):
        session = live["session_id"]
        page.goto(f"{server.http}/streams/live/kicked/")
        page.click("#kick-open")
        page.click("#kick-submit")
        wait_for(
            lambda: server.request(f"/api/v1/sessions/{session}")[1]["end_reason"] == "kicked",
            timeout_s=15,
            what="the session was ended by the kick",
        )
        wait_for(lambda: encoder.poll() is not None, timeout_s=10, what="the encoder has ended")


def test_a_wrong_key_appears_under_attempts_with_its_reason(page: Page, server: ServerProcess, clip: Path) -> None:
    wrong = "rk_ThisKeyIsWrong0123456789abcdefgh"
    with program(*publishing(clip, f"{server.rtmp}/live/{wrong}")) as encoder:
        wait_for(lambda: encoder.poll() is not None, timeout_s=10, what="the encoder was refused")
    page.goto(f"{server.http}/attempts/")
    expect(page.locator("main")).to_contain_text("key_unknown")
    assert wrong not in page.content()


def test_a_proxys_error_is_told_as_a_web_process_that_is_down(browser: Browser, server: ServerProcess) -> None:
    """On a phone too, where other banners are short."""
    page = browser.new_page(viewport={"width": 360, "height": 780})
    log_in(page, server)
    page.route("**/system/alarms", lambda route: route.fulfill(status=502, body="Bad Gateway"))
    banner = page.locator('#outages [data-kind="web"]')
    expect(banner).to_be_visible(timeout=15_000)
    expect(banner).to_contain_text("Check that the web process runs")
    part = {"kind": "beat", "state": "down", "what": "It is down", "effect": "Much.", "advice": "Do.", "since": None}
    page.unroute("**/system/alarms")
    page.route("**/system/alarms", lambda route: route.fulfill(json={"items": [part], "count": 1}))
    expect(banner).to_have_count(0, timeout=10_000)
    other = page.locator('#outages [data-kind="beat"]')
    expect(other.get_by_text("Do.")).to_be_hidden()
    other.get_by_role("link").click()
    expect(page.locator("h1")).to_have_text("System")
    page.close()


def test_marks_in_a_template_are_enough_for_lists(page: Page, server: ServerProcess) -> None:
    """A choice applies at once, parts with data-refresh are asked for again, a link to a <details> opens it."""
    page.goto(server.http + "/audit/")
    page.select_option("#filters [name=action]", "login")
    page.wait_for_url(re.compile(r"/audit/\?.*action=login"))
    page.goto(server.http + "/alerts/")
    with page.expect_request(server.http + "/alerts/", timeout=20_000):
        pass
    page.goto(server.http + "/api/v1/docs#%E0")
    shape = page.locator("details[id^=shape-]").first
    expect(shape).not_to_have_attribute("open", "")
    page.goto(f"{server.http}/api/v1/docs#{shape.get_attribute('id')}")
    expect(shape).to_have_attribute("open", "")
