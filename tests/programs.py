"""Encoders and players in common use: how each is told what to publish, and where to put what it plays.

On a busy machine, who is refused as the database did not answer in time comes again, as encoders do.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import imageio_ffmpeg

from ingest.rtmp import events
from tests.rtmp_client import Refused, RtmpClient, is_passing
from tests.server_process import ROOT, ServerProcess, program, wait_for
from tests.tools import NOBODY

Keys = dict[str, dict[str, Any]]
"""{stream of the application `live`: what `streamkey create` says of it}"""

# --- Encoders ---


@dataclass(frozen=True)
class Publisher:
    publish: Callable[[Path, str], None]
    """(clip, URL): sends the clip's packets as they are, at their pace, until its end."""
    tools: tuple[str, ...] = ()
    """What it needs (`tests/tools.py`); none: it comes with the Python packages."""


def by_ffmpeg(executable: str) -> Callable[[Path, str], None]:
    options = ["-map", "0", "-c", "copy", "-f", "flv"]

    def publish(clip: Path, url: str) -> None:
        subprocess.run([executable, "-v", "error", "-re", "-i", str(clip), *options, url], check=True, timeout=60)

    return publish


def by_pyav(clip: Path, url: str) -> None:
    subprocess.run([sys.executable, "-m", "tests.programs", str(clip), url], check=True, timeout=60, cwd=ROOT)


def remux(clip: str, url: str) -> None:
    """PyAV as an encoder, at the clip's pace: `python -m tests.programs CLIP URL`.

    A process of its own: PyAV holds Python's lock while it opens an output, and nothing else of the process runs then.
    """
    with av.open(clip) as source, av.open(url, "w", format="flv") as target:
        streams = {stream.index: target.add_stream_from_template(stream) for stream in source.streams}
        start = time.monotonic()
        for packet in source.demux():
            if packet.dts is None:
                continue
            ahead = float(packet.dts * packet.time_base) - (time.monotonic() - start)
            if ahead > 0:
                time.sleep(ahead)  # The pace of the media itself.
            packet.stream = streams[packet.stream.index]
            target.mux(packet)


def by_gstreamer(*sink: str) -> Callable[[Path, str], None]:
    """`sink`: the element that publishes, with its properties."""

    def publish(clip: Path, url: str) -> None:
        pipeline = f"filesrc location={clip} ! flvdemux name=in  flvmux name=out streamable=true ! {' '.join(sink)}"
        pipeline += f" location={url}"
        for kind in ("video", "audio"):
            pipeline += f"  in.{kind} ! queue ! clocksync ! out.{kind}"
        subprocess.run(["gst-launch-1.0", "-q", *pipeline.split()], check=True, timeout=60)

    return publish


FFMPEG = {"ffmpeg-debian": "ffmpeg", "ffmpeg-imageio": imageio_ffmpeg.get_ffmpeg_exe()}
GSTREAMER = ("gst-launch-1.0", "flvdemux", "flvmux")

PUBLISHERS = {
    "ffmpeg-debian": Publisher(by_ffmpeg(FFMPEG["ffmpeg-debian"]), ("ffmpeg",)),
    "ffmpeg-imageio": Publisher(by_ffmpeg(FFMPEG["ffmpeg-imageio"])),
    "pyav": Publisher(by_pyav),
    "rtmp2sink": Publisher(by_gstreamer("rtmp2sink", "chunk-size=4096"), (*GSTREAMER, "rtmp2sink")),
    "rtmpsink": Publisher(by_gstreamer("rtmpsink"), (*GSTREAMER, "rtmpsink")),
}
"""FFmpeg sends chunks of the server's size, rtmpsink (librtmp) of 128 bytes."""


def key_url(key: dict[str, Any], rtmp: str, form: str = "name") -> str:
    """`key`: what `streamkey create` says; `rtmp`: rtmp://HOST:PORT. The key is the name, or in the name's query."""
    app, name = key["stream"].split("/", 1)
    base = f"{rtmp}/{app}"
    return {"name": f"{base}/{key['key']}", "query": f"{base}/{name}?key={key['key']}"}[form]


LOOPED = ("-stream_loop", "-1")


def publishing(clip: Path, url: str, *options: str, executable: str = "ffmpeg") -> list[str]:
    """FFmpeg's command. `options`: those of its input."""
    return [executable, "-v", "error", "-re", *options, "-i", str(clip), "-c", "copy", "-f", "flv", url]


# --- Players ---


@dataclass(frozen=True)
class Player:
    command: Callable[[str, Path], list[str]]
    """(URL, FLV file to write): its arguments."""
    end: signal.Signals | None
    """What ends it; None: it ends by itself, after four seconds of media."""
    tools: tuple[str, ...] = ()
    """As a publisher's."""
    to_output: bool = False
    """It writes to its standard output, and refuses to be root, so is somebody else who may write no file."""


def to_ffmpeg(executable: str) -> Callable[[str, Path], list[str]]:
    options = ["-t", "4", "-map", "0:v", "-map", "0:a", "-c", "copy", "-f", "flv"]
    return lambda url, out: [executable, "-v", "error", "-i", url, *options, str(out)]


def to_gstreamer(source: str) -> Callable[[str, Path], list[str]]:
    """`source`: the element that plays; {} in it stands for the URL."""

    def command(url: str, out: Path) -> list[str]:
        element, _, location = source.partition(" ")
        file = ["filesink", "buffer-mode=unbuffered", f"location={out}"]
        return ["gst-launch-1.0", "-q", element, location.format(url), "!", *file]

    return command


def to_vlc(url: str, _out: Path) -> list[str]:
    return ["cvlc", "-q", "--intf", "dummy", "--demux", "dump", "--demuxdump-file", "-", url, "vlc://quit"]


