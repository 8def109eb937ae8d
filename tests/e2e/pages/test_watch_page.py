"""The watch page in Chromium, beside a packager that FFmpeg stands in for: a stream that begins, breaks off, goes on,
ends and is closed, and what a viewer does with it. All goes on by itself: nobody loads the page again."""

import json
import re
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser import quiet
from tests.dashboard.test_accessibility import AXE, VIOLATIONS, WATCH, assert_none, violations
from tests.media import make_clip
from tests.receivers import serving
from tests.server_process import ServerProcess, running, wait_for
from tests.tools import require_tool

pytestmark = [pytest.mark.serve, pytest.mark.browser, pytest.mark.clients, pytest.mark.timeout(180)]

STREAM = "live/sunday"
NETWORK = "Failed to load resource"
"""What the browser notes of a server that is away."""


KINDS = {".m3u8": "application/vnd.apple.mpegurl", ".m4s": "video/mp4", ".mp4": "video/mp4", ".html": "text/html"}

VARIANT = (
    '#EXT-X-STREAM-INF:BANDWIDTH={bandwidth},CODECS="{codecs}",RESOLUTION={size}{audio}\nv0.m3u8?viewer={viewer}\n'
)
TRACKS = """#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="a",NAME="English",DEFAULT=YES,AUTOSELECT=YES
#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="a",NAME="Deutsch",DEFAULT=NO,URI="a1.m3u8?viewer={viewer}"
"""


