"""Chunks to messages: the forms of the specification, what real senders do, limits, and any split and interleaving."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.rtmp import LimitExceeded, Limits, Message, RemoteProtocolError, encode_message
from ingest.rtmp.chunk_reader import ChunkReader
from ingest.rtmp.limits import limits_for
from tests.pure.rtmp.replay import cut, in_pieces, raw, read_chunks
from tests.pure.rtmp.wire import Sender, Sent, abort, basic, h, ids, set_chunk_size, type0, type1, type2, type3
from tests.rtmpdecode import Raw, decode_stream

USER_CONTROL, AUDIO, VIDEO, DATA, COMMAND = 4, 8, 9, 18, 20

# --- Vectors: name, messages, bytes (RTMP 1.0, section 5.3), also for the writer and the fuzzer ---

Vector = tuple[str, list[Raw], bytes]

B300 = bytes(range(256)) + b"b" * 44
LATE = 0x01020304
"""A timestamp that needs the extended field."""


BOTH_WAYS: list[Vector] = [
    (
        "example 1 of the specification (5.3.2.1): 44, 36, 33 and 33 bytes",
        [(AUDIO, 1000 + 20 * n, 12345, bytes([0x31 + n]) * 32) for n in range(4)],
        h("03 0003e8 000020 08 39300000") + b"1" * 32
        + h("83 000014") + b"2" * 32
        + h("c3") + b"3" * 32
        + h("c3") + b"4" * 32,
    ),
    (
        "example 2 of the specification (5.3.2.2): 140, 129 and 52 bytes",
        [(VIDEO, 1000, 12346, b"v" * 128 + b"w" * 128 + b"x" * 51)],
        h("04 0003e8 000133 09 3a300000") + b"v" * 128
        + h("c4") + b"w" * 128
        + h("c4") + b"x" * 51,
    ),
    ("the message stream id is little-endian", [(AUDIO, 1, 0x12345678, b"\xff")],
     h("03 000001 000001 08 78563412 ff")),
    (
        "types 0, 1, 2, 3",
        [(VIDEO, 10, 1, b"a"), (AUDIO, 15, 1, b"bc"), (AUDIO, 22, 1, b"de"), (AUDIO, 29, 1, b"fg")],
        h("04 00000a 000001 09 01000000 61   44 000005 000002 08 6263   84 000007 6465   c4 6667"),
    ),
    ("an empty message", [(AUDIO, 5, 1, b""), (AUDIO, 9, 1, b"")],
     h("04 000005 000000 08 01000000   84 000004")),
    ("chunk stream 2", [(USER_CONTROL, 0, 0, bytes(6))], h("02 000000 000006 04 00000000 000000000000")),
    ("chunk stream 63", [(AUDIO, 0, 1, b"a")], h("3f 000000 000001 08 01000000 61")),
    ("chunk stream 64: two bytes", [(AUDIO, 0, 1, b"a")], h("00 00 000000 000001 08 01000000 61")),
    ("chunk stream 319", [(AUDIO, 0, 1, b"a")], h("00 ff 000000 000001 08 01000000 61")),
    ("chunk stream 320: three bytes, little-endian", [(AUDIO, 0, 1, b"a")],
     h("01 0001 000000 000001 08 01000000 61")),
    ("chunk stream 365 (5.3.1.1)", [(AUDIO, 0, 1, b"\xaa" * 128 + b"\xbb")],
     h("01 2d01 000000 000081 08 01000000") + b"\xaa" * 128 + h("c1 2d01 bb")),
    ("chunk stream 65599", [(AUDIO, 0, 1, b"a")], h("01 ffff 000000 000001 08 01000000 61")),
    ("exactly one chunk", [(VIDEO, 0, 1, b"v" * 128)], h("06 000000 000080 09 01000000") + b"v" * 128),
    ("the last timestamp of 3 bytes", [(AUDIO, 0xFFFFFE, 1, b"a")], h("04 fffffe 000001 08 01000000 61")),
    ("the first extended timestamp", [(AUDIO, 0xFFFFFF, 1, b"a")],
     h("04 ffffff 000001 08 01000000 00ffffff 61")),
    (
        "an extended timestamp is repeated by further chunks, and ends with the next header",
        [(VIDEO, LATE, 1, B300), (VIDEO, LATE + 1, 1, B300)],
        h("06 ffffff 00012c 09 01000000 01020304") + B300[:128]
        + h("c6 01020304") + B300[128:256] + h("c6 01020304") + B300[256:]
        + h("86 000001") + B300[:128] + h("c6") + B300[128:256] + h("c6") + B300[256:],
    ),
    ("time wraps at 2^32", [(AUDIO, 0xFFFFFFF0, 1, b"a"), (AUDIO, 0x10, 1, b"b")],
     h("04 ffffff 000001 08 01000000 fffffff0 61   84 000020 62")),
    ("time goes back: a type 0 (5.3.1.2.1)", [(AUDIO, 100, 1, b"a"), (AUDIO, 60, 1, b"b")],
     h("04 000064 000001 08 01000000 61   04 00003c 000001 08 01000000 62")),
    ("another message stream: a type 0 (5.3.1.2.5)", [(AUDIO, 1, 1, b"a"), (AUDIO, 2, 2, b"b")],
     h("04 000001 000001 08 01000000 61   04 000002 000001 08 02000000 62")),
    ("unknown types are given like others", [(99, 0, 7, b"?")], h("04 000000 000001 63 07000000 3f")),
]  # fmt: skip
"""All messages on the chunk stream of the first header; our writer makes the same bytes of them."""

ONE_WAY: list[Vector] = [
    (
        "a type 3 after a type 0 adds its timestamp (5.3.1.2.4)",
        [(AUDIO, 40, 1, b"a"), (AUDIO, 80, 1, b"b"), (AUDIO, 120, 1, b"c")],
        type0(4, 40, AUDIO, 1, b"a") + type3(4, b"b") + type3(4, b"c"),
    ),
    ("the same with an extended timestamp", [(AUDIO, LATE, 1, b"a"), (AUDIO, 2 * LATE, 1, b"b")],
     type0(4, LATE, AUDIO, 1, b"a") + type3(4, b"b", LATE)),
    ("an empty message by type 3", [(AUDIO, 5, 1, b""), (AUDIO, 10, 1, b"")],
     type0(4, 5, AUDIO, 1, b"") + type3(4, b"")),
    ("a type 1 begins a chunk stream, as librtmp does", [(4, 3, 0, bytes(6))], type1(2, 3, 4, bytes(6))),
    (
        "librtmp's control messages of one time, by type 3",
        [(3, 5, 0, b"abcd"), (3, 10, 0, b"efgh")],
        type1(2, 5, 3, b"abcd") + type3(2, b"efgh"),
    ),
    (
        "librtmp's frames of one time, by type 3: it means a delta of 0, and is read as the specification says",
        [(AUDIO, 0, 1, b"a"), (AUDIO, 20, 1, b"b"), (AUDIO, 40, 1, b"c"), (VIDEO, 53, 1, b"dd")],
        type0(4, 0, AUDIO, 1, b"a") + type2(4, 20, b"b") + type3(4, b"c") + type1(4, 13, VIDEO, b"dd"),
    ),
    (
        "audio and video on one chunk stream, as librtmp: deltas modulo 2^32, repeated by further chunks",
        [(VIDEO, 100, 1, B300), (AUDIO, 60, 1, b"a"), (VIDEO, 133, 1, b"v"), (VIDEO, 90, 1, B300)],
        type0(4, 100, VIDEO, 1, B300[:128], 300) + type3(4, B300[128:256]) + type3(4, B300[256:])
        + type1(4, 2**32 - 40, AUDIO, b"a") + type1(4, 73, VIDEO, b"v")
        + type1(4, 2**32 - 43, VIDEO, B300[:128], 300)
        + type3(4, B300[128:256], 2**32 - 43) + type3(4, B300[256:], 2**32 - 43),
    ),
    ("one step back by type 2 and one more by type 3", [(AUDIO, 9, 1, b"a"), (AUDIO, 7, 1, b"b"), (AUDIO, 5, 1, b"c")],
     type0(4, 9, AUDIO, 1, b"a") + type2(4, 2**32 - 2, b"b") + type3(4, b"c", 2**32 - 2)),
    (
        "one id in its two-byte and its three-byte form",
        [(AUDIO, 1, 1, b"a" * 128 + b"b" * 72)],
        type0(70, 1, AUDIO, 1, b"a" * 128, 200) + basic(3, 70, long_form=True) + b"b" * 72,
    ),
    (
        "two chunk streams interleaved",
        [(AUDIO, 1, 1, b"a" * 200), (VIDEO, 2, 1, B300)],
        type0(4, 1, AUDIO, 1, b"a" * 128, 200) + type0(6, 2, VIDEO, 1, B300[:128], 300)
        + type3(4, b"a" * 72) + type3(6, B300[128:256]) + type3(6, B300[256:]),
    ),
    (
        "further chunks that repeat the header (5.3.1.2.4: they should be of type 3)",
        [(VIDEO, 100, 1, B300), (VIDEO, 120, 1, B300), (VIDEO, 121, 1, B300), (VIDEO, 122, 1, B300)],
        type0(6, 100, VIDEO, 1, B300[:128], 300) + type0(6, 100, VIDEO, 1, B300[128:256], 300) + type3(6, B300[256:])
        + type1(6, 20, VIDEO, B300[:128], 300) + type1(6, 20, VIDEO, B300[128:256], 300) + type2(6, 0, B300[256:])
        + type2(6, 1, B300[:128]) + type2(6, 1, B300[128:256]) + type3(6, B300[256:])
        + type3(6, B300[:128]) + type2(6, 1, B300[128:256]) + type3(6, B300[256:]),
    ),
    (
        "such a header counts for the type 3 chunks that follow: delta and extended timestamp",
        [(VIDEO, LATE, 1, B300), (VIDEO, LATE + 1, 1, B300), (VIDEO, 2 * LATE + 1, 1, B300)],
        type0(6, LATE, VIDEO, 1, B300[:128], 300) + type3(6, B300[128:256], LATE) + type2(6, 0, B300[256:])
        + type2(6, 1, B300[:128]) + type0(6, LATE + 1, VIDEO, 1, B300[128:256], 300) + type3(6, B300[256:], LATE + 1)
        + type2(6, LATE, B300[:128]) + type1(6, 0, VIDEO, B300[128:256], 300) + type3(6, B300[256:]),
    ),
    (
        "Set Chunk Size between the chunks of a message",
        [(VIDEO, 2, 1, B300)],
        type0(6, 2, VIDEO, 1, B300[:128], 300) + set_chunk_size(40) + type3(6, B300[128:168]) + set_chunk_size(4096)
        + type3(6, B300[168:]),
    ),
    (
        "chunk size 1, and back",
        [(AUDIO, 0, 1, b"abc"), (AUDIO, 1, 1, b"def")],
        set_chunk_size(1) + type0(4, 0, AUDIO, 1, b"a", 3) + type3(4, b"b") + type3(4, b"c") + set_chunk_size(128, 1)
        + type0(4, 1, AUDIO, 1, b"def"),
    ),
    ("the top bit of the chunk size is not judged", [(VIDEO, 0, 1, bytes(4096))],
     set_chunk_size(0x80001000) + type0(4, 0, VIDEO, 1, bytes(4096))),
    ("the largest chunk size", [(VIDEO, 0, 1, bytes(100_000))],
     set_chunk_size(0x7FFFFFFF) + type0(4, 0, VIDEO, 1, bytes(100_000))),
    (
        "Abort drops what is under way, and the chunk stream remembers its header",
        [(VIDEO, 3, 1, B300)],
        type0(6, 2, VIDEO, 1, bytes(128), 300) + abort(6) + type2(6, 1, B300[:128]) + type3(6, B300[128:256])
        + type3(6, B300[256:]),
    ),
    (
        "Abort of one of two chunk streams",
        [(AUDIO, 1, 1, b"a" * 200)],
        type0(365, 2, VIDEO, 1, bytes(128), 300) + type0(4, 1, AUDIO, 1, b"a" * 128, 200) + abort(365)
        + type3(4, b"a" * 72),
    ),
    ("Abort of chunk streams that have nothing under way", [(AUDIO, 0, 1, b"a")],
     abort(6) + abort(2) + abort(0xFFFFFFFF) + type0(6, 0, AUDIO, 1, b"a")),
    (
        "an extended timestamp, not repeated by type 3 chunks",
        [(VIDEO, 0x7F020304, 1, B300)],
        type0(6, 0x7F020304, VIDEO, 1, B300[:128], 300) + type3(6, B300[128:256]) + type3(6, B300[256:]),
    ),
    (
        "not repeated, and the last chunk is shorter than an extended timestamp",
        [(VIDEO, 0x7F020304, 1, B300[:128] + b"zz")],
        type0(6, 0x7F020304, VIDEO, 1, B300[:128], 130) + type3(6, b"zz"),
    ),
    (
        "an extended delta, repeated by a type 3 that begins a message",
        [(VIDEO, 5, 1, b"a"), (VIDEO, 0x01000005, 1, b"b"), (VIDEO, 0x02000005, 1, b"c"), (VIDEO, 0x03000004, 1, b"d")],
        type0(6, 5, VIDEO, 1, b"a") + type1(6, 0x01000000, VIDEO, b"b") + type3(6, b"c", 0x01000000)
        + type2(6, 0xFFFFFF, b"d"),
    ),
    (
        "an extended delta, not repeated",
        [(VIDEO, 5, 1, b"a"), (VIDEO, 0x01000005, 1, b"b"), (VIDEO, 0x02000005, 1, b"c"), (VIDEO, 0x02000006, 1, b"d")],
        type0(6, 5, VIDEO, 1, b"a") + type1(6, 0x01000000, VIDEO, b"b") + type3(6, b"c") + type2(6, 1, b"d"),
    ),
    ("a small timestamp in the extended field", [(AUDIO, 7, 1, b"a")], h("04 ffffff 000001 08 01000000 00000007 61")),
]  # fmt: skip
"""What other senders write in their own ways."""

REFUSED: list[tuple[str, bytes]] = [
    ("a chunk stream begins with type 2", type2(4, 0, b"a")),
    ("a chunk stream begins with type 3", type3(4, b"a")),
    ("a message begins within one, type 0", type0(4, 0, VIDEO, 1, bytes(128), 300) + type0(4, 1, VIDEO, 1, b"a")),
    ("of another message stream", type0(4, 0, VIDEO, 1, bytes(128), 300) + type0(4, 0, VIDEO, 2, bytes(128), 300)),
    ("of another time", type0(4, 0, VIDEO, 1, bytes(128), 300) + type0(4, 1, VIDEO, 1, bytes(128), 300)),
    ("of another length", type0(4, 0, VIDEO, 1, bytes(128), 300) + type1(4, 0, VIDEO, bytes(128), 301)),
    ("of another type", type0(4, 0, VIDEO, 1, bytes(128), 300) + type1(4, 0, AUDIO, bytes(128), 300)),
    ("a message begins within one, type 2", type0(4, 0, VIDEO, 1, bytes(128), 300) + type2(4, 33, bytes(128))),
    ("a chunk size of 0", set_chunk_size(0)),
    ("a chunk size of 0 with the top bit", set_chunk_size(0x80000000)),
    ("Set Chunk Size of three bytes", type0(2, 0, 1, 0, bytes(3))),
    ("an empty Abort", type0(2, 0, 2, 0, b"")),
]


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
    pieces = in_pieces(data, size or max(len(data), 1))
    return [message for piece in pieces for message in read_all(reader, piece)]


VECTORS = [*BOTH_WAYS, *ONE_WAY]


@pytest.mark.parametrize(("name", "messages", "data"), VECTORS, ids=ids(VECTORS))
@pytest.mark.parametrize("size", [0, 1, 3, 130])
def test_vectors_are_read_in_pieces_of_any_size(name: str, messages: list[Raw], data: bytes, size: int) -> None:
    assert read(data, size=size) == messages


@pytest.mark.parametrize(("name", "messages", "data"), VECTORS, ids=ids(VECTORS))
def test_another_decoder_reads_the_vectors_alike(name: str, messages: list[Raw], data: bytes) -> None:
    found = [message for message in raw(decode_stream(data, 0)) if message[0] not in (1, 2)]
    assert found == messages


@pytest.mark.parametrize(("name", "data"), REFUSED, ids=ids(REFUSED))
@pytest.mark.parametrize("size", [0, 1])
def test_malformed_chunks_are_refused(name: str, data: bytes, size: int) -> None:
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


@pytest.mark.parametrize(("name", "limits", "within", "over"), OVER, ids=ids(OVER))
def test_messages_and_chunk_streams_over_their_limits_are_refused(
    name: str, limits: Limits, within: bytes, over: bytes
) -> None:
    reader = ChunkReader(limits)
    read_all(reader, within)
    with pytest.raises(LimitExceeded):
        read_all(reader, over)


@pytest.mark.parametrize("chunk_size", [65_536, 0xFFFFFF])
def test_longest_possible_message_is_read_if_the_limits_allow(chunk_size: int) -> None:
    payload = bytes(0xFFFFFF)
    message = encode_message(Message(VIDEO, 0, 1, payload), chunk_stream_id=6, chunk_size=chunk_size)
    data = set_chunk_size(chunk_size) + message
    assert read(data, limits_for(0xFFFFFF), size=1 << 20) == [(VIDEO, 0, 1, payload)]
    with pytest.raises(LimitExceeded):
        read(data[: len(data) - 1000])


def test_empty_message_without_repeated_timestamp_is_read_with_the_next() -> None:
    """From a sender that doesn't repeat it: whether it does can be seen by what follows alone."""
    first = type0(4, 0x01020304, AUDIO, 1, b"")
    reader = ChunkReader(Limits())
    assert len(read_all(reader, first + type3(4, b""))) == 1
    assert len(read_all(reader, type0(5, 0, AUDIO, 1, b"next"))) == 2


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
def test_long_runs_of_small_chunks_are_read_correctly(
    chunk_size: int, length: int, size: int, repeats: bool, csid: int
) -> None:
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
csids = st.sampled_from([3, 4, 63, 64, 319, 320, 65599])
sizes = st.lists(st.integers(1, 700), max_size=30)
"""Of the pieces that the bytes are cut into."""
chunk_sizes = st.sampled_from([1, 2, 100, 128, 129, 4096])

