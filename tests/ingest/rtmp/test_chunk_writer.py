"""Messages to chunks: exact bytes, header compression that any reader understands; what overtakes what."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp import LocalProtocolError, Message, encode_message
from ingest.rtmp.chunk_writer import ChunkWriter, SendQueue, basic_header
from ingest.rtmp.messages import control
from ingest.rtmp.messages.control import UserControl, user_control
from tests.ingest.rtmp.chunk_vectors import BOTH_WAYS, Raw
from tests.ingest.rtmp.replay import read_chunks
from tests.ingest.rtmp.wire import Sent, abort, h, ids, set_chunk_size, type0, type1, type2, type3
from tests.rtmpdecode import decode_stream

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


def test_a_message_that_is_too_long() -> None:
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
def test_vectors(name: str, messages: list[Raw], data: bytes) -> None:
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
def test_what_is_written_is_read_by_another_decoder(
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


CSIDS = {AUDIO: 4, VIDEO: 6, DATA: 4, COMMAND: 3}


def outbox(*messages: Message) -> SendQueue:
    box = SendQueue(ChunkWriter(compress=True))
    for message in messages:
        add(box, message)
    return box


def add(box: SendQueue, message: Message) -> None:
    box.add(message, CSIDS.get(message.type_id, 2))


def video(time: int = 0, length: int = 400, stream_id: int = 1) -> Message:
    return Message(VIDEO, time, stream_id, b"v" * length)


PING = user_control(UserControl.PING_REQUEST, 1)
PONG = user_control(UserControl.PING_RESPONSE, 1)
BEGIN = user_control(UserControl.STREAM_BEGIN, 1)
EOF = user_control(UserControl.STREAM_EOF, 1)
BUFFER = user_control(UserControl.SET_BUFFER_LENGTH, 1, 1000)
STATUS = Message(COMMAND, 0, 1, b"status")
META = Message(DATA, 0, 1, b"meta")
OBJECT = Message(19, 0, 0, b"object")
ACK = control.acknowledgement(1)
WINDOW = control.window_acknowledgement_size(1)
BANDWIDTH = control.set_peer_bandwidth(1, control.BandwidthLimit.HARD)
SIZE = control.set_chunk_size(100)


def ends(box: SendQueue, limit: int = 1) -> list[bytes]:
    """The payloads in the order in which messages are complete, with so little taken at a time."""
    data = b""
    while box.waiting_bytes:
        data += box.take(limit)
    assert box.take() == b""
    found, _ = read_chunks([set_chunk_size(100) + data if SIZE.payload in data else data])
    return [payload for *_, payload in found]


def ordered(*messages: Message) -> list[bytes]:
    return [message.payload for message in messages]


@pytest.mark.parametrize(
    "urgent", [PING, PONG, ACK, WINDOW, BANDWIDTH], ids=["ping", "pong", "acknowledgement", "window", "bandwidth"]
)
@pytest.mark.parametrize("slow", [video(), audio(), META, STATUS, OBJECT, BEGIN], ids=lambda slow: f"{slow.type_id}")
def test_control_overtakes_everything(urgent: Message, slow: Message) -> None:
    assert ends(outbox(slow, urgent)) == ordered(urgent, slow)


def test_control_keeps_its_own_order() -> None:
    assert ends(outbox(PING, ACK, PONG, WINDOW)) == ordered(PING, ACK, PONG, WINDOW)


def test_audio_overtakes_video() -> None:
    first, second = video(0, 300), video(33, 301)
    assert ends(outbox(first, second, audio(20))) == ordered(audio(20), first, second)


@pytest.mark.parametrize(
    "barrier", [META, STATUS, OBJECT, BEGIN, EOF, BUFFER], ids=["data", "command", "object", "begin", "eof", "buffer"]
)
def test_nothing_but_control_overtakes_the_others(barrier: Message) -> None:
    messages = [video(), barrier, video(5, 7), audio(9)]
    assert ends(outbox(*messages)) == ordered(messages[0], barrier, audio(9), messages[2])
    assert ends(outbox(audio(), video(), barrier, audio(9), barrier)) == ordered(
        audio(), video(), barrier, audio(9), barrier
    )


def test_without_a_limit_the_order_is_kept() -> None:
    messages = [video(), audio(), STATUS, PING, video(33), audio(23)]
    box = outbox(*messages)
    assert box.waiting_bytes > 800
    whole = ChunkWriter(compress=True)
    expected = b"".join(whole.encode(message, CSIDS.get(message.type_id, 2)) for message in messages)
    assert (box.take(), box.waiting_bytes) == (expected, 0)
    assert box.take() == b""


def test_between_the_chunks_of_a_video_message() -> None:
    box = outbox(video(1000, 300))
    taken = [box.take(100)]
    add(box, audio(1010))
    add(box, PING)
    add(box, video(1033, 3))
    taken += [box.take(1) for _ in range(4)]
    assert taken == [
        type0(6, 1000, VIDEO, 1, b"v" * 128, 300),
        type0(2, 0, 4, 0, PING.payload),
        type0(4, 1010, AUDIO, 1, b"a"),
        type3(6, b"v" * 128),
        type3(6, b"v" * 44),
    ]
    assert box.take(1) == type1(6, 33, VIDEO, b"vvv")
    assert (box.waiting_bytes, box.take(1)) == (0, b"")


def test_headers_are_compressed_in_the_order_of_sending() -> None:
    box = SendQueue(ChunkWriter(compress=True))
    for message in (video(10), audio(40), audio(60), audio(80)):
        box.add(message, 4)
    assert box.take(1) == type0(4, 40, AUDIO, 1, b"a")
    assert box.take(2) == type2(4, 20, b"a")
    assert box.take(1) == type3(4, b"a")
    assert box.take(1) == type0(4, 10, VIDEO, 1, b"v" * 128, 400)


def test_a_message_waits_for_the_one_that_is_under_way_on_its_chunk_stream() -> None:
    """StreamBegin does not overtake, PingRequest does: with chunks of one byte they would be mixed up otherwise."""
    box = outbox(control.set_chunk_size(4), BEGIN)
    data = box.take(20)
    add(box, PING)
    assert data + box.take(100) == type0(2, 0, 1, 0, bytes([0, 0, 0, 4])) + (
        type1(2, 0, 4, BEGIN.payload[:4], 6) + type3(2, BEGIN.payload[4:]) + type3(2, PING.payload[:4])
    ) + type3(2, PING.payload[4:])


def test_chunk_size_holds_from_its_own_end_on() -> None:
    box = outbox(video(0, 300))
    data = box.take(1)
    add(box, control.set_chunk_size(40))
    assert data + box.take(1000) == type0(6, 0, VIDEO, 1, b"v" * 128, 300) + set_chunk_size(40) + b"".join(
        type3(6, b"v" * size) for size in (40, 40, 40, 40, 12)
    )


def test_a_limit_is_passed_by_less_than_a_chunk() -> None:
    box = outbox(video(0, 1000))
    assert box.take(0) == b""
    assert [len(box.take(limit)) for limit in (258, 259, 1)] == [12 + 128 + 129, 3 * 129, 129]
    assert box.waiting_bytes == 1000 - 6 * 128
    assert box.take() == type3(6, b"v" * 128) + type3(6, b"v" * 104)


def test_what_waits_is_counted() -> None:
    box = outbox(audio(), Message(AUDIO, 0, 1, b""), video(0, 300))
    assert box.waiting_bytes == 3 * 12 + 1 + 300
    box.take(1)
    assert box.waiting_bytes == 2 * 12 + 300


def test_abort_drops_media_and_gives_up_what_is_under_way() -> None:
    box = outbox(video(0, 300), video(0, 300, stream_id=2))
    data = box.take(1)
    for message in (audio(5), META, STATUS, PING):
        add(box, message)
    box.abort(1)
    assert box.waiting_bytes == sum(12 + length for length in (300, 4, 6, 6, 4))
    data += box.take(1)
    assert data == type0(6, 0, VIDEO, 1, b"v" * 128, 300) + abort(6)
    assert [message.payload for message in decode_stream(data + box.take(), 0)[1:]] == [
        b"v" * 300,
        *ordered(META, STATUS, PING),
    ]
    assert box.waiting_bytes == 0


def test_abort_of_a_stream_that_has_nothing_under_way() -> None:
    box = outbox(video(), audio())
    box.abort(1)
    assert (box.waiting_bytes, box.take()) == (0, b"")


def test_a_message_that_is_too_long_is_refused_at_once() -> None:
    with pytest.raises(LocalProtocolError):
        outbox(video(0, 0x1000000))


# --- Any messages, taken anyhow ---

KINDS = [AUDIO, VIDEO, DATA, COMMAND, "begin", "ping", "ack", "size"]


@dataclass
class Step:
    kind: int | str = 0
    """Adds such a message; 0: takes."""
    value: int = 0
    """The length of media, the chunk size, or the limit."""


steps = st.lists(
    st.one_of(
        st.builds(Step, st.sampled_from(KINDS), st.sampled_from([0, 1, 5, 128, 129, 1000])),
        st.builds(Step, st.just(0), st.sampled_from([1, 60, 200, 5000, -1])),
    ),
    max_size=30,
)


def message_of(step: Step, number: int) -> Message:
    """Its number is in it, to be recognised by."""
    match step.kind:
        case "begin":
            return user_control(UserControl.STREAM_BEGIN, number)
        case "ping":
            return user_control(UserControl.PING_REQUEST, number)
        case "ack":
            return control.acknowledgement(number)
        case "size":
            return control.set_chunk_size(step.value + 1)
    return Message(int(step.kind), number * 40, 1 + number % 2, number.to_bytes(2, "big") + b"p" * step.value)


def overtakes(later: Message, earlier: Message) -> bool:
    """Whether it may, by the rule alone."""
    urgent = [
        message.type_id in (1, 2, 3, 5, 6) or (message.type_id == 4 and message.payload[1] in (6, 7))
        for message in (later, earlier)
    ]
    if any(urgent):
        return urgent == [True, False]
    return (later.type_id, earlier.type_id) == (AUDIO, VIDEO)


@given(steps, st.booleans(), st.booleans())
def test_any_messages_by_any_limits(steps: list[Step], compress: bool, one_chunk_stream: bool) -> None:
    box = SendQueue(ChunkWriter(compress=compress))
    added: list[Message] = []
    pieces: list[bytes] = []
    for step in steps:
        if step.kind:
            message = message_of(step, len(added))
            added.append(message)
            box.add(message, 4 if one_chunk_stream else CSIDS.get(message.type_id, 2))
        else:
            before = box.waiting_bytes
            pieces.append(box.take(None if step.value < 0 else step.value))
            assert bool(pieces[-1]) == bool(before)
            assert step.value < 0 or len(pieces[-1]) < step.value + 1020
    found, error = read_chunks([*pieces, box.take()])
    assert not error

    # The reader keeps Set Chunk Size to itself; what it read shows that it was at its place.
    sent = [message for message in added if message.type_id != 1]
    raw = [(message.type_id, message.timestamp, message.stream_id, message.payload) for message in sent]
    assert sorted(found) == sorted(raw)
    order = [raw.index(message) for message in found]
    for place, later in enumerate(order):
        for earlier in order[place + 1 :]:
            assert earlier > later or overtakes(sent[later], sent[earlier])
    assert (box.waiting_bytes, box.take()) == (0, b"")