class Packager:
    """A packager of one stream at the URLs of ours. FFmpeg's own muxer makes its files of a clip."""

    def __init__(self, folder: Path, clip: Path) -> None:
        self.folder, self._clip = folder, clip
        self.state: dict[str, str] = {}
        self.beacons: list[dict[str, Any]] = []
        self.asked: list[str] = []
        """The paths of all requests."""
        self._encoder: subprocess.Popen[bytes] | None = None
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        self.forget()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def forget(self) -> None:
        """Reset the packager to its first state."""
        self.state.update(state="waiting", words="", title="")
        self.codecs, self.has_choices, self.is_away = "avc1.42c01e,mp4a.40.2", False, False
        self.beacons.clear()
        self.asked.clear()
        for file in self.folder.iterdir():
            file.unlink()

    def go_live(self) -> None:
        """A publisher begins; again, it goes on over a discontinuity."""
        hls = ["-f", "hls", "-hls_time", "1", "-hls_list_size", "8", "-hls_segment_type", "fmp4"]
        flags = "append_list+discont_start+program_date_time+independent_segments"
        outputs = []
        for name, maps in (("v0", ["0:v", "0:a"]), ("a1", ["0:a"])):
            chosen = [word for each in maps for word in ("-map", each)]
            files = ["-hls_fmp4_init_filename", f"{name}-{uuid.uuid4().hex[:6]}.mp4"]
            files += ["-hls_segment_filename", str(self.folder / f"{name}-%d.m4s")]
            outputs += [*chosen, "-c", "copy", *hls, "-hls_flags", flags, *files, str(self.folder / f"{name}.m3u8")]
        read = ["-v", "error", "-re", "-stream_loop", "-1", "-i", str(self._clip)]
        self._encoder = subprocess.Popen([require_tool("ffmpeg"), *read, *outputs], stdin=subprocess.DEVNULL)
        self.state["state"] = "live"

    def stop(self, state: str) -> None:
        """The publisher leaves, for good if the state is `ended`."""
        if self._encoder is not None:
            # Not SIGINT: a shell may have the tests ignore it, and with them FFmpeg in its first moments.
            self._encoder.terminate()
            self._encoder.wait(10)
            self._encoder = None
        if state != "ended":
            for playlist in self.folder.glob("*.m3u8"):
                playlist.write_text(playlist.read_text().replace("#EXT-X-ENDLIST\n", ""))
        self.state["state"] = state

    def _index(self) -> str:
        viewer = uuid.uuid4().hex
        given = {"codecs": self.codecs, "viewer": viewer, "audio": ',AUDIO="a"' if self.has_choices else ""}
        text = "#EXTM3U\n#EXT-X-VERSION:7\n" + (TRACKS.format(**given) if self.has_choices else "")
        sizes = {"640x360": 900_000, "320x180": 400_000} if self.has_choices else {"320x180": 400_000}
        return text + "".join(VARIANT.format(bandwidth=rate, size=size, **given) for size, rate in sizes.items())

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        packager = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                name = self.path.partition("?")[0].rpartition("/")[2]
                packager.asked.append(self.path)
                if packager.is_away:
                    self.close_connection = True
                    return
                file = packager.folder / re.sub(r"[^\w.-]", "", name)
                if name == "state.json":
                    self._answer(200, json.dumps(packager.state).encode(), "application/json")
                elif name == "index.m3u8" and packager.state["state"] != "closed":
                    self._answer(200, packager._index().encode(), KINDS[".m3u8"])
                elif file.is_file():
                    self._answer(200, file.read_bytes(), KINDS.get(file.suffix, "text/plain"))
                else:
                    self._answer(404, b"", "text/plain")

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                packager.beacons.append({"path": self.path, **json.loads(body)})
                self._answer(204, b"", self.headers["Content-Type"])

            def _answer(self, status: int, body: bytes, kind: str) -> None:
                with suppress(OSError):
                    self.send_response(status)
                    self.send_header("Content-Type", kind)
                    self.send_header("Content-Length", str(len(body)))
                    self.send_header("Access-Control-Allow-Origin", "*")
                    self.send_header("Cache-Control", "no-store")
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_tool("ffmpeg")
    return make_clip(tmp_path_factory.mktemp("clip") / "clip.flv", seconds=8, size="320x180", video_kbps=300)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory, clip: Path) -> Iterator[tuple[ServerProcess, Packager]]:
    """The server, and the packager that it leads browsers to."""
    folder = tmp_path_factory.mktemp("watch")
    with ExitStack() as stack:
        (folder / "hls").mkdir()
        packager = Packager(folder / "hls", clip)
        stack.enter_context(serving(packager.server))
        told = {"RTMPWEB_HLS_URL": packager.url, "RTMPWEB_HLS": "127.0.0.1:0"}
        server = stack.enter_context(running(folder / "var", **told))
        server.manage("application", "set", "live")
        server.manage("stream", "create", STREAM)
        yield server, packager


@pytest.fixture
def server(places: tuple[ServerProcess, Packager]) -> ServerProcess:
    return places[0]


@pytest.fixture
def packager(places: tuple[ServerProcess, Packager]) -> Iterator[Packager]:
    """As it was; what a test has it do ends with that."""
    packager = places[1]
    packager.forget()
    yield packager
    packager.stop("waiting")


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    made.add_init_script(WATCH)
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    with quiet(context, but=NETWORK) as opened:
        yield opened
        assert opened.evaluate("window.brokenRules") == []


def url_of(server: ServerProcess, query: str = "") -> str:
    return f"{server.http}/watch/{STREAM}{query}"


def wait_state(page: Page, state: str, timeout_s: float = 30) -> None:
    page.locator(f"#player[data-state={state}]").wait_for(timeout=timeout_s * 1000)


def video(page: Page, what: str) -> Any:
    return page.evaluate(f"document.getElementById('video').{what}")


def plays(page: Page) -> None:
    """Media time goes on from here."""
    began = video(page, "currentTime")
    page.wait_for_function("began => document.getElementById('video').currentTime > began + 0.5", arg=began)


