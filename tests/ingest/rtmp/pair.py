"""A client and a server joined without sockets: what one sends, the other receives."""

from collections.abc import Callable
from random import Random
from typing import Any

from ingest.rtmp import ClientConnection, Limits, ServerConnection, events
from ingest.rtmp.handshake import Scheme
from ingest.rtmp.run_reader import Run

SERVER_NONCE = bytes(Random(1).randbytes(1528))
CLIENT_NONCE = bytes(Random(2).randbytes(1528))

Decide = Callable[[ServerConnection, Any], None]


def accept(server: ServerConnection, event: Any) -> None:
    """The decision that says yes to everything; the public name is what comes before a `?`."""
    match event:
        case events.ConnectRequested():
            server.accept_connect(event.request_id)
        case events.PublishRequested():
            server.accept_publish(event.request_id, "Publishing.", public_name=event.name.split("?")[0])
        case events.PlayRequested():
            server.accept_play(event.request_id, "Playing.")


class ConnectionPair:
    """`run` carries bytes to and fro until both ends are silent, and collects the events of each."""

    def __init__(
        self,
        *,
        decide: Decide = accept,
        server_limits: Limits | None = None,
        client_limits: Limits | None = None,
        slice_bytes: int = 0,
        digest: Scheme | None = None,
        **server_options: Any,
    ) -> None:
        """`decide` answers what the server asks; `slice_bytes` cuts all that is carried into pieces of that size;
        `digest`: the client's handshake has one."""
        self.server = ServerConnection(server_limits or Limits(), nonce=SERVER_NONCE, **server_options)
        self.client = ClientConnection(client_limits or Limits(), nonce=CLIENT_NONCE, digest=digest)
        self.decide = decide
        self.slice_bytes = slice_bytes
        self.server_events: list[Any] = []
        self.client_events: list[Any] = []
        self.to_server = bytearray()
        """All bytes that the server was given."""
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
        """Connects, creates a stream and publishes; gives the message stream's id."""
        self.connected()
        stream_id = self.create_stream()
        self.client.publish(stream_id, name)
        self.run()
        return stream_id

    def take_server(self, *types: type) -> list[Any]:
        """The server's events of these types so far."""
        return [event for event in self.server_events if isinstance(event, types)]

    def take_client(self, *types: type) -> list[Any]:
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
