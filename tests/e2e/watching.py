"""The watch page of a real server, with what hls.js says and asks for; and an encoder whose pictures tell when they
were sent.

Each second of its pictures has another grey, so a page that looks at what it shows knows how late it is.
"""

import asyncio
import math
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Page, Route

from ingest.rtmp import MessageType
from tests.programs import own_client
from tests.rtmpdecode import Decoded, messages_of
from tests.server_process import ServerProcess

GREYS: Final = 8
"""So many seconds the greys tell apart."""
DARKEST, GREY_STEP = 40, 25

LATE: Final = ("bufferStalledError", "bufferNudgeOnStall", "levelLoadTimeOut", "fragLoadTimeOut")
"""What hls.js reports where a machine is too busy to do all in time, or nothing comes."""

EXCUSE_S: Final = 0.25
"""Of what players of low latency have in hand: who stood still for longer may stall."""
STALLED_S: Final = 1.0
"""So much further behind hls.js stays once it has stalled."""

HEARD = """() => {
    window.heard = [];
    let library;
    Object.defineProperty(window, "Hls", { get: () => library, set: (Hls) => {
        library = class extends Hls {
            constructor(config) {
                super(config);
                window.hls = this;
                this.on(Hls.Events.ERROR, (_, { fatal, details, error }) => window.heard.push(
                    { at: Date.now() / 1000, fatal, details, text: error?.message ?? "" },
                ));
            }
        };
    } });
}"""
"""Keeps what hls.js reports as errors."""

SEEN = (
    """() => {
    window.seen = [];
    window.furthest = window.waitedMs = 0;
    let tickAt = performance.now();
    setInterval(() => {
        const now = performance.now();
        window.waitedMs = Math.max(window.waitedMs, now - tickAt - TICK_MS);
        tickAt = now;
    }, TICK_MS);
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 1;
    const context = canvas.getContext("2d", { willReadFrequently: true });
    let last = null;
    const watched = new WeakSet();
    const look = () => {
        const video = document.getElementById("video");
        if (!video || watched.has(video)) return;
        watched.add(video);
        const shown = (_, { presentationTime }) => {
            context.drawImage(video, 0, 0, 1, 1);
            const y = 16 + context.getImageData(0, 0, 1, 1).data[1] * 219 / 255;
            window.furthest = Math.max(window.furthest, video.currentTime);
            const grey = Math.round((y - DARKEST) / STEP);
            if (grey !== last) window.seen.push({ grey, at: (performance.timeOrigin + presentationTime) / 1000 });
            last = grey;
            video.requestVideoFrameCallback(shown);
        };
        video.requestVideoFrameCallback(shown);
    };
    new MutationObserver(look).observe(document, { childList: true, subtree: true });
}""".replace("DARKEST", str(DARKEST))
    .replace("STEP", str(GREY_STEP))
    .replace("TICK_MS", "50")
)
"""Keeps when each grey was first shown: `seen`; and how late the page itself was for want of a processor."""

STATE = """() => { const { currentTime, videoWidth, paused, playbackRate } = document.getElementById("video");
    return { currentTime, videoWidth, paused, playbackRate, state: document.getElementById("player").dataset.state,
        latency: window.hls?.latency ?? null, target: window.hls?.targetLatency ?? null,
        isLow: window.hls?.lowLatencyMode ?? null, errors: window.heard }; }"""


@dataclass
class Watched:
    """A watch page, from its opening on."""

    page: Page
    asked: list[str] = field(default_factory=list)
    """URLs."""
    faults: list[str] = field(default_factory=list)
    """Errors of its scripts."""

    @property
    def now(self) -> dict[str, Any]:
        found: dict[str, Any] = self.page.evaluate(STATE)
        return found

    def errors(self, since: float = 0.0, before: float = math.inf) -> list[str]:
        """What hls.js has reported between these times of the epoch, each as its name and text."""
        heard = self.page.evaluate("window.heard")
        return [f"{each['details']}: {each['text']}" for each in heard if since <= each["at"] < before]

    @property
    def fatal(self) -> list[dict[str, Any]]:
        """What hls.js could not go on after by itself."""
        return [each for each in self.page.evaluate("window.heard") if each["fatal"]]

    @property
    def first_picture_s(self) -> float:
        """From when it was opened."""
        self.page.wait_for_function("() => window.seen.length > 0")
        found: float = self.page.evaluate("window.seen[0].at - performance.timeOrigin / 1000")
        return found

    @property
    def waited_s(self) -> float:
        """The longest that the page stood still at once."""
        found: float = self.page.evaluate("window.waitedMs / 1000")
        return found

    @property
    def furthest_s(self) -> float:
        """Of the media's time, what was shown last."""
        found: float = self.page.evaluate("window.furthest")
        return found

    @property
    def is_low_latency(self) -> bool:
        return any("_HLS_part=" in url for url in self.asked)

    def excuse_s(self, encoder: "Greys") -> float:
        """By how much it may be late, as page or encoder had no processor."""
        waited_s = max(self.waited_s, encoder.late_s)
        has_stalled = waited_s > EXCUSE_S and any(error.startswith(LATE) for error in self.errors())
        return waited_s + (STALLED_S if has_stalled else 0.0)

    def wait_state(self, state: str, timeout_s: float = 30) -> None:
        self.page.locator(f"#player[data-state={state}]").wait_for(timeout=timeout_s * 1000)

    def wait_width(self, width: int, timeout_s: float = 30) -> None:
        """Of the pictures that are shown."""
        self.page.wait_for_function(
            "width => document.getElementById('video').videoWidth === width", arg=width, timeout=timeout_s * 1000
        )

    def plays(self, for_s: float = 1.0, timeout_s: float = 30) -> None:
        """So much media goes by from here, and it is live."""
        began = self.now["currentTime"]
        self.page.wait_for_function(
            "([began, s]) => document.getElementById('player').dataset.state === 'live'"
            " && document.getElementById('video').currentTime > began + s",
            arg=[began, for_s],
            timeout=timeout_s * 1000,
        )

    def forget(self) -> None:
        """What it has shown."""
        self.page.evaluate("window.seen.length = 0")

    def delays(self, sent: "dict[int, list[float]]") -> list[float]:
        """Seconds from when each grey was sent to when it was shown, after the first one. `sent`: of `Greys`."""
        found = []
        for each in self.page.evaluate("window.seen.slice(1)"):
            before = [at for at in sent.get(each["grey"], []) if at <= each["at"]]
            if before:
                found.append(each["at"] - before[-1])
        return found


