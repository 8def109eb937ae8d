"""Messages to chunks: exact bytes, header compression that any reader understands; audio between chunks of video."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp import LocalProtocolError, Message, encode_message
from ingest.rtmp.chunk_writer import ChunkWriter, SendQueue, basic_header
from ingest.rtmp.messages import control
from ingest.rtmp.messages.control import UserControl, user_control
from tests.pure.rtmp.replay import read_chunks
from tests.pure.rtmp.test_chunk_reader import BOTH_WAYS
from tests.pure.rtmp.wire import Sent, h, ids, set_chunk_size, type0, type1, type2, type3
from tests.rtmpdecode import Raw, decode_stream

AUDIO, VIDEO, DATA, COMMAND = 8, 9, 18, 20


def audio(time: int = 0, payload: bytes = b"a", stream_id: int = 1) -> Message:
    return Message(AUDIO, time, stream_id, payload)


def whole(time: int, payload: bytes = b"a", stream_id: int = 1) -> bytes:
    """The same under a header that says all."""
    return type0(4, time, AUDIO, stream_id, payload)


LONG = Message(VIDEO, 5, 1, b"v" * 128 + b"w")
ALONE: list[tuple[str, Message, int, int, bytes]] = [
    ("short", audio(5, b"abc"), 4, 128, h("04 000005 000003 08 01000000 616263")),
    ("empty", audio(0, b""), 4, 128, h("04 000000 000000 08 01000000")),
    ("exactly one chunk", Message(VIDEO, 5, 1, b"v" * 128), 6, 128, type0(6, 5, VIDEO, 1, b"v" * 128)),
    ("one byte more than a chunk", LONG, 6, 128, type0(6, 5, VIDEO, 1, b"v" * 128, 129) + type3(6, b"w")),
    (
        *("an extended timestamp is repeated", Message(VIDEO, 0xFFFFFF, 1, b"abcde"), 6, 2),
        h("06 ffffff 000005 09 01000000 00ffffff 6162 c6 00ffffff 6364 c6 00ffffff 65"),
    ),
    ("the largest timestamp", audio(0xFFFFFFFF), 4, 128, whole(0xFFFFFFFF)),
    ("time is taken modulo 2^32", audio(2**32 + 7), 4, 128, whole(7)),
    ("the message stream id is little-endian", audio(0, b"", 258), 4, 128, whole(0, b"", 258)),
    ("id of two bytes", audio(0, b"ab"), 64, 1, h("00 00 000000 000002 08 01000000 61 c0 00 62")),
    ("id of three bytes", audio(0, b"ab"), 320, 1, h("01 0001 000000 000002 08 01000000 61 c1 0001 62")),
]


@pytest.mark.parametrize(("name", "message", "csid", "chunk_size", "data"), ALONE, ids=ids(ALONE))
def test_encode_message(name: str, message: Message, csid: int, chunk_size: int, data: bytes) -> None:
    assert encode_message(message, chunk_stream_id=csid, chunk_size=chunk_size) == data


@pytest.mark.parametrize(
    ("csid", "header"),
    [(2, "42"), (63, "7f"), (64, "4000"), (319, "40ff"), (320, "410001"), (365, "412d01"), (65599, "41ffff")],
)
def test_basic_header(csid: int, header: str) -> None:
    assert basic_header(1, csid).hex() == header


def test_encode_message_refuses_an_overlong_message() -> None:
    with pytest.raises(LocalProtocolError):
        encode_message(Message(VIDEO, 0, 1, bytes(0x1000000)), chunk_stream_id=6, chunk_size=60_000)


COMPRESSED: list[tuple[str, list[Message], bytes]] = [
    (
        "the shortest header that says what changed",
        [Message(VIDEO, 10, 1, b"a"), audio(15, b"bc"), audio(22, b"de"), audio(29, b"fg")],
        type0(4, 10, VIDEO, 1, b"a") + type1(4, 5, AUDIO, b"bc") + type2(4, 7, b"de") + type3(4, b"fg"),
    ),
    (
        "no message begins with type 3 after a type 0, which nginx-rtmp would take for a delta of 0",
        *([audio(20), audio(40, b"b")], whole(20) + type2(4, 20, b"b")),
    ),
    ("another message stream", [audio(20), audio(30, b"b", 2)], whole(20) + whole(30, b"b", 2)),
    ("time goes back", [audio(20), audio(10, b"b")], whole(20) + whole(10, b"b")),
    ("time wraps", [audio(0xFFFFFFF0), audio(0x10, b"b")], whole(0xFFFFFFF0) + type2(4, 0x20, b"b")),
    (
        "the longest delta that needs no extended timestamp",
        [audio(5), audio(5 + 0xFFFFFE, b"b"), audio(5 + 2 * 0xFFFFFE, b"c")],
        whole(5) + type2(4, 0xFFFFFE, b"b") + type3(4, b"c"),
    ),
    (
        "a delta that would need it, which SRS took for a timestamp",
        [audio(5), audio(5 + 0xFFFFFF, b"b"), audio(25 + 0xFFFFFF, b"c")],
        whole(5) + whole(5 + 0xFFFFFF, b"b") + type2(4, 20, b"c"),
    ),
]


@pytest.mark.parametrize(("name", "messages", "data"), COMPRESSED, ids=ids(COMPRESSED))
def test_header_compression(name: str, messages: list[Message], data: bytes) -> None:
    writer = ChunkWriter(compress=True)
    assert b"".join(writer.encode(message, 4) for message in messages) == data


@pytest.mark.parametrize(("name", "messages", "data"), BOTH_WAYS, ids=ids(BOTH_WAYS))
def test_vectors_are_written_byte_for_byte(name: str, messages: list[Raw], data: bytes) -> None:
    first = data[0] & 63
    csid = first if first > 1 else 64 + int.from_bytes(data[1 : 2 + first], "little")
    writer = ChunkWriter(compress=True)
    assert b"".join(writer.encode(Message(*message), csid) for message in messages) == data


def test_without_compression_every_header_is_whole() -> None:
    writer = ChunkWriter(compress=False)
    assert writer.encode(audio(20), 4) + writer.encode(audio(40), 4) == whole(20) + whole(40)


messages = st.builds(
    Sent,
    st.sampled_from([AUDIO, VIDEO]),
    st.one_of(st.integers(0, 90), st.integers(0xFFFFF0, 0x1000010), st.integers(2**32 - 50, 2**32 - 1)),
    st.sampled_from([1, 2]),
    st.sampled_from([b"", b"a", b"v" * 128, b"v" * 129, b"w" * 1000]),
)


@given(st.lists(st.tuples(messages, st.sampled_from([4, 6, 70, 400])), max_size=20), st.booleans(), st.integers(1, 300))
def test_written_chunks_are_read_by_another_decoder(
    sent: list[tuple[Sent, int]], compress: bool, chunk_size: int
) -> None:
    writer = ChunkWriter(compress=compress)
    writer.chunk_size = chunk_size
    data = set_chunk_size(chunk_size) + b"".join(
        writer.encode(Message(message.type_id, message.timestamp, message.stream_id, message.payload), csid)
        for message, csid in sent
    )
    found = [Sent(m.type_id, m.timestamp, m.stream_id, m.payload) for m in decode_stream(data, 0)[1:]]
    assert found == [message for message, _ in sent]


CSIDS = {AUDIO: 4, VIDEO: 6, DATA: 5, COMMAND: 3}


def queue(*messages: Message) -> SendQueue:
    made = SendQueue(ChunkWriter(compress=True))
    for message in messages:
        made.add(message, CSIDS[message.type_id])
    return made


def video(time: int = 0, length: int = 400) -> Message:
    return Message(VIDEO, time, 1, b"v" * length)


BEGIN = user_control(UserControl.STREAM_BEGIN, 1)
STATUS = Message(COMMAND, 0, 1, b"status")
META = Message(DATA, 0, 1, b"meta")


def ends(waiting: SendQueue) -> list[bytes]:
    """The payloads in the order in which messages are complete, with as little taken at a time as can be."""
    data = b""
    while waiting.waiting_bytes:
        data += waiting.take(1)
    assert waiting.take() == b""
    found, _ = read_chunks([data])
    return [payload for *_, payload in found]


def test_audio_overtakes_video() -> None:
    first, second = video(0, 300), video(33, 301)
    assert ends(queue(first, second, audio(20))) == [audio().payload, first.payload, second.payload]


@pytest.mark.parametrize("barrier", [META, STATUS], ids=["data", "command"])
def test_nothing_overtakes_data_and_command_messages(barrier: Message) -> None:
    found = ends(queue(audio(), video(), barrier, video(5, 7), audio(9), barrier))
    assert found == [b"a", video().payload, barrier.payload, b"a", b"v" * 7, barrier.payload]


def test_without_a_limit_the_order_is_kept() -> None:
    messages = [video(), audio(), STATUS, video(33), audio(23)]
    waiting = queue(*messages)
    assert waiting.waiting_bytes > 800
    whole = ChunkWriter(compress=True)
    expected = b"".join(whole.encode(message, CSIDS[message.type_id]) for message in messages)
    assert (waiting.take(), waiting.waiting_bytes) == (expected, 0)
    assert waiting.take() == b""


def test_audio_is_sent_between_the_chunks_of_a_video_message() -> None:
    waiting = queue(video(1000, 300))
    taken = [waiting.take(100)]
    waiting.add(audio(1010), 4)
    waiting.add(video(1033, 3), 6)
    taken += [waiting.take(1) for _ in range(3)]
    assert taken == [
        type0(6, 1000, VIDEO, 1, b"v" * 128, 300),
        type0(4, 1010, AUDIO, 1, b"a"),
        type3(6, b"v" * 128),
        type3(6, b"v" * 44),
    ]
    assert waiting.take(1) == type1(6, 33, VIDEO, b"vvv")
    assert (waiting.waiting_bytes, waiting.take(1)) == (0, b"")


def test_new_chunk_size_applies_after_its_own_message() -> None:
    writer = ChunkWriter(compress=True)
    data = b"".join(writer.encode(message, csid) for message, csid in ((control.set_chunk_size(4), 2), (BEGIN, 2)))
    assert data == type0(2, 0, 1, 0, bytes([0, 0, 0, 4])) + type1(2, 0, 4, BEGIN.payload[:4], 6) + type3(
        2, BEGIN.payload[4:]
    )


def test_a_limit_is_passed_by_less_than_a_chunk() -> None:
    waiting = queue(video(0, 1000))
    assert waiting.take(0) == b""
    assert [len(waiting.take(limit)) for limit in (258, 259, 1)] == [12 + 128 + 129, 3 * 129, 129]
    assert waiting.waiting_bytes == 1000 - 6 * 128
    assert waiting.take() == type3(6, b"v" * 128) + type3(6, b"v" * 104)


def test_waiting_bytes_of_the_send_queue_are_counted() -> None:
    waiting = queue(audio(), Message(AUDIO, 0, 1, b""), video(0, 300))
    assert waiting.waiting_bytes == 3 * 12 + 1 + 300
    waiting.take(1)
    assert waiting.waiting_bytes == 2 * 12 + 300


def test_a_message_that_is_too_long_is_refused_at_once() -> None:
    with pytest.raises(LocalProtocolError):
        queue(video(0, 0x1000000))


# --- Any messages, taken anyhow ---


@dataclass
class Step:
    kind: int = 0
    """Adds such a message; 0: takes."""
    value: int = 0
    """The length of the payload, or the limit."""


steps = st.lists(
    st.one_of(
        st.builds(Step, st.sampled_from(list(CSIDS)), st.sampled_from([0, 1, 5, 128, 129, 1000])),
        st.builds(Step, st.just(0), st.sampled_from([1, 60, 200, 5000, -1])),
    ),
    max_size=30,
)


@given(steps, st.booleans())
def test_any_queued_messages_keep_their_order_but_for_audio_before_video(steps: list[Step], compress: bool) -> None:
    waiting = SendQueue(ChunkWriter(compress=compress))
    added: list[Message] = []
    pieces: list[bytes] = []
    for step in steps:
        if step.kind:
            payload = len(added).to_bytes(2, "big") + b"p" * step.value  # Its number is in it, to be recognised by.
            added.append(Message(step.kind, len(added) * 40, 1, payload))
            waiting.add(added[-1], CSIDS[step.kind])
        else:
            before = waiting.waiting_bytes
            pieces.append(waiting.take(None if step.value < 0 else step.value))
            assert bool(pieces[-1]) == bool(before)
            assert step.value < 0 or len(pieces[-1]) < step.value + 1020
    found, error = read_chunks([*pieces, waiting.take()])
    assert not error
    raw = [(message.type_id, message.timestamp, message.stream_id, message.payload) for message in added]
    assert sorted(found) == sorted(raw)
    order = [raw.index(message) for message in found]
    for place, later in enumerate(order):
        for earlier in order[place + 1 :]:
            assert earlier > later or (added[later].type_id, added[earlier].type_id) == (AUDIO, VIDEO)
    assert (waiting.waiting_bytes, waiting.take()) == (0, b"")
