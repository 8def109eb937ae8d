"""Whatever an encoder's clock does, FFmpeg plays its stream without an error, each packet later than the one before."""

import asyncio
import subprocess
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import imageio_ffmpeg
import pytest

from tests.e2e.clocks import CLOCKS, Clock, publish
from tests.e2e.programs import Keys
from tests.media import is_run_of
from tests.server_process import ServerProcess, program, wait_for
from tests.tools import require_tool

pytestmark = [pytest.mark.serve, pytest.mark.clients, pytest.mark.timeout(120)]

FFMPEG = {"ffmpeg": "ffmpeg", "ffmpeg-imageio": imageio_ffmpeg.get_ffmpeg_exe()}
LONGEST_STEP_MS = 500
LONGEST_ABSENCE_MS = 5000
"""From one connection of an encoder to the next."""
END_S = 60
MORE = Clock(((0,),))

Crc = tuple[int, int, bytes]
"""Of one packet: its stream, its decoding time in ms, its size and checksum."""


def checksums(text: str) -> list[Crc]:
    """What FFmpeg's muxer `framecrc` wrote: stream, dts, pts, duration, size, checksum, and more of some."""
    lines = [line.split(",") for line in text.splitlines() if not line.startswith("#")]
    return [(int(fields[0]), int(fields[1]), ",".join(fields[4:6]).encode()) for fields in lines]


def of_stream(packets: list[Crc], stream: int) -> list[bytes]:
    return [packet[2] for packet in packets if packet[0] == stream]


def playing(executable: str, url: str, seconds: float, out: Path) -> list[str]:
    """FFmpeg's arguments: it decodes what comes, and writes the packets' checksums and times in ms.

    What it decodes keeps its ms too: counted in frames, two that are 33 ms apart may be rounded to the same one.
    """
    outputs = [["-c", "copy", "-f", "framecrc", str(out)], ["-f", "null", "-"]]
    in_ms = ["-t", str(seconds), "-enc_time_base:v", "1:1000"]
    return [executable, "-v", "error", "-i", url, *(word for output in outputs for word in [*in_ms, *output])]


def end_of(player: "subprocess.Popen[str]", timeout_s: float) -> str:
    """What it said until it ended, or that it didn't."""
    try:
        return player.communicate(timeout=max(timeout_s, 0.1))[0]
    except subprocess.TimeoutExpired:
        return "it waits for more"


@pytest.fixture(scope="module")
def played(
    server: ServerProcess, keys: Keys, short_clip: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], tuple[str, list[Crc]]]:
    """{(stream, player): what it complained of, and what it got}, of all at once."""
    require_tool("ffmpeg")
    folder = tmp_path_factory.mktemp("clocks")
    port = int(server.rtmp.rpartition(":")[2])
    outputs = {(name, player): folder / f"{name}-{player}.crc" for name in CLOCKS for player in FFMPEG}

    async def publish_all(clocks: dict[str, Clock]) -> None:
        await asyncio.gather(*(publish(port, keys[name]["key"], short_clip, clock) for name, clock in clocks.items()))

    def all_wait() -> bool:
        return all(server.stream(f"live/{name}")["players"] == len(FFMPEG) for name in CLOCKS)

    def playing_still() -> set[str]:
        return {name for (name, _), player in players.items() if player.poll() is None}

    with ExitStack() as stack:
        players = {
            (name, player): stack.enter_context(
                program(*playing(FFMPEG[player], f"{server.rtmp}/live/{name}", CLOCKS[name].played_s, out))
            )
            for (name, player), out in outputs.items()
        }
        wait_for(all_wait, timeout_s=30, what="all players wait")
        asyncio.run(publish_all(CLOCKS))
        deadline = time.monotonic() + END_S
        # FFmpeg that has had enough ends when one more packet comes: it may have read all before it has played it.
        while (names := playing_still()) and time.monotonic() < deadline:
            asyncio.run(publish_all(dict.fromkeys(names, MORE)))
        said = {at: end_of(player, deadline - time.monotonic()) for at, player in players.items()}
    return {at: (said[at], checksums(out.read_text())) for at, out in outputs.items()}


@pytest.fixture(scope="module")
def sent(short_clip: Path) -> list[Crc]:
    done = subprocess.run(
        [FFMPEG["ffmpeg-imageio"], "-v", "error", "-i", str(short_clip), "-c", "copy", "-f", "framecrc", "-"],
        capture_output=True,
        check=True,
        text=True,
        timeout=30,
    )
    return checksums(done.stdout)


@pytest.mark.parametrize("player", FFMPEG)
@pytest.mark.parametrize("name", CLOCKS)
def test_ffmpeg_plays_across_it(
    played: dict[tuple[str, str], tuple[str, list[Crc]]], sent: list[Crc], name: str, player: str
) -> None:
    said, received = played[name, player]
    sessions = CLOCKS[name].sessions
    assert said == ""
    for stream in (0, 1):
        packets, clip = of_stream(received, stream), of_stream(sent, stream)
        assert is_run_of(packets, clip * sum(map(len, sessions))) == 0
        assert len(packets) > 1.2 * len(clip)
        times = [packet[1] for packet in received if packet[0] == stream]
        steps = [later - earlier for earlier, later in pairwise(times)]
        assert min(steps) > 0
        assert max(steps) < (LONGEST_STEP_MS if len(sessions) == 1 else LONGEST_ABSENCE_MS)
