"""The ways to watch that a stream's page prints, each taken as it is printed, the watch page too; and the preview."""

import shlex
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.programs import LOOPED, publishing
from tests.server_process import ServerProcess, program
from tests.tools import require_tool

pytestmark = [pytest.mark.serve, pytest.mark.browser, pytest.mark.clients, pytest.mark.timeout(180)]


def probe(url: str) -> str:
    """The codecs that come, or what FFmpeg says of it."""
    asked = ("-v", "error", "-show_entries", "stream=codec_name", "-of", "csv=p=0", "-rw_timeout", "8000000", url)
    done = subprocess.run([require_tool("ffprobe"), *asked], capture_output=True, text=True, timeout=60, check=False)
    return " ".join(sorted(done.stdout.split())) or done.stderr


def printed(page: Page, prefix: str) -> dict[str, str]:
    """{"rtmp": its URL, "flv": its URL}; each of their commands ends with it."""
    found = {}
    for kind in ("rtmp", "flv"):
        url = (page.locator(f"#{prefix}-{kind}").text_content() or "").strip()
        for number, player in enumerate(("ffplay", "vlc", "mpv"), 1):
            command = page.locator(f"#{prefix}-{kind}-{number}").text_content() or ""
            assert shlex.split(command) == [player, url]
        found[kind] = url
    return found


def test_each_printed_address_plays(page: Page, server: ServerProcess, clip: Path) -> None:
    key = server.create_key("live/watched")
    with program(*publishing(clip, f"{server.rtmp}/live/{key['key']}", *LOOPED)):
        server.wait_for_state("live/watched", "live", timeout_s=30)
        page.goto(f"{server.http}/streams/live/watched/")
        urls = printed(page, "watch")
        assert {kind: probe(url) for kind, url in urls.items()} == dict.fromkeys(urls, "aac h264")
        page.click("#watch-preview button")
        expect(page.locator("#watch-preview")).to_contain_text("The preview is on.")
        expect(page.locator("#preview [data-preview=stop]")).to_be_visible()


def test_with_tokens_a_link_is_made_that_plays(page: Page, server: ServerProcess, clip: Path) -> None:
    server.manage("application", "set", "guarded", "--play", "token")
    key = server.create_key("guarded/watched")
    with program(*publishing(clip, f"{server.rtmp}/guarded/{key['key']}", *LOOPED)):
        server.wait_for_state("guarded/watched", "live", timeout_s=30)
        page.goto(f"{server.http}/streams/guarded/watched/")
        expect(page.locator("#watch-rtmp")).to_have_count(0)
        page.click("[data-do='open:play-link']")
        page.click("#play-link button[type=submit]")
        expect(page.locator("#made")).to_contain_text("These play until")
        urls = printed(page, "made")
        assert {kind: probe(url) for kind, url in urls.items()} == dict.fromkeys(urls, "aac h264")
        for url in urls.values():
            bare = probe(url.partition("?")[0])
            assert "h264" not in bare
        page.click("#made [data-do=close].solid")
        expect(page.locator("#made")).to_be_hidden()
    assert urls["flv"].partition("?token=")[2] not in server.log


def watches(page: Page, url: str) -> None:
    """The watch page there plays, with low latency."""
    page.goto(url)
    page.locator("#player[data-state=live]").wait_for(timeout=30_000)
    page.wait_for_function("() => document.getElementById('video').currentTime > 1")
    page.wait_for_function("() => parseFloat(document.getElementById('delay').textContent) < 4")
    page.click("#unmute")
    assert not page.evaluate("document.getElementById('video').muted")


def test_the_printed_page_plays_in_a_browser_and_by_link(page: Page, server: ServerProcess, clip: Path) -> None:
    key = server.create_key("live/in-a-browser")
    with program(*publishing(clip, f"{server.rtmp}/live/{key['key']}", *LOOPED)):
        server.wait_for_state("live/in-a-browser", "live", timeout_s=30)
        stream = f"{server.http}/streams/live/in-a-browser/"
        page.goto(stream)
        watches(page, (page.locator("#watch-page").text_content() or "").strip())
        page.goto(stream)
        page.click("#who-watches-open")
        page.check("#who-watches input[value=token]")
        page.click("#who-watches button[type=submit]")
        page.click("#play-link-open")
        page.click("#play-link button[type=submit]")
        by_link = (page.locator("#made-page").text_content() or "").strip()
        page.click("#made [data-do=close].solid")
        watches(page, by_link)
        assert page.request.get(by_link.partition("?")[0]).status == 404
