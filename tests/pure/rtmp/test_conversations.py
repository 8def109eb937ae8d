"""Whole connections under anything that a peer may send: any messages by any chunks in any pieces, damaged sessions,
any bytes. The same comes out however it is cut, nothing but RemoteProtocolError is raised, and memory stays in bounds:
what is held between reads, what it takes at most to read a message, and what is left of connections that are gone.
"""

import gc
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from enum import Enum
from random import Random
from struct import pack
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.rtmp import Limits, Message, RemoteProtocolError, ServerConnection, encode_message, events
from ingest.rtmp.amf import Amf3, TypedObject, amf0
from ingest.rtmp.connection import Connection
from ingest.rtmp.messages import AggregatePart
from tests.pure.rtmp.amf3.test_amf3 import u29
from tests.pure.rtmp.messages.test_aggregate import BODY
from tests.pure.rtmp.messages.test_messages import COMMANDS, CONTROL, DATA
from tests.pure.rtmp.messages.test_shared_object import OBJECTS
from tests.pure.rtmp.pair import CLIENT_NONCE, SERVER_NONCE, accept
from tests.pure.rtmp.replay import client_after, cut, outcome, play, play_a_stream, server_after, session
from tests.pure.rtmp.test_chunk_reader import conversations, sizes, timestamps
from tests.pure.rtmp.wire import Sent, set_chunk_size, type0
from tests.recordings import NAMES, from_client, from_server
from tests.rtmp_client import SendingClient, encode_aggregate
from tests.rtmpdecode import HANDSHAKE_BYTES, Raw

AUDIO, VIDEO = 8, 9
CHUNK_SIZE = 128
"""Less than any that is in force: see `conversations`."""

LIMITS: Final = Limits(
    media_message_bytes=1500,
    command_message_bytes=1024,
    data_message_bytes=1200,
    other_message_bytes=600,
    chunk_streams=8,
    partial_bytes=2500,
    unadmitted_chunk_streams=6,
    unadmitted_partial_bytes=2000,
    held_bytes=10_000,
    message_streams=4,
    stream_name_bytes=100,
    messages_per_read=1_000_000,
    chunks_per_read=1_000_000,
    ignored_messages=20,
    amf_depth=8,
    amf_elements=512,
    command_amf_elements=256,
    amf_string_bytes=1000,
    tracks_per_message=4,
    mod_ex_per_message=3,
)
"""Small limits, which random messages and a fuzzer reach."""

# --- Memory: what an object holds, and the most that a connection may hold by its limits ---

SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, Enum, Limits)
"""Types of objects that all connections share."""


def held_bytes(root: Any) -> int:
    """The bytes of the object and of all objects that it refers to, as Python counts them."""
    seen = {id(root)}
    found = [root]
    total = 0
    while found:
        each = found.pop()
        total += sys.getsizeof(each)
        for inner in gc.get_referents(each):
            if id(inner) not in seen and not isinstance(inner, SHARED):
                seen.add(id(inner))
                found.append(inner)
    return total


EMPTY: int = 64 * 1024
"""A connection without messages. It takes about 5 KiB, so this leaves room."""
STREAM: int = 2 * 1024
"""The state of a chunk stream or message stream, without payload and names."""
GROWTH: float = 1.25
"""A bytearray has an eighth in reserve, and some more when it is small."""
CHARACTER: int = 4
"""Bytes of each character if one makes all of a text wide. On the wire, each other one takes one byte."""


def reader_bytes(limits: Limits) -> int:
    """The most that a chunk reader may hold between reads: messages under way, and one chunk without its last byte."""
    kinds = ("media", "command", "data", "control", "other")
    chunk = 18 + max(getattr(limits, f"{kind}_message_bytes") for kind in kinds)  # The longest header and message.
    return EMPTY + limits.chunk_streams * STREAM + int(GROWTH * (limits.partial_bytes + chunk))


def connection_bytes(limits: Limits) -> int:
    """The most that a connection may hold once its events and output are taken.

    It holds the reader, names of streams that play or publish or were announced by FCPublish, and held messages.
    """
    streams = limits.message_streams * (STREAM + 2 * CHARACTER * limits.stream_name_bytes)
    longest = max(limits.media_message_bytes, limits.command_message_bytes, limits.data_message_bytes)
    return reader_bytes(limits) + streams + limits.held_bytes + longest


