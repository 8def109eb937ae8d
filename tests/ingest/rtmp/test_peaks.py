"""What it takes at the most to read a message, its events included, and what is left of connections that are gone.

`test_conversations` looks at what a connection holds between reads, and can't see either.
"""

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from ingest.rtmp import Limits, Message, RemoteProtocolError, ServerConnection, encode_message, events
from ingest.rtmp.amf import amf0
from ingest.rtmp.connection import Connection
from tests.ingest.rtmp.amplified import AMF0, VALUES, connect, messages
from tests.ingest.rtmp.pair import SERVER_NONCE
from tests.ingest.rtmp.sessions import server_after
from tests.rtmpdecode import HANDSHAKE_BYTES

LIMITS = Limits(amf_elements=4096, command_amf_elements=1024)
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
    server = ServerConnection(LIMITS, nonce=SERVER_NONCE)
    server.receive_data(b"\x03" + bytes(HANDSHAKE_BYTES - 1))
    return server


def publishing() -> Connection:
    return server_after([], LIMITS).connection


def most_elements(kind: str) -> int:
    """That messages of a kind may have: an aggregate has two of data."""
    each = {"data": LIMITS.amf_elements, "aggregate": 2 * LIMITS.amf_elements}
    return each.get(kind.split()[0], LIMITS.command_amf_elements)


@pytest.mark.parametrize("name", VALUES | AMF0)
def test_the_peak_is_bounded_by_what_came(name: str) -> None:
    for size in SIZES:
        value = b"\x11" + VALUES[name](size) if name in VALUES else AMF0[name](size)
        cases = [(kind, publishing, message) for kind, message in messages(value, 1).items()]
        for kind, made, message in [("connect", unconnected, connect(value)), *cases]:
            data = chunks(message)
            most = EACH_BYTE * len(data) + EACH_ELEMENT * most_elements(kind) + ANYTHING
            found = peak(made().receive_data, data)
            assert found <= most, f"{kind} of {len(data)} bytes took {found}, more than {most}"


def test_the_bound_is_near_what_is_taken() -> None:
    """By the dearest value that there is."""
    message = messages(b"\x11" + VALUES["a class just within an element"](4_000), 1)["data (15)"]
    data = chunks(message)
    most = EACH_BYTE * len(data) + EACH_ELEMENT * most_elements("data") + ANYTHING
    assert peak(publishing().receive_data, data) > most / 3


def anything(random: Random) -> Any:
    return random.choice([random.getrandbits(32), random.random(), f"{random.getrandbits(64):x}", None, True])


def different(random: Random) -> Iterator[Message]:
    """A connect and messages of all kinds, of which no other connection has the same."""
    fourccs = {f"{random.getrandbits(16):04x}": float(random.getrandbits(32)) for _ in range(8)}
    flags = {name: float(random.getrandbits(32)) for name in ("audioCodecs", "videoCodecs", "videoFunction", "capsEx")}
    infos = {"videoFourCcInfoMap": fourccs, "audioFourCcInfoMap": fourccs, "fourCcList": list(fourccs)}
    names = {f"{random.getrandbits(64):x}": anything(random) for _ in range(8)}
    yield connect(amf0.encode(names), **flags, **infos, **names)
    yield Message(20, 0, 0, amf0.encode("createStream", 2.0, None))
    yield Message(20, 0, 1, amf0.encode("publish", 3.0, None, f"{random.getrandbits(64):x}"))
    value = amf0.encode(amf0.Amf3([names, dict(fourccs), random.randbytes(9)]), amf0.TypedObject(str(random.random())))
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
