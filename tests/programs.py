"""Encoders and players in common use: their command lines, and how tests publish with them.

On a busy machine the server refuses clients whose database look-up took too long. Such clients try again here, as
encoders do.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from signal import SIGINT, SIGTERM, Signals
from typing import Any

import av
import imageio_ffmpeg

from ingest.rtmp import events
from tests.rtmp_client import Refused, RtmpClient, is_passing
from tests.server_process import ROOT, ServerProcess, program, wait_for
from tests.tools import VLC_USER

Key = dict[str, Any]
"""A stream's key as `streamkey create` prints it."""
Keys = dict[str, Key]
"""{stream of the application `live`: its key}"""


@dataclass(frozen=True)
class Client:
    """An encoder or a player."""

    command: Callable[[str, Path], list[str]]
    """(URL, FLV file to send or to write) -> arguments."""
    tools: tuple[str, ...] = ()
    """The tools (`tests/tools.py`) that it needs; those of the Python packages are always there."""
    end: Signals | None = None
    """The signal that ends a player. None: it ends after four seconds of media."""
    to_output: bool = False
    """True if a player writes to its standard output. Only VLC does, which must not be root."""


# --- Encoders: they send the packets of a clip unchanged, at their pace, to its end ---

FFMPEG = {"ffmpeg-debian": "ffmpeg", "ffmpeg-imageio": imageio_ffmpeg.get_ffmpeg_exe()}
GST = ("gst-launch-1.0",)
GSTREAMER = (*GST, "flvdemux", "flvmux")
LOOPED = ("-stream_loop", "-1")


def publishing(clip: Path, url: str, *options: str, executable: str = "ffmpeg") -> list[str]:
    """FFmpeg's command. `options`: those of its input."""
    source = [executable, "-nostdin", "-v", "error", "-re", *options, "-i", str(clip)]
    return [*source, "-map", "0", "-c", "copy", "-f", "flv", url]


def gstreamer_publishing(url: str, clip: Path, sink: str) -> list[str]:
    """`sink`: the element that publishes, with its properties."""
    pipeline = f"filesrc location={clip} ! flvdemux name=in  flvmux name=out streamable=true ! {sink} location={url}"
    for kind in ("video", "audio"):
        pipeline += f"  in.{kind} ! queue ! clocksync ! out.{kind}"
    return ["gst-launch-1.0", "-q", *pipeline.split()]


def remux(clip: str, url: str) -> None:
    """PyAV as an encoder: `python -m tests.programs CLIP URL`.

    It has a process of its own, as PyAV holds Python's lock while it opens an output.
    """
    with av.open(clip) as source, av.open(url, "w", format="flv") as target:
        streams = {stream.index: target.add_stream_from_template(stream) for stream in source.streams}
        start = time.monotonic()
        for packet in source.demux():
            if packet.dts is None:
                continue
            ahead_s = float(packet.dts * packet.time_base) - (time.monotonic() - start)
            time.sleep(max(0.0, ahead_s))  # The pace of the media.
            packet.stream = streams[packet.stream.index]
            target.mux(packet)


PUBLISHERS = {
    "ffmpeg-debian": Client(lambda url, clip: publishing(clip, url), ("ffmpeg",)),
    "ffmpeg-imageio": Client(lambda url, clip: publishing(clip, url, executable=FFMPEG["ffmpeg-imageio"])),
    "pyav": Client(lambda url, clip: [sys.executable, "-m", "tests.programs", str(clip), url]),
    "rtmp2sink": Client(partial(gstreamer_publishing, sink="rtmp2sink chunk-size=4096"), (*GSTREAMER, "rtmp2sink")),
    "rtmpsink": Client(partial(gstreamer_publishing, sink="rtmpsink"), (*GSTREAMER, "rtmpsink")),
}
"""FFmpeg sends chunks of the server's size, rtmpsink (librtmp) of 128 bytes."""


def publish(name: str, clip: Path, url: str) -> None:
    """Send a clip to its end. Raises CalledProcessError if the encoder fails, such as when it is refused."""
    subprocess.run(PUBLISHERS[name].command(url, clip), check=True, timeout=60, cwd=ROOT)


def key_url(key: Key, rtmp: str, form: str = "name") -> str:
    """`rtmp`: rtmp://HOST:PORT. The key is the name, or in the name's query."""
    app, name = key["stream"].split("/", 1)
    return f"{rtmp}/{app}/{key['key']}" if form == "name" else f"{rtmp}/{app}/{name}?key={key['key']}"


# --- Players ---


def ffmpeg_playing(url: str, out: Path, executable: str = "ffmpeg") -> list[str]:
    options = ["-t", "4", "-map", "0:v", "-map", "0:a", "-c", "copy", "-f", "flv"]
    return [executable, "-v", "error", "-i", url, *options, str(out)]


