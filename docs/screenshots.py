"""Makes the pictures in docs/images/ from the real thing: `make screenshots`.

Starts the embedded server in a temporary folder, lets FFmpeg publish some streams (one that stalls, one with keyframes
too far apart, one that ends), puts in what a used installation has, and takes each page in headless Chromium: wide in
light and dark, and on a phone. With a folder (`make screenshots ARGS=FOLDER`) they go there, each page at 360, 1280 and
2560 px in both themes and whole: to look at after a change.
"""

import base64
import contextlib
import json
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode

from playwright.sync_api import Browser, BrowserContext, Page

from tests.browser import chromium, furnished, log_in
from tests.media import make_clip
from tests.server_process import ServerProcess, program, wait_for

LINK = """
from datetime import timedelta
from ingest.models import StreamKey
from ingest.services import test_links
key = StreamKey.objects.get(stream__application__name="live", stream__name="studio-1")
print("LINK", test_links.make(key=key, lifetime=timedelta(days=1)).secret)
"""

IMAGES = Path(__file__).parent / "images"
QUALITY = 82

Scheme = Literal["light", "dark"]


@dataclass(frozen=True, slots=True)
class Show:
    """One stream of the pictures. Keyframes each `gop` frames of 25 a second."""

    path: str
    kbps: int
    gop: int = 50
    players: int = 0


SHOWS = (
    Show("live/arena-main", 2500, players=3),
    Show("live/court-2", 1200, gop=150, players=1),
    Show("live/studio-1", 1800, players=2),
    Show("live/lecture-hall-3", 800),
    Show("cams/harbour-cam", 600, players=1),
    Show("cams/market-square", 500),
)
STALLED = "live/arena-main"
ENDED = "cams/market-square"

DAYS, CHANNELS = 4, 6
"""Of the history that is made up; pages show its last two days beside the two before."""
RUN_S = 1800
"""The longest that Spark may take for it; a busy machine of two cores took eight minutes."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A page. What is in braces in the path: as `seed_demo_data` and `history` say; `ended`, a session that was
    published; and `link`, the secret of a test link.
    """

    name: str
    path: str
    height: int = 820
    stalled: bool = False
    """Whether one encoder is stopped for it; soon after, the server would end that session."""
    wait_ms: int = 2500
    """Two updates, so that charts and sparklines are drawn."""


PAGES = (
    Shown("wall", "/", 760, stalled=True),
    Shown("kiosk", "/?kiosk=1", 760, stalled=True),
    Shown("stream", "/streams/live/court-2/", 1400),
    Shown("sessions", "/sessions/"),
    Shown("session", "/sessions/{ended}/", 1300),
    Shown("compare", "/sessions/compare/?a={ended}&b={session}"),
    Shown("attempts", "/attempts/", 640),
    Shown("keys", "/keys/"),
    Shown("key", "/keys/{key}/"),
    Shown("test-link", "/t/#{link}", 900),
    Shown("recordings", "/recordings/", 480),
    Shown("watch", "/watch/live/studio-1", 780, wait_ms=6000),
    Shown("analytics", "/analytics/?stream={channel}&grain=hour&{dates}", 1000),
    Shown("history-compare", "/analytics/compare/?{dates}&{picks}", 1000),
    Shown("reports", "/reports/"),
    Shown("report", "/reports/{made}/", 1400),
    Shown("jobs", "/jobs/", 900),
    Shown("job", "/jobs/{done}/", 900),
    Shown("alerts", "/alerts/"),
    Shown("rule", "/alerts/rules/{rule}/"),
    Shown("service", "/alerts/services/{service}/", 820),
    Shown("deliveries", "/alerts/deliveries/", 480),
    Shown("nodes", "/nodes/", 640),
    Shown("node", "/nodes/{node}/"),
    Shown("audit", "/audit/", 640),
    Shown("settings", "/settings/", 1100),
    Shown("system", "/system/", 720),
    Shown("api", "/api/v1/docs", 820),
    Shown("password", "/password/", 560),
)


@dataclass(frozen=True, slots=True)
class Look:
    """How a page is taken. `whole`: all of it, else as high as the page says, or as a phone is."""

    suffix: str
    width: int
    scheme: Scheme
    height: int | None = None
    whole: bool = False


DOCUMENTED = (
    Look("light", 1280, "light"),
    Look("dark", 1280, "dark"),
    Look("phone", 360, "dark", height=780),
)
ALL = tuple(
    Look(f"{width}-{scheme}", width, scheme, whole=True) for width in (360, 1280, 2560) for scheme in ("light", "dark")
)


@dataclass(frozen=True, slots=True)
class Studio:
    """The server, its encoders by stream, and what the pages' paths name."""

    server: ServerProcess
    encoders: Mapping[str, "subprocess.Popen[str]"]
    ids: dict[str, Any] = field(default_factory=dict)

    @contextlib.contextmanager
    def stalled(self) -> Iterator[None]:
        """One encoder sends nothing, and the server has noticed."""
        encoder = self.encoders[STALLED]
        encoder.send_signal(signal.SIGSTOP)
        try:
            wait_for(lambda: self.server.stream(STALLED)["health"] == "bad", timeout_s=9, what="the stalled stream")
            yield
        finally:
            encoder.send_signal(signal.SIGCONT)