# Payload and extended timestamps can't be mistaken for one another: only a sender that doesn't repeat them would mind.
ODD = b"\xc4\xee\xef"
payloads = st.builds(lambda size, byte: bytes([byte]) * size, st.integers(0, 600), st.sampled_from(ODD))
odd_messages = st.builds(
    Sent,
    st.sampled_from([8, 9, 18, 20, 22, 99]),
    timestamps.filter(lambda time: time >> 24 not in ODD),
    st.sampled_from([0, 1, 2, 0xFFFFFFFF]),
    payloads,
)


@st.composite
def conversations(
    draw: st.DrawFn, messages: st.SearchStrategy[Sent] = odd_messages, *, repeats: bool = False, most: int = 25
) -> tuple[bytes, list[Raw]]:
    """Bytes of a sender that has some chunk streams, and the messages in the order in which they are complete.

    `repeats`: extended timestamps are always repeated, so that payloads may be anything. The bytes begin with a Set
    Chunk Size of less than any chunk size that may be in force, so they can follow others.
    """
    used = draw(st.lists(csids, min_size=1, unique=True))
    senders = {csid: Sender(csid, repeats or draw(st.booleans())) for csid in used}
    chunk_size = 128
    data = set_chunk_size(chunk_size)
    complete: list[Raw] = []
    for _ in range(draw(st.integers(1, most))):
        if draw(st.integers(0, 9)) == 0:
            size = draw(chunk_sizes)
            data += set_chunk_size(size, chunk_size)
            chunk_size = size
        sender = senders[draw(st.sampled_from(sorted(senders)))]
        if sender.rest and chunk_size >= 4 and draw(st.integers(0, 9)) == 0:
            data += abort(sender.csid)
            sender.rest = b""
            continue
        if sender.rest:
            kind = draw(st.sampled_from([3, 3, 3, 3, 2, 1, 0]))
            data += sender.proceed(chunk_size) if kind == 3 else sender.repeat(kind, chunk_size)
        else:
            message = draw(messages)
            if sender.last and draw(st.booleans()):
                # As the one before: so that the shorter headers come up.
                later = (sender.last.timestamp + draw(st.sampled_from([0, 20, sender.step]))) % 2**32
                if later >> 24 not in ODD:
                    message = Sent(sender.last.type_id, later, sender.last.stream_id, sender.last.payload)
            kinds = sender.kinds(message)
            if sender.last and (message.timestamp - sender.last.timestamp) % 2**32 >> 24 in ODD:
                kinds = [0]
            if 3 in kinds and sender.extended and not (sender.repeats or message.payload):
                kinds.remove(3)  # The reader waits for 4 more bytes here, and may take them for the timestamp.
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
@given(conversations(), sizes)
def test_any_interleaved_messages_are_read_in_any_split(conversation: tuple[bytes, list[Raw]], cuts: list[int]) -> None:
    data, complete = conversation
    assert read(data) == complete
    assert read_chunks(cut(data, cuts)) == (complete, "")


