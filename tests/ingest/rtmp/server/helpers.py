"""What the tests of the server's end share: what was sent, as the other decoder sees it, and decisions."""

from collections.abc import Callable
from typing import Any

from ingest.rtmp import Message, ServerConnection
from ingest.rtmp.amf import amf0
from tests.ingest.rtmp.pair import ConnectionPair, Decide, accept
from tests.rtmpdecode import Decoded, decode_stream

SECRET = "rk_topsecretkey"


def sent(pair: ConnectionPair) -> list[Decoded]:
    """All messages of the server, by the other decoder."""
    return decode_stream(bytes(pair.to_client))


def commands(pair: ConnectionPair) -> list[tuple[int, list[Any]]]:
    """The commands that the server sent: message stream id and values."""
    return [
        (message.stream_id, amf0.decode_all(message.payload, message.type_id == 17))
        for message in sent(pair)
        if message.type_id in (17, 20)
    ]


def answers(pair: ConnectionPair, action: Callable[[], object]) -> list[tuple[int, list[Any]]]:
    """The commands that the server sends because of what `action` does."""
    before = len(commands(pair))
    action()
    pair.run()
    return commands(pair)[before:]


def command(*values: Any, stream_id: int = 0, type_id: int = 20) -> Message:
    return Message(type_id, 0, stream_id, amf0.encode(*values))


def wait(server: ServerConnection, event: Any) -> None:
    """Decides nothing."""


def decide_all_but(kind: type) -> Decide:
    """Accepts, and leaves requests of this kind undecided."""

    def decide(server: ServerConnection, event: Any) -> None:
        if not isinstance(event, kind):
            accept(server, event)

    return decide


def take(server: ServerConnection, data: bytes | None = None) -> list[Any]:
    """What the server tells, of `data` if there is some."""
    return list(server.events() if data is None else server.receive_data(data))
