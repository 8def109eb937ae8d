"""What publishers put on the wire, and the generator against our own listener: what it counts is what there was."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from bench.load.client import Refused, Target
from bench.load.clip import Clip, Media, from_flv, synthetic
from bench.load.cycles import names, run_cycles
from bench.load.player import Player
from bench.load.reel import Packet, read_stamp, reel
from bench.load.run import Load, run
from bench.micro.ingest import publishing
from ingest.rtmp import Message, MessageType, ServerConnection, encode_message, events
from ingest.rtmp.chunk_writer import CSID_CONTROL
from ingest.server import RtmpServer, ServerConfig
from tests.server.app import ScriptedApp

STREAM_ID = 1


@pytest.fixture(scope="module")
def clip() -> Clip:
    return synthetic(1)


@pytest.fixture(params=[128, 373, 4096, 60_000])
def chunk_size(request: pytest.FixtureRequest) -> int:
    """373: the last chunk of an audio message has fewer bytes than a stamp."""
    size: int = request.param
    return size


@pytest.fixture
def server(chunk_size: int) -> ServerConnection:
    """On it message stream 1 publishes in chunks of that size."""
    connection = publishing()
    message = Message(MessageType.SET_CHUNK_SIZE, 0, 0, chunk_size.to_bytes(4, "big"))
    connection.receive_data(encode_message(message, chunk_stream_id=CSID_CONTROL, chunk_size=128))
    return connection


def received(server: ServerConnection, data: bytes) -> list[events.AudioReceived | events.VideoReceived]:
    found = server.receive_data(data)
    return [event for event in found if isinstance(event, events.AudioReceived | events.VideoReceived)]


def test_reel_rounds_follow_with_continuous_timestamps(server: ServerConnection, clip: Clip, chunk_size: int) -> None:
    made = reel(clip, chunk_size, STREAM_ID)
    found = []
    for packet in made.opening + made.repeat + made.repeat:
        found += received(server, packet.data)
    wanted = [(media.timestamp, media.payload) for media in clip.headers]
    for number in range(3):
        wanted += [(number * clip.length_ms + media.timestamp, media.payload) for media in clip.frames]
    assert [(event.timestamp, event.payload) for event in found] == wanted


def test_a_stamp_is_the_end_of_the_payload_and_nothing_else(
    server: ServerConnection, clip: Clip, chunk_size: int
) -> None:
    sent_ns = 0x0102030405060708
    made = reel(clip, chunk_size, STREAM_ID)
    packets = made.opening[: len(clip.headers) + 20]
    stamped = [packet.stamped(sent_ns) if packet.stamp else packet.data for packet in packets]
    found = [event for data in stamped for event in received(server, data)]
    assert [read_stamp(event.payload) for event in found] == [None] * len(clip.headers) + [sent_ns] * 20
    for event, media in zip(found, clip.headers + clip.frames, strict=False):
        assert len(event.payload) == len(media.payload)
        assert event.payload[:-16] == media.payload[:-16]


def test_stamping_leaves_the_shared_bytes_alone(clip: Clip) -> None:
    packet: Packet = reel(clip, 4096, STREAM_ID).repeat[0]
    before = bytes(packet.data)
    assert packet.stamped(1) != before
    assert packet.data == before


@pytest.mark.parametrize("mbps", [1, 5])
def test_filler_has_the_size_and_pace_of_an_encoders_stream(mbps: float) -> None:
    made = synthetic(mbps)
    assert made.kbps == pytest.approx(mbps * 1000, rel=0.01)
    assert len(made.frames) / made.length_ms * 1000 == pytest.approx(73, abs=0.5)
    assert [media.timestamp for media in made.frames] == sorted(media.timestamp for media in made.frames)


def test_flv_is_read_as_audio_and_video() -> None:
    def tag(kind: int, timestamp: int, payload: bytes) -> bytes:
        low, high = (timestamp & 0xFFFFFF).to_bytes(3, "big"), (timestamp >> 24).to_bytes(1, "big")
        head = bytes((kind,)) + len(payload).to_bytes(3, "big") + low + high + bytes(3)
        return head + payload + (len(head) + len(payload)).to_bytes(4, "big")

    video, sound = b"\x17\x01\x00\x00\x00picture", b"\xaf\x01sound"
    file = b"FLV\x01\x05\x00\x00\x00\x09" + bytes(4)
    file += tag(18, 0, b"\x02\x00\x0aonMetaData") + tag(9, 0, b"\x17\x00header") + tag(8, 0, b"\xaf\x00header")
    file += tag(9, 0x1000010, video) + tag(8, 0x1000020, sound) + tag(9, 0x1000030, b"\x17\x02\x00\x00\x00")
    made = from_flv(file)
    assert made.headers == [Media(9, 0, b"\x17\x00header"), Media(8, 0, b"\xaf\x00header")]
    assert made.frames == [Media(9, 0x1000010, video), Media(8, 0x1000020, sound)]


PUBLISHERS, PLAYERS = 3, 4
FLUSH_MS = 20
LATE_MS = 2000
PACE = 0.5
"""How much of a short window a busy machine may take; it is caught up with later. What comes through is exact."""


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


async def test_load_without_loss_reports_exact_frames_and_delays(target: Target, clip: Clip, app: ScriptedApp) -> None:
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
def test_messages_that_a_player_missed_after_joining_are_counted(came: list[int], missing: int, clip: Clip) -> None:
    log = {1000 + place: place for place in range(5)}
    player = Player(Target("127.0.0.1", 1935, "live"), log)
    player.is_measuring = True
    for place in came:
        player.received([message(1000 + place, clip)])
    assert player.missing_of(log) == missing
    assert len(player.delays_ns) == len(came)
