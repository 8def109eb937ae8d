"""The watch page goes on by itself, whatever its encoder and its network do: nobody loads it again."""

import asyncio
import math
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route

from ingest.rtmp import MessageType
from tests.media import TONE, encode, make_clip
from tests.programs import on_air, own_client
from tests.rtmpdecode import messages_of
from tests.server.test_links import Link
from tests.server_process import ServerProcess
from tests.tools import require_tool

pytestmark = [pytest.mark.serve, pytest.mark.browser, pytest.mark.clients, pytest.mark.timeout(120)]

HOUR_MS = 3_600_000
SIZES = {"320x180": 320, "640x360": 640}
BAD_NETWORK_S = 20
PAST_BUFFER_S = 3.0
"""More than the page has in hand."""
STREAM_BYTES_PER_S = 60_000
"""About what the clip has, with its playlists."""
SHORT_STALL_S = 0.5
"""Less than what players of low latency have in hand."""
THROTTLED = 1.5
"""Times what the stream has."""
CALM_S = 4.0

# --- The page: its pictures have another grey each second, so it knows how late they are ---

GREYS: Final = 8
"""The greys repeat after so many seconds."""
DARKEST, GREY_STEP = 40, 25

LATE: Final = ("bufferStalledError", "bufferNudgeOnStall", "levelLoadTimeOut", "fragLoadTimeOut")
"""The errors of hls.js that a busy machine or a silent network causes."""
EXCUSE_S: Final = 0.25
"""Part of the buffer of players of low latency. Playback may stall if the machine stood still for longer."""

RECORD = f"const DARKEST = {DARKEST}, GREY_STEP = {GREY_STEP};\n" + Path(__file__).with_name("watching.js").read_text()
STATE = """() => ({
    currentTime: document.getElementById("video").currentTime, state: document.getElementById("player").dataset.state,
    latency: window.hls?.latency, target: window.hls?.targetLatency, isLow: window.hls?.lowLatencyMode })"""


@dataclass
class Watched:
    """A watch page, since it was opened."""

    page: Page
    asked: list[str] = field(default_factory=list)
    """URLs of its requests."""
    faults: list[str] = field(default_factory=list)
    """Errors of its scripts."""

    @property
    def now(self) -> dict[str, Any]:
        found: dict[str, Any] = self.page.evaluate(STATE)
        return found

    def errors(self, since: float = 0.0, before: float = math.inf) -> list[str]:
        """Return names and texts of the errors of hls.js between these times (UNIX)."""
        heard = self.page.evaluate("window.heard")
        return [f"{each['details']}: {each['text']}" for each in heard if since <= each["at"] < before]

    @property
    def waited_s(self) -> float:
        """The longest time that the page stood still at once."""
        return float(self.page.evaluate("window.waitedMs / 1000"))

    def wait_state(self, state: str, timeout_s: float = 30) -> None:
        self.page.locator(f"#player[data-state={state}]").wait_for(timeout=timeout_s * 1000)

    def plays(self, for_s: float = 1.0, timeout_s: float = 30) -> None:
        """Wait until the stream is live and so much more media has been played."""
        self.page.wait_for_function(
            "([began, s]) => document.getElementById('player').dataset.state === 'live'"
            " && document.getElementById('video').currentTime > began + s",
            arg=[self.now["currentTime"], for_s],
            timeout=timeout_s * 1000,
        )

    def delays(self, sent: "dict[int, list[float]]") -> list[float]:
        """Return the seconds from sending each grey (`Greys.sent`) to showing it, without the first."""
        found = []
        for each in self.page.evaluate("window.seen.slice(1)"):
            before = [at for at in sent.get(each["grey"], []) if at <= each["at"]]
            if before:
                found.append(each["at"] - before[-1])
        return found


