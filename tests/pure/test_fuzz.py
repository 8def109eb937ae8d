"""The fuzz targets: their properties, their seeds and a short run. CONTRIBUTING.md tells what to do with a find.

A target takes any bytes and raises nothing but AssertionError, which is a find. Its properties: only the layer's own
error escapes; what is read can be written, and reads as the same again; the way in which bytes are cut makes no
difference; memory stays within `Limits`. The limits are small, so that a fuzzer reaches them. `make soak` has the long
run, and `python -m tests.fuzz` the command line.
"""

import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple
from zlib import crc32

import pytest

from ingest.flv import FlvError, FlvIndex, FlvWriter, Tag, TagReader, read_index, scan
from ingest.flv.tags import tag_bytes
from ingest.mp4.frames import scan_frames
from ingest.mp4.limits import Mp4Limits, Unplayable
from ingest.mp4.movie import MDAT_HEADER_BYTES, movie_head
from ingest.mp4.timing import timing_of
from ingest.rtmp import (
    ClientConnection,
    LimitExceeded,
    Limits,
    LocalProtocolError,
    Message,
    RemoteProtocolError,
    encode_message,
    events,
)
from ingest.rtmp.amf import BYTES_PER_ELEMENT, Amf3, amf0, amf3, amf3_decoder, amf3_encoder
from ingest.rtmp.chunk_reader import ChunkReader
from ingest.rtmp.codecs import audio_config, video_config
from ingest.rtmp.codecs.config import MAX_FPS, MAX_SAMPLE_RATE, MAX_SIDE
from ingest.rtmp.handshake import ClientHandshake, ServerHandshake
from ingest.rtmp.media import read_audio, read_video
from ingest.rtmp.messages import decode_aggregate
from ingest.rtmp.messages.commands import SET_DATA_FRAME, decode_command, decode_data, encode_command
from ingest.rtmp.messages.shared_object import decode_shared_object, encode_shared_object
from tests.pure.flv import files
from tests.pure.flv.files import HEADER, KEY, VIDEO, shape
from tests.pure.flv.test_index import claims
from tests.pure.rtmp import test_chunk_reader as chunk_vectors
from tests.pure.rtmp.amf0 import test_amf0 as amf0_vectors
from tests.pure.rtmp.amf3 import test_amf3 as amf3_vectors
from tests.pure.rtmp.codecs.test_encoders import VECTORS as CODECS
from tests.pure.rtmp.media import test_media as media_vectors
from tests.pure.rtmp.media.test_media import write_audio, write_video
from tests.pure.rtmp.messages import test_aggregate as aggregate_vectors
from tests.pure.rtmp.messages import test_messages as message_vectors
from tests.pure.rtmp.messages import test_shared_object as object_vectors
from tests.pure.rtmp.pair import CLIENT_NONCE, SERVER_NONCE, ConnectionPair
from tests.pure.rtmp.replay import Replay, client_after, follow, outcome, read_chunks, serve, server_after
from tests.pure.rtmp.test_conversations import LIMITS, VALUES, connection_bytes, held_bytes, reader_bytes
from tests.pure.rtmp.test_conversations import messages as messages_with
from tests.recordings import NAMES, decoded, from_client, from_server
from tests.rtmp_client import decode_all, encode_aggregate
from tests.rtmpdecode import HANDSHAKE_BYTES

SET_CHUNK_SIZE = 1
SOUND, PICTURE = b"\x08", b"\x09"
"""The first byte of an input for the media readers."""
MP4_LIMITS: Final = Mp4Limits(frames=200, tracks=3, configurations=3, changes=8)
ACCEPTED, ASKED = b"\x00", b"\x01"
"""The first byte of an input for the client: its connect is accepted before the rest of the input, or is not."""


class Target(NamedTuple):
    run: Callable[[bytes], None]
    """Takes any bytes. Each exception is a find."""
    seeds: Callable[[], Iterable[bytes]]
    max_input_bytes: int = 2048