@given(st.binary(min_size=1, max_size=600))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    assert read_chunks([data]) == read_chunks(in_pieces(data, 1))


@pytest.mark.parametrize(("name", "data"), REFUSED, ids=ids(REFUSED))
def test_messages_before_a_fault_are_read(name: str, data: bytes) -> None:
    before = type0(40, 7, AUDIO, 1, b"sound") + type0(41, 8, VIDEO, 1, b"picture")
    found, error = read_chunks([before + data])
    assert found[:2] == [(AUDIO, 7, 1, b"sound"), (VIDEO, 8, 1, b"picture")]
    assert error
    assert (found, error) == read_chunks(in_pieces(before + data, 1))


# --- What is counted ---


def interleaved(chunk_size: int, length: int, senders: int = 2) -> bytes:
    """A message on each of some chunk streams, chunk by chunk in turn."""
    busy = [Sender(20 + number) for number in range(senders)]
    out = [sender.begin(Sent(VIDEO, 0, 1, bytes(length)), 0, chunk_size) for sender in busy]
    while busy := [sender for sender in busy if sender.rest]:
        out += [sender.proceed(chunk_size) for sender in busy]
    return b"".join(out)


def small_chunks(data: bytes, chunk_size: int, size: int) -> int:
    reader = ChunkReader(Limits())
    read_all(reader, set_chunk_size(chunk_size))
    for at in range(0, len(data), size):
        read_all(reader, data[at : at + size])
    return reader.small_chunks