@contextmanager
def watching(browser: Browser, server: ServerProcess, path: str, *, hls_port: int | None = None) -> Iterator[Watched]:
    """`hls_port`: the port of a proxy to the packager."""
    context = browser.new_context(viewport={"width": 960, "height": 600}, reduced_motion="reduce")
    context.add_init_script(f"{{{RECORD}}}")
    if hls_port is not None:
        lead_through(context, server, path, hls_port)
    page = context.new_page()
    watched = Watched(page)
    page.on("request", lambda request: watched.asked.append(request.url))
    page.on("pageerror", lambda error: watched.faults.append(error.stack or str(error)))
    page.goto(f"{server.http}/watch/{path}")
    yield watched
    context.close()


def lead_through(context: BrowserContext, server: ServerProcess, path: str, port: int) -> None:
    """Replace the packager's address by that of a proxy in the page's policy and text."""
    packager, proxy = f"127.0.0.1:{hls_port(server, path)}", f"127.0.0.1:{port}"

    def answer(route: Route) -> None:
        response = route.fetch()
        given = {**response.headers, "content-encoding": "identity", "content-length": ""}
        headers = {name: value.replace(packager, proxy) for name, value in given.items() if value}
        route.fulfill(status=response.status, headers=headers, body=response.text().replace(packager, proxy))

    # For Chromium a page that this function answers comes from the Internet.
    context.grant_permissions(["local-network-access"])
    context.route(f"{server.http}/watch/{path}*", answer)


def hls_port(server: ServerProcess, path: str) -> int:
    return int(urlsplit(server.stream(path)["hls_url"]).port or 0)


# --- The encoder ---


def make_greys(path: Path, *, gop_s: int = 2) -> Path:
    """`GREYS` seconds of H.264 and AAC, each of another grey."""
    grey = f"geq=lum='{DARKEST}+{GREY_STEP}*mod(floor(T),{GREYS})':cb=128:cr=128"
    picture = ("-f", "lavfi", "-i", f"color=gray:size=320x180:rate=30,{grey},noise=alls=2:allf=t")
    options = "-c:v libx264 -preset ultrafast -tune zerolatency -pix_fmt yuv420p"
    options += f" -g {30 * gop_s} -keyint_min {30 * gop_s} -sc_threshold 0 -b:v 300k -c:a aac -b:a 96k -ac 2 -t {GREYS}"
    return encode(path, *picture, *TONE, *options.split())


class Greys:
    """A thread that publishes a clip of greys again and again, at its pace."""

    def __init__(self, server: ServerProcess, key: dict[str, Any], clip: Path) -> None:
        self._server, self._key = server, key
        self._messages = [each for each in messages_of(clip) if each.type_id in (MessageType.VIDEO, MessageType.AUDIO)]
        self.sent: dict[int, list[float]] = {}
        """{grey: the times (UNIX) at which its first picture was sent}"""
        self.late_s = 0.0
        """The longest delay of a message behind its time."""
        self._jump_ms = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._publish()), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._server.wait_for_state(self._key["stream"], "live", timeout_s=30)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(10)

    def jump(self, ms: int) -> None:
        """Set the encoder's clock forward."""
        self._jump_ms += ms

    async def _publish(self) -> None:
        loop = asyncio.get_running_loop()
        async with own_client(self._server, self._key) as (client, stream_id):
            began, round_ms = loop.time(), 0
            send = {MessageType.VIDEO: client.protocol.send_video, MessageType.AUDIO: client.protocol.send_audio}
            while True:
                for message in self._messages:
                    if round_ms and message.payload[1] == 0:
                        continue  # A sequence header, which was sent in the first round.
                    due_s = (round_ms + message.timestamp) / 1000 - (loop.time() - began)
                    self.late_s = max(self.late_s, -due_s)
                    await asyncio.sleep(max(0.0, due_s))  # The pace of the media.
                    if self._over.is_set():
                        return
                    grey, into_ms = divmod(message.timestamp, 1000)
                    if message.type_id == MessageType.VIDEO and message.payload[1] == 1 and into_ms < 33:
                        self.sent.setdefault(grey % GREYS, []).append(time.time())
                    at_ms = (self._jump_ms + round_ms + message.timestamp) % (1 << 32)
                    send[MessageType(message.type_id)](stream_id, at_ms, message.payload)
                    await client.flush()
                round_ms += GREYS * 1000


