"""Makes the pictures in docs/images/ from the real thing: `make screenshots`.

Starts the embedded server in a temporary folder, lets FFmpeg publish some streams (one that stalls, one with keyframes
too far apart), and takes the pages in headless Chromium.
"""

import contextlib
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser

from tests.browser import chromium, log_in
from tests.media import make_clip
from tests.server_process import ServerProcess, program, running, wait_for

IMAGES = Path(__file__).parent / "images"


@dataclass(frozen=True, slots=True)
class Show:
    """One stream of the picture. Keyframes each `gop` frames of 25 a second."""

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


@dataclass(frozen=True, slots=True)
class Picture:
    name: str
    path: str
    scheme: Literal["dark", "light"]
    width: int
    height: int
    stalled: bool = False
    """Whether one encoder is stopped for it; soon after, the server would end that session."""


PICTURES = (
    Picture("wall", "/", "dark", 1280, 760, stalled=True),
    Picture("wall-light", "/", "light", 1280, 760, stalled=True),
    Picture("wall-phone", "/", "dark", 360, 780, stalled=True),
    Picture("stream", "/streams/live/court-2/", "light", 1280, 1400),
    Picture("attempts", "/attempts/", "light", 1280, 500),
    Picture("system", "/system/", "light", 1280, 620),
)


def publish(server: ServerProcess, show: Show, clips: Path, stack: contextlib.ExitStack) -> "subprocess.Popen[str]":
    """Start the stream's encoder and players; they end with the stack."""
    clip = make_clip(
        clips / f"{show.path.replace('/', '-')}.flv", seconds=18, video_kbps=show.kbps, fps=25, gop=show.gop
    )
    app = show.path.split("/")[0]
    key = server.create_key(show.path)["key"]
    url = f"{server.rtmp}/{app}/{key}"
    encoder = stack.enter_context(
        program("ffmpeg", "-v", "error", "-re", "-stream_loop", "-1", "-i", str(clip), "-c", "copy", "-f", "flv", url)
    )
    for _ in range(show.players):
        play = f"{server.rtmp}/{show.path}"
        stack.enter_context(program("rtmpdump", "-q", "--live", "-r", play, "-o", "/dev/null"))
    return encoder


@contextlib.contextmanager
def stopped(server: ServerProcess, encoder: "subprocess.Popen[str]") -> Iterator[None]:
    """The encoder sends nothing, and the server has noticed."""
    encoder.send_signal(signal.SIGSTOP)
    try:
        wait_for(lambda: server.stream(STALLED)["health"] == "bad", timeout_s=9, what="the stalled stream")
        yield
    finally:
        encoder.send_signal(signal.SIGCONT)


def take(browser: Browser, server: ServerProcess, picture: Picture, encoder: "subprocess.Popen[str]") -> None:
    context = browser.new_context(
        viewport={"width": picture.width, "height": picture.height}, color_scheme=picture.scheme
    )
    page = context.new_page()
    log_in(page, server)
    page.goto(server.http + picture.path)
    with stopped(server, encoder) if picture.stalled else contextlib.nullcontext():
        page.wait_for_timeout(2000)  # Two updates, so that charts and sparklines are drawn.
        page.screenshot(path=IMAGES / f"{picture.name}.png")
    context.close()


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rtmpweb-")))
        server = stack.enter_context(running(folder / "var"))
        server.manage("application", "set", "cams")
        encoders = {show.path: publish(server, show, folder, stack) for show in SHOWS}
        with program("ffmpeg", "-v", "error", "-i", f"{server.rtmp}/live?key=wrong/x", "-f", "null", "-") as refused:
            wait_for(lambda: refused.poll() is not None, timeout_s=10, what="a refused player")
        wait_for(
            lambda: server.stream("live/court-2")["health"] == "warning",
            timeout_s=60,
            what="the long keyframe interval",
        )
        with chromium() as browser:
            for picture in PICTURES:
                take(browser, server, picture, encoders[STALLED])


if __name__ == "__main__":
    main()
