"""Chunks to messages: the forms of the specification, what real senders do, limits, and any split and interleaving."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.rtmp import LimitExceeded, Limits, RemoteProtocolError
from ingest.rtmp.chunks.reader import ChunkReader
from tests.ingest.rtmp.wire import Sender, Sent, abort, basic, set_chunk_size, type0, type1, type2, type3

AUDIO, VIDEO, DATA, COMMAND = 8, 9, 18, 20

Raw = tuple[int, int, int, bytes]


def read_all(reader: ChunkReader, data: bytes) -> list[Raw]:
    reader.feed(data)
    found: list[Raw] = []
    try:
        while messages := reader.read():
            found += messages
    finally:
        reader.keep()
    return found


def read(data: bytes, limits: Limits | None = None, size: int = 0) -> list[Raw]:
    """The messages of `data`, given in pieces of `size` bytes."""
    reader = ChunkReader(limits or Limits())
    size = size or max(len(data), 1)
    return [message for at in range(0, len(data), size) for message in read_all(reader, data[at : at + size])]


A100 = b"a" * 100
B300 = bytes(range(256)) + b"b" * 44

VECTORS: list[tuple[str, bytes, list[Raw]]] = [
    ("type 0", type0(3, 1000, AUDIO, 12345, b"x" * 32), [(AUDIO, 1000, 12345, b"x" * 32)]),
    (
        "example 1 of the specification (5.3.2.1), with a type 2 before the type 3s",
        type0(3, 1000, AUDIO, 12345, b"1" * 32) + type2(3, 20, b"2" * 32) + type3(3, b"3" * 32) + type3(3, b"4" * 32),
        [(AUDIO, 1000 + 20 * n, 12345, bytes([0x31 + n]) * 32) for n in range(4)],
    ),
    (
        "example 2 of the specification (5.3.2.2)",
        type0(4, 1000, VIDEO, 12346, b"v" * 128, 307) + type3(4, b"w" * 128) + type3(4, b"x" * 51),
        [(VIDEO, 1000, 12346, b"v" * 128 + b"w" * 128 + b"x" * 51)],
    ),
    (
        "the message stream id is little-endian",
        bytes.fromhex("03 000001 000001 08 78563412 ff"),
        [(AUDIO, 1, 0x12345678, b"\xff")],
    ),
    (
        "types 0, 1, 2, 3",
        type0(4, 10, VIDEO, 1, b"a") + type1(4, 5, AUDIO, b"bc") + type2(4, 7, b"de") + type3(4, b"fg"),
        [(VIDEO, 10, 1, b"a"), (AUDIO, 15, 1, b"bc"), (AUDIO, 22, 1, b"de"), (AUDIO, 29, 1, b"fg")],
    ),
    (
        "a type 3 after a type 0 adds its timestamp (5.3.1.2.4)",
        type0(4, 40, AUDIO, 1, b"a") + type3(4, b"b") + type3(4, b"c"),
        [(AUDIO, 40, 1, b"a"), (AUDIO, 80, 1, b"b"), (AUDIO, 120, 1, b"c")],
    ),
    ("a type 1 begins a chunk stream, as librtmp does", type1(2, 3, 4, b"\0\0\0\0\0\0"), [(4, 3, 0, bytes(6))]),
    ("an empty message", type0(4, 5, AUDIO, 1, b"") + type3(4, b""), [(AUDIO, 5, 1, b""), (AUDIO, 10, 1, b"")]),
    ("ids 63, 64, 319", b"".join(type0(i, 0, AUDIO, 1, bytes([i & 255])) for i in (63, 64, 319)),
     [(AUDIO, 0, 1, bytes([i & 255])) for i in (63, 64, 319)]),
    ("ids 320 and 65599", type0(320, 0, AUDIO, 1, b"a") + type0(65599, 0, AUDIO, 1, b"b"),
     [(AUDIO, 0, 1, b"a"), (AUDIO, 0, 1, b"b")]),
    ("365 as the specification shows it", bytes.fromhex("01 2d01 000000 000001 08 01000000 aa c1 2d01 bb"),
     [(AUDIO, 0, 1, b"\xaa"), (AUDIO, 0, 1, b"\xbb")]),
    (
        "one id in its two-byte and its three-byte form",
        type0(70, 1, AUDIO, 1, b"a" * 128, 200) + basic(3, 70, long_form=True) + b"b" * 72,
        [(AUDIO, 1, 1, b"a" * 128 + b"b" * 72)],
    ),
    (
        "two chunk streams interleaved",
        type0(4, 1, AUDIO, 1, A100 + b"A" * 28, 200) + type0(6, 2, VIDEO, 1, B300[:128], 300)
        + type3(4, b"A" * 72) + type3(6, B300[128:256]) + type3(6, B300[256:]),
        [(AUDIO, 1, 1, A100 + b"A" * 100), (VIDEO, 2, 1, B300)],
    ),
    (
        "Set Chunk Size between the chunks of a message",
        type0(6, 2, VIDEO, 1, B300[:128], 300) + set_chunk_size(40) + type3(6, B300[128:168]) + set_chunk_size(4096)
        + type3(6, B300[168:]),
        [(VIDEO, 2, 1, B300)],
    ),
    ("chunk size 1", set_chunk_size(1) + type0(4, 0, AUDIO, 1, b"a", 3) + type3(4, b"b") + type3(4, b"c"),
     [(AUDIO, 0, 1, b"abc")]),
    ("the top bit of the chunk size is not judged", set_chunk_size(0x80001000) + type0(4, 0, VIDEO, 1, bytes(4096)),
     [(VIDEO, 0, 1, bytes(4096))]),
    ("the largest chunk size", set_chunk_size(0x7FFFFFFF) + type0(4, 0, VIDEO, 1, bytes(100_000)),
     [(VIDEO, 0, 1, bytes(100_000))]),
    (
        "Abort drops what is under way, and the chunk stream remembers its header",
        type0(6, 2, VIDEO, 1, bytes(128), 300) + abort(6) + type2(6, 1, B300[:128]) + type3(6, B300[128:256])
        + type3(6, B300[256:]),
        [(VIDEO, 3, 1, B300)],
    ),
    ("Abort of a chunk stream that has nothing under way", abort(6) + abort(2) + type0(6, 0, AUDIO, 1, b"a"),
     [(AUDIO, 0, 1, b"a")]),
    ("0xFFFFFE fits into the field", type0(4, 0xFFFFFE, AUDIO, 1, b"a"), [(AUDIO, 0xFFFFFE, 1, b"a")]),
    ("0xFFFFFF needs the extended timestamp", bytes.fromhex("04 ffffff 000001 08 01000000 00ffffff 61"),
     [(AUDIO, 0xFFFFFF, 1, b"a")]),
    (
        "an extended timestamp, repeated by type 3 chunks",
        type0(6, 0x01020304, VIDEO, 1, B300[:128], 300) + type3(6, B300[128:256], 0x01020304)
        + type3(6, B300[256:], 0x01020304),
        [(VIDEO, 0x01020304, 1, B300)],
    ),
    (
        "an extended timestamp, not repeated by type 3 chunks",
        type0(6, 0x7F020304, VIDEO, 1, B300[:128], 300) + type3(6, B300[128:256]) + type3(6, B300[256:]),
        [(VIDEO, 0x7F020304, 1, B300)],
    ),
    (
        "not repeated, and the last chunk is shorter than an extended timestamp",
        type0(6, 0x7F020304, VIDEO, 1, B300[:128], 130) + type3(6, b"zz"),
        [(VIDEO, 0x7F020304, 1, B300[:128] + b"zz")],
    ),
    (
        "an extended delta",
        type0(6, 5, VIDEO, 1, b"a") + type1(6, 0x01000000, VIDEO, b"b") + type3(6, b"c", 0x01000000),
        [(VIDEO, 5, 1, b"a"), (VIDEO, 0x01000005, 1, b"b"), (VIDEO, 0x02000005, 1, b"c")],
    ),
    (
        "a header without an extended timestamp ends the repetition",
        type0(6, 0x01020304, VIDEO, 1, b"a") + type1(6, 1, VIDEO, B300[:128], 300) + type3(6, B300[128:256])
        + type3(6, B300[256:]),
        [(VIDEO, 0x01020304, 1, b"a"), (VIDEO, 0x01020305, 1, B300)],
    ),
    ("time wraps at 2^32", type0(4, 0xFFFFFFF0, AUDIO, 1, b"a") + type1(4, 0x20, AUDIO, b"b"),
     [(AUDIO, 0xFFFFFFF0, 1, b"a"), (AUDIO, 0x10, 1, b"b")]),
    ("time steps back by a delta modulo 2^32, as librtmp does",
     type0(4, 100, AUDIO, 1, b"a") + type1(4, 2**32 - 40, VIDEO, b"b"),
     [(AUDIO, 100, 1, b"a"), (VIDEO, 60, 1, b"b")]),
    ("unknown types are given like others", type0(4, 0, 99, 7, b"?"), [(99, 0, 7, b"?")]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "data", "messages"), VECTORS, ids=[vector[0] for vector in VECTORS])
@pytest.mark.parametrize("size", [0, 1, 3, 130])
def test_vectors(name: str, data: bytes, messages: list[Raw], size: int) -> None:
    assert read(data, size=size) == messages


BAD: list[tuple[str, bytes]] = [
    ("a chunk stream begins with type 2", type2(4, 0, b"a")),
    ("a chunk stream begins with type 3", type3(4, b"a")),
    ("type 0 within a message", type0(4, 0, VIDEO, 1, bytes(128), 300) + type0(4, 0, VIDEO, 1, bytes(128), 300)),
    ("type 1 within a message", type0(4, 0, VIDEO, 1, bytes(128), 300) + type1(4, 0, VIDEO, bytes(128), 300)),
    ("type 2 within a message", type0(4, 0, VIDEO, 1, bytes(128), 300) + type2(4, 0, bytes(128))),
    ("a chunk size of 0", set_chunk_size(0)),
    ("a chunk size of 0 with the top bit", set_chunk_size(0x80000000)),
    ("Set Chunk Size of three bytes", type0(2, 0, 1, 0, bytes(3))),
    ("an empty Abort", type0(2, 0, 2, 0, b"")),
]


@pytest.mark.parametrize(("name", "data"), BAD, ids=[vector[0] for vector in BAD])
@pytest.mark.parametrize("size", [0, 1])
def test_bad_input(name: str, data: bytes, size: int) -> None:
    with pytest.raises(RemoteProtocolError):
        read(data, size=size)


OVER: list[tuple[str, Limits, bytes, bytes]] = [
    ("audio", Limits(media_message_bytes=9), type0(4, 0, AUDIO, 1, bytes(9)), type0(4, 0, AUDIO, 1, b"", 10)),
    ("video", Limits(media_message_bytes=9), type0(4, 0, VIDEO, 1, bytes(9)), type0(4, 0, VIDEO, 1, b"", 10)),
    ("command", Limits(command_message_bytes=9), type0(3, 0, COMMAND, 0, bytes(9)), type0(3, 0, COMMAND, 0, b"", 10)),
    ("type 17", Limits(command_message_bytes=9), type0(3, 0, 17, 0, bytes(9)), type0(3, 0, 17, 0, b"", 10)),
    ("data", Limits(data_message_bytes=9), type0(3, 0, DATA, 0, bytes(9)), type0(3, 0, DATA, 0, b"", 10)),
    ("control", Limits(control_message_bytes=9), type0(2, 0, 4, 0, bytes(9)), type0(2, 0, 4, 0, b"", 10)),
    ("other", Limits(other_message_bytes=9), type0(4, 0, 77, 0, bytes(9)), type0(4, 0, 77, 0, b"", 10)),
    (
        "chunk streams",
        Limits(chunk_streams=2),
        type0(3, 0, AUDIO, 1, b"") + type0(4, 0, AUDIO, 1, b""),
        type0(5, 0, AUDIO, 1, b""),
    ),
    (
        "unfinished messages",
        Limits(partial_bytes=300),
        type0(3, 0, VIDEO, 1, bytes(128), 200) + type0(4, 0, VIDEO, 1, bytes(128), 200),
        type0(5, 0, VIDEO, 1, bytes(128), 200),
    ),
]


@pytest.mark.parametrize(("name", "limits", "within", "over"), OVER, ids=[row[0] for row in OVER])
def test_limits(name: str, limits: Limits, within: bytes, over: bytes) -> None:
    reader = ChunkReader(limits)
    read_all(reader, within)
    with pytest.raises(LimitExceeded):
        read_all(reader, over)


def test_a_length_is_refused_by_its_header_alone() -> None:
    """Ten megabytes that will not be taken need not be received."""
    header = type0(4, 0, VIDEO, 1, b"", 0xFFFFFF)
    with pytest.raises(LimitExceeded):
        read(header)


def test_finished_and_aborted_messages_give_room_again() -> None:
    reader = ChunkReader(Limits(partial_bytes=300))
    for _ in range(10):
        assert len(read_all(reader, type0(3, 0, VIDEO, 1, bytes(128), 200) + type3(3, bytes(72)))) == 1
        assert read_all(reader, type0(4, 0, VIDEO, 1, bytes(128), 200) + abort(4)) == []


def test_reading_stops_after_a_command() -> None:
    data = type0(3, 0, COMMAND, 0, b"x") + type0(4, 0, AUDIO, 1, b"a") + type0(4, 0, AUDIO, 1, b"b")
    reader = ChunkReader(Limits())
    reader.feed(data)
    assert [message[0] for message in reader.read()] == [COMMAND]
    reader.keep()
    reader.hold(type0(4, 0, AUDIO, 1, b"c"))
    assert [message[3] for message in read_all(reader, b"")] == [b"a", b"b", b"c"]


@pytest.mark.parametrize("chunk_size", [1, 2, 127, 128, 4096])
@pytest.mark.parametrize("length", [1, 5, 512, 1000, 8_000])
@pytest.mark.parametrize("size", [0, 1448])
@pytest.mark.parametrize("repeats", [True, False])
@pytest.mark.parametrize("csid", [4, 70, 400])
def test_long_runs_of_small_chunks(chunk_size: int, length: int, size: int, repeats: bool, csid: int) -> None:
    """With the bytes of type 3 headers all over the payload, and a second chunk stream in between at times."""
    payload = (basic(3, csid) + b"\x7f\x00\x00\x01" + b"\xc5\x01\x02")[:7] * (length // 7) + b"p" * (length % 7)
    sender = Sender(csid, repeats)
    other = Sender(5)
    video = Sent(VIDEO, 0x7F000000, 1, payload)
    audio = Sent(AUDIO, 3, 1, b"s" * min(chunk_size, 40))
    data = set_chunk_size(chunk_size) + sender.begin(video, 0, chunk_size)
    expected = []
    count = 0
    while sender.rest:
        count += 1
        if count % 600 == 0:
            data += other.begin(audio, 0, chunk_size)
            expected.append(audio.raw)
        data += sender.proceed(chunk_size)
    expected.append(video.raw)
    assert read(data, size=size) == expected


# --- Any messages, by any headers, interleaved and split anyhow ---

timestamps = st.one_of(
    st.integers(0, 2**32 - 1),
    st.integers(0, 100),
    st.integers(0xFFFFFE, 0x1000001),
    st.integers(2**32 - 5, 2**32 - 1),
)
# Payload and extended timestamps can't be mistaken for one another: only a sender that doesn't repeat them would mind.
payloads = st.builds(lambda size, byte: bytes([byte]) * size, st.integers(0, 600), st.sampled_from(b"\xc4\xee\xef"))
messages = st.builds(
    Sent,
    st.sampled_from([AUDIO, VIDEO, DATA, COMMAND, 22, 99]),
    timestamps.filter(lambda time: time >> 24 not in b"\xc4\xee\xef"),
    st.sampled_from([0, 1, 2, 0xFFFFFFFF]),
    payloads,
)
csids = st.sampled_from([3, 4, 63, 64, 319, 320, 65599])


@st.composite
def conversations(draw: st.DrawFn) -> tuple[bytes, list[Raw]]:
    """Bytes of a sender that has some chunk streams, and the messages in the order in which they are complete."""
    senders = {csid: Sender(csid, draw(st.booleans())) for csid in draw(st.lists(csids, min_size=1, unique=True))}
    chunk_size = 128
    data = b""
    complete: list[Raw] = []
    for _ in range(draw(st.integers(1, 25))):
        if draw(st.integers(0, 9)) == 0:
            size = draw(st.sampled_from([1, 2, 100, 128, 129, 4096]))
            data += set_chunk_size(size, chunk_size)
            chunk_size = size
        sender = senders[draw(st.sampled_from(sorted(senders)))]
        if sender.rest:
            data += sender.proceed(chunk_size)
        else:
            message = draw(messages)
            if sender.last and draw(st.booleans()):
                # As the one before: so that the shorter headers come up.
                later = (sender.last.timestamp + draw(st.sampled_from([0, 20, sender.step]))) % 2**32
                if later >> 24 not in b"\xc4\xee\xef":
                    message = Sent(sender.last.type_id, later, sender.last.stream_id, sender.last.payload)
            kinds = sender.kinds(message)
            if message.timestamp - (sender.last.timestamp if sender.last else 0) < 0:
                kinds = [0]
            data += sender.begin(message, draw(st.sampled_from(kinds)), chunk_size)
        if not sender.rest and sender.last:
            complete.append(sender.last.raw)
    for sender in senders.values():
        while sender.rest:
            data += sender.proceed(chunk_size)
            if not sender.rest and sender.last:
                complete.append(sender.last.raw)
    return data, complete


@settings(max_examples=150)
@given(conversations(), st.lists(st.integers(1, 700), max_size=30))
def test_any_conversation(conversation: tuple[bytes, list[Raw]], sizes: list[int]) -> None:
    data, complete = conversation
    assert read(data) == complete
    reader = ChunkReader(Limits())
    found: list[Raw] = []
    at = 0
    for size in [*sizes, len(data)]:
        found += read_all(reader, data[at : at + size])
        at += size
    assert found == complete


@given(st.binary(max_size=600))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    outcome: list[Any] = []
    for size in (0, 1):
        try:
            outcome.append(read(data, size=size))
        except RemoteProtocolError as error:
            outcome.append(str(error))
    assert outcome[0] == outcome[1]
