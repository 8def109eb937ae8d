"""Connections that have got so far as to publish or play, to be given more."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from ingest.rtmp import ClientConnection, Limits, ServerConnection
from tests.ingest.rtmp.pair import CLIENT_NONCE, SERVER_NONCE, ConnectionPair, accept
from tests.ingest.rtmp.replay import Replay, play, play_a_stream
from tests.rtmpdecode import HANDSHAKE_BYTES, decode_stream


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
