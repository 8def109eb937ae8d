"""The watch page of a real server with the messages of hls.js, and an encoder whose pictures say when they were sent.

Each second of its pictures has another grey, so a page that looks at its own pictures knows how late they are.
"""

import asyncio
import math
import statistics
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
from tests.media import TONE, encode
from tests.programs import own_client
from tests.rtmpdecode import messages_of
from tests.server_process import ServerProcess

GREYS: Final = 8
"""The greys repeat after so many seconds."""
DARKEST, GREY_STEP = 40, 25

LATE: Final = ("bufferStalledError", "bufferNudgeOnStall", "levelLoadTimeOut", "fragLoadTimeOut")
"""The errors of hls.js that a busy machine or a silent network causes."""
EXCUSE_S: Final = 0.25
"""Part of the buffer of players of low latency. Playback may stall if the machine stood still for longer."""

RECORD = f"const DARKEST = {DARKEST}, GREY_STEP = {GREY_STEP};\n" + Path(__file__).with_suffix(".js").read_text()
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
