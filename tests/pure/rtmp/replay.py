"""Play the bytes of a peer to one end of a connection, in pieces, and collect its events, answers and error."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from itertools import pairwise
from math import isfinite
from typing import Any

from ingest.rtmp import ClientConnection, Limits, RemoteProtocolError, ServerConnection, events
from ingest.rtmp.chunk_reader import ChunkReader
from ingest.rtmp.connection import Connection
from tests.pure.rtmp.pair import CLIENT_NONCE, SERVER_NONCE, ConnectionPair, accept
from tests.rtmpdecode import HANDSHAKE_BYTES, Decoded, Raw, decode_stream

ACKNOWLEDGEMENT = 3

React = Callable[[Any, Any], None]
"""The shell's reaction to an event: takes the connection and the event."""
Look = Callable[[Any], None] | None


@dataclass
class Replay:
    connection: Connection
    events: list[Any] = field(default_factory=list)
    sent: bytes = b""
    error: RemoteProtocolError | None = None


def in_pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


def cut(data: bytes, sizes: Iterable[int]) -> Iterator[bytes]:
    """Pieces of these sizes, and the rest as a last piece."""
    at = 0
    for size in sizes:
        yield data[at : at + size]
        at += size
    yield data[at:]


def play(connection: Connection, react: React, pieces: Iterable[bytes], look: Look = None) -> Replay:
    """Pass the pieces until the connection fails, if it does. Errors other than RemoteProtocolError escape.

    `look` is called after each piece, when events and output are taken.
    """
    replay = Replay(connection)
    try:
        for piece in pieces:
            found = connection.receive_data(piece)
            while found:
                replay.events += found
                for event in found:
                    react(connection, event)
                found = connection.events()
            replay.sent += connection.data_to_send()
            if look:
                look(connection)
    except RemoteProtocolError as error:
        replay.error = error
        replay.events += connection.events()
        replay.sent += connection.data_to_send()
    return replay


def read_chunks(pieces: Iterable[bytes], limits: Limits | None = None, look: Look = None) -> tuple[list[Raw], str]:
    """Pass the pieces to the chunk layer alone. Return the messages, and the error or ""."""
    reader = ChunkReader(limits or Limits())
    found: list[Raw] = []
    try:
        for piece in pieces:
            reader.feed(piece)
            try:
                while messages := reader.read():
                    found += messages
            finally:
                reader.keep()
            if look:
                look(reader)
    except RemoteProtocolError as error:
        return found, str(error)
    return found, ""


def serve(pieces: Iterable[bytes], limits: Limits | None = None, look: Look = None) -> Replay:
    """The server's end. Its shell accepts all requests."""
    return play(ServerConnection(limits or Limits(), nonce=SERVER_NONCE), accept, pieces, look)


def follow(
    pieces: Iterable[bytes], limits: Limits | None = None, react: React | None = None, look: Look = None
) -> Replay:
    """The client's end. By default its shell plays a stream as soon as possible."""
    return play(ClientConnection(limits or Limits(), nonce=CLIENT_NONCE), react or play_a_stream, pieces, look)


def play_a_stream(client: ClientConnection, event: Any) -> None:
    match event:
        case events.HandshakeCompleted():
            client.connect("live", "rtmp://127.0.0.1/live")
        case events.ResultReceived("connect", _, True):
            client.create_stream()
        case events.ResultReceived("createStream", _, True, values):
            given = values[-1]
            fits = isinstance(given, float) and isfinite(given) and 0 <= given < 2**32
            client.call("play", "cam", -2, -1, stream_id=int(given) if fits else 1)


def raw(messages: Iterable[Decoded], *types: int) -> list[Raw]:
    """All messages, or those of these types, as the chunk reader gives them."""
    return [each.raw for each in messages if not types or each.type_id in types]


def outcome(replay: Replay) -> tuple[list[Any], str, list[Any]]:
    """Events, the final error and answers: none depends on the places where the bytes are cut."""
    # We compare the representations of all fields, as no NaN equals another.
    found = [(type(event), *(repr(getattr(event, each.name)) for each in fields(event))) for event in replay.events]
    # Acknowledgements depend on the bytes that come at a time.
    answers = [message for message in decode_stream(replay.sent) if message.type_id != ACKNOWLEDGEMENT]
    return found, str(replay.error), answers


def session(*, publishes: bool) -> ConnectionPair:
    """A client and a server after the client began to publish or play."""
    pair = ConnectionPair().connected()
    (pair.client.publish if publishes else pair.client.play)(pair.create_stream(), "cam")
    pair.run()
    return pair


PUBLISHING = bytes(session(publishes=True).to_server)
"""The bytes of a client until it publishes."""
PLAYED = bytes(session(publishes=False).to_client)
"""The bytes of a server before the first media."""


def by_message(data: bytes) -> Iterator[bytes]:
    """Cut at each message, so that the client can make each call before the answer to it arrives."""
    ends = [0, HANDSHAKE_BYTES, *(message.end for message in decode_stream(data)), len(data)]
    return (data[start:end] for start, end in pairwise(ends))


def server_after(pieces: Iterable[bytes], limits: Limits | None = None, look: Look = None) -> Replay:
    """Play the pieces to the server's end, after a client began to publish."""
    return serve([PUBLISHING, *pieces], limits, look)


def client_after(pieces: Iterable[bytes], limits: Limits | None = None, look: Look = None) -> Replay:
    """Play the pieces to the client's end, after it began to play."""
    return follow([*by_message(PLAYED), *pieces], limits, look=look)
