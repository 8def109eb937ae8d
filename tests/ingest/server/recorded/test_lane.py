"""What is written for one player, as its peer reads it, and when it may be."""

from hypothesis import given
from hypothesis import strategies as st

from ingest.live.message import OUT_CHUNK_SIZE
from ingest.rtmp import Limits
from ingest.rtmp.chunk_reader import ChunkReader
from ingest.rtmp.chunk_writer import encode_message
from ingest.rtmp.messages import Message
from ingest.rtmp.messages.control import set_chunk_size
from ingest.server.vod.pacing import LEAST_AHEAD_MS, ChunkLane, Pacing
from tests.ingest.server.recorded.files import AUDIO, DATA, VIDEO

SIZES = st.sampled_from([0, 1, 5, 300, 300, 300, OUT_CHUNK_SIZE, OUT_CHUNK_SIZE + 1, 150_000])
MESSAGES = st.lists(st.tuples(st.sampled_from([AUDIO, VIDEO, VIDEO, DATA]), st.integers(0, 100), SIZES), max_size=30)


def read(data: bytes) -> list[tuple[int, int, int, bytes]]:
    reader = ChunkReader(Limits())
    reader.feed(encode_message(set_chunk_size(OUT_CHUNK_SIZE), chunk_stream_id=2, chunk_size=128) + data)
    found = []
    while messages := reader.read():
        found += messages
    return [message for message in found if message[0] in (AUDIO, VIDEO, DATA)]


@given(MESSAGES, MESSAGES, st.lists(st.integers(1, 100_000), max_size=20))
def test_two_lanes_and_shared_bytes_on_one_connection(
    first: list[tuple[int, int, int]], second: list[tuple[int, int, int]], limits: list[int]
) -> None:
    """However they are cut: each kind of each stream's messages comes whole and in order."""
    lanes: list[ChunkLane] = []
    expected: dict[tuple[int, int], list[tuple[int, bytes]]] = {}
    for stream_id, messages in ((1, first), (2, second)):
        lane = ChunkLane.beside(lanes, stream_id)
        lanes.append(lane)
        time = 0
        for number, (kind, step, size) in enumerate(messages):
            time += step
            payload = bytes((number,)) * size
            lane.add(kind, time, payload)
            expected.setdefault((stream_id, kind), []).append((time, payload))
    shared = encode_message(Message(VIDEO, 7, 3, bytes(100_000)), chunk_stream_id=6, chunk_size=OUT_CHUNK_SIZE)
    written = b""
    for number, limit in enumerate([*limits, None, None]):
        written += lanes[number % 2].take(limit) + shared
        expected.setdefault((3, VIDEO), []).append((7, bytes(100_000)))
    found: dict[tuple[int, int], list[tuple[int, bytes]]] = {}
    for kind, time, stream_id, payload in read(written):
        found.setdefault((stream_id, kind), []).append((time, payload))
    assert found == expected


def test_lanes_are_used_again() -> None:
    first = ChunkLane.beside([], 1)
    second = ChunkLane.beside([first], 2)
    assert (first.number, second.number) == (0, 1)
    assert ChunkLane.beside([second], 3).number == 0


def test_headers_take_a_byte_for_messages_of_a_steady_pace() -> None:
    lane = ChunkLane.beside([], 1)
    for number in range(100):
        lane.add(VIDEO, number * 40, bytes(300))
    assert len(lane.take()) < 100 * 301 + 30


# --- Pace ---


def test_by_the_clock() -> None:
    pace = Pacing(2000)
    pace.begin(100.0, 5000)
    assert (pace.until_ms(100.0), pace.until_ms(103.5)) == (7000, 10_500)
    pace.pause(104.0)
    pace.pause(105.0)
    pace.resume(114.0)
    assert pace.until_ms(114.0) == 11_000
    pace.set_ahead(0)
    assert pace.until_ms(114.0) == 9000 + LEAST_AHEAD_MS


def test_a_beginning_while_it_is_paused() -> None:
    pace = Pacing(1000)
    pace.begin(100.0, 0)
    pace.pause(101.0)
    pace.begin(150.0, 40_000)
    pace.resume(160.0)
    assert pace.until_ms(160.0) == 41_000


@given(st.integers(0, 10**8), st.integers(1, 10**6))
def test_a_wait_is_short_and_long_enough(ahead_ms: int, beyond_ms: int) -> None:
    """For what is not due yet; a second at most is gathered."""
    pace = Pacing(ahead_ms)
    pace.begin(0.0, 0)
    time_ms = round(pace.until_ms(0.0)) + beyond_ms
    wait_s = pace.wait_s(time_ms, 0.0)
    assert beyond_ms / 1000 + 0.05 <= wait_s + 1e-6
    assert wait_s <= beyond_ms / 1000 + 1
    assert pace.until_ms(wait_s) >= time_ms
