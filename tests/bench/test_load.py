"""The generator against our own listener on loopback: what it counts is what there was."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from bench.load.client import Refused, Target
from bench.load.clip import Clip, synthetic
from bench.load.cycles import names, run_cycles
from bench.load.player import Player
from bench.load.reel import reel
from bench.load.run import Load, run
from ingest.rtmp import events
from ingest.server import RtmpServer, ServerConfig
from tests.ingest.server.app import ScriptedApp

PUBLISHERS, PLAYERS = 3, 4
FLUSH_MS = 20
LATE_MS = 2000
PACE = 0.5
"""How much of a short window a busy machine may take; it is caught up with later. What comes through is exact."""


@pytest.fixture(scope="module")
def clip() -> Clip:
    return synthetic(1)


@pytest.fixture
def app() -> ScriptedApp:
    return ScriptedApp()


@pytest_asyncio.fixture
async def target(app: ScriptedApp) -> AsyncIterator[Target]:
    server = RtmpServer(app, ServerConfig(node="node-1", rtmp=("127.0.0.1", 0), flush_ms=FLUSH_MS))
    await server.start()
    yield Target("127.0.0.1", server.addresses[0][1], "live")
    await server.stop(grace_s=2)


class Marks:
    """A Watcher that keeps what it was called."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def joining(self) -> None:
        self.seen.append("joining")

    def begin(self) -> None:
        self.seen.append("begin")

    def end(self) -> None:
        self.seen.append("end")


async def test_a_load_that_comes_through(target: Target, clip: Clip, app: ScriptedApp) -> None:
    """Two players read, two count; the second and third publisher begin 1.2 and 0.5 s after the first."""
    marks = Marks()
    load = Load(target, clip, PUBLISHERS, players=PLAYERS, readers=2, seconds=1.0, settle_s=1.5)
    began = time.monotonic()
    window = await run(load, marks)
    elapsed_s = time.monotonic() - began
    assert marks.seen == ["joining", "begin", "end"]
    assert (window.errors, window.missing, window.left_out) == ([], 0, 0)
    pace = len(clip.frames) / clip.length_ms * 1000
    assert PACE * pace * (load.settle_s + load.seconds) < window.frames["load0"] <= pace * elapsed_s + 1
    size = sum(len(media.payload) for media in clip.frames) / len(clip.frames)
    assert window.bytes_in == pytest.approx(window.messages * size, rel=PACE)
    each = len(window.delays_ms) / 2
    assert window.bytes_out == pytest.approx(PLAYERS * each * size, rel=PACE)
    assert window.delays_ms[0] > 0
    assert FLUSH_MS / 4 < window.delays_ms[len(window.delays_ms) // 2] < LATE_MS
    counted = {}
    for number in range(PUBLISHERS):
        end = await app.event("rtmp.unpublish", number)
        assert end["reason"] == "client_unpublish"
        name = app.connections[number].of("rtmp.publish")[0]["credential"]
        counted[name] = end["totals"]["video_frames"] + end["totals"]["audio_frames"]
    assert counted == window.frames


async def test_refusals_are_named(target: Target, clip: Clip, app: ScriptedApp) -> None:
    app.refuse("play", "NetStream.Play.Failed", "Not today.")
    window = await run(Load(target, clip, 1, players=2, seconds=0.1, settle_s=0.1))
    assert window.errors == ["NetStream.Play.Failed: Not today."] * 2
    app.refuse("publish", "NetStream.Publish.Denied", "Not today.")
    with pytest.raises(Refused, match=r"NetStream\.Publish\.Denied"):
        await run(Load(target, clip, 1, seconds=0.1, settle_s=0.1))


async def test_a_lost_connection_is_named(target: Target, clip: Clip, app: ScriptedApp) -> None:
    begun = asyncio.Event()

    class Kick(Marks):
        def begin(self) -> None:
            begun.set()

    async def kick() -> None:
        await begun.wait()
        await app.connections[0].send({"type": "rtmp.close", "reason": "kicked"})

    load = Load(target, clip, 2, players=1, seconds=0.3, settle_s=0.1)
    window, _ = await asyncio.gather(run(load, Kick()), kick())
    assert len(window.errors) == 1


async def test_cycles_are_counted(target: Target, app: ScriptedApp) -> None:
    cycles = await run_cycles(target, 0.5, Marks(), names(clients=2), settle_s=0.1)
    assert cycles.errors == []
    published = sum(bool(connection.of("rtmp.publish")) for connection in app.connections)
    assert 0 < cycles.count < published


# --- What a player misses ---


def message(sent_ns: int, clip: Clip) -> events.VideoReceived:
    packet = next(packet for packet in reel(clip, 1 << 20, 1).opening if packet.stamp)
    return events.VideoReceived(1, 0, packet.stamped(sent_ns))


@pytest.mark.parametrize(
    ("came", "missing"),
    [
        ([0, 1, 2, 3, 4], 0),
        ([2, 3, 4], 0),  # It joined later.
        ([0, 1, 4], 2),
        ([1, 2], 2),  # The stream stopped for it.
    ],
)
def test_what_is_missing(came: list[int], missing: int, clip: Clip) -> None:
    log = {1000 + place: place for place in range(5)}
    player = Player(Target("127.0.0.1", 1935, "live"), log)
    player.is_measuring = True
    for place in came:
        player.received([message(1000 + place, clip)])
    assert player.missing_of(log) == missing
    assert len(player.delays_ns) == len(came)