def record(type_id: int, stream_id: int, payload: bytes) -> bytes:
    """A message of an input: type, message stream and length in a byte each, then the payload."""
    return bytes((type_id, stream_id, len(payload))) + payload


def pieces(data: bytes) -> Sequence[bytes]:
    """Three pieces, cut at places that depend on the data alone."""
    size = len(data) + 1
    first, second = sorted((crc32(data) % size, crc32(data, 1) % size))
    return data[:first], data[first:second], data[second:]


# --- Seeds: the vectors of the tests, and recorded sessions. Long ones are cut ---

AMPLIFIED_BYTES = 400  # The length of a value that is short on the wire and long once read.


def bytes_of(*tables: Any) -> Iterator[bytes]:
    """The bytes of all rows, in which they come last."""
    return (data for table in tables for *_, data in table)


def data_of(vectors: Any) -> Iterator[bytes]:
    return bytes_of(vectors.BOTH_WAYS, vectors.ONE_WAY, vectors.REFUSED)


chunk_seeds = partial(data_of, chunk_vectors)
amf0_seeds = partial(data_of, amf0_vectors)


def amf3_seeds() -> Iterator[bytes]:
    yield from data_of(amf3_vectors)
    yield from (make(AMPLIFIED_BYTES) for make in VALUES.values())


def command_seeds() -> Iterator[bytes]:
    vectors = message_vectors
    yield from bytes_of(vectors.COMMANDS, vectors.DATA, vectors.ONE_WAY, vectors.REFUSED)
    for make in VALUES.values():
        yield from (message.payload for message in messages_with(b"\x11" + make(AMPLIFIED_BYTES), 1).values())
    for read in (from_client, from_server):
        for name in NAMES:
            messages = (message.payload for message in decoded(read(name)) if message.type_id in (15, 17, 18, 20))
            yield from dict.fromkeys(messages)


def shared_object_seeds() -> Iterator[bytes]:
    tables: Any = object_vectors.OBJECTS, object_vectors.OBJECTS_ONE_WAY, object_vectors.OBJECTS_REFUSED
    yield from ((b"\x10" if amf3 else b"\x13") + payload for table in tables for *_, amf3, payload in table)


def aggregate_seeds() -> Iterator[bytes]:
    yield bytes(4) + aggregate_vectors.BODY
    for name in NAMES:
        for message in decoded(from_server(name)):
            if message.type_id == 22:
                yield message.timestamp.to_bytes(4, "big") + message.payload


def flv_seeds() -> Iterator[bytes]:
    yield files.HEADER
    yield files.HEADER + b"".join(files.tag(*each) for each in files.media(2))
    yield files.HEADER + b"".join(files.tag(*each) for each in files.media(1, start=2**32 - 500))
    yield claims(files.media(1)).getvalue()
    for kind, datas in ((files.VIDEO, media_vectors.VIDEO), (files.AUDIO, media_vectors.AUDIO)):
        yield files.HEADER + b"".join(files.tag(kind, 40 * at, data) for at, (_, _, data) in enumerate(datas))
    for _, value, data in amf0_vectors.BOTH_WAYS + amf0_vectors.ONE_WAY:
        if isinstance(value, dict):
            yield files.HEADER + files.tag(files.DATA, 0, amf0.encode("onMetaData") + data)
    yield files.HEADER + files.tag(files.DATA, 0, amf0.encode("onMetaData", {"x": Amf3(b"bytes")}))
    for vector in message_vectors.DATA:
        yield files.HEADER + files.tag(vector.type_id, 0, vector.payload) + files.tag(files.VIDEO, 5, files.KEY)


def media_seeds() -> Iterator[bytes]:
    yield from (PICTURE + data for data in bytes_of(media_vectors.VIDEO))
    yield from (SOUND + data for data in bytes_of(media_vectors.AUDIO))
    yield from (PICTURE + bytes.fromhex(data) for data, *_ in media_vectors.FAULTY_VIDEO)
    yield from (SOUND + bytes.fromhex(data) for data, *_ in media_vectors.FAULTY_AUDIO)
    for each in CODECS:
        start = PICTURE if each["kind"] == "video" else SOUND
        yield from (start + bytes.fromhex(each[part]) for part in ("header", "frame") if part in each)