PLAYERS = {
    "ffmpeg": Player(to_ffmpeg("ffmpeg"), None, ("ffmpeg",)),
    "ffmpeg-imageio": Player(to_ffmpeg(FFMPEG["ffmpeg-imageio"]), None),
    # It plays until it is told to end, and then closes its file.
    "rtmpdump": Player(lambda url, out: ["rtmpdump", "-q", "--live", "-r", url, "-o", str(out)],
                       signal.SIGINT, ("rtmpdump",)),
    "rtmp2src": Player(to_gstreamer("rtmp2src location={}"), signal.SIGTERM, ("gst-launch-1.0", "rtmp2src")),
    "rtmpsrc": Player(to_gstreamer("rtmpsrc location={} live=1"), signal.SIGTERM, ("gst-launch-1.0", "rtmpsrc")),
    "souphttpsrc": Player(to_gstreamer("souphttpsrc location={}"), signal.SIGTERM, ("gst-launch-1.0", "souphttpsrc")),
    "vlc": Player(to_vlc, signal.SIGTERM, ("cvlc", "avio", "demuxdump"), to_output=True),
}  # fmt: skip
"""The programs; PyAV plays too (`tests.media.read_packets`)."""


@contextmanager
def playing(name: str, url: str, out: Path) -> Iterator[Callable[[], None]]:
    """The player runs while the block does. What is yielded waits for its own end, or brings it about."""
    player = PLAYERS[name]
    with ExitStack() as stack:
        file = stack.enter_context(out.open("wb")) if player.to_output else None
        user = NOBODY if player.to_output and os.geteuid() == 0 else None
        process = stack.enter_context(program(*player.command(url, out), output=file, user=user))

        def finish() -> None:
            if player.end is not None:
                process.send_signal(player.end)
            code = process.wait(30)
            assert player.end is not None or code == 0, f"{name} ended with {code}"

        yield finish


# --- On a busy machine ---

REASON = "database_slow"
"""See `is_passing`. Counted of all: where an encoder only connects, its stream is not known."""
TRIES = 5
UNPUBLISHED = "NetStream.Unpublish.Success"

ADMITTED_S = 20.0
AGAIN_S = 0.5
"""What encoders wait after a refusal."""


@contextmanager
def on_air(
    server: ServerProcess, key: dict[str, Any], clip: Path, executable: str = "ffmpeg"
) -> Iterator[tuple["subprocess.Popen[str]", dict[str, Any]]]:
    """FFmpeg while it publishes the clip again and again, and the stream's snapshot when it was first live."""
    path, command = key["stream"], publishing(clip, key_url(key, server.rtmp), *LOOPED, executable=executable)
    with ExitStack() as stack:
        known = server.count_attempts(REASON)
        started = [stack.enter_context(program(*command))]

        def look() -> dict[str, Any] | None:
            nonlocal known
            snapshot = server.stream(path)
            if snapshot["state"] == "live":
                return snapshot
            if started[-1].poll() is not None and len(started) < TRIES:
                known = wait_refused(server, known)
                started.append(stack.enter_context(program(*command)))
            return None

        snapshot = wait_for(look, timeout_s=40, what=f"{path} is live")
        yield started[-1], snapshot


def publish_whole(
    server: ServerProcess,
    key: dict[str, Any],
    clip: Path,
    publisher: str = "ffmpeg-debian",
    *,
    form: str = "name",
    rtmp: str = "",
) -> None:
    """To the clip's end, by one of `PUBLISHERS`. `rtmp`: to a proxy before the server."""
    known = server.count_attempts(REASON)
    for _ in range(TRIES):
        try:
            return PUBLISHERS[publisher].publish(clip, key_url(key, rtmp or server.rtmp, form))
        except subprocess.CalledProcessError:
            known = wait_refused(server, known)
    raise AssertionError(f"refused {TRIES} times: {REASON}")


def wait_refused(server: ServerProcess, known: int) -> int:
    """Until more than `known` were; returns how many."""

    def more() -> int | None:
        count = server.count_attempts(REASON)
        return count if count > known else None

    return wait_for(more, timeout_s=10, what=f"it was refused, more than {known} times: {REASON}")


@asynccontextmanager
async def admitted(
    port: int,
    ask: Callable[[RtmpClient], Awaitable[int]],
    *,
    app: str = "live",
    listener: Callable[[events.Event], None] = lambda _event: None,
    **properties: Any,
) -> AsyncIterator[tuple[RtmpClient, int]]:
    """A client that has what it asked for, and its message stream, until the block ends. It comes back while the
    database is slow. `properties`: of its `connect`. Raises Refused.
    """
    ends_at = time.monotonic() + ADMITTED_S
    while True:
        async with RtmpClient(port=port, timeout_s=ADMITTED_S) as client:
            client.listener = listener
            try:
                await client.connect(app, **properties)
                stream_id = await ask(client)
            except Refused as refused:
                if not is_passing(refused) or time.monotonic() > ends_at:
                    raise
            else:
                yield client, stream_id
                return
        await asyncio.sleep(AGAIN_S)


@asynccontextmanager
async def own_client(
    server: ServerProcess, key: dict[str, Any], **properties: Any
) -> AsyncIterator[tuple[RtmpClient, int]]:
    """Ours, which publishes to `live` until the block ends, and its message stream. `properties`: of its `connect`."""
    asked = admitted(server.rtmp_port, lambda client: client.publish(key["key"]), **properties)
    async with asked as (connection, stream_id):
        yield connection, stream_id
        await connection.delete_stream(stream_id)
        await connection.wait_for(events.StatusReceived, lambda event: event.code == UNPUBLISHED)


if __name__ == "__main__":
    remux(*sys.argv[1:])
