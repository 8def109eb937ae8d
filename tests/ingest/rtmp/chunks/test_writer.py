"""Messages to chunks: exact bytes, header compression that any reader understands, and what can't be said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp import LocalProtocolError, Message, encode_message
from ingest.rtmp.chunk_writer import ChunkWriter, basic_header
from tests.ingest.rtmp.chunks.vectors import BOTH_WAYS, Raw
from tests.ingest.rtmp.wire import Sent, set_chunk_size, type0, type1, type2, type3
from tests.rtmpdecode import decode_stream

AUDIO, VIDEO = 8, 9

ALONE: list[tuple[str, Message, int, int, bytes]] = [
    ("short", Message(AUDIO, 5, 1, b"abc"), 4, 128, bytes.fromhex("04 000005 000003 08 01000000 616263")),
    ("empty", Message(AUDIO, 0, 1, b""), 4, 128, bytes.fromhex("04 000000 000000 08 01000000")),
    ("exactly one chunk", Message(VIDEO, 5, 1, b"v" * 128), 6, 128, type0(6, 5, VIDEO, 1, b"v" * 128)),
    (
        "one byte more than a chunk",
        Message(VIDEO, 5, 1, b"v" * 128 + b"w"),
        6,
        128,
        type0(6, 5, VIDEO, 1, b"v" * 128, 129) + type3(6, b"w"),
    ),
    (
        "an extended timestamp is repeated",
        Message(VIDEO, 0xFFFFFF, 1, b"abcde"),
        6,
        2,
        bytes.fromhex("06 ffffff 000005 09 01000000 00ffffff 6162 c6 00ffffff 6364 c6 00ffffff 65"),
    ),
    ("the largest timestamp", Message(AUDIO, 0xFFFFFFFF, 1, b"a"), 4, 128, type0(4, 0xFFFFFFFF, AUDIO, 1, b"a")),
    ("time is taken modulo 2^32", Message(AUDIO, 2**32 + 7, 1, b"a"), 4, 128, type0(4, 7, AUDIO, 1, b"a")),
    ("the message stream id is little-endian", Message(AUDIO, 0, 258, b""), 4, 128, type0(4, 0, AUDIO, 258, b"")),
    ("id of two bytes", Message(AUDIO, 0, 1, b"ab"), 64, 1,
     bytes.fromhex("00 00 000000 000002 08 01000000 61 c0 00 62")),
    ("id of three bytes", Message(AUDIO, 0, 1, b"ab"), 320, 1,
     bytes.fromhex("01 0001 000000 000002 08 01000000 61 c1 0001 62")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "message", "csid", "chunk_size", "data"), ALONE, ids=[row[0] for row in ALONE])
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
        [
            Message(VIDEO, 10, 1, b"a"),
            Message(AUDIO, 15, 1, b"bc"),
            Message(AUDIO, 22, 1, b"de"),
            Message(AUDIO, 29, 1, b"fg"),
        ],
        type0(4, 10, VIDEO, 1, b"a") + type1(4, 5, AUDIO, b"bc") + type2(4, 7, b"de") + type3(4, b"fg"),
    ),
    (
        "no message begins with type 3 after a type 0, which nginx-rtmp would take for a delta of 0",
        [Message(AUDIO, 20, 1, b"a"), Message(AUDIO, 40, 1, b"b")],
        type0(4, 20, AUDIO, 1, b"a") + type2(4, 20, b"b"),
    ),
    (
        "another message stream",
        [Message(AUDIO, 20, 1, b"a"), Message(AUDIO, 30, 2, b"b")],
        type0(4, 20, AUDIO, 1, b"a") + type0(4, 30, AUDIO, 2, b"b"),
    ),
    (
        "time goes back",
        [Message(AUDIO, 20, 1, b"a"), Message(AUDIO, 10, 1, b"b")],
        type0(4, 20, AUDIO, 1, b"a") + type0(4, 10, AUDIO, 1, b"b"),
    ),
    (
        "time wraps",
        [Message(AUDIO, 0xFFFFFFF0, 1, b"a"), Message(AUDIO, 0x10, 1, b"b")],
        type0(4, 0xFFFFFFF0, AUDIO, 1, b"a") + type2(4, 0x20, b"b"),
    ),
    (
        "the longest delta that needs no extended timestamp",
        [Message(AUDIO, 5, 1, b"a"), Message(AUDIO, 5 + 0xFFFFFE, 1, b"b"), Message(AUDIO, 5 + 2 * 0xFFFFFE, 1, b"c")],
        type0(4, 5, AUDIO, 1, b"a") + type2(4, 0xFFFFFE, b"b") + type3(4, b"c"),
    ),
    (
        "a delta that would need it, which SRS took for a timestamp",
        [Message(AUDIO, 5, 1, b"a"), Message(AUDIO, 5 + 0xFFFFFF, 1, b"b"), Message(AUDIO, 25 + 0xFFFFFF, 1, b"c")],
        type0(4, 5, AUDIO, 1, b"a") + type0(4, 5 + 0xFFFFFF, AUDIO, 1, b"b") + type2(4, 20, b"c"),
    ),
]


@pytest.mark.parametrize(("name", "messages", "data"), COMPRESSED, ids=[row[0] for row in COMPRESSED])
def test_header_compression(name: str, messages: list[Message], data: bytes) -> None:
    writer = ChunkWriter(compress=True)
    assert b"".join(writer.encode(message, 4) for message in messages) == data


@pytest.mark.parametrize(("name", "messages", "data"), BOTH_WAYS, ids=[vector[0] for vector in BOTH_WAYS])
def test_vectors(name: str, messages: list[Raw], data: bytes) -> None:
    first = data[0] & 63
    csid = first if first > 1 else 64 + int.from_bytes(data[1 : 2 + first], "little")
    writer = ChunkWriter(compress=True)
    assert b"".join(writer.encode(Message(*message), csid) for message in messages) == data


def test_without_compression_every_header_is_whole() -> None:
    writer = ChunkWriter(compress=False)
    assert writer.encode(Message(AUDIO, 20, 1, b"a"), 4) == type0(4, 20, AUDIO, 1, b"a")
    assert writer.encode(Message(AUDIO, 40, 1, b"b"), 4) == type0(4, 40, AUDIO, 1, b"b")


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