# --- Any messages, damaged sessions, any bytes ---

ENDS = {"server": server_after, "client": client_after}

# Any message that is no error where it comes.
HARMLESS = [
    *((vector.type_id, vector.payload) for vector in (*CONTROL, *COMMANDS, *DATA) if vector.type_id not in (1, 2)),
    *((16 if amf3 else 19, payload) for _, _, amf3, payload in OBJECTS),
    (22, BODY),
    (99, b"unknown"),
    (0, b""),
]
GATHERED = b"\xaf\x01"
"""The sound within the aggregate."""
stream_ids = st.sampled_from([0, 1, 1, 1, 2])
anything = st.one_of(
    st.builds(Sent, st.sampled_from([AUDIO, VIDEO]), timestamps, stream_ids, st.binary(max_size=300)),
    st.builds(
        lambda kind, time, stream_id: Sent(kind[0], time, stream_id, kind[1]),
        st.sampled_from(HARMLESS),
        timestamps,
        stream_ids,
    ),
)


def one_by_one(messages: list[Raw]) -> list[bytes]:
    """Each whole, under a header that says all, on a chunk stream of its own."""
    whole = (
        encode_message(Message(type_id, timestamp, stream_id, payload), chunk_stream_id=40, chunk_size=CHUNK_SIZE)
        for type_id, timestamp, stream_id, payload in messages
    )
    return [set_chunk_size(CHUNK_SIZE), *whole]


@pytest.mark.parametrize("end", ENDS)
@settings(max_examples=150)
@given(conversations(anything, repeats=True, most=15), sizes)
def test_the_same_messages_whatever_the_chunks(
    end: str, conversation: tuple[bytes, list[Raw]], cuts: list[int]
) -> None:
    data, complete = conversation
    expected = ENDS[end](one_by_one(complete))
    for pieces in ([data], cut(data, cuts)):
        assert outcome(ENDS[end](pieces)) == outcome(expected)
    if end == "client":  # A server's stream may have been closed by one of the commands.
        sound = [
            (each.timestamp, each.stream_id, each.payload)
            for each in expected.events
            if isinstance(each, events.AudioReceived)
        ]
        assert [each for each in sound if each[2] != GATHERED] == [
            message[1:] for message in complete if message[0] == AUDIO and message[3] != GATHERED
        ]


changes = st.lists(
    st.tuples(
        st.sampled_from(["set", "insert", "delete", "repeat"]), st.integers(0, 2**16), st.binary(min_size=1, max_size=9)
    ),
    min_size=1,
    max_size=6,
)


def damaged(data: bytes, made: list[tuple[str, int, bytes]], start: int) -> bytes:
    """From `start` on."""
    changed = bytearray(data)
    for kind, place, value in made:
        at = start + place % max(len(changed) - start, 1)
        end = at + len(value)
        if kind == "set":
            changed[at:end] = value
        elif kind == "insert":
            changed[at:at] = value
        elif kind == "delete":
            del changed[at:end]
        else:
            changed[at:at] = changed[at : at + 8 * len(value)]
    return bytes(changed)


def within(limits: Limits) -> Any:
    most = connection_bytes(limits)

    def look(connection: Connection) -> None:
        held = held_bytes(connection)
        assert held <= most, f"{held} bytes, of {most} that the limits allow"

    return look


@pytest.mark.parametrize("limits", [Limits(), LIMITS], ids=["usual limits", "small limits"])
@settings(max_examples=60)
@given(st.sampled_from(NAMES), changes, sizes)
def test_damaged_sessions_are_taken_or_refused(limits: Limits, name: str, made: Any, cuts: list[int]) -> None:
    """Of the recordings, their first 6 KB after the handshake, where most of the protocol is."""
    up = damaged(from_client(name)[: HANDSHAKE_BYTES + 6000], made, HANDSHAKE_BYTES)
    in_pieces, whole = (
        play(ServerConnection(limits, nonce=SERVER_NONCE), accept, pieces, within(limits))
        for pieces in (cut(up, [HANDSHAKE_BYTES, *cuts]), cut(up, [HANDSHAKE_BYTES]))
    )
    assert outcome(in_pieces) == outcome(whole)
    down = damaged(from_server(name)[: HANDSHAKE_BYTES + 6000], made, HANDSHAKE_BYTES)
    client = SendingClient(limits, nonce=CLIENT_NONCE)
    play(client, play_a_stream, cut(down, [HANDSHAKE_BYTES, *cuts]), within(limits))


