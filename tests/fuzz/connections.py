"""Whole connections as targets: what follows the handshake, given at once and in pieces."""

from typing import Any

from ingest.rtmp import ClientConnection, Message, encode_message, events
from tests.fuzz.target import LIMITS, pieces
from tests.pure.rtmp.memory import connection_bytes, held_bytes
from tests.pure.rtmp.pair import ConnectionPair
from tests.pure.rtmp.replay import Replay, client_after, follow, outcome, serve, server_after
from tests.rtmpdecode import HANDSHAKE_BYTES

SET_CHUNK_SIZE = 1
HANDSHAKE = b"\x03" + bytes(HANDSHAKE_BYTES - 1)


def check(whole: Replay, parts: Replay) -> None:
    """Given at once and given in pieces the same came out."""
    assert outcome(whole) == outcome(parts)
    held(whole)
    held(parts)


def held(replay: Replay) -> None:
    assert held_bytes(replay.connection) <= connection_bytes(LIMITS)


def server(data: bytes) -> None:
    check(serve([HANDSHAKE, data], LIMITS), serve([HANDSHAKE, *pieces(data)], LIMITS))


ACCEPTED, ASKED = b"\x00", b"\x01"
"""The first byte of an input for the client: whether its connect was accepted already."""


def connected() -> bytes:
    """What a server sends to accept a connect, after its handshake."""
    pair = ConnectionPair().connected()
    return bytes(pair.to_client[HANDSHAKE_BYTES:])


CONNECTED = connected()
CALLS = ("createStream", "releaseStream", "getStreamLength", "createStream")


def ask(connection: ClientConnection, event: Any) -> None:
    """All that the client asks for comes before what is fuzzed, which thus means the same however it is cut."""
    match event:
        case events.HandshakeCompleted():
            connection.connect("live", "rtmp://127.0.0.1/live")
        case events.ResultReceived("connect", 1, True):
            for procedure in CALLS:
                connection.call(procedure)
            connection.call("play", "cam", -2, -1, stream_id=1)
            connection.publish(2, "cam")


def client(data: bytes) -> None:
    begin = [HANDSHAKE, CONNECTED] if data[:1] == ACCEPTED else [HANDSHAKE]
    rest = data[1:]

    def react(connection: ClientConnection, event: Any) -> None:
        if data[:1] == ACCEPTED or isinstance(event, events.HandshakeCompleted):
            ask(connection, event)

    check(follow([*begin, rest], LIMITS, react), follow([*begin, *pieces(rest)], LIMITS, react))


# --- Messages alone, so that a fuzzer need not get the chunks right ---


def record(type_id: int, stream_id: int, payload: bytes) -> bytes:
    """How a message stands in an input: type, message stream, length, in a byte each, then its payload."""
    return bytes((type_id, stream_id, len(payload))) + payload


def in_chunks(data: bytes) -> bytes:
    """The records of an input in chunks; without Set Chunk Size, as that would change how all others are read."""
    out = []
    at = 0
    while at + 3 <= len(data):
        type_id, stream_id, size = data[at : at + 3]
        payload = data[at + 3 : at + 3 + size]
        at += 3 + size
        if type_id != SET_CHUNK_SIZE:
            message = Message(type_id, at, stream_id & 3, payload)
            out.append(encode_message(message, chunk_stream_id=5, chunk_size=128))
    return b"".join(out)


def messages_to_server(data: bytes) -> None:
    held(server_after(pieces(in_chunks(data)), LIMITS))


def messages_to_client(data: bytes) -> None:
    held(client_after(pieces(in_chunks(data)), LIMITS))
