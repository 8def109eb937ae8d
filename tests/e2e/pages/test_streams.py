"""Streams of real publishers in operators' browsers, on the wall and on their pages: what they show, and how soon;
preview, acts, ranges, a phone.
"""

import re
import time
from datetime import datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import imageio_ffmpeg
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import log_in, log_in_as, quiet
from tests.e2e.conftest import CLIP_S
from tests.media import make_clip, make_enhanced_clip, of_kind, read_packets
from tests.programs import Keys, on_air
from tests.server_process import ServerProcess, wait_for

pytestmark = [pytest.mark.serve, pytest.mark.browser, pytest.mark.clients, pytest.mark.timeout(180)]

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


@pytest.mark.journey
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
        return {stream["state"] for stream in update["streams"] if stream["id"] == live["id"] and "state" in stream}

    wait_for(lambda: updates(0), timeout_s=20, what="an update")
    with on_air(server, keys["on-the-wall"], clip) as (encoder, live):

        def measured() -> float | None:
            found = server.get(f"/api/v1/sessions/{live['session_id']}/samples")
            rates = zip(found["at"], found["values"].get("video_kbps", ()), strict=False)  # There are none at first.
            return next((at for at, kbps in rates if kbps), None)

        first = wait_for(measured, timeout_s=20, what="a sample")
        update = wait_for(lambda: updates(first), timeout_s=20, what="the update of its tick")[0]
        assert (states(update), update["shown"]) == ({"live"}, True)
        encoder.terminate()
        encoder.wait(20)
    ended = server.wait_for_end(path, live["session_id"])["ended_at"]
    # A tick that had begun by then is told after it.
    after = datetime.fromisoformat(ended).timestamp()
    second = wait_for(lambda: updates(after)[1:2], timeout_s=20, what="two updates after the end")[0]
    off = [each for each in updates(first) if live["id"] in each["gone"] or states(each) == {"offline"}]
    assert (len(off), off[0]["at"] <= second["at"], off[0]["shown"]) == (1, True, False)


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
        page.wait_for_timeout(1000)  # Read once a second.
        figures.append(look())
        kbps, fps = (median(values) for values in zip(*figures[-CLIP_S:], strict=True))
        return len(figures) >= CLIP_S and (kbps, fps) == pytest.approx((own_kbps, 30), rel=0.05)

    with on_air(server, keys["steady"], clip) as (_, live):
        begun = datetime.fromisoformat(live["since"]).timestamp() + 6
        page.goto(f"{server.http}/streams/live/steady/")
        expect(page.locator("#tiles")).to_be_visible()
        fps, whole = page.locator('#tiles [data-field="fps"]'), "a mean without its beginning"
        wait_for(lambda: time.time() > begun and "." in fps.inner_text(), timeout_s=15, what=whole)
        wait_for(follow, timeout_s=20, what=f"{own_kbps:.0f} kbit/s and 30 frames a second")


def test_stream_page_shows_codec_headers_and_moving_charts(
    page: Page, server: ServerProcess, keys: Keys, clip: Path
) -> None:
    with on_air(server, keys["told"], clip) as (_, told):
        page.goto(f"{server.http}/streams/live/told/")
        claims = page.locator("#claims tbody")
        strings = f"{told['video_codec_string']}, {told['audio_codec_string']}"
        expect(claims.locator("tr", has_text="Codec strings")).to_contain_text(strings)
        profile = f"{told['video_codec']} {told['profile']} {told['level']}"
        expect(claims.locator("tr", has_text="Video codec")).to_contain_text(profile)
        expect(claims.locator("tr", has_text="Frame rate, header")).to_contain_text("30")
        expect(claims.locator("tr", has_text="Malformed media")).to_have_count(0)
        canvas = page.locator('[data-chart="bitrate"] canvas').first
        expect(canvas).to_be_visible()
        drawn = partial(canvas.evaluate, "canvas => canvas.toDataURL()")
        before = drawn()
        wait_for(lambda: drawn() != before, timeout_s=15, what="the chart has moved")


def test_proxy_error_502_shows_the_web_process_down_banner(browser: Browser, server: ServerProcess) -> None:
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


def test_template_marks_apply_filters_refresh_and_open_linked_details(page: Page, server: ServerProcess) -> None:
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


PASSWORD = "horse-battery-staple"
MAKE_USER = """
from django.contrib.auth.models import Group, User
user = User.objects.create_user("{name}", password="{password}")
user.groups.add(Group.objects.get(name="{role}"))
"""


@pytest.fixture(scope="module")
def omar(server: ServerProcess) -> None:
    server.manage("shell", "-c", MAKE_USER.format(name="omar", password=PASSWORD, role="operator"))


