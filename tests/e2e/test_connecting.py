"""Programs that check the server's digests find nothing wrong with them; one that names its codecs gets an answer;
encoders log in by user and password: FFmpeg of two ages, and GStreamer.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.media import of_kind, read_packets
from tests.programs import FFMPEG, GSTREAMER, LOOPED, Keys, gstreamer_publishing, key_url, publish, publishing
from tests.server_process import ServerProcess, wait_for
from tests.tools import require_tool

pytestmark = [pytest.mark.serve, pytest.mark.clients, pytest.mark.timeout(120)]

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
    command = publishing(clip, key_url(keys["handshakes"], server.rtmp), *LOOPED, executable=FFMPEG["ffmpeg-imageio"])
    codecs = ("-v", "debug", "-rtmp_enhanced_codecs", "hvc1,av01,vp09")  # Sent as fourCcList.
    with logging_to(log, *command[:-1], *codecs, command[-1]):
        server.wait_for_state(name, "live")
        yield Live(f"{server.rtmp}/{name}", log)


def assert_genuine(log: str, words: str = SERVER_VERSION) -> None:
    assert words in log
    assert [line for line in log.splitlines() if any(text in line for text in MISMATCHES)] == []


@pytest.mark.journey
def test_ffmpeg_publishing_finds_the_server_digest_genuine(live: Live) -> None:
    assert_genuine(live.log.read_text(errors="replace"))


@pytest.mark.journey
@pytest.mark.parametrize("which", FFMPEG)
def test_ffmpeg_playing_finds_the_server_digest_genuine(live: Live, which: str) -> None:
    arguments = ("-v", "debug", "-i", live.url, "-frames:v", "5", "-c", "copy", "-f", "null", "-")
    done = subprocess.run([FFMPEG[which], *arguments], capture_output=True, text=True, errors="replace", timeout=30)
    assert done.returncode == 0, done.stderr
    assert_genuine(done.stderr)


@pytest.mark.journey
def test_rtmpdump_playing_finds_the_server_digest_genuine(live: Live, tmp_path: Path) -> None:
    require_tool("rtmpdump")
    log, saved = tmp_path / "rtmpdump.log", tmp_path / "saved.flv"
    with logging_to(log, "rtmpdump", "-V", "--live", "-r", live.url, *SWF, "-o", str(saved)) as rtmpdump:
        wait_for(
            lambda: rtmpdump.poll() is not None or (saved.exists() and saved.stat().st_size > 10_000),
            timeout_s=20,
            what="rtmpdump plays, or gives up",
        )
        assert rtmpdump.poll() is None, log.read_text(errors="replace")
    assert_genuine(log.read_text(errors="replace"), GENUINE)


# --- By user and password ---

USER = "outside-broadcast-van"


@pytest.fixture(scope="module")
def login(server: ServerProcess) -> dict[str, Any]:
    """Of a stream in an application that asks for one."""
    server.manage("application", "set", "studio", "--encoder-login", "on")
    return server.manage_json("encoderlogin", "create", "studio/van", "--user", USER)


def with_user(server: ServerProcess, who: str) -> str:
    """A URL as FFmpeg takes it. `who`: USER:PASSWORD@."""
    return f"{server.rtmp.replace('://', f'://{who}')}/studio/van"


def published(server: ServerProcess, clip: Path, login: dict[str, Any]) -> None:
    """What was sent has arrived, in the latest session of the stream; what the encoder has shown is nowhere told."""
    session = server.wait_for_end("studio/van")
    assert session["end_reason"] == "client_unpublish"
    assert session["video_frames"] == len(of_kind(read_packets(str(clip)), "video"))
    not_told(server, USER, login["password"], "response=")


def not_told(server: ServerProcess, *secrets: str) -> None:
    """Not even by this folder's server, which logs at level DEBUG."""
    for secret in secrets:
        assert secret not in server.log


def refused(server: ServerProcess, clip: Path, who: str = "") -> str:
    command = publishing(clip, with_user(server, who))
    done = subprocess.run(command, timeout=20, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    return done.stderr


@pytest.mark.parametrize("which", FFMPEG)
def test_ffmpeg_logs_in(server: ServerProcess, login: dict[str, Any], short_clip: Path, which: str) -> None:
    publish(which, short_clip, with_user(server, f"{USER}:{login['password']}@"))
    published(server, short_clip, login)


def test_gstreamer_logs_in(server: ServerProcess, login: dict[str, Any], short_clip: Path) -> None:
    for tool in (*GSTREAMER, "rtmp2sink"):
        require_tool(tool)
    sink = f"rtmp2sink authmod=adobe username={USER} password={login['password']}"
    subprocess.run(gstreamer_publishing(f"{server.rtmp}/studio/van", short_clip, sink), check=True, timeout=60)
    published(server, short_clip, login)


@pytest.mark.parametrize("user", [USER, "nobody"])
def test_a_wrong_password_ends_ffmpeg_at_once(
    server: ServerProcess, login: dict[str, Any], short_clip: Path, user: str
) -> None:
    known = server.count_attempts("login_wrong")
    assert "Incorrect username/password" in refused(server, short_clip, f"{user}:not-the-password@")
    wait_for(lambda: server.count_attempts("login_wrong") > known, timeout_s=5, what="the attempt")
    not_told(server, "not-the-password", "response=")


def test_ffmpeg_without_user_is_refused_for_missing_credentials(
    server: ServerProcess, login: dict[str, Any], short_clip: Path
) -> None:
    assert "No credentials set" in refused(server, short_clip)