def handshake_seeds() -> Iterator[bytes]:
    for name in NAMES:
        yield from_client(name)[: HANDSHAKE_BYTES + 20]
        yield from_server(name)[: HANDSHAKE_BYTES + 20]


def message_seeds() -> Iterator[bytes]:
    """One of each vector, then the beginnings of whole sessions without long messages."""
    vectors = (*message_vectors.CONTROL, *message_vectors.COMMANDS, *message_vectors.DATA)
    every = [(22, aggregate_vectors.BODY), *((vector.type_id, vector.payload) for vector in vectors)]
    every += [(16 if amf3 else 19, payload) for _, _, amf3, payload in object_vectors.OBJECTS]
    yield from (record(type_id, 1, payload) for type_id, payload in every if len(payload) < 256)
    for read in (from_client, from_server):
        for name in NAMES:
            found = [message for message in decoded(read(name))[:40] if len(message.payload) < 256]
            yield b"".join(record(each.type_id, each.stream_id & 3, each.payload) for each in found)


def server_seeds() -> Iterator[bytes]:
    yield from (from_client(name)[HANDSHAKE_BYTES:] for name in NAMES)


def client_seeds() -> Iterator[bytes]:
    for name in NAMES:
        data = from_server(name)
        yield ASKED + data[HANDSHAKE_BYTES:]
        ends = (message.end for message in decoded(data) if message.type_id in (17, 20))
        yield ACCEPTED + data[next(ends, HANDSHAKE_BYTES) :]


# --- FLV ---


def read_tags(given: Iterable[bytes]) -> tuple[list[Tag], int, bool, str]:
    reader = TagReader(LIMITS)
    found: list[Tag] = []
    error = ""
    try:
        for piece in given:
            found += reader.feed(piece)
            assert held_bytes(reader) <= reader_bytes(LIMITS)
    except FlvError as fault:
        error = str(fault)
    return found, reader.end, reader.is_truncated, error