@pytest.mark.journey
def test_waiting_viewer_sees_the_stream_once_it_begins(page: Page, server: ServerProcess, packager: Packager) -> None:
    packager.state["title"] = "Sunday service"
    page.goto(url_of(server))
    wait_state(page, "waiting")
    expect(page.locator("#say")).to_contain_text("The stream has not started yet.")
    expect(page).to_have_title("Sunday service")
    packager.go_live()
    wait_state(page, "live")
    plays(page)
    assert video(page, "muted")
    assert "s behind" in (page.locator("#behind").text_content() or "")
    page.click("#unmute")
    assert not video(page, "muted")
    expect(page.locator("#unmute")).to_be_hidden()
    assert page.context.cookies() == []


def test_watch_page_resumes_by_itself_after_breaks_and_ends(
    page: Page, server: ServerProcess, packager: Packager
) -> None:
    """The publisher's, over a discontinuity; the packager's; and the end, after which it begins again."""
    packager.go_live()
    page.goto(url_of(server))
    wait_state(page, "live")
    packager.stop("waiting")
    wait_state(page, "paused")
    packager.go_live()
    wait_state(page, "live")
    plays(page)
    packager.is_away = True
    wait_state(page, "unreachable", timeout_s=60)
    packager.is_away = False
    wait_state(page, "live")
    plays(page)
    packager.stop("ended")
    wait_state(page, "ended")
    packager.go_live()
    wait_state(page, "live")
    packager.state |= {"state": "closed", "words": "The stream was closed."}
    packager.is_away = True  # Its playlists are refused then as well.
    wait_for(lambda: not page.locator("#player[data-state=live]").count(), timeout_s=60, what="the end")
    packager.is_away = False
    wait_state(page, "closed")
    expect(page.locator("#say")).to_contain_text("The stream was closed.")


def test_watch_page_keys_and_buttons_control_the_player(page: Page, server: ServerProcess, packager: Packager) -> None:
    packager.has_choices = True
    packager.go_live()
    page.goto(url_of(server))
    wait_state(page, "live")
    plays(page)
    page.keyboard.press("k")
    assert video(page, "paused")
    expect(page.locator("#play")).to_have_attribute("title", "Play (k)")
    expect(page.locator("#live-word")).to_have_text("Go to live")
    page.keyboard.press("l")
    expect(page.locator("#live-word")).to_have_text("Live")
    assert not video(page, "paused")
    page.keyboard.press("m")
    page.keyboard.press("ArrowDown")
    assert (video(page, "muted"), video(page, "volume")) == (False, 0.9)
    page.keyboard.press("f")
    page.wait_for_function("() => document.fullscreenElement?.id === 'player'")
    page.keyboard.press("f")
    page.wait_for_function("() => !document.fullscreenElement")
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    page.mouse.move(600, 300)
    page.mouse.click(600, 300)
    assert video(page, "paused")
    page.mouse.click(600, 300)
    expect(page.locator("#captions")).to_be_hidden()
    page.evaluate("document.getElementById('video').addTextTrack('captions', 'English')")
    expect(page.locator("#captions")).to_be_visible()
    page.keyboard.press("c")
    expect(page.locator("#captions")).to_have_attribute("aria-pressed", "true")
    assert video(page, "textTracks[0].mode") == "showing"
    page.click("#settings")
    page.get_by_label("360p, 0.9 Mbit/s").check()
    page.get_by_label("Deutsch").check()
    wait_for(lambda: any("a1.m3u8" in path for path in packager.asked), timeout_s=10, what="the other sound")
    plays(page)
    page.keyboard.press("Escape")
    expect(page.locator("#menu")).to_be_hidden()


def test_watch_page_sends_join_time_stalls_and_delay_to_the_packager(
    page: Page, server: ServerProcess, packager: Packager
) -> None:
    packager.go_live()
    page.goto(url_of(server))
    wait_state(page, "live")
    plays(page)
    page.goto("about:blank")
    wait_for(lambda: len(packager.beacons) >= 2, timeout_s=10, what="the last figures")
    first, last = packager.beacons[0], packager.beacons[-1]
    assert first["path"] == last["path"]
    assert first["path"].startswith(f"/hls/{STREAM}/beacon?viewer=")
    assert 0 < first["join_ms"] == last["join_ms"] < 30_000
    assert 0 < last["watched_ms"] < 60_000
    assert 0 < last["behind_ms"] < 60_000


