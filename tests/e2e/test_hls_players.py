"""Players in common use play by HLS to the end of what an encoder sent: all of it, in step."""

import re
import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import av
import httpx
import pytest
from playwright.sync_api import Browser

from tests.e2e.test_hls_page import LATE, watching
from tests.media import make_clip, make_enhanced_clip
from tests.programs import FFMPEG, publish_whole
from tests.server_process import ServerProcess, program, wait_for
from tests.tools import VLC_USER, find_tool, require_tool

pytestmark = [pytest.mark.serve, pytest.mark.clients, pytest.mark.timeout(180)]

CLIP_S = 8
CODECS = {"h264-aac": ("h264", "aac"), "hevc-aac": ("hevc", "aac"), "av1-opus": ("av1", "opus")}
SIZE = "320x180"

IN_BROWSER = ("h264-aac", "av1-opus")
"""Chromium as Debian has it decodes no HEVC in software."""
LEAST_S = 3
"""Of a clip, which a player gets though it comes late on a busy machine: from a keyframe on, to the end."""
BEGIN = "bufferSeekOverHole: fragment loaded with buffer holes, seeking from 0 to"
"""An error of hls.js, if a busy machine informs it of its first picture 0.2 s late. Any other hole is a fault."""
APART_MS = 1
"""What a packet's time may be off the one that RTMP had."""

CAPS = {
    "h264": "video/x-h264",
    "hevc": "video/x-h265",
    "av1": "video/x-av1",
    "aac": "audio/mpeg",
    "opus": "audio/x-opus",
}


def by_ffmpeg(executable: str) -> Callable[[str, str, Path], list[str]]:
    """The packets' hashes and times. MP4 has AV1 without temporal delimiters."""
    options = ["-copyts", "-map", "0:v", "-map", "0:a", "-c", "copy"]
    form = ["-f", "framehash", "-hash", "md5"]

    def command(url: str, clip: str, out: Path) -> list[str]:
        bare = ["-bsf:v", "av1_metadata=td=remove"] if clip.startswith("av1") else []
        return [executable, "-v", "error", "-i", url, *options, *bare, *form, str(out)]

    return command


def by_hlsdemux(url: str, clip: str, out: Path) -> list[str]:
    source = ["souphttpsrc", f"location={url}", "!", "hlsdemux", "!", "qtdemux", "name=in"]
    return ["gst-launch-1.0", "-v", *source, *sinks("in.video_0", "in.audio_0")]


def by_hlsdemux2(url: str, clip: str, out: Path) -> list[str]:
    """It needs another element around it, which chooses it before hlsdemux."""
    pads = [f"in. ! {CAPS[codec]}" for codec in CODECS[clip]]
    return ["gst-launch-1.0", "-v", "urisourcebin", "parse-streams=true", f"uri={url}", "name=in", *sinks(*pads), *LIVE]


LIVE = ["audiotestsrc", "is-live=true", "num-buffers=1", "!", "fakesink"]
"""It makes the pipeline a live one, which gst-launch does not pause until enough is there: at the end of a stream
hlsdemux2 may fail to say that no more comes (GStreamer 1.22)."""


def sinks(*pads: str) -> list[str]:
    """Which tell of each buffer."""
    return [
        word
        for name, pad in zip(("video", "audio"), pads, strict=True)
        for word in f"{pad} ! queue ! fakesink name={name} silent=false".split()
    ]


def by_vlc(url: str, clip: str, out: Path) -> list[str]:
    sout = "#std{access=file,mux=ffmpeg{mux=matroska},dst=-}"
    return ["cvlc", "-q", "--intf", "dummy", "--play-and-exit", "--sout", sout, url]


@dataclass(frozen=True)
class Player:
    command: Callable[[str, str, Path], list[str]]
    """(URL, clip, file to write): its arguments."""
    tools: tuple[str, ...] = ()
    is_root: bool = True
    """False: it refuses to be."""
    writes: bool = False
    """Its file itself; else what it writes to its output is one."""


