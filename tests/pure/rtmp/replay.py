"""Bytes of a peer played to one end of a connection, in pieces, and all that came of it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from itertools import pairwise
from math import isfinite
from typing import Any

from ingest.rtmp import ClientConnection, Limits, RemoteProtocolError, ServerConnection, events
from ingest.rtmp.chunk_reader import ChunkReader
from ingest.rtmp.connection import Connection
from tests.pure.rtmp.pair import CLIENT_NONCE, SERVER_NONCE, ConnectionPair, accept
from tests.pure.rtmp.wire import Raw
from tests.rtmpdecode import HANDSHAKE_BYTES, Decoded, decode_stream

ACKNOWLEDGEMENT = 3

React = Callable[[Any, Any], None]
"""What the shell does about an event: of the connection and the event."""


@dataclass
class Replay:
    connection: Connection
    events: list[Any] = field(default_factory=list)
    sent: bytes = b""
    error: RemoteProtocolError | None = None


def in_pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


def cut(data: bytes, sizes: Iterable[int]) -> Iterator[bytes]:
    """Pieces of these sizes, and what is left."""
    at = 0
    for size in sizes:
        yield data[at : at + size]
        at += size
    yield data[at:]


def play(
    connection: Connection, react: React, pieces: Iterable[bytes], look: Callable[[Connection], None] | None = None
) -> Replay:
    """Gives the pieces until the connection fails, if it does. Any other error than a RemoteProtocolError escapes.

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


def read_chunks(
    pieces: Iterable[bytes], limits: Limits | None = None, look: Callable[[ChunkReader], None] | None = None
) -> tuple[list[Raw], str]:
    """Of the chunk layer alone: the messages, and the error that ended it, if one did."""
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


def serve(pieces: Iterable[bytes], limits: Limits | None = None) -> Replay:
    """The server's end, whose shell says yes to all requests."""
    return play(ServerConnection(limits or Limits(), nonce=SERVER_NONCE), accept, pieces)


def follow(pieces: Iterable[bytes], limits: Limits | None = None, react: React | None = None) -> Replay:
    """The client's end, whose shell plays as soon as it may."""
    return play(ClientConnection(limits or Limits(), nonce=CLIENT_NONCE), react or play_a_stream, pieces)


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
    """As the chunk reader gives them; all, or those of these types."""
    return [
        (each.type_id, each.timestamp, each.stream_id, each.payload)
        for each in messages
        if not types or each.type_id in types
    ]


def answers(replay: Replay) -> list[Any]:
    """The messages that were sent, but for acknowledgements, which are due by what was given at a time."""
    return [message for message in decode_stream(replay.sent) if message.type_id != ACKNOWLEDGEMENT]


def outcome(replay: Replay) -> tuple[list[Any], str, list[Any]]:
    """Events, the error that ended it, answers: the same however the bytes are cut."""
    return [plain(event) for event in replay.events], str(replay.error), answers(replay)


def plain(event: Any) -> tuple[Any, ...]:
    """To compare events by: their fields' representations, as no NaN equals another."""
    return (type(event).__name__, *(repr(getattr(event, each.name)) for each in fields(event)))


def session(*, publishes: bool) -> ConnectionPair:
    """A client and a server that have got so far as to publish, or to play."""
    pair = ConnectionPair().connected()
    stream_id = pair.create_stream()
    if publishes:
        pair.client.publish(stream_id, "cam")
    else:
        pair.client.play(stream_id, "cam")
    pair.run()
    return pair


PUBLISHING = bytes(session(publishes=True).to_server)
"""What a client sends until it publishes."""
PLAYED = bytes(session(publishes=False).to_client)
"""What a server sends until the first media."""


def by_message(data: bytes) -> Iterator[bytes]:
    """So that each answer comes after its call, as the client makes that once it has the answer before."""
    ends = [0, HANDSHAKE_BYTES, *(message.end for message in decode_stream(data)), len(data)]
    return (data[start:end] for start, end in pairwise(ends))


def server_after(pieces: Iterable[bytes], limits: Limits | None = None, **more: Any) -> Replay:
    """The server's end, with a client that publishes, given the pieces."""
    server = ServerConnection(limits or Limits(), nonce=SERVER_NONCE)
    return play(server, accept, [PUBLISHING, *pieces], **more)


def client_after(pieces: Iterable[bytes], limits: Limits | None = None, **more: Any) -> Replay:
    """The client's end, which plays, given the pieces."""
    client = ClientConnection(limits or Limits(), nonce=CLIENT_NONCE)
    return play(client, play_a_stream, [*by_message(PLAYED), *pieces], **more)