def gstreamer_playing(url: str, out: Path, source: str) -> list[str]:
    """`source`: the element that plays; {} in it stands for the URL."""
    element, _, location = source.partition(" ")
    sink = ["filesink", "buffer-mode=unbuffered", f"location={out}"]
    return ["gst-launch-1.0", "-q", element, location.format(url), "!", *sink]


VLC = ["cvlc", "-q", "--intf", "dummy", "--demux", "dump", "--demuxdump-file", "-"]


PLAYERS = {
    "ffmpeg": Client(ffmpeg_playing, ("ffmpeg",)),
    "ffmpeg-imageio": Client(partial(ffmpeg_playing, executable=FFMPEG["ffmpeg-imageio"])),
    "rtmpdump": Client(lambda url, out: ["rtmpdump", "-q", "--live", "-r", url, "-o", str(out)], ("rtmpdump",), SIGINT),
    "rtmp2src": Client(partial(gstreamer_playing, source="rtmp2src location={}"), (*GST, "rtmp2src"), SIGTERM),
    "rtmpsrc": Client(partial(gstreamer_playing, source="rtmpsrc location={} live=1"), (*GST, "rtmpsrc"), SIGTERM),
    "souphttpsrc": Client(partial(gstreamer_playing, source="souphttpsrc location={}"), (*GST, "souphttpsrc"), SIGTERM),
    "vlc": Client(lambda url, _: [*VLC, url, "vlc://quit"], ("cvlc", "avio", "demuxdump"), SIGTERM, to_output=True),
}
"""PyAV plays too (`tests.media.read_packets`)."""


@contextmanager
def playing(name: str, url: str, out: Path) -> Iterator[Callable[[], None]]:
    """Run a player during the block. The yielded function waits for its end, or brings it about."""
    player = PLAYERS[name]
    with ExitStack() as stack:
        file = stack.enter_context(out.open("wb")) if player.to_output else None
        user = VLC_USER if player.to_output else None
        process = stack.enter_context(program(*player.command(url, out), output=file, user=user))

        def finish() -> None:
            if player.end is not None:
                process.send_signal(player.end)
            code = process.wait(30)
            assert player.end is not None or code == 0, f"{name} ended with {code}"

        yield finish


# --- On a busy machine ---

REASON = "database_slow"
"""The reason of such refusals. Their count is of all streams, as an encoder may be refused before it names one."""
TRIES = 5
ADMITTED_S = 20.0
AGAIN_S = 0.5
"""Encoders wait so long after a refusal."""


@contextmanager
def on_air(
    server: ServerProcess, key: Key, clip: Path, *options: str, executable: str = "ffmpeg", url: str = ""
) -> Iterator[tuple["subprocess.Popen[str]", dict[str, Any]]]:
    """Publish the clip again and again by FFmpeg; yields its process and the stream's snapshot when it was first live.

    `options`: those of FFmpeg's output.
    """
    path = key["stream"]
    command = publishing(clip, url or key_url(key, server.rtmp), *LOOPED, executable=executable)
    command[-1:-1] = options
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
    server: ServerProcess, key: Key, clip: Path, publisher: str = "ffmpeg-debian", *, url: str = ""
) -> None:
    """Publish to the clip's end, by one of `PUBLISHERS`."""
    known = server.count_attempts(REASON)
    for _ in range(TRIES):
        try:
            return publish(publisher, clip, url or key_url(key, server.rtmp))
        except subprocess.CalledProcessError:
            known = wait_refused(server, known)
    raise AssertionError(f"refused {TRIES} times: {REASON}")


def wait_refused(server: ServerProcess, known: int) -> int:
    """Wait until more than `known` clients were refused for `REASON`; return the count."""

    def count() -> int | None:
        found = server.count_attempts(REASON)
        return found if found > known else None

    return wait_for(count, timeout_s=10, what=f"it was refused, more than {known} times: {REASON}")


@asynccontextmanager
async def admitted(
    port: int,
    ask: Callable[[RtmpClient], Awaitable[int]],
    *,
    app: str = "live",
    listener: Callable[[events.Event], None] = lambda _event: None,
    **properties: Any,
) -> AsyncIterator[tuple[RtmpClient, int]]:
    """Our client, and the message stream that `ask` returned. `properties`: of its `connect`. Raises Refused."""
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
async def own_client(server: ServerProcess, key: Key, **properties: Any) -> AsyncIterator[tuple[RtmpClient, int]]:
    """Our client while it publishes to `live`, and its message stream. `properties`: of its `connect`."""
    asked = admitted(server.rtmp_port, lambda client: client.publish(key["key"]), **properties)
    async with asked as (client, stream_id):
        yield client, stream_id
        await client.delete_stream(stream_id)
        await client.wait_for(events.StatusReceived, lambda event: event.code == "NetStream.Unpublish.Success")


if __name__ == "__main__":
    remux(*sys.argv[1:])