PLAYERS = {
    "ffmpeg": Player(by_ffmpeg(FFMPEG["ffmpeg-debian"]), ("ffmpeg",), writes=True),
    "ffmpeg-imageio": Player(by_ffmpeg(FFMPEG["ffmpeg-imageio"]), writes=True),
    "hlsdemux": Player(by_hlsdemux, ("gst-launch-1.0", "hlsdemux", "qtdemux", "souphttpsrc")),
    "hlsdemux2": Player(by_hlsdemux2, ("gst-launch-1.0", "hlsdemux2", "urisourcebin")),
    "vlc": Player(by_vlc, ("cvlc", "adaptive", "stream_out_standard"), is_root=False),
}

Hash = tuple[str, str, Fraction]
"""Of one packet: "video" or "audio", its MD5, and its decoding time in ms."""


def hashes(text: str) -> list[Hash]:
    """What FFmpeg's muxer `framehash` wrote: stream, dts, pts, duration, size, hash, and more of some."""
    kinds = dict(re.findall(r"^#media_type (\d): (\w+)", text, re.M))
    bases = {stream: Fraction(base) * 1000 for stream, base in re.findall(r"^#tb (\d): (\S+)", text, re.M)}
    lines = [[field.strip() for field in line.split(",")] for line in text.splitlines() if line[:1].isdigit()]
    return [(kinds[stream], digest, int(dts) * bases[stream]) for stream, dts, _, _, _, digest, *_ in lines]


@dataclass
class Rounds:
    """All that was played, all at once."""

    clips: dict[str, Path]
    codes: dict[tuple[str, str], int]
    """Exit codes, by clip and player."""
    files: dict[tuple[str, str], Path]
    shown: dict[str, dict[str, Any]]
    """Of each clip in Chromium: what the page was like when it had ended, and what hls.js said."""

    def played(self, clip: str, player: str) -> Path:
        for tool in PLAYERS[player].tools:
            require_tool(tool)
        code, file = self.codes[clip, player], self.files[clip, player]
        assert code == 0, file.read_bytes()[-2000:]
        return file


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    require_tool("ffmpeg")
    folder = tmp_path_factory.mktemp("clips")
    made = {"h264-aac": make_clip(folder / "h264-aac.flv", seconds=CLIP_S, size=SIZE, video_kbps=300)}
    for name, (video, audio) in CODECS.items():
        if name not in made:
            made[name] = make_enhanced_clip(folder / f"{name}.flv", [video], [audio], seconds=CLIP_S, size=SIZE)
    return made


@pytest.fixture(scope="module")
def rounds(
    hls_server: ServerProcess, browser: Browser, clips: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Rounds:
    """Each clip is sent once, its players come while it is, and go when the playlist has ended."""
    server, folder = hls_server, tmp_path_factory.mktemp("played")
    keys = server.create_keys(f"live/{name}" for name in clips)
    players = {name: player for name, player in PLAYERS.items() if all(map(find_tool, player.tools))}
    with ThreadPoolExecutor(len(clips)) as pool, ExitStack() as stack:
        pages = {name: stack.enter_context(watching(browser, server, f"live/{name}")) for name in IN_BROWSER}
        sent = {name: pool.submit(publish, server, keys[f"live/{name}"], clip) for name, clip in clips.items()}
        programs: dict[tuple[str, str], subprocess.Popen[str]] = {}
        files: dict[tuple[str, str], Path] = {}
        for name in clips:
            url = wait_live(server, f"live/{name}")
            for by, player in players.items():
                out = files[name, by] = folder / f"{name}-{by}"
                output = None if player.writes else stack.enter_context(out.open("wb"))
                user = None if player.is_root else VLC_USER
                command = player.command(url, name, out)
                programs[name, by] = stack.enter_context(program(*command, output=output, user=user))
        shown = {}
        for name, watched in pages.items():
            watched.wait_state("ended", timeout_s=60)
            errors = watched.errors(before=sent[name].result(60))
            shown[name] = {
                "watched_s": watched.page.evaluate("window.furthest"),
                "errors": errors,
                "asked": watched.asked,
            }
            assert watched.faults == []
        codes = {at: wait_end(each) for at, each in programs.items()}
    return Rounds(clips, codes, files, shown)


def publish(server: ServerProcess, key: dict[str, Any], clip: Path) -> float:
    """When it was all sent, in seconds since the epoch."""
    publish_whole(server, key, clip, "ffmpeg-imageio")
    return time.time()


def wait_live(server: ServerProcess, path: str) -> str:
    """The URL, once the packager knows that somebody publishes: for a moment it goes by what it knew."""
    url: str = server.stream(path)["hls_url"]
    state = urljoin(url, "state.json")
    wait_for(lambda: httpx.get(state, timeout=20).json()["state"] == "live", timeout_s=30, what=f"{path} is live")
    return url


def wait_end(process: "subprocess.Popen[str]") -> int:
    try:
        return process.wait(30)
    except subprocess.TimeoutExpired:
        return -signal.SIGALRM


def assert_tail(got: list[str], sent: list[str], what: object) -> int:
    """It is how `sent` ends, all but the beginning at most. Where it begins there."""
    begin = len(sent) - len(got)
    assert got == sent[begin:], what
    assert len(got) >= len(sent) * LEAST_S / CLIP_S, what
    return begin


@pytest.fixture(scope="module")
def published(clips: dict[str, Path]) -> dict[str, list[Hash]]:
    found = {}
    for name, clip in clips.items():
        command = by_ffmpeg(FFMPEG["ffmpeg-imageio"])(str(clip), name, Path("-"))
        done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=30)
        found[name] = hashes(done.stdout)
    return found