@pytest.fixture(scope="module")
def rare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A keyframe every 12 s: an issue as the warm-up is over."""
    return make_clip(tmp_path_factory.mktemp("clip") / "rare.flv", seconds=12, video_kbps=300, fps=25, gop=300)


def played_s(page: Page) -> float:
    found: float = page.evaluate("document.querySelector('#preview video').currentTime")
    return found


def test_the_preview_plays_and_outlives_its_publisher(
    page: Page, server: ServerProcess, keys: Keys, clip: Path
) -> None:
    asked: list[str] = []
    page.on("websocket", lambda socket: asked.append(socket.url))
    preview, key = page.locator("#preview"), keys["looked-at"]
    with on_air(server, key, clip):
        page.goto(f"{server.http}/streams/live/looked-at/")
        preview.get_by_role("button", name="Show the preview").click()
        wait_for(lambda: played_s(page) > 1, timeout_s=40, what="the preview plays")
        expect(preview.locator(".tag")).to_have_text(re.compile("^Muted, "))
        assert server.stream("live/looked-at")["players"] == 0
        preview.get_by_role("button", name="Sound on").click()
        assert page.evaluate("document.querySelector('#preview video').muted") is False
        assert [url.partition("?token=")[0].rpartition("/")[2] for url in asked if "token=" in url] == ["looked-at.flv"]
        assert "token=" not in page.content()
    expect(page.locator("#stream")).to_have_attribute("data-state", "offline", timeout=10_000)
    expect(preview.locator(".say")).to_contain_text("begins again with the stream")
    with on_air(server, key, clip):
        wait_for(lambda: played_s(page) > 1, timeout_s=40, what="the preview plays again by itself")
        tokens = [url.partition("?token=")[2] for url in asked if "token=" in url]
        assert len(set(tokens)) == len(tokens) > 1
        page.reload()
        wait_for(lambda: played_s(page) > 1, timeout_s=40, what="the choice is remembered")
        preview.get_by_role("button", name="Stop").click()
        expect(preview.get_by_role("button", name="Show the preview")).to_be_visible()
    assert not any(token in server.log for token in tokens)


def test_preview_of_an_unplayable_codec_says_so(page: Page, server: ServerProcess, keys: Keys, tmp_path: Path) -> None:
    ffmpeg = imageio_ffmpeg.get_ffmpeg_exe()  # Not every FFmpeg puts H.265 into FLV.
    clip = make_enhanced_clip(tmp_path / "clip.flv", ["hevc"], ["ac3"], seconds=5)
    with on_air(server, keys["unplayable"], clip, executable=ffmpeg):
        page.goto(f"{server.http}/streams/live/unplayable/")
        expect(page.locator("#preview .say")).to_contain_text("This stream’s picture is H.265")
        expect(page.locator("#preview").get_by_role("button", name="Show the preview")).to_be_hidden()


def test_operator_actions_appear_at_once_in_another_operators_browser(
    page: Page, browser: Browser, omar: None, server: ServerProcess, keys: Keys, rare: Path
) -> None:
    soon = 5000  # It is well under a second, but the machine may be busy with other tests.
    with (
        on_air(server, keys["acted-on"], rare) as (encoder, _),
        browser.new_context(viewport={"width": 360, "height": 780}) as of_phone,
        quiet(of_phone) as phone,
    ):
        log_in_as(phone, server.http, "omar", PASSWORD)
        for each in (page, phone):
            each.goto(f"{server.http}/streams/live/acted-on/")
        issue = '#issues li[data-check="gop_long"]'
        expect(page.locator(issue)).to_be_visible(timeout=40_000)
        page.locator(issue).get_by_role("button", name="Acknowledge").click()
        expect(phone.locator(issue)).to_contain_text("Acknowledged by admin", timeout=soon)
        expect(phone.locator(issue).get_by_role("button", name="Acknowledge")).to_have_count(0)

        phone.get_by_role("button", name="Add a note").click()
        phone.fill("#note-text", "Venue moved to <b>Wi-Fi</b>.")
        phone.locator("#note [type=submit]").click()
        feed = page.locator("#events .feed")
        expect(feed).to_contain_text("omar: “Venue moved to <b>Wi-Fi</b>.”", timeout=soon)

        page.locator(issue).get_by_role("button", name="Silence its alerts").click()
        expect(page.locator("#mute-check")).to_have_value("gop_long")
        page.locator("#mute [type=submit]").click()
        expect(phone.locator("#issues .mutes")).to_contain_text("Silenced until", timeout=soon)
        phone.locator("#issues .mutes").get_by_role("button", name="Lift").click()
        expect(page.locator("#issues .mutes")).to_be_hidden(timeout=soon)
        assert phone.evaluate("document.documentElement.scrollWidth") <= 360

        phone.click("#kick-open")
        phone.fill("#kick-note", "Wrong scene")
        phone.click("#kick-submit")
        expect(feed).to_contain_text("omar kicked the encoder: “Wrong scene”", timeout=soon)
        wait_for(lambda: encoder.poll() is not None, timeout_s=10, what="the encoder has ended")
    ended = page.locator("#last-end")
    expect(ended).to_contain_text("Ended by omar: Wrong scene.", timeout=15_000)
    expect(ended).to_contain_text("Off air since")
    assert server.wait_for_end("live/acted-on")["end_reason"] == "kicked"


def test_the_charts_go_back_into_the_lake_and_become_a_table(
    page: Page, server: ServerProcess, keys: Keys, clip: Path
) -> None:
    with on_air(server, keys["looked-back"], clip):
        page.goto(f"{server.http}/streams/live/looked-back/")
        charts = page.locator("#charts")
        expect(charts).to_be_visible()
        recorded = "/api/v1/streams/live/looked-back/samples"
        wait_for(lambda: server.get(recorded)["at"], timeout_s=20, what="the first samples are in the lake")
        for words, heading in (("30 min", "Last 30 minutes"), ("3 h", "Last 3 hours")):
            with page.expect_response("**/samples?*") as answered:
                charts.get_by_text(words, exact=True).click()
            assert len(answered.value.json()["at"]) > 0
            expect(charts.locator("h2")).to_have_text(heading)
            expect(charts.locator("[data-field=range-note]")).to_be_hidden()
        charts.get_by_text("5 min", exact=True).click()
        expect(charts.locator("h2")).to_have_text("Last 5 minutes")
        canvas = charts.locator('[data-chart="bitrate"] .plot')
        canvas.focus()
        page.keyboard.press("ArrowLeft")
        expect(charts.locator('[data-chart="players"] output')).not_to_contain_text("now")
        charts.get_by_role("button", name="Show as a table").click()
        expect(charts.locator("tbody tr").first).to_contain_text("Good", timeout=20_000)
        expect(charts.locator("thead")).to_contain_text("RTT, ms")
