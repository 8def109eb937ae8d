"""The first inputs of the fuzzer: the vectors of the tests, and recorded sessions. Long ones are cut."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from ingest.rtmp.amf import Amf3
from ingest.rtmp.amf.amf0 import encode
from tests.fuzz.target import ACCEPTED, ASKED, record
from tests.pure.flv import files
from tests.pure.flv.test_index import claims
from tests.pure.rtmp import test_chunk_reader as chunk_vectors
from tests.pure.rtmp.amf0 import test_amf0 as amf0_vectors
from tests.pure.rtmp.amf3 import test_amf3 as amf3_vectors
from tests.pure.rtmp.codecs.test_encoders import VECTORS as CODECS
from tests.pure.rtmp.media import test_media as media_vectors
from tests.pure.rtmp.messages import test_aggregate as aggregate_vectors
from tests.pure.rtmp.messages import test_messages as message_vectors
from tests.pure.rtmp.messages import test_shared_object as object_vectors
from tests.pure.rtmp.test_conversations import VALUES
from tests.pure.rtmp.test_conversations import messages as messages_with
from tests.recordings import NAMES, decoded, from_client, from_server
from tests.rtmpdecode import HANDSHAKE_BYTES

AMPLIFIED_BYTES = 400  # The length of a value that is short on the wire and long once read.
AUDIO, VIDEO = b"\x08", b"\x09"


def bytes_of(*tables: Any) -> Iterator[bytes]:
    """The bytes of all rows, in which they come last."""
    return (data for table in tables for *_, data in table)


def data_of(vectors: Any) -> Iterator[bytes]:
    return bytes_of(vectors.BOTH_WAYS, vectors.ONE_WAY, vectors.REFUSED)


chunks = partial(data_of, chunk_vectors)
amf0_values = partial(data_of, amf0_vectors)


def amf3_values() -> Iterator[bytes]:
    yield from data_of(amf3_vectors)
    yield from (make(AMPLIFIED_BYTES) for make in VALUES.values())


def commands() -> Iterator[bytes]:
    vectors = message_vectors
    yield from bytes_of(vectors.COMMANDS, vectors.DATA, vectors.ONE_WAY, vectors.REFUSED)
    for make in VALUES.values():
        yield from (message.payload for message in messages_with(b"\x11" + make(AMPLIFIED_BYTES), 1).values())
    for read in (from_client, from_server):
        for name in NAMES:
            messages = (message.payload for message in decoded(read(name)) if message.type_id in (15, 17, 18, 20))
            yield from dict.fromkeys(messages)


def shared_objects() -> Iterator[bytes]:
    tables: Any = object_vectors.OBJECTS, object_vectors.OBJECTS_ONE_WAY, object_vectors.OBJECTS_REFUSED
    yield from ((b"\x10" if amf3 else b"\x13") + payload for table in tables for *_, amf3, payload in table)


def aggregates() -> Iterator[bytes]:
    yield bytes(4) + aggregate_vectors.BODY
    for name in NAMES:
        for message in decoded(from_server(name)):
            if message.type_id == 22:
                yield message.timestamp.to_bytes(4, "big") + message.payload


def flv_files() -> Iterator[bytes]:
    yield files.HEADER
    yield files.HEADER + b"".join(files.tag(*each) for each in files.media(2))
    yield files.HEADER + b"".join(files.tag(*each) for each in files.media(1, start=2**32 - 500))
    yield claims(files.media(1)).getvalue()
    for kind, datas in ((files.VIDEO, media_vectors.VIDEO), (files.AUDIO, media_vectors.AUDIO)):
        yield files.HEADER + b"".join(files.tag(kind, 40 * at, data) for at, (_, _, data) in enumerate(datas))
    for _, value, data in amf0_vectors.BOTH_WAYS + amf0_vectors.ONE_WAY:
        if isinstance(value, dict):
            yield files.HEADER + files.tag(files.DATA, 0, encode("onMetaData") + data)
    yield files.HEADER + files.tag(files.DATA, 0, encode("onMetaData", {"x": Amf3(b"bytes")}))
    for vector in message_vectors.DATA:
        yield files.HEADER + files.tag(vector.type_id, 0, vector.payload) + files.tag(files.VIDEO, 5, files.KEY)


def media() -> Iterator[bytes]:
    yield from (VIDEO + data for data in bytes_of(media_vectors.VIDEO))
    yield from (AUDIO + data for data in bytes_of(media_vectors.AUDIO))
    yield from (VIDEO + bytes.fromhex(data) for data, *_ in media_vectors.FAULTY_VIDEO)
    yield from (AUDIO + bytes.fromhex(data) for data, *_ in media_vectors.FAULTY_AUDIO)
    for each in CODECS:
        start = VIDEO if each["kind"] == "video" else AUDIO
        yield from (start + bytes.fromhex(each[part]) for part in ("header", "frame") if part in each)


def handshakes() -> Iterator[bytes]:
    for name in NAMES:
        yield from_client(name)[: HANDSHAKE_BYTES + 20]
        yield from_server(name)[: HANDSHAKE_BYTES + 20]


def messages() -> Iterator[bytes]:
    """One of each vector, then the beginnings of whole sessions without long messages."""
    vectors = (*message_vectors.CONTROL, *message_vectors.COMMANDS, *message_vectors.DATA)
    every = [(22, aggregate_vectors.BODY), *((vector.type_id, vector.payload) for vector in vectors)]
    every += [(16 if amf3 else 19, payload) for _, _, amf3, payload in object_vectors.OBJECTS]
    yield from (record(type_id, 1, payload) for type_id, payload in every if len(payload) < 256)
    for read in (from_client, from_server):
        for name in NAMES:
            found = [message for message in decoded(read(name))[:40] if len(message.payload) < 256]
            yield b"".join(record(each.type_id, each.stream_id & 3, each.payload) for each in found)


def to_servers() -> Iterator[bytes]:
    yield from (from_client(name)[HANDSHAKE_BYTES:] for name in NAMES)


def to_clients() -> Iterator[bytes]:
    for name in NAMES:
        data = from_server(name)
        yield ASKED + data[HANDSHAKE_BYTES:]
        commands = (message.end for message in decoded(data) if message.type_id in (17, 20))
        yield ACCEPTED + data[next(commands, HANDSHAKE_BYTES) :]
