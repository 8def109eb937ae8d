"""An operator's browser on a real publisher: what the pages show, and how soon."""

import time
from datetime import datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import log_in
from tests.e2e.programs import Keys, key_url, publishing
from tests.media import of_kind, read_packets
from tests.server_process import ServerProcess, program, wait_for

pytestmark = [
    pytest.mark.serve,
    pytest.mark.browser,
    pytest.mark.clients,
    pytest.mark.timeout(180),
]


CLIP_S = 8
"""Of `clip`."""


def wait_until(moment: float) -> None:
    """Let the monotonic clock reach a moment: for what is measured over time."""
    wait_for(lambda: time.monotonic() >= moment, timeout_s=10, what="the moment to look")


def test_pages_ask_for_a_login(browser: Browser, server: ServerProcess) -> None:
    page = browser.new_page()
    for path in ("/", "/streams/live/demo/", "/attempts/", "/analytics/"):
        page.goto(server.http + path)
        expect(page.locator("input[name=password]")).to_be_visible()
    page.close()


def test_the_wall_shows_a_stream_within_two_seconds_and_its_end_within_two(
    page: Page, server: ServerProcess, keys: Keys, clip: Path
) -> None:
    key = keys["on-the-wall"]
    card = page.locator('[data-stream="live/on-the-wall"][data-state="live"]')
    expect(card).to_have_count(0)
    with program(*publishing(clip, key_url(key, server.rtmp, "name"), "-stream_loop", "-1")) as encoder:
        expect(card).to_be_visible(timeout=15_000)
        shown = time.time()
        session = server.stream("live/on-the-wall")["session_id"]
        accepted = server.request(f"/api/v1/sessions/{session}")[1]["started_at"]
        assert shown - datetime.fromisoformat(accepted).timestamp() < 2  # The first frame comes after the acceptance.
        encoder.terminate()
        encoder.wait(5)
        expect(card).to_have_count(0, timeout=2000)


@pytest.mark.slow("health is judged by what streams did for seconds")
def test_figures_follow_the_media_within_five_percent(
    page: Page, server: ServerProcess, keys: Keys, clip: Path
) -> None:
    """The stream page's bitrate and frame rate, read once a second, against the clip's own.

    Each is a mean of 5 s, which are five whole groups of pictures.
    """
    key = keys["steady"]
    video = of_kind(read_packets(str(clip)), "video")
    own_kbps = sum(map(len, video)) * 8 / CLIP_S / 1000
    with program(*publishing(clip, key_url(key, server.rtmp, "name"), "-stream_loop", "-1")):
        server.wait_for_state("live/steady", "live")
        page.goto(f"{server.http}/streams/live/steady/")
        expect(page.locator("#tiles")).to_be_visible()
        begun = time.monotonic()
        figures: list[tuple[float, float]] = []
        for second in range(4):
            wait_until(begun + 6 + second)  # From the first mean on.
            kbps = page.locator('#tiles [data-field="video_kbps"]').inner_text()
            fps = page.locator('#tiles [data-field="fps"]').inner_text()
            figures.append((float(kbps.replace(",", "")), float(fps)))
    assert sum(kbps for kbps, _ in figures) / len(figures) == pytest.approx(own_kbps, rel=0.05)
    assert sum(fps for _, fps in figures) / len(figures) == pytest.approx(30, rel=0.05)


def test_what_the_headers_tell_is_shown(page: Page, server: ServerProcess, keys: Keys, clip: Path) -> None:
    key = keys["told"]
    with program(*publishing(clip, key_url(key, server.rtmp, "name"), "-stream_loop", "-1")):
        told = server.wait_for_state("live/told", "live")
        page.goto(f"{server.http}/streams/live/told/")
        claims = page.locator("#claims tbody")
        strings = f"{told['video_codec_string']}, {told['audio_codec_string']}"
        expect(claims.locator("tr", has_text="Codec strings")).to_contain_text(strings)
        profile = f"{told['video_codec']} {told['profile']} {told['level']}"
        expect(claims.locator("tr", has_text="Video codec")).to_contain_text(profile)
        expect(claims.locator("tr", has_text="Frame rate, header")).to_contain_text("30")
        expect(claims.locator("tr", has_text="Faulty messages")).to_have_count(0)


def test_charts_move(page: Page, server: ServerProcess, keys: Keys, clip: Path) -> None:
    key = keys["charts"]
    with program(*publishing(clip, key_url(key, server.rtmp, "name"), "-stream_loop", "-1")):
        server.wait_for_state("live/charts", "live")
        page.goto(f"{server.http}/streams/live/charts/")
        canvas = page.locator('[data-chart="bitrate"] canvas').first
        expect(canvas).to_be_visible()
        before = canvas.evaluate("canvas => canvas.toDataURL()")
        wait_for(
            lambda: canvas.evaluate("canvas => canvas.toDataURL()") != before, timeout_s=4, what="the chart has moved"
        )


def test_an_operator_kicks_a_publisher_from_the_page(page: Page, server: ServerProcess, keys: Keys, clip: Path) -> None:
    key = keys["kicked"]
    with program(*publishing(clip, key_url(key, server.rtmp, "name"), "-stream_loop", "-1")) as encoder:
        session = server.wait_for_state("live/kicked", "live")["session_id"]
        page.goto(f"{server.http}/streams/live/kicked/")
        page.click("#kick-open")
        page.click("#kick-submit")
        wait_for(
            lambda: server.request(f"/api/v1/sessions/{session}")[1]["end_reason"] == "kicked",
            timeout_s=4,
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