def test_watch_page_says_that_a_codec_is_unplayable(page: Page, server: ServerProcess, packager: Packager) -> None:
    packager.codecs = "mp4v.20.9"
    packager.go_live()
    packager.state["words"] = "The stream’s picture is MPEG-4 Visual, which browsers can’t play."
    page.goto(url_of(server))
    wait_state(page, "unplayable")
    expect(page.locator("#say")).to_contain_text("MPEG-4 Visual, which browsers can’t play.")


NO_MEDIA_SOURCE = "for (const name of ['MediaSource', 'ManagedMediaSource']) delete window[name];"


def test_watch_page_without_media_source_uses_native_hls(page: Page, server: ServerProcess, packager: Packager) -> None:
    """As on older iPhones; a browser that has neither says so."""
    page.add_init_script(NO_MEDIA_SOURCE)
    packager.go_live()
    page.goto(url_of(server))
    if not video(page, "canPlayType('application/vnd.apple.mpegurl')"):
        wait_state(page, "unplayable")
        return
    wait_state(page, "live")
    plays(page)
    assert video(page, "src") == f"{packager.url}/hls/{STREAM}/index.m3u8"
    packager.stop("ended")
    wait_state(page, "ended", timeout_s=60)


FRAMES = {"embedded": "?embed=1", "whole": ""}


def test_watch_page_is_framed_only_in_its_embed_form(
    context: BrowserContext, server: ServerProcess, packager: Packager
) -> None:
    """As it is embedded; the whole page it may not have."""
    packager.go_live()
    frames = {name: f'<iframe src="{url_of(server, query)}"></iframe>' for name, query in FRAMES.items()}
    for name, text in frames.items():
        (packager.folder / f"{name}.html").write_text(text)
    page = context.new_page()
    page.goto(f"{packager.url}/embedded.html")
    page.frame_locator("iframe").locator("#player[data-state=live]").wait_for(timeout=30_000)
    page.goto(f"{packager.url}/whole.html", wait_until="networkidle")
    assert page.frame_locator("iframe").locator("#player").count() == 0


def test_a_replaced_link_says_so(page: Page, server: ServerProcess, packager: Packager) -> None:
    try:
        server.manage("stream", "set", STREAM, "--play", "token")
        first = server.manage_json("stream", "new-link", STREAM)
        packager.go_live()
        page.goto(first["watch_url"].replace("http://127.0.0.1:0", server.http))
        wait_state(page, "live")
        assert any(path.startswith(f"/hls/{first['token']}/{STREAM}/") for path in packager.asked)
        server.manage("stream", "new-link", STREAM)
        page.reload()
        expect(page.locator("h1")).to_have_text("This link doesn’t work any more")
        assert first["token"] not in server.log
    finally:
        server.manage("stream", "set", STREAM, "--play", "public")


LOOKS: dict[str, Callable[[Packager], object]] = {
    "waiting": lambda packager: None,
    "live": lambda packager: packager.go_live(),
}


@pytest.mark.parametrize("state", LOOKS)
@pytest.mark.parametrize("query", ["", "?embed=1"])
def test_watch_page_has_no_axe_violations_in_any_state(
    page: Page, server: ServerProcess, packager: Packager, state: str, query: str
) -> None:
    packager.has_choices = True
    LOOKS[state](packager)
    page.goto(url_of(server, query))
    wait_state(page, state)
    if state == "live":
        page.mouse.move(300, 300)
        page.click("#settings")
    found = violations(page)
    page.set_viewport_size({"width": 320, "height": 640})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.goto(url_of(server, "x"))
    page.evaluate(AXE.read_text())
    assert_none(found + page.evaluate(VIOLATIONS, [None, []]))
