"""Encoders that log in by user and password: FFmpeg of two ages, and GStreamer."""

import subprocess
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import pytest

from tests.e2e.programs import GSTREAMER, by_ffmpeg, by_gstreamer
from tests.media import of_kind, read_packets
from tests.server_process import ServerProcess, wait_for
from tests.tools import require_tool

pytestmark = [pytest.mark.serve, pytest.mark.clients, pytest.mark.timeout(120)]

USER = "outside-broadcast-van"


@pytest.fixture(scope="module")
def login(server: ServerProcess) -> dict[str, Any]:
    """Of a stream in an application that asks for one."""
    server.manage("application", "set", "studio", "--encoder-login", "on")
    return server.manage_json("encoderlogin", "create", "studio/van", "--user", USER)


def with_user(server: ServerProcess, user: str, password: str) -> str:
    """A URL as FFmpeg takes it."""
    return f"{server.rtmp.replace('://', f'://{user}:{password}@')}/studio/van"


def published(server: ServerProcess, clip: Path, login: dict[str, Any]) -> None:
    """What was sent has arrived, in the latest session of the stream; what the encoder has shown is nowhere told."""

    def ended() -> dict[str, Any] | None:
        found = server.items("/api/v1/sessions?app=studio&name=van&kind=publish")
        return found[0] if found and found[0]["ended_at"] else None

    session = wait_for(ended, timeout_s=10, what="the session has ended")
    assert session["end_reason"] == "client_unpublish"
    assert session["video_frames"] == len(of_kind(read_packets(str(clip)), "video"))
    not_told(server, USER, login["password"], "response=")


def not_told(server: ServerProcess, *secrets: str) -> None:
    """Not even by this folder's server, which logs at level DEBUG."""
    for secret in secrets:
        assert secret not in server.log


@pytest.mark.parametrize("executable", ["ffmpeg", imageio_ffmpeg.get_ffmpeg_exe()], ids=["debian", "imageio"])
def test_ffmpeg(server: ServerProcess, login: dict[str, Any], short_clip: Path, executable: str) -> None:
    by_ffmpeg(executable)(short_clip, with_user(server, USER, login["password"]))
    published(server, short_clip, login)


def test_gstreamer(server: ServerProcess, login: dict[str, Any], short_clip: Path) -> None:
    for tool in (*GSTREAMER, "rtmp2sink"):
        require_tool(tool)
    sink = ("rtmp2sink", "authmod=adobe", f"username={USER}", f"password={login['password']}")
    by_gstreamer(*sink)(short_clip, f"{server.rtmp}/studio/van")
    published(server, short_clip, login)


@pytest.mark.parametrize("user", [USER, "nobody"])
def test_a_wrong_password_ends_ffmpeg_at_once(
    server: ServerProcess, login: dict[str, Any], short_clip: Path, user: str
) -> None:
    known = sum(attempt["count"] for attempt in server.items("/api/v1/attempts?reason=login_wrong"))
    command = ["ffmpeg", "-v", "error", "-re", "-i", str(short_clip), "-c", "copy", "-f", "flv"]
    done = subprocess.run(
        [*command, with_user(server, user, "not-the-password")], timeout=20, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "Incorrect username/password" in done.stderr
    wait_for(
        lambda: sum(attempt["count"] for attempt in server.items("/api/v1/attempts?reason=login_wrong")) > known,
        timeout_s=5,
        what="the attempt",
    )
    not_told(server, "not-the-password", "response=")


def test_who_has_no_user_is_told_that_one_is_needed(
    server: ServerProcess, login: dict[str, Any], short_clip: Path
) -> None:
    command = ["ffmpeg", "-v", "error", "-i", str(short_clip), "-c", "copy", "-f", "flv", f"{server.rtmp}/studio/van"]
    done = subprocess.run(command, timeout=20, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "No credentials set" in done.stderr
