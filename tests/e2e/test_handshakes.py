"""Programs that check the server's digests find nothing wrong with them; one that names its codecs gets an answer."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import imageio_ffmpeg
import pytest

from tests.e2e.programs import Keys
from tests.server_process import ServerProcess, wait_for
from tests.tools import require_tool

pytestmark = [pytest.mark.serve, pytest.mark.clients, pytest.mark.timeout(120)]

FFMPEG = {"ffmpeg-debian": "ffmpeg", "ffmpeg-imageio": imageio_ffmpeg.get_ffmpeg_exe()}

SERVER_VERSION = "Server version 4.5.0.1"
"""As FFmpeg's debug log tells S1's: from 3 on its players verify the digests."""

SWF = ("--swfhash", "00112233445566778899aabbccddeeff" * 2, "--swfsize", "12345")
"""With these rtmpdump sends a digest, and gives up if the server's is wrong."""

GENUINE = "Genuine Adobe Flash Media Server"
"""What rtmpdump logs then if it is right."""

MISMATCHES = ("Server response validating failed", "Signature mismatch", "Server not genuine", "Couldn't verify")


@dataclass(frozen=True)
class Live:
    """A stream that goes on, and what its publisher logs."""

    url: str
    log: Path


@contextmanager
def logging_to(log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program in the background whose whole output goes to a file."""
    with log.open("wb") as output:
        started = subprocess.Popen(arguments, stdout=output, stderr=output)
        try:
            yield started
        finally:
            started.terminate()
            started.wait(10)


@pytest.fixture(scope="module")
def live(server: ServerProcess, keys: Keys, clip: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    name, log = "live/handshakes", tmp_path_factory.mktemp("handshakes") / "publisher.log"
    url = f"{server.rtmp}/live/{keys['handshakes']['key']}"
    source = ("-re", "-stream_loop", "-1", "-i", str(clip))
    codecs = ("-rtmp_enhanced_codecs", "hvc1,av01,vp09")  # Sent as fourCcList.
    with logging_to(log, FFMPEG["ffmpeg-imageio"], "-v", "debug", *source, "-c", "copy", *codecs, "-f", "flv", url):
        server.wait_for_state(name, "live")
        yield Live(f"{server.rtmp}/{name}", log)


def assert_genuine(log: str) -> None:
    assert [line for line in log.splitlines() if any(text in line for text in MISMATCHES)] == []


def test_ffmpeg_publishes(live: Live) -> None:
    log = live.log.read_text(errors="replace")
    assert SERVER_VERSION in log
    assert_genuine(log)


@pytest.mark.parametrize("which", FFMPEG)
def test_ffmpeg_plays(live: Live, which: str) -> None:
    arguments = ("-v", "debug", "-i", live.url, "-frames:v", "5", "-c", "copy", "-f", "null", "-")
    done = subprocess.run([FFMPEG[which], *arguments], capture_output=True, timeout=30)
    log = done.stderr.decode(errors="replace")
    assert done.returncode == 0, log
    assert SERVER_VERSION in log
    assert_genuine(log)


def test_rtmpdump_plays_with_a_digest(live: Live, tmp_path: Path) -> None:
    require_tool("rtmpdump")
    log, saved = tmp_path / "rtmpdump.log", tmp_path / "saved.flv"
    with logging_to(log, "rtmpdump", "-V", "--live", "-r", live.url, *SWF, "-o", str(saved)) as rtmpdump:
        wait_for(
            lambda: rtmpdump.poll() is not None or (saved.exists() and saved.stat().st_size > 10_000),
            timeout_s=20,
            what="rtmpdump plays, or gives up",
        )
        assert rtmpdump.poll() is None, log.read_text(errors="replace")
    found = log.read_text(errors="replace")
    assert GENUINE in found
    assert_genuine(found)
