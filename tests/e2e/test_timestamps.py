"""Whatever an encoder's clock does, and whoever comes back in its place, FFmpeg plays its stream without an error, each
packet later than the one before.
"""

import asyncio
import subprocess
import time
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ingest.rtmp import MessageType
from tests.media import is_run_of, make_clip
from tests.programs import FFMPEG, Keys, key_url, own_client, publishing
from tests.rtmpdecode import messages_of
from tests.server_process import ServerProcess, program, wait_for
from tests.tools import require_tool

pytestmark = [pytest.mark.serve, pytest.mark.clients, pytest.mark.timeout(120)]

SPEED = 4
"""Times the media's own pace."""
DAY_MS = 24 * 3600 * 1000
CLIP_MS = 3050
"""Of `conftest.short_clip`, which is sent several times; its sound goes on for a little after the last picture."""


@dataclass(frozen=True)
class Clock:
    sessions: tuple[tuple[int, ...], ...]
    """What it says, in ms, each time that the clip begins, in each of the connections that come one after the other."""
    wraps: int = 1 << 32
    played_s: float = 2 * CLIP_MS / 1000 - 0.5
    """How much of it is played: some of the last session."""


def steady(first_ms: int, wraps: int = 1 << 32) -> Clock:
    return Clock(((first_ms, first_ms + CLIP_MS),), wraps)


CLOCKS = {
    "24-days-old": steady(24 * DAY_MS),
    "loses-its-sign": steady((1 << 31) - CLIP_MS // 2),
    "wraps": steady((1 << 32) - CLIP_MS // 2),
    "wraps-at-24-bits": steady((1 << 24) - CLIP_MS // 2, wraps=1 << 24),
    "begins-anew": Clock(((DAY_MS, 0),)),
    "leaps": Clock(((0, DAY_MS),)),
    "encoder-restarts": Clock(((DAY_MS,), (0, CLIP_MS, 2 * CLIP_MS, 3 * CLIP_MS)), played_s=9),
}
"""{stream: the clock of its encoder}"""


async def publish(server: ServerProcess, key: dict[str, Any], clip: Path, clock: Clock) -> None:
    loop = asyncio.get_running_loop()
    for starts in clock.sessions:
        async with own_client(server, key) as (client, stream_id):
            send = {MessageType.VIDEO: client.protocol.send_video, MessageType.AUDIO: client.protocol.send_audio}
            for start_ms in starts:
                began = loop.time()
                for message in messages_of(clip):
                    if message.type_id in send:
                        ahead_s = message.timestamp / 1000 / SPEED - (loop.time() - began)
                        await asyncio.sleep(max(0.0, ahead_s))  # The pace of the media.
                        at = (start_ms + message.timestamp) % clock.wraps
                        send[MessageType(message.type_id)](stream_id, at, message.payload)
                        await client.flush()


LONGEST_STEP_MS = 500
LONGEST_ABSENCE_MS = 5000
"""From one connection of an encoder to the next."""
END_S = 60
MORE = Clock(((0,),))

Crc = tuple[int, int, bytes]
"""Of one packet: its stream, its decoding time in ms, its size and checksum."""
Played = dict[tuple[str, str], tuple[str, list[Crc]]]
"""{(stream, player): what it complained of, and what it got}, of all at once."""


def checksums(text: str) -> list[Crc]:
    """What FFmpeg's muxer `framecrc` wrote: stream, dts, pts, duration, size, checksum, and more of some."""
    lines = [line.split(",") for line in text.splitlines() if not line.startswith("#")]
    return [(int(fields[0]), int(fields[1]), ",".join(fields[4:6]).encode()) for fields in lines]


def of_stream(packets: list[Crc], stream: int) -> tuple[list[bytes], list[int]]:
    """Its packets, and the steps between their times."""
    mine = [(at, data) for number, at, data in packets if number == stream]
    return [data for _, data in mine], [later - earlier for (earlier, _), (later, _) in pairwise(mine)]


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
def played(server: ServerProcess, short_clip: Path, tmp_path_factory: pytest.TempPathFactory) -> Played:
    require_tool("ffmpeg")
    folder = tmp_path_factory.mktemp("clocks")
    keys = server.create_keys(f"live/{name}" for name in CLOCKS)
    outputs = {(name, player): folder / f"{name}-{player}.crc" for name in CLOCKS for player in FFMPEG}

    async def publish_all(clocks: dict[str, Clock]) -> None:
        await asyncio.gather(*(publish(server, keys[f"live/{name}"], short_clip, it) for name, it in clocks.items()))

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
    command = [FFMPEG["ffmpeg-imageio"], "-v", "error", "-i", str(short_clip), "-c", "copy", "-f", "framecrc", "-"]
    return checksums(subprocess.run(command, capture_output=True, check=True, text=True, timeout=30).stdout)


@pytest.mark.parametrize("player", FFMPEG)
@pytest.mark.parametrize("name", CLOCKS)
def test_ffmpeg_plays_across_clock_faults_with_increasing_timestamps(
    played: Played, sent: list[Crc], name: str, player: str
) -> None:
    said, received = played[name, player]
    sessions = CLOCKS[name].sessions
    assert said == ""
    for stream in (0, 1):
        (packets, steps), (clip, _) = of_stream(received, stream), of_stream(sent, stream)
        assert is_run_of(packets, clip * sum(map(len, sessions))) == 0
        assert len(packets) > 1.2 * len(clip)
        assert min(steps) > 0
        assert max(steps) < (LONGEST_STEP_MS if len(sessions) == 1 else LONGEST_ABSENCE_MS)


PLAYED_S = 9
LAST = "640x360"
SIZES = {"320x180": 320, LAST: 640}


def test_a_player_goes_on_with_the_encoder_that_comes_back(server: ServerProcess, keys: Keys, tmp_path: Path) -> None:
    """Its encoder is killed and comes back with other pictures and its clock at 0."""
    require_tool("ffmpeg")
    clips = {size: make_clip(tmp_path / f"{size}.flv", seconds=12, size=size, video_kbps=300) for size in SIZES}
    path, out = "live/taken-over", tmp_path / "played.crc"
    with program(*playing("ffmpeg", f"{server.rtmp}/{path}", PLAYED_S, out)) as player:
        wait_for(lambda: server.stream(path)["players"] == 1, timeout_s=30, what="the player waits")
        for size, width in SIZES.items():
            with program(*publishing(clips[size], key_url(keys["taken-over"], server.rtmp))) as encoder:

                def shown(width: int = width) -> bool:
                    found = server.stream(path)
                    return (found["width"], found["players"]) == (width, 1) and bool(found["video_kbps"])

                wait_for(shown, timeout_s=20, what=f"pictures of {width} come, and the player is there")
                if size == LAST:
                    said, _ = player.communicate(timeout=40)
                encoder.kill()
    assert said == ""
    received = checksums(out.read_text())
    for stream in (0, 1):
        _, steps = of_stream(received, stream)
        assert min(steps) > 0
        assert sum(step > LONGEST_STEP_MS for step in steps) <= 1, "one absence"
        assert max(at for number, at, _ in received if number == stream) > (PLAYED_S - 1) * 1000
