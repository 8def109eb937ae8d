"""The page of one stream, in two operators' browsers, on real publishers: preview, acts, ranges, a phone."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import log_in_as, quiet
from tests.e2e.accepted import on_air
from tests.e2e.clips import Clips
from tests.e2e.programs import Keys, key_url, publishing
from tests.media import make_clip
from tests.server_process import ServerProcess, wait_for

pytestmark = [
    pytest.mark.serve,
    pytest.mark.browser,
    pytest.mark.clients,
    pytest.mark.timeout(180),
]

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


@contextmanager
def published(server: ServerProcess, key: dict[str, Any], clip: Path) -> Iterator[subprocess.Popen[str]]:
    sending = publishing(clip, key_url(key, server.rtmp, "name"), "-stream_loop", "-1")
    command = [imageio_ffmpeg.get_ffmpeg_exe(), *sending[1:]]  # Not every FFmpeg puts H.265 into FLV.
    with on_air(server, key["stream"], command) as (encoder, _):
        yield encoder


def played_s(page: Page) -> float:
    found: float = page.evaluate("document.querySelector('#preview video').currentTime")
    return found


def test_the_preview_plays_and_outlives_its_publisher(
    page: Page, server: ServerProcess, keys: Keys, clip: Path
) -> None:
    asked: list[str] = []
    page.on("websocket", lambda socket: asked.append(socket.url))
    preview, key = page.locator("#preview"), keys["looked-at"]
    with published(server, key, clip):
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
    with published(server, key, clip):
        wait_for(lambda: played_s(page) > 1, timeout_s=40, what="the preview plays again by itself")
        tokens = [url.partition("?token=")[2] for url in asked if "token=" in url]
        assert len(set(tokens)) == len(tokens) > 1
        page.reload()
        wait_for(lambda: played_s(page) > 1, timeout_s=40, what="the choice is remembered")
        preview.get_by_role("button", name="Stop").click()
        expect(preview.get_by_role("button", name="Show the preview")).to_be_visible()
    assert not any(token in server.log for token in tokens)


def test_what_the_browser_cannot_play_is_said(page: Page, server: ServerProcess, keys: Keys, clips: Clips) -> None:
    with published(server, keys["unplayable"], clips["hevc-ac3"]):
        page.goto(f"{server.http}/streams/live/unplayable/")
        expect(page.locator("#preview .say")).to_contain_text("This stream’s picture is H.265")
        expect(page.locator("#preview").get_by_role("button", name="Show the preview")).to_be_hidden()


@pytest.mark.slow("health is judged by what streams did for seconds")
def test_what_one_operator_does_another_sees_at_once(
    page: Page, browser: Browser, omar: None, server: ServerProcess, keys: Keys, rare: Path
) -> None:
    soon = 5000  # It is well under a second, but the machine may be busy with other tests.
    with (
        published(server, keys["acted-on"], rare) as encoder,
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

        page.locator(issue).get_by_role("button", name="Mute its alerts").click()
        expect(page.locator("#mute-check")).to_have_value("gop_long")
        page.locator("#mute [type=submit]").click()
        expect(phone.locator("#issues .mutes")).to_contain_text("are muted until", timeout=soon)
        phone.locator("#issues .mutes").get_by_role("button", name="Lift").click()
        expect(page.locator("#issues .mutes")).to_be_hidden(timeout=soon)
        assert phone.evaluate("document.documentElement.scrollWidth") <= 360

        phone.click("#kick-open")
        phone.fill("#kick-note", "Wrong scene")
        phone.click("#kick-submit")
        expect(feed).to_contain_text("omar kicked the publisher: “Wrong scene”", timeout=soon)
        wait_for(lambda: encoder.poll() is not None, timeout_s=10, what="the encoder has ended")
    ended = page.locator("#last-end")
    expect(ended).to_contain_text("Ended by omar: Wrong scene.", timeout=15_000)
    expect(ended).to_contain_text("Off air since")


def test_the_charts_go_back_into_the_lake_and_become_a_table(
    page: Page, server: ServerProcess, keys: Keys, clip: Path
) -> None:
    with published(server, keys["looked-back"], clip):
        page.goto(f"{server.http}/streams/live/looked-back/")
        charts = page.locator("#charts")
        expect(charts).to_be_visible()
        recorded = f"{server.http}/api/v1/streams/live/looked-back/samples"
        wait_for(
            lambda: page.request.get(recorded).json()["at"], timeout_s=20, what="the first samples are in the lake"
        )
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
        expect(charts.locator("thead")).to_contain_text("Round trip, ms")
