"""Recordings in the whole server: brought in or recorded here, asked for by players in common use.

How each of those plays, seeks and resumes: `tests/ingest/test_recorded_clients.py`.
"""

import subprocess
from functools import partial
from pathlib import Path

import imageio_ffmpeg
import pytest

from tests.e2e import accepted
from tests.e2e.programs import PUBLISHERS, to_gstreamer
from tests.media import Packet, is_run_of, of_kind, read_packets
from tests.server_process import ServerProcess, program, wait_for
from tests.tools import require_tool

pytestmark = [pytest.mark.serve, pytest.mark.clients, pytest.mark.timeout(120)]

PLAYED_S = 40


def run(*command: str) -> int:
    return subprocess.run(command, timeout=PLAYED_S, check=False).returncode


def assert_whole(received: list[Packet], sent: list[Packet]) -> None:
    """All pictures; of the sound what came before the first of them may be missing."""
    assert of_kind(received, "video") == of_kind(sent, "video")
    sound = of_kind(received, "audio")
    assert sound == of_kind(sent, "audio")[-len(sound) :]
    assert len(of_kind(sent, "audio")) - len(sound) <= 2


def test_what_an_encoder_published_is_played_when_it_is_gone(
    server: ServerProcess, short_clip: Path, tmp_path: Path
) -> None:
    require_tool("rtmpdump")
    server.manage("application", "set", "kept", "--record", "all", "--play-recordings", "as_live")
    key = server.create_key("kept/show")
    url = f"{server.rtmp}/kept/{key['key']}"
    accepted.whole(server, partial(PUBLISHERS["ffmpeg-debian"].publish, short_clip, url))
    (recording,) = wait_for(
        lambda: server.items("/api/v1/recordings?app=kept&stream=show&state=complete"),
        timeout_s=10,
        what="the recording is complete",
    )
    url, sent = f"{server.rtmp}/kept/{recording['name']}", read_packets(str(short_clip))
    copy = ["-v", "error", "-i", url, "-c", "copy", "-f", "flv"]
    assert run(imageio_ffmpeg.get_ffmpeg_exe(), *copy, str(tmp_path / "ffmpeg.flv")) == 0
    assert run("rtmpdump", "-q", "-r", url, "-o", str(tmp_path / "rtmpdump.flv")) == 0
    for player in ("ffmpeg", "rtmpdump"):
        assert_whole(read_packets(str(tmp_path / f"{player}.flv")), sent)


def test_rtmpsrc_plays_and_begins_again(server: ServerProcess, short_clip: Path, tmp_path: Path) -> None:
    """It takes the end for a connection that was lost."""
    require_tool("rtmpsrc")
    server.manage("application", "set", "films", "--play-recordings", "as_live")
    server.manage("recording", "add", "films/filmed", str(short_clip))
    out = tmp_path / "again.flv"
    with program(*to_gstreamer("rtmpsrc location={}")(f"{server.rtmp}/films/filmed", out)):
        wait_for(
            lambda: out.exists() and out.stat().st_size > 2 * short_clip.stat().st_size, timeout_s=20, what="it plays"
        )
    once = tmp_path / "once.flv"
    once.write_bytes(out.read_bytes()[: short_clip.stat().st_size])
    received, sent = read_packets(str(once)), read_packets(str(short_clip))
    for kind in ("video", "audio"):
        packets = of_kind(received, kind)
        assert is_run_of(packets, of_kind(sent, kind)) == 0
        assert len(packets) >= len(of_kind(sent, kind)) - 2, "the last are cut, as its file is a little longer"


@pytest.mark.parametrize("player", ["rtmpdump", "ffmpeg"])
def test_what_is_not_there_is_refused_at_once(server: ServerProcess, tmp_path: Path, player: str) -> None:
    require_tool(player)
    url, out = f"{server.rtmp}/live/never-filmed", str(tmp_path / "none.flv")
    recorded = {
        "rtmpdump": ["rtmpdump", "-q", "-r", url, "-o", out],
        "ffmpeg": ["ffmpeg", "-v", "quiet", "-rtmp_live", "recorded", "-i", url, "-c", "copy", out],
    }
    assert subprocess.run(recorded[player], timeout=10).returncode != 0