@pytest.mark.parametrize("player", FFMPEG)
@pytest.mark.parametrize("clip", CODECS)
def test_ffmpeg_gets_each_packet_at_its_time(
    rounds: Rounds, published: dict[str, list[Hash]], clip: str, player: str
) -> None:
    """From a keyframe on, pictures and sound in step as they were."""
    received = hashes(rounds.played(clip, player.replace("-debian", "")).read_text())
    offsets: list[Fraction] = []
    for kind in ("video", "audio"):
        got, sent = ([each for each in several if each[0] == kind] for several in (received, published[clip]))
        begin = assert_tail([digest for _, digest, _ in got], [digest for _, digest, _ in sent], (clip, kind))
        offsets += [at - was for (_, _, at), (_, _, was) in zip(got, sent[begin:], strict=True)]
    assert max(offsets) - min(offsets) <= 2 * APART_MS


@pytest.mark.parametrize("player", ["hlsdemux", "hlsdemux2"])
@pytest.mark.parametrize("clip", CODECS)
def test_gstreamer_plays_the_whole_hls_stream(
    rounds: Rounds, published: dict[str, list[Hash]], clip: str, player: str
) -> None:
    """It ends by itself, at the end of the stream."""
    said = rounds.played(clip, player).read_text()
    assert "Got EOS from element" in said
    for kind in ("video", "audio"):
        # -v may tell of the same buffer twice, by the same address.
        count = len(set(re.findall(rf"GstFakeSink:{kind}: last-message = (chain.*)", said)))
        sent = sum(each == kind for each, _, _ in published[clip])
        assert sent * LEAST_S / CLIP_S <= count <= sent, kind


@pytest.mark.parametrize("clip", CODECS)
def test_vlc_plays_the_whole_hls_stream(rounds: Rounds, published: dict[str, list[Hash]], clip: str) -> None:
    file = rounds.played(clip, "vlc")
    counts = {"video": 0, "audio": 0}
    with av.open(str(file)) as container:
        for packet in container.demux():
            counts[packet.stream.type] += packet.size > 0
    for kind, count in counts.items():
        sent = sum(each == kind for each, _, _ in published[clip])
        assert sent * LEAST_S / CLIP_S <= count <= sent, kind


@pytest.mark.browser
@pytest.mark.parametrize("clip", IN_BROWSER)
def test_the_watch_page_plays_to_the_end(rounds: Rounds, clip: str) -> None:
    """By low latency; as long as something comes, hls.js finds no fault."""
    shown = rounds.shown[clip]
    assert any("_HLS_part=" in url for url in shown["asked"])
    assert [error for error in shown["errors"] if not error.startswith((*LATE, BEGIN))] == []
    assert shown["watched_s"] > LEAST_S