@pytest.mark.parametrize("end", ENDS)
@settings(max_examples=100)
@given(st.binary(max_size=400), sizes)
def test_any_bytes_are_taken_or_refused(end: str, data: bytes, cuts: list[int]) -> None:
    in_pieces = ENDS[end](cut(data, cuts), LIMITS, look=within(LIMITS))
    assert outcome(in_pieces) == outcome(ENDS[end]([data], LIMITS))


@pytest.mark.parametrize("end", ENDS)
@settings(max_examples=40)
@given(st.integers(1, 2**24), st.integers(0, 2**20), st.sampled_from([AUDIO, VIDEO, 18, 20, 19, 22, 77]))
def test_announced_sizes_take_no_memory(end: str, chunk_size: int, length: int, type_id: int) -> None:
    """Of messages that never end, on as many chunk streams as there may be: what is held is what came."""
    begin = type0(2, 0, 1, 0, chunk_size.to_bytes(4, "big"))
    pieces = [begin, *(type0(csid, 0, type_id, 1, b"", length) + b"?" * 100 for csid in range(20, 60))]
    came = sum(map(len, pieces))
    found = ENDS[end](pieces)
    assert held_bytes(found.connection) < 64 * 1024 + 2 * came


def test_held_memory_bound_is_within_three_times_what_can_be_held() -> None:
    """All room for unfinished messages taken: near the bound, and one chunk more is refused."""
    limits = Limits(media_message_bytes=2_000_000, partial_bytes=4_000_000, message_streams=1, held_bytes=0)
    chunk = b"?" * 1_000_000
    pieces = [type0(2, 0, 1, 0, len(chunk).to_bytes(4, "big"))]
    pieces += [type0(csid, 0, VIDEO, 1, chunk, 2_000_000) for csid in range(20, 24)]
    found = server_after(pieces, limits)
    assert found.error is None
    assert connection_bytes(limits) / 3 < held_bytes(found.connection) < connection_bytes(limits)
    over = server_after([*pieces, type0(30, 0, VIDEO, 1, chunk, 2_000_000)], limits)
    assert str(over.error) == "more than 4000000 bytes in unfinished messages"


sent_messages = st.lists(
    st.one_of(
        st.builds(Message, st.sampled_from([AUDIO, VIDEO]), timestamps, st.just(1), st.binary(max_size=600)),
        st.builds(lambda size: size, st.sampled_from([1, 2, 128, 129, 5000])),
    ),
    max_size=12,
)


@pytest.mark.parametrize("publishes", [True, False], ids=["client to server", "server to client"])
@settings(max_examples=60)
@given(sent_messages, st.integers(1, 4000))
def test_messages_sent_by_one_end_reach_the_other_in_order(publishes: bool, made: list[Any], slice_bytes: int) -> None:
    """Through our own writer, with its header compression, its order of what waits, and any chunk sizes on the way."""
    pair = session(publishes=publishes)
    pair.slice_bytes = slice_bytes
    pair.server_events.clear()
    pair.client_events.clear()
    sender = pair.client if publishes else pair.server
    for each in made:
        if isinstance(each, Message):
            sender.send_message(each)
        else:
            pair.run()
            sender.send_chunk_size(each)
    pair.run()
    got = pair.server_events if publishes else pair.client_events
    for type_id, kind in ((AUDIO, events.AudioReceived), (VIDEO, events.VideoReceived)):
        expected = [
            (each.timestamp, each.payload) for each in made if isinstance(each, Message) and each.type_id == type_id
        ]
        assert [(each.timestamp, each.payload) for each in got if isinstance(each, kind)] == expected


# --- Messages that are short on the wire and long once read: what is said once and referred to often ---

WIDE = "\U0001f600".encode()
"""The longest character, of which one makes all of a text wide in memory."""


def text(value: bytes) -> bytes:
    return u29(len(value) << 1 | 1) + value


def array(items: list[bytes]) -> bytes:
    return b"\x09" + u29(len(items) << 1 | 1) + b"\x01" + b"".join(items)