def is_in(index: FlvIndex, size: int) -> None:
    """Assert that all offsets of the index lie in the file."""
    for time_ms in (0, 1, index.duration_ms // 2, index.duration_ms, 2**32):
        point = index.at_or_before(time_ms)
        if point is not None:
            assert 0 <= point.offset < size
            headers = index.headers_at(point.offset)
            assert headers == sorted(headers)
            assert all(0 <= offset < point.offset for offset in headers)


def flv(data: bytes) -> None:
    at_once = read_tags([data])
    in_pieces = read_tags(pieces(data))
    tags, end, _, error = at_once
    if error:
        # A list of the tags of one `feed` loses those before a fault.
        assert in_pieces[3] == error
    else:
        assert in_pieces == at_once
    assert end <= len(data) or not tags
    written = HEADER + b"".join(tag_bytes(*each) for each in shape(tags))
    assert shape(list(TagReader(LIMITS).feed(written))) == shape(tags)
    try:
        index = scan(BytesIO(data), LIMITS)
    except FlvError:
        return
    if not error:
        assert index.end == end
    is_in(index, len(data))
    is_in(read_index(BytesIO(data), LIMITS), len(data))
    # After a crash: the whole tags stay, and the added one can be read.
    stream = BytesIO(data)
    writer = FlvWriter.resume(stream, LIMITS)
    writer.write(VIDEO, writer.last_timestamp, KEY)
    writer.finish()
    again = scan(stream, LIMITS)
    assert not again.fault
    assert not again.is_truncated
    assert again.end > index.end


# --- Chunk stream ---


def chunks(data: bytes) -> None:
    def look(reader: ChunkReader) -> None:
        assert held_bytes(reader) <= reader_bytes(LIMITS)

    assert read_chunks([data], LIMITS, look) == read_chunks(pieces(data), LIMITS, look)


# --- AMF ---


def again(encode: Callable[[], bytes], decode: Callable[[bytes], Any], *, sayable: bool) -> None:
    """Assert that a decoded value survives another round trip. We compare bytes, as no NaN equals another."""
    try:
        encoded = encode()
    except LocalProtocolError as error:
        # The first of two members of one name is lost, and with it the target of references within it.
        if sayable and "reference to nothing" not in str(error):
            raise
        return
    decoded = decode(encoded)
    assert encoded == decoded, "what was read and written reads as something else"


def amf0_values(data: bytes) -> None:
    try:
        values = decode_all(data, 0, LIMITS)
    except RemoteProtocolError:
        return
    # Values of AMF3 have no encoding of their own in AMF0.
    again(
        lambda: amf0.encode(*values),
        lambda encoded: amf0.encode(*decode_all(encoded)),
        sayable=b"\x11" not in data,
    )


REPLACED, REPLACED_BYTES = "\N{REPLACEMENT CHARACTER}", 3
"""The character that replaces a byte that is no text, and its length."""

FREE_BYTES = 3 * BYTES_PER_ELEMENT
"""Uncounted bytes that a value may repeat by reference: a class with its members' names, a name, a text."""


def text_bytes(value: Any) -> int:
    """The bytes of all texts and names in a value, each time that they come."""
    if isinstance(value, str):
        return len(value.encode())
    parts = [getattr(value, name, "") for name in ("class_name", "type_name", "associative")]
    if isinstance(value, amf3.Externalizable):
        parts.append(value.value)
    elif isinstance(value, dict):
        parts += [*value, *value.values()]
    elif isinstance(value, list | tuple):
        parts += value
    return sum(map(text_bytes, parts))


def amf3_value(data: bytes) -> None:
    decoder = amf3_decoder.Decoder(data, 0, LIMITS, LIMITS.amf_elements)
    try:
        value = decoder.value(0)
    except RemoteProtocolError:
        return
    assert 0 < decoder.position <= len(data)
    growth = REPLACED_BYTES if REPLACED in repr(value) else 1
    spent = LIMITS.amf_elements - decoder.elements
    assert text_bytes(value) <= growth * (len(data) + FREE_BYTES * spent), "little on the wire and much once read"
    again(
        lambda: amf3_encoder.Encoder.encode(value),
        lambda encoded: amf3_encoder.Encoder.encode(amf3_decoder.Decoder.decode(encoded)[0]),
        sayable=True,
    )


# --- Messages ---


def commands(data: bytes) -> None:
    try:
        command = decode_command(data, LIMITS)
    except RemoteProtocolError:
        pass
    else:
        again(
            lambda: encode_command(command).payload,
            lambda encoded: encode_command(decode_command(encoded, Limits())).payload,
            sayable=b"\x11" not in data,
        )
    try:
        decoded = decode_data(data, LIMITS)
    except RemoteProtocolError:
        return
    # Relayed values of AMF3 are longer in AMF0, and some are deeper.
    assert len(decoded.payload) <= LIMITS.data_message_bytes, "longer than a data message may be"
    assert data.endswith(decoded.rest)
    relayed = decode_data(decoded.payload, Limits())
    assert relayed.name == decoded.name or decoded.name == SET_DATA_FRAME
    assert not relayed.rest, "what is relayed can be read to its end"


def shared_objects(data: bytes) -> None:
    """The first byte tells type 16 from type 19."""
    amf3, payload = data[:1] == b"\x10", data[1:]
    try:
        content = decode_shared_object(payload, LIMITS, amf3=amf3)
    except RemoteProtocolError:
        return
    again(
        lambda: encode_shared_object(content, amf3=amf3).payload,
        lambda encoded: encode_shared_object(decode_shared_object(encoded, Limits(), amf3=amf3), amf3=amf3).payload,
        sayable=not amf3 and b"\x11" not in data,  # A member without a name can be said in AMF0 only.
    )


def aggregates(data: bytes) -> None:
    """The first four bytes are the timestamp."""
    timestamp, payload = int.from_bytes(data[:4], "big"), data[4:]
    try:
        parts, rest = decode_aggregate(timestamp, payload, 40)
    except LimitExceeded:
        return
    assert payload.endswith(rest)
    missing = sum(len(part.payload) + 15 for part in parts) + len(rest) - len(payload)
    assert missing in range(5), "at most the last size is cut"
    if parts:
        message = encode_aggregate(1, parts)
        assert decode_aggregate(message.timestamp, message.payload, 40) == (parts, b"")


# --- Media ---


def media(data: bytes) -> None:
    """The first byte tells audio from video."""
    kind, payload = data[:1], data[1:]
    if kind == SOUND:
        sound = read_audio(payload, LIMITS)
        if audio := audio_config(sound):
            assert audio.sample_rate is None or 0 < audio.sample_rate <= MAX_SAMPLE_RATE
            assert audio.channels is None or 0 < audio.channels < 256
        if sound and not sound.fault:
            assert read_audio(write_audio(sound)) == sound
    elif kind == PICTURE:
        picture = read_video(payload, LIMITS)
        if video := video_config(picture):
            assert video.width is None or 0 < video.width <= MAX_SIDE
            assert video.height is None or 0 < video.height <= MAX_SIDE
            assert video.fps is None or 0 <= video.fps <= MAX_FPS
        if picture and not picture.fault:
            assert read_video(write_video(picture)) == picture


# --- Handshake ---


def shake(hands: Any, given: Iterable[bytes]) -> Any:
    answer = rest = b""
    try:
        for piece in given:
            sent, after = (b"", piece) if hands.completed else hands.receive(piece)
            answer += sent
            rest += after
    except RemoteProtocolError as error:
        return str(error)
    assert held_bytes(hands) < 16 * 1024
    return answer, rest, hands.completed, hands.version


def handshake(data: bytes) -> None:
    for make in (lambda: ServerHandshake(SERVER_NONCE, 1), lambda: ClientHandshake(CLIENT_NONCE, 1)):
        assert shake(make(), [data]) == shake(make(), pieces(data))


def mp4(data: bytes) -> None:
    """An FLV file as MP4: its tables lead to bytes of it, each track's in their order, and times go on."""
    try:
        frames = scan_frames(BytesIO(data), LIMITS, MP4_LIMITS)
        head = movie_head(frames)
    except (FlvError, Unplayable):
        return
    assert frames.end <= len(data)
    assert head[-MDAT_HEADER_BYTES:-8] == b"\0\0\0\1mdat"
    for track in frames.tracks:
        assert 0 < len(track.offsets) <= MP4_LIMITS.frames
        assert len(track.configurations) <= MP4_LIMITS.configurations
        for offset, size in zip(track.offsets, track.sizes, strict=True):
            assert size > 0
            assert offset + size <= frames.end
        timing = timing_of(track)
        assert (timing.durations >= 0).all()
        assert timing.compositions is None or (timing.compositions >= 0).all()


# --- Whole connections: bytes after the handshake, given at once and in pieces ---

HANDSHAKE = b"\x03" + bytes(HANDSHAKE_BYTES - 1)
CONNECTED = bytes(ConnectionPair().connected().to_client[HANDSHAKE_BYTES:])
"""The messages by which a server accepts a connect."""
CALLS = ("createStream", "releaseStream", "getStreamLength", "createStream")


def is_within(replay: Replay) -> None:
    assert held_bytes(replay.connection) <= connection_bytes(LIMITS)


def comes_out_alike(whole: Replay, parts: Replay) -> None:
    assert outcome(whole) == outcome(parts)
    is_within(whole)
    is_within(parts)


def server(data: bytes) -> None:
    comes_out_alike(serve([HANDSHAKE, data], LIMITS), serve([HANDSHAKE, *pieces(data)], LIMITS))


def ask(connection: ClientConnection, event: Any) -> None:
    """Send all calls before the fuzzed bytes, which then mean the same at whatever place they are cut."""
    match event:
        case events.HandshakeCompleted():
            connection.connect("live", "rtmp://127.0.0.1/live")
        case events.ResultReceived("connect", 1, True):
            for procedure in CALLS:
                connection.call(procedure)
            connection.call("play", "cam", -2, -1, stream_id=1)
            connection.publish(2, "cam")


def client(data: bytes) -> None:
    is_accepted, rest = data[:1] == ACCEPTED, data[1:]
    begin = [HANDSHAKE, CONNECTED] if is_accepted else [HANDSHAKE]

    def react(connection: ClientConnection, event: Any) -> None:
        if is_accepted or isinstance(event, events.HandshakeCompleted):
            ask(connection, event)

    comes_out_alike(follow([*begin, rest], LIMITS, react), follow([*begin, *pieces(rest)], LIMITS, react))


# --- Messages alone, so that a fuzzer need not get the chunks right ---


def in_chunks(data: bytes) -> bytes:
    """The records of an input in chunks. We leave out Set Chunk Size, which changes how all others are read."""
    found, at = b"", 0
    while at + 3 <= len(data):
        type_id, stream_id, size = data[at : at + 3]
        payload = data[at + 3 : at + 3 + size]
        at += 3 + size
        if type_id != SET_CHUNK_SIZE:
            found += encode_message(Message(type_id, at, stream_id & 3, payload), chunk_stream_id=5, chunk_size=128)
    return found


def messages_to_server(data: bytes) -> None:
    is_within(server_after(pieces(in_chunks(data)), LIMITS))


def messages_to_client(data: bytes) -> None:
    is_within(client_after(pieces(in_chunks(data)), LIMITS))


# --- The table, and short runs ---

TARGETS: Final[dict[str, Target]] = {
    "chunks": Target(chunks, chunk_seeds),
    "amf0": Target(amf0_values, amf0_seeds),
    "amf3": Target(amf3_value, amf3_seeds),
    "commands": Target(commands, command_seeds),
    "shared_objects": Target(shared_objects, shared_object_seeds),
    "aggregates": Target(aggregates, aggregate_seeds),
    "media": Target(media, media_seeds),
    "flv": Target(flv, flv_seeds),
    "mp4": Target(mp4, flv_seeds),
    "handshake": Target(handshake, handshake_seeds, 3200),
    "messages_to_server": Target(messages_to_server, message_seeds, 1024),
    "messages_to_client": Target(messages_to_client, message_seeds, 1024),
    "server": Target(server, server_seeds, 4096),
    "client": Target(client, client_seeds, 4096),
}


def planted(data: bytes) -> None:
    if data[:1] == b"\xc0" and len(data) > 3 and data[1] >= 0xDE:
        raise ValueError("the planted fault")


PLANTED = Target(planted, lambda: [b"\xc0000"], 4)

RUNS = 1000


@pytest.mark.parametrize("name", TARGETS)
def test_targets_take_seeds_and_damaged_seeds_without_a_fault(name: str) -> None:
    """Without a fuzzer, hence on every platform."""
    target = TARGETS[name]
    random = Random(name)
    for data in target.seeds():
        target.run(data[: target.max_input_bytes])
        damaged = bytearray(data[: target.max_input_bytes])
        for _ in range(min(len(damaged), 3)):
            damaged[random.randrange(len(damaged))] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
        target.run(bytes(damaged))


@pytest.mark.matrix
@pytest.mark.timeout(600)
def test_a_short_run_finds_the_planted_fault_and_nothing_else(tmp_path: Path) -> None:
    """In a process of its own, as libFuzzer ends it."""
    if find_spec("atheris") is None:
        pytest.skip("needs atheris (PyPI, for Linux on x86-64 and Python up to 3.13)")
    run = [sys.executable, "-m", "tests.fuzz", *TARGETS, "planted", "--corpus", str(tmp_path), "--runs", str(RUNS)]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    for name in TARGETS:
        assert f"{name}: {RUNS} executions" in done.stdout, done.stdout + done.stderr[-2000:]
        assert list((tmp_path / name / "finds").iterdir()) == []
    assert "the planted fault" in done.stdout
    assert done.returncode == 1
    (find,) = (tmp_path / "planted/finds").iterdir()
    with pytest.raises(ValueError, match="the planted fault"):
        PLANTED.run(find.read_bytes())
