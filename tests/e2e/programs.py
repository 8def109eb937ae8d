"""Encoders and players in common use: how each is told what to publish, and where to put what it plays."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import imageio_ffmpeg

from tests.server_process import ROOT, program
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
    subprocess.run([sys.executable, "-m", "tests.e2e.remux", str(clip), url], check=True, timeout=60, cwd=ROOT)


def by_gstreamer(*sink: str) -> Callable[[Path, str], None]:
    """`sink`: the element that publishes, with its properties."""

    def publish(clip: Path, url: str) -> None:
        pipeline = f"filesrc location={clip} ! flvdemux name=in  flvmux name=out streamable=true ! {' '.join(sink)}"
        pipeline += f" location={url}"
        for kind in ("video", "audio"):
            pipeline += f"  in.{kind} ! queue ! clocksync ! out.{kind}"
        subprocess.run(["gst-launch-1.0", "-q", *pipeline.split()], check=True, timeout=60)

    return publish


GSTREAMER = ("gst-launch-1.0", "flvdemux", "flvmux")

PUBLISHERS = {
    "ffmpeg-debian": Publisher(by_ffmpeg("ffmpeg"), ("ffmpeg",)),
    "ffmpeg-imageio": Publisher(by_ffmpeg(imageio_ffmpeg.get_ffmpeg_exe())),
    "pyav": Publisher(by_pyav),
    "rtmp2sink": Publisher(by_gstreamer("rtmp2sink", "chunk-size=4096"), (*GSTREAMER, "rtmp2sink")),
    "rtmpsink": Publisher(by_gstreamer("rtmpsink"), (*GSTREAMER, "rtmpsink")),
}
"""FFmpeg sends chunks of the server's size, rtmpsink (librtmp) of 128 bytes."""


def key_url(key: dict[str, Any], rtmp: str, form: str) -> str:
    """`key`: what `streamkey create` says; `rtmp`: rtmp://HOST:PORT. The key is the name, or in the name's query."""
    app, name = key["stream"].split("/", 1)
    base = f"{rtmp}/{app}"
    return {"name": f"{base}/{key['key']}", "query": f"{base}/{name}?key={key['key']}"}[form]


def publishing(clip: Path, url: str, *options: str) -> list[str]:
    """FFmpeg's command. `options`: those of its input."""
    return ["ffmpeg", "-v", "error", "-re", *options, "-i", str(clip), "-c", "copy", "-f", "flv", url]


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
    "ffmpeg-imageio": Player(to_ffmpeg(imageio_ffmpeg.get_ffmpeg_exe()), None),
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
        if player.to_output:
            user = NOBODY if os.geteuid() == 0 else None
            file = stack.enter_context(out.open("wb"))
            process = stack.enter_context(program(*player.command(url, out), output=file, user=user))
        else:
            process = stack.enter_context(program(*player.command(url, out)))

        def finish() -> None:
            if player.end is not None:
                process.send_signal(player.end)
            code = process.wait(30)
            assert player.end is not None or code == 0, f"{name} ended with {code}"

        yield finish
