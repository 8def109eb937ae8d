"""A client and a server that are joined without sockets, and the messages and events of both."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from ingest.rtmp import Limits, Message, RemoteProtocolError, ServerConnection, events
from ingest.rtmp.amf import amf0
from ingest.rtmp.run_reader import Run
from tests.rtmp_client import SendingClient, decode_all
from tests.rtmpdecode import Decoded, decode_stream

SERVER_NONCE = bytes(Random(1).randbytes(1528))
CLIENT_NONCE = bytes(Random(2).randbytes(1528))

Decide = Callable[[ServerConnection, Any], None]


def accept(server: ServerConnection, event: Any) -> None:
    """Accept every request. The public name is the part of the name before a `?`."""
    match event:
        case events.ConnectRequested():
            server.accept_connect(event.request_id)
        case events.PublishRequested():
            server.accept_publish(event.request_id, "Publishing.", public_name=event.name.split("?")[0])
        case events.PlayRequested():
            server.accept_play(event.request_id, "Playing.")


def deciding(kind: type, decide: Decide = lambda server, event: None) -> Decide:
    """Let `decide` answer requests of this kind (by default it does not), and accept all others."""

    def either(server: ServerConnection, event: Any) -> None:
        (decide if isinstance(event, kind) else accept)(server, event)

    return either


class ConnectionPair:
    """Both ends. `run` carries bytes until both ends are silent, and collects the events of each end."""

    def __init__(
        self,
        *,
        decide: Decide = accept,
        server_limits: Limits | None = None,
        client_limits: Limits | None = None,
        slice_bytes: int = 0,
        **server_options: Any,
    ) -> None:
        """`decide` answers the server's requests. `slice_bytes` cuts carried bytes into pieces, unless it is 0."""
        self.server = ServerConnection(server_limits or Limits(), nonce=SERVER_NONCE, **server_options)
        self.client = SendingClient(client_limits or Limits(), nonce=CLIENT_NONCE)
        self.decide = decide
        self.slice_bytes = slice_bytes
        self.server_events: list[Any] = []
        self.client_events: list[Any] = []
        self.to_server = bytearray()
        """All bytes that the server received."""
        self.to_client = bytearray()

    def run(self) -> None:
        while True:
            upwards = self.client.data_to_send()
            self.to_server += upwards
            for piece in self._pieces(upwards):
                self._serve(self.server.receive_data(piece))
            self._serve(self.server.events())
            downwards = self.server.data_to_send()
            self.to_client += downwards
            for piece in self._pieces(downwards):
                self.client_events += self.client.receive_data(piece)
            if not upwards and not downwards:
                return

    def connected(self, app: str = "live", **properties: Any) -> "ConnectionPair":
        self.run()
        self.client.connect(app, f"rtmp://127.0.0.1/{app}", **properties)
        self.run()
        return self

    def create_stream(self) -> int:
        self.client.create_stream()
        self.run()
        result = self.take_client(events.ResultReceived)[-1]
        return int(result.values[-1])

    def publishing(self, name: str = "cam") -> int:
        """Connect, create a stream and publish. Return the message stream's id."""
        self.connected()
        stream_id = self.create_stream()
        self.client.publish(stream_id, name)
        self.run()
        return stream_id

    def ended_by(self, error: type[RemoteProtocolError], *messages: Message, match: str | None = None) -> None:
        """Assert that the bytes under way and these messages of the client end the connection."""
        for message in messages:
            self.client.send_message(message)
        with pytest.raises(error, match=match):
            self.run()

    def take_server(self, *types: type) -> list[Any]:
        """The server's events of these types, after all bytes under way have arrived."""
        self.run()
        return [event for event in self.server_events if isinstance(event, types)]

    def take_client(self, *types: type) -> list[Any]:
        self.run()
        return [event for event in self.client_events if isinstance(event, types)]

    def _serve(self, happened: list[Any]) -> None:
        while happened:
            self.server_events += happened
            for event in happened:
                self.decide(self.server, event)
            happened = self.server.events()

    def _pieces(self, data: bytes) -> list[bytes]:
        size = self.slice_bytes or max(len(data), 1)
        return [data[start : start + size] for start in range(0, len(data), size)]


class Sink:
    """Takes media as a live stream does."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, int, bytes]] = []

    def audio(self, timestamp: int, payload: bytes) -> None:
        self.taken.append(("audio", timestamp, payload))

    def video(self, timestamp: int, payload: bytes) -> None:
        self.taken.append(("video", timestamp, payload))

    def run(self, run: Run) -> None:
        for is_video, timestamp, start, size in run.messages:
            self.taken.append(("video" if is_video else "audio", timestamp, run.payload(start, size)))


SECRET = "rk_topsecretkey"


def sent(pair: ConnectionPair) -> list[Decoded]:
    """All messages of the server, by the independent decoder."""
    return decode_stream(bytes(pair.to_client))


def commands(pair: ConnectionPair) -> list[tuple[int, list[Any]]]:
    """The message stream id and values of each command that the server sent."""
    found = [message for message in sent(pair) if message.type_id in (17, 20)]
    return [(message.stream_id, decode_all(message.payload, message.type_id == 17)) for message in found]


def answers(pair: ConnectionPair, action: Callable[[], object]) -> list[tuple[int, list[Any]]]:
    """The commands that the server sends because of what `action` does."""
    before = len(commands(pair))
    action()
    pair.run()
    return commands(pair)[before:]


def command(*values: Any, stream_id: int = 0) -> Message:
    return Message(20, 0, stream_id, amf0.encode(*values))
