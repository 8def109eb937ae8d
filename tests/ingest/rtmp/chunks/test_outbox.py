"""What waits to be sent: what overtakes what, exact bytes, and the same messages by any way of taking them."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp import Limits, LocalProtocolError, Message
from ingest.rtmp.chunk_reader import ChunkReader
from ingest.rtmp.chunk_writer import ChunkWriter, SendQueue
from ingest.rtmp.messages import control
from ingest.rtmp.messages.control import UserControl, user_control
from tests.ingest.rtmp.wire import abort, set_chunk_size, type0, type1, type2, type3
from tests.rtmpdecode import decode_stream

AUDIO, VIDEO, DATA, COMMAND = 8, 9, 18, 20
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


def audio(time: int = 0, stream_id: int = 1) -> Message:
    return Message(AUDIO, time, stream_id, b"a")


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
    reader = ChunkReader(Limits())
    reader.feed(set_chunk_size(100) + data if SIZE.payload in data else data)
    found = []
    while messages := reader.read():
        found += [payload for *_, payload in messages]
    return found


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
    reader = ChunkReader(Limits())
    added: list[Message] = []
    found: list[tuple[int, int, int, bytes]] = []

    def give(data: bytes) -> None:
        reader.feed(data)
        while messages := reader.read():
            found.extend(messages)
        reader.keep()

    for step in steps:
        if step.kind:
            message = message_of(step, len(added))
            added.append(message)
            box.add(message, 4 if one_chunk_stream else CSIDS.get(message.type_id, 2))
        else:
            before = box.waiting_bytes
            data = box.take(None if step.value < 0 else step.value)
            assert bool(data) == bool(before)
            assert step.value < 0 or len(data) < step.value + 1020
            give(data)
    give(box.take())

    # The reader keeps Set Chunk Size to itself; what it read shows that it was at its place.
    sent = [message for message in added if message.type_id != 1]
    raw = [(message.type_id, message.timestamp, message.stream_id, message.payload) for message in sent]
    assert sorted(found) == sorted(raw)
    order = [raw.index(message) for message in found]
    for place, later in enumerate(order):
        for earlier in order[place + 1 :]:
            assert earlier > later or overtakes(sent[later], sent[earlier])
    assert (box.waiting_bytes, box.take()) == (0, b"")