def told(delays: list[float]) -> str:
    return f"{statistics.median(delays):.2f} s (from {min(delays):.2f} to {max(delays):.2f})" if delays else "none"


# --- The tests ---


@pytest.fixture(scope="module")
def greys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_tool("ffmpeg")
    return make_greys(tmp_path_factory.mktemp("greys") / "greys.flv")


def wait_width(watched: Watched, width: int) -> None:
    watched.page.wait_for_function(
        "width => document.getElementById('video').videoWidth === width", arg=width, timeout=30_000
    )


def test_watch_page_continues_over_changed_encoders_and_clock_jumps(
    hls_server: ServerProcess, browser: Browser, greys: Path, tmp_path: Path
) -> None:
    """One that comes back with pictures of another size, and one whose clock jumps, forward and back."""
    path = "live/goes-on"
    key = hls_server.create_keys([path])[path]
    clips = {size: make_clip(tmp_path / f"{size}.flv", seconds=6, size=size, video_kbps=300) for size in SIZES}
    with watching(browser, hls_server, path) as watched:
        watched.page.evaluate("window.isSamePage = true")
        for size, width in SIZES.items():
            with on_air(hls_server, key, clips[size]):
                wait_width(watched, width)
                watched.plays()
        with Greys(hls_server, key, greys) as encoder:
            wait_width(watched, 320)
            for jump_ms in (HOUR_MS, -HOUR_MS // 2):
                watched.plays()
                encoder.jump(jump_ms)
                watched.plays(PAST_BUFFER_S)
        assert watched.page.evaluate("window.isSamePage")
        assert [error for error in watched.page.evaluate("window.heard") if error["fatal"]] == []
        assert watched.faults == []


@dataclass(frozen=True)
class Outcome:
    errors: list[str]
    """Of hls.js."""
    delays: list[float]
    """Seconds, of each grey."""
    asked: list[str]
    watched_s: float
    seconds: float
    waited_s: float
    """What page or encoder stood still at once at most, for want of a processor."""

    @property
    def faults(self) -> list[str]:
        """The errors, but for those of a machine that stood still."""
        is_excused = self.waited_s > EXCUSE_S
        return [error for error in self.errors if not (is_excused and error.startswith(LATE))]


def troubles(proxy: Link) -> Iterator[None]:
    """One after the other, for as long as they are asked for."""
    for trouble in cycle(("stall", "throttle")):
        if trouble == "stall":
            proxy.stall(SHORT_STALL_S)
        else:
            proxy.limit(THROTTLED * STREAM_BYTES_PER_S)
        yield
        proxy.limit(None)
        yield


def watch_through(browser: Browser, server: ServerProcess, encoder: Greys, path: str, seconds: float) -> Outcome:
    """For so long, from the first picture on. The page goes on by itself."""
    with Link(hls_port(server, path)) as proxy, watching(browser, server, path, hls_port=proxy.port) as watched:
        watched.wait_state("live")
        watched.plays(2.0)
        began, at = time.monotonic(), watched.now["currentTime"]
        trouble = troubles(proxy)
        while time.monotonic() - began < seconds:
            next(trouble)
            watched.page.wait_for_timeout(CALM_S * 1000 / 2)
            assert watched.now["state"] == "live"
        watched.plays()
        passed_s, watched_s = time.monotonic() - began, watched.now["currentTime"] - at
        assert watched.faults == []
        waited_s = max(watched.waited_s, encoder.late_s)
        return Outcome(watched.errors(), watched.delays(encoder.sent), watched.asked, watched_s, passed_s, waited_s)


@pytest.mark.alone
def test_a_network_that_stalls_and_has_little_room_is_not_noticed(
    hls_server: ServerProcess, browser: Browser, greys: Path
) -> None:
    path = "live/bad-network"
    key = hls_server.create_keys([path])[path]
    with Greys(hls_server, key, greys) as encoder:
        outcome = watch_through(browser, hls_server, encoder, path, BAD_NETWORK_S)
    assert outcome.faults == []
    assert any("_HLS_part=" in url for url in outcome.asked)
    assert outcome.watched_s > outcome.seconds - 1