@contextmanager
def watching(browser: Browser, server: ServerProcess, path: str, *, hls_port: int | None = None) -> Iterator[Watched]:
    """`hls_port`: of a proxy before the packager."""
    context = browser.new_context(viewport={"width": 960, "height": 600}, reduced_motion="reduce")
    context.add_init_script(f"({HEARD})(); ({SEEN})();")
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
    """The page finds the packager at that port, in its policy as in its text."""
    packager, proxy = f"127.0.0.1:{hls_port(server, path)}", f"127.0.0.1:{port}"

    def answer(route: Route) -> None:
        response = route.fetch()
        given = {**response.headers, "content-encoding": "identity", "content-length": ""}
        headers = {name: value.replace(packager, proxy) for name, value in given.items() if value}
        route.fulfill(status=response.status, headers=headers, body=response.text().replace(packager, proxy))

    # A page that comes from here and not from an address counts as one of the Internet.
    context.grant_permissions(["local-network-access"])
    context.route(f"{server.http}/watch/{path}*", answer)


def hls_port(server: ServerProcess, path: str) -> int:
    return int(urlsplit(server.stream(path)["hls_url"]).port or 0)


# --- The encoder ---


def make_greys(path: Path, *, gop_s: int = 2) -> Path:
    """H.264 and AAC of `GREYS` seconds, each of another grey."""
    grey = f"geq=lum='{DARKEST}+{GREY_STEP}*mod(floor(T),{GREYS})':cb=128:cr=128"
    inputs = ["-f", "lavfi", "-i", f"color=gray:size=320x180:rate=30,{grey},noise=alls=2:allf=t"]
    inputs += ["-f", "lavfi", "-i", "sine=frequency=440:sample_rate=48000"]
    options = (
        f"-c:v libx264 -preset ultrafast -tune zerolatency -pix_fmt yuv420p -g {30 * gop_s} -keyint_min {30 * gop_s}"
    )
    options += f" -sc_threshold 0 -b:v 300k -c:a aac -b:a 96k -ac 2 -t {GREYS} -f flv"
    subprocess.run(["ffmpeg", "-v", "error", "-y", *inputs, *options.split(), str(path)], check=True, timeout=60)
    return path


class Greys:
    """Publishes a clip again and again by a thread, at its pace; knows when it sent what."""

    def __init__(self, server: ServerProcess, key: dict[str, Any], clip: Path) -> None:
        self._server, self._key = server, key
        self._messages = [each for each in messages_of(clip) if each.type_id in (MessageType.VIDEO, MessageType.AUDIO)]
        self.sent: dict[int, list[float]] = {}
        """{grey: each time (of the epoch) at which its first picture was}"""
        self.late_s = 0.0
        """By how much a message went out late, at most."""
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
        """The encoder's clock."""
        self._jump_ms += ms

    async def _publish(self) -> None:
        loop = asyncio.get_running_loop()
        async with own_client(self._server, self._key) as (client, stream_id):
            began, round_ms = loop.time(), 0
            send = {MessageType.VIDEO: client.protocol.send_video, MessageType.AUDIO: client.protocol.send_audio}
            while not self._over.is_set():
                for message in self._messages:
                    if round_ms and message.payload[1] == 0:
                        continue  # A header, which was sent before.
                    due_s = (round_ms + message.timestamp) / 1000 - (loop.time() - began)
                    self.late_s = max(self.late_s, -due_s)
                    await asyncio.sleep(max(0.0, due_s))  # The pace of the media.
                    self._note(message)
                    at_ms = (self._jump_ms + round_ms + message.timestamp) % (1 << 32)
                    send[MessageType(message.type_id)](stream_id, at_ms, message.payload)
                    await client.flush()
                    if self._over.is_set():
                        return
                round_ms += GREYS * 1000

    def _note(self, message: Decoded) -> None:
        grey, into_ms = divmod(message.timestamp, 1000)
        if message.type_id == MessageType.VIDEO and message.payload[1] == 1 and into_ms < 33:
            self.sent.setdefault(grey % GREYS, []).append(time.time())


def told(delays: list[float]) -> str:
    return f"{statistics.median(delays):.2f} s (from {min(delays):.2f} to {max(delays):.2f})" if delays else "none"