def publish(
    server: ServerProcess, show: Show, key: str, clips: Path, stack: contextlib.ExitStack
) -> "subprocess.Popen[str]":
    """Start the stream's encoder and players; they end with the stack."""
    name = f"{show.path.replace('/', '-')}.flv"
    clip = make_clip(clips / name, seconds=12, video_kbps=show.kbps, fps=25, gop=show.gop)
    app = show.path.split("/")[0]
    url = f"{server.rtmp}/{app}/{key}"
    encoder = stack.enter_context(
        program("ffmpeg", "-v", "error", "-re", "-stream_loop", "-1", "-i", str(clip), "-c", "copy", "-f", "flv", url)
    )
    for _ in range(show.players):
        play = f"{server.rtmp}/{show.path}"
        stack.enter_context(program("rtmpdump", "-q", "--live", "-r", play, "-o", "/dev/null"))
    return encoder


def history(server: ServerProcess) -> dict[str, Any]:
    """Of some made-up days: `done`, a run of the jobs; `made`, a report of the last day; `channel`, the stream that it
    says is worst; `picks`, some of its streams; `dates`, the last two days.
    """
    today = datetime.now(UTC).date()
    size = ("--streams", str(CHANNELS), "--hours", str(24 * DAYS), "--files-per-hour", "1")
    server.manage("analytics", "generate", "--from", f"{today - timedelta(days=DAYS)}T00:00", *size)
    done = json.loads(server.manage("analytics", "run", "--json", timeout_s=RUN_S))
    made = server.manage_json("report", "make", "daily")
    streams = [row["stream"] for row in made["streams"]]
    return {
        "done": done["id"],
        "made": made["id"],
        "channel": streams[0],
        "picks": urlencode([("pick", path) for path in streams[:3]]),
        "dates": urlencode({"from": today - timedelta(days=2), "to": today - timedelta(days=1)}),
    }


@contextlib.contextmanager
def studio() -> Iterator[Studio]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rtmpweb-")))
        # While nothing runs, so that Spark has the machine, and no scheduled run takes the work first.
        server = ServerProcess(folder / "var", RTMPWEB_NODE="ingest-1", RTMPWEB_HLS="127.0.0.1:0")
        server.folder.mkdir()
        server.manage("migrate")
        past = {**furnished(server), **history(server)}
        server.start()
        stack.callback(server.stop)
        server.manage("application", "set", "cams")
        keys = server.create_keys(show.path for show in SHOWS)
        encoders = {show.path: publish(server, show, keys[show.path]["key"], folder, stack) for show in SHOWS}
        (link,) = re.findall(r"^LINK (\S+)", server.manage("shell", "--no-imports", "-c", LINK), re.MULTILINE)
        made = Studio(server, encoders, {"link": link})
        made.ids.update(past, node="ingest-1")
        with program("ffmpeg", "-v", "error", "-i", f"{server.rtmp}/live?key=wrong/x", "-f", "null", "-") as refused:
            wait_for(lambda: refused.poll() is not None, timeout_s=10, what="a refused player")
        late = "the long keyframe interval"
        wait_for(lambda: server.stream("live/court-2")["health"] == "warning", timeout_s=90, what=late)
        made.ids["ended"] = server.stream(ENDED)["session_id"]
        made.encoders[ENDED].terminate()
        server.wait_for_state(ENDED, "offline", timeout_s=20)
        yield made


def take(context: BrowserContext, studio: Studio, shown: Shown, looks: tuple[Look, ...], folder: Path) -> None:
    page = context.new_page()
    page.set_viewport_size({"width": 1280, "height": shown.height})
    with studio.stalled() if shown.stalled else contextlib.nullcontext():
        page.goto(studio.server.http + shown.path.format(**studio.ids))
        page.wait_for_timeout(shown.wait_ms)
        for look in looks:
            height = look.height or (900 if look.whole else shown.height)
            page.set_viewport_size({"width": look.width, "height": height})
            page.emulate_media(color_scheme=look.scheme)
            page.wait_for_timeout(300)  # Charts are drawn anew.
            (folder / f"{shown.name}-{look.suffix}.webp").write_bytes(picture(page, look.whole))
    page.close()


def picture(page: Page, whole: bool) -> bytes:
    """As WebP, which playwright's own screenshots don't have."""
    session = page.context.new_cdp_session(page)
    asked = {"format": "webp", "quality": QUALITY, "captureBeyondViewport": whole}
    if whole:
        size = session.send("Page.getLayoutMetrics")["cssContentSize"]
        asked["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
    return base64.b64decode(session.send("Page.captureScreenshot", asked)["data"])


def take_all(browser: Browser, studio: Studio, looks: tuple[Look, ...], folder: Path) -> None:
    context = browser.new_context(reduced_motion="reduce")
    first = context.new_page()
    log_in(first, studio.server)
    first.close()
    for shown in PAGES:
        take(context, studio, shown, looks, folder)
    context.close()
    context = browser.new_context()
    take(context, studio, Shown("login", "/login/", 560), looks, folder)
    context.close()


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES
    folder.mkdir(parents=True, exist_ok=True)
    with studio() as made, chromium() as browser:
        take_all(browser, made, ALL if len(sys.argv) > 1 else DOCUMENTED, folder)


if __name__ == "__main__":
    main()
