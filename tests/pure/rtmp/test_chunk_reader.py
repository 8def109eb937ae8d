"""Chunks to messages: the forms of the specification, what real senders do, limits, and any split and interleaving."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.rtmp import LimitExceeded, Limits, Message, RemoteProtocolError, encode_message
from ingest.rtmp.chunk_reader import ChunkReader
from ingest.rtmp.limits import limits_for
from tests.pure.rtmp.chunk_vectors import BOTH_WAYS, ONE_WAY, REFUSED, Raw
from tests.pure.rtmp.replay import cut, in_pieces, raw, read_chunks
from tests.pure.rtmp.wire import Sender, Sent, abort, basic, conversations, ids, set_chunk_size, type0, type3
from tests.pure.rtmp.wire import sizes as pieces
from tests.rtmpdecode import decode_stream

AUDIO, VIDEO, DATA, COMMAND = 8, 9, 18, 20


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


@settings(max_examples=150)
@given(conversations(), pieces)
def test_any_interleaved_messages_are_read_in_any_split(
    conversation: tuple[bytes, list[Raw]], sizes: list[int]
) -> None:
    data, complete = conversation
    assert read(data) == complete
    assert read_chunks(cut(data, sizes)) == (complete, "")


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