def objects(name: bytes, sealed: list[bytes], size: int) -> bytes:
    """Objects of one class, without values but null, as many as make `size` bytes."""
    traits = u29(len(sealed) << 4 | 3) + text(name) + b"".join(map(text, sealed))
    nothing = b"\x01" * len(sealed)
    again = b"\x0a\x01" + nothing
    return array([b"\x0a" + traits + nothing, *[again] * ((size - len(traits)) // len(again))])


def repeated(first: bytes, again: bytes, size: int) -> bytes:
    return array([first, *[again] * (max(size - len(first), 0) // len(again))])


def doubled(size: int) -> bytes:
    """Each array holds the one before twice."""
    value = array([b"\x01"])
    for index in range(1, size // 4):
        value = b"\x09\x05\x01" + value + b"\x09" + u29((index - 1) << 1)
        if index == 30:
            break
    return value


def dictionary(keys: Iterator[bytes], size: int) -> bytes:
    pairs: list[bytes] = []
    while size > 0:
        pairs.append(next(keys) + b"\x01")
        size -= len(pairs[-1])
    return b"\x11" + u29(len(pairs) << 1 | 1) + b"\x00" + b"".join(pairs)


def doubles() -> Iterator[bytes]:
    """Numbers that are long in writing."""
    for index in range(10**6):
        yield b"\x05" + pack(">d", 1e308 * (1 + index * 1e-7) / 2)


def members(size: int) -> bytes:
    """Objects whose members' names are references to a long one."""
    first = b"\x0a\x0b\x01" + text(b"n" * (size // 2)) + b"\x01\x01"
    return repeated(first, b"\x0a\x01\x00\x01\x01", size)


VALUES: dict[str, Callable[[int], bytes]] = {
    "a class": lambda size: objects(b"c" * (size // 2), [], size),
    "a class just within an element": lambda size: objects(b"c" * 63, [], size),
    "a class of wide characters": lambda size: objects(WIDE * 63, [], size),
    "a class of bytes that are no text": lambda size: objects(b"\xff" * 63, [], size),
    "a sealed member": lambda size: objects(b"", [b"m" * (size // 2)], size),
    "sealed members": lambda size: objects(b"", [b"%05d" % index * 12 for index in range(size // 300)], size),
    "sealed members that quote keys": lambda size: objects(b"", [b"?key=%41bcdefgh" * (size // 30)], size),
    "a member": members,
    "a text": lambda size: repeated(b"\x06" + text(b"t" * (size // 2)), b"\x06\x00", size),
    "a text just within an element": lambda size: repeated(b"\x06" + text(b"t" * 63), b"\x06\x00", size),
    "a wide text": lambda size: repeated(b"\x06" + text(WIDE * 15), b"\x06\x00", size),
    "a long text that is wide by one character": lambda size: b"\x06" + text(b"t" * size + WIDE),
    "bytes that are no text": lambda size: b"\x06" + text(b"\xff" * size),
    "XML": lambda size: repeated(b"\x0b" + text(b"x" * (size // 2)), b"\x0b\x02", size),
    "bytes": lambda size: repeated(b"\x0c" + text(b"x" * (size // 2)), b"\x0c\x02", size),
    "a vector": lambda size: repeated(
        b"\x0d" + u29((size // 8) << 1 | 1) + b"\0" + bytes(size // 8 * 4), b"\x0d\x02", size
    ),
    "a vector's type": lambda size: repeated(b"\x10\x01\x00" + text(b"t" * (size // 2)), b"\x10\x01\x00\x00", size),
    "an array": lambda size: repeated(array([b"\x01"] * (size // 2)), b"\x09\x02", size),
    "arrays doubled": doubled,
    "nulls": lambda size: array([b"\x01"] * size),
    "empty arrays": lambda size: array([b"\x09\x01\x01"] * (size // 3)),
    "empty objects": lambda size: repeated(b"\x0a\x0b\x01\x01", b"\x0a\x01\x01", size),
    "numbers": lambda size: array([b"\x04\x01"] * (size // 2)),
    "a dictionary of long numbers": lambda size: dictionary(doubles(), size),
    "a dictionary of texts": lambda size: dictionary((b"\x06" + text(b"%07d" % i) for i in range(10**6)), size),
    "wrappers": lambda size: repeated(
        b"\x0a\x07" + text(b"flex.messaging.io.ObjectProxy") + b"\x01", b"\x0a\x01\x01", size
    ),
}
"""Values in AMF3, by what they make much of. Each function takes a size in bytes, and may return a little more."""

AMF0: dict[str, Callable[[int], bytes]] = {
    "AMF0: nulls": lambda size: b"\x0a" + pack(">I", size) + b"\x05" * size,
    "AMF0: empty arrays": lambda size: b"\x0a" + pack(">I", size // 5) + b"\x0a\0\0\0\0" * (size // 5),
    "AMF0: empty objects": lambda size: b"\x0a" + pack(">I", size // 4) + b"\x03\0\0\x09" * (size // 4),
    "AMF0: an array": lambda size: (
        b"\x0a" + pack(">I", size // 6) + b"\x0a" + pack(">I", size // 2) + b"\x05" * (size // 2)
        + b"\x07\0\1" * (size // 6 - 1)
    ),
    "AMF0: an object of a class": lambda size: (
        b"\x0a" + pack(">I", size // 6) + b"\x10" + pack(">H", min(size // 2, 65_535)) + b"c" * min(size // 2, 65_535)
        + b"\0\0\x09" + b"\x07\0\1" * (size // 6 - 1)
    ),
    "AMF0: numbers": lambda size: b"\0\x3f\xf0\0\0\0\0\0\0" * (size // 9),
    "AMF0: empty texts": lambda size: b"\x02\0\0" * (size // 3),
    "AMF0: members": lambda size: (
        b"\x03" + b"".join(b"\0\4%04x\5" % (index & 0xFFFF) for index in range(size // 7)) + b"\0\0\x09"
    ),
    "AMF0: long text, wide by one character": lambda size: b"\x0c" + pack(">I", size) + b"t" * (size - 4) + WIDE,
}  # fmt: skip


def shared_object(name: bytes, event: int, body: bytes, *, amf3: bool) -> bytes:
    head = pack(">H", len(name)) + name + bytes(12)
    return (b"\0" if amf3 else b"") + head + bytes([event]) + pack(">I", len(body)) + body


def messages(value: bytes, stream_id: int) -> dict[str, Message]:
    """Each kind of message that holds values, with this one: AMF0, or AMF3 behind its marker."""
    metadata = amf0.encode("@setDataFrame", "onMetaData") + value
    parts = [AggregatePart(18, 0, metadata), AggregatePart(15, 0, b"\0" + metadata)]
    return {
        "command (20)": Message(20, 0, 0, amf0.encode("call", 2.0, None) + value),
        "command (17)": Message(17, 0, 0, b"\0" + amf0.encode("call", 2.0, None) + value),
        "data (18)": Message(18, 0, stream_id, metadata),
        "data (15)": Message(15, 0, stream_id, b"\0" + metadata),
        "shared object (19)": Message(19, 0, 0, shared_object(b"s", 4, b"\0\1a" + value, amf3=False)),
        "shared object (16)": Message(16, 0, 0, shared_object(b"s", 4, b"\0\1a" + value, amf3=True)),
        "aggregate (22)": encode_aggregate(stream_id, parts),
    }


def connect(value: bytes, **properties: Any) -> Message:
    """With the value as argument, once more after the command object."""
    return Message(20, 0, 0, amf0.encode("connect", 1.0, {"app": "live", **properties}) + value)


# --- The peak while a message is read, and what is left of connections ---

PEAK_LIMITS = Limits(amf_elements=4096, command_amf_elements=1024)
SIZES = (4_000, 12_000)

EACH_BYTE = 16
"""Bytes of memory for each that came: what was given, the message, its text at four bytes a character, and again."""
EACH_ELEMENT = 256
"""Bytes of memory for each value that `Limits` allow: an object and what it becomes in AMF0 take 500, and count as
two."""
ANYTHING = 64 * 1024


def peak(receive: Callable[[bytes], list[Any]], data: bytes) -> int:
    """Bytes. An error that the layer may raise is an end like any."""
    tracemalloc.start()
    try:
        receive(data)
    except RemoteProtocolError:
        pass
    finally:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return most


def chunks(message: Message) -> bytes:
    return encode_message(message, chunk_stream_id=40, chunk_size=128)


def unconnected() -> Connection:
    server = ServerConnection(PEAK_LIMITS, nonce=SERVER_NONCE)
    server.receive_data(b"\x03" + bytes(HANDSHAKE_BYTES - 1))
    return server


def publishing() -> Connection:
    return server_after([], PEAK_LIMITS).connection


def most_elements(kind: str) -> int:
    """That messages of a kind may have: an aggregate has two of data."""
    each = {"data": PEAK_LIMITS.amf_elements, "aggregate": 2 * PEAK_LIMITS.amf_elements}
    return each.get(kind.split()[0], PEAK_LIMITS.command_amf_elements)


@pytest.mark.parametrize("name", VALUES | AMF0)
def test_peak_memory_is_bounded_by_the_bytes_received(name: str) -> None:
    for size in SIZES:
        value = b"\x11" + VALUES[name](size) if name in VALUES else AMF0[name](size)
        cases = [(kind, publishing, message) for kind, message in messages(value, 1).items()]
        for kind, made, message in [("connect", unconnected, connect(value)), *cases]:
            data = chunks(message)
            most = EACH_BYTE * len(data) + EACH_ELEMENT * most_elements(kind) + ANYTHING
            found = peak(made().receive_data, data)
            assert found <= most, f"{kind} of {len(data)} bytes took {found}, more than {most}"


def test_peak_memory_bound_is_within_three_times_the_dearest_value() -> None:
    """By the dearest value that there is."""
    message = messages(b"\x11" + VALUES["a class just within an element"](4_000), 1)["data (15)"]
    data = chunks(message)
    most = EACH_BYTE * len(data) + EACH_ELEMENT * most_elements("data") + ANYTHING
    assert peak(publishing().receive_data, data) > most / 3


def any_scalar(random: Random) -> Any:
    return random.choice([random.getrandbits(32), random.random(), f"{random.getrandbits(64):x}", None, True])


def different(random: Random) -> Iterator[Message]:
    """A connect and messages of all kinds, of which no other connection has the same."""
    fourccs = {f"{random.getrandbits(16):04x}": float(random.getrandbits(32)) for _ in range(8)}
    flags = {name: float(random.getrandbits(32)) for name in ("audioCodecs", "videoCodecs", "videoFunction", "capsEx")}
    infos = {"videoFourCcInfoMap": fourccs, "audioFourCcInfoMap": fourccs, "fourCcList": list(fourccs)}
    names = {f"{random.getrandbits(64):x}": any_scalar(random) for _ in range(8)}
    yield connect(amf0.encode(names), **flags, **infos, **names)
    yield Message(20, 0, 0, amf0.encode("createStream", 2.0, None))
    yield Message(20, 0, 1, amf0.encode("publish", 3.0, None, f"{random.getrandbits(64):x}"))
    value = amf0.encode(Amf3([names, dict(fourccs), random.randbytes(9)]), TypedObject(str(random.random())))
    yield from messages(value, 1).values()
    for type_id in (8, 9, random.randrange(23, 256)):
        yield Message(type_id, random.getrandbits(32), 1, random.randbytes(40))
    yield Message(9, 0, 1, bytes([0x90 | random.randrange(8)]) + random.randbytes(40))
    yield Message(4, 0, 0, random.randbytes(2) + random.randbytes(4))


def one_connection(random: Random) -> int:
    """How many events it has."""
    server = ServerConnection(nonce=SERVER_NONCE)
    server.receive_data(b"\x03" + bytes(HANDSHAKE_BYTES - 1))
    count = 0
    for message in different(random):
        found = server.receive_data(chunks(message))
        for event in found:
            count += 1
            if isinstance(event, events.ConnectRequested):
                server.accept_connect(event.request_id, properties=event.capabilities.properties())
            elif isinstance(event, events.PublishRequested):
                server.accept_publish(event.request_id, "Publishing.", public_name=event.name)
        server.events()
        server.data_to_send()
    return count


def test_nothing_is_left_of_connections() -> None:
    random = Random(1)
    for _ in range(10):
        assert one_connection(random) > 10
    tracemalloc.start()
    try:
        left = []
        for _ in range(2):
            for _ in range(40):
                one_connection(random)
            gc.collect()
            left.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert left[1] - left[0] < 16 * 1024