SPEEX = b"".join(type0(20, 20 * number, AUDIO, 1, bytes(40)) for number in range(500))
LEGAL = {
    "two videos in turn, 128": (interleaved(128, 100_000), 128),
    "ten videos in turn, 128": (interleaved(128, 20_000, 10), 128),
    "two videos in turn, 4096": (interleaved(4096, 100_000), 4096),
    "one video, 128": (interleaved(128, 200_000, 1), 128),
    "Speex": (SPEEX, 128),
    "empty messages": (b"".join(type0(20, number, AUDIO, 1, b"") for number in range(500)), 128),
}


@pytest.mark.parametrize("name", LEGAL)
@pytest.mark.parametrize("size", [100, 1448, 256 * 1024])
def test_chunks_of_real_senders_are_not_counted(name: str, size: int) -> None:
    data, chunk_size = LEGAL[name]
    assert small_chunks(data, chunk_size, size) == 0


@pytest.mark.parametrize("chunk_size", [1, 2, 16, 64])
def test_small_chunks_in_turn_are_counted(chunk_size: int) -> None:
    """Half of them at 64 bytes, nearly all at one."""
    data = interleaved(chunk_size, 100 * chunk_size)
    assert small_chunks(data, chunk_size, 256 * 1024) == pytest.approx(200 * (1 - chunk_size / 128), abs=8)


def test_control_messages_of_the_reader_are_counted() -> None:
    reader = ChunkReader(Limits())
    read_all(reader, set_chunk_size(128) + type3(2, bytes([0, 0, 0, 128])) * 99 + abort(7))
    assert reader.control_messages == 101
