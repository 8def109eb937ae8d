"""A small asyncio shell around `ClientConnection`: a publisher or player for tests and benchmarks.

async with RtmpClient(port=port) as client:
    await client.connect("live")
    stream_id = await client.publish("cam1")
    await client.send_video(stream_id, 0, payload)
"""

import asyncio
import contextlib
import os
import socket
import ssl
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import h11

from ingest.rtmp import ClientConnection, Message, RemoteProtocolError, UserControl, events
from ingest.rtmp.amf import amf0
from ingest.rtmp.limits import DEFAULT_LIMITS, Limits
from ingest.rtmp.messages import AggregatePart
from ingest.rtmp.messages.commands import encode_data
from ingest.rtmp.messages.shared_object import SharedObject, encode_shared_object
from ingest.services.refusals import REASONS
from tests.pure.flv.files import tag

E = TypeVar("E")

AUDIO, VIDEO, DATA, AGGREGATE = 8, 9, 18, 22

NONCE_BYTES = 1528

NEVER_FULL = 1 << 40
"""The stream reader's limit, which it never reaches: it would resume a transport that the test has paused."""


class Refused(Exception):  # noqa: N818 - an answer, not an error.
    """An error that the server answered."""

    def __init__(self, code: str, description: str) -> None:
        super().__init__(f"{code}: {description}")
        self.code = code
        self.description = description


def is_passing(refused: Refused) -> bool:
    """True if the database was slow, which may be due to a busy machine. Encoders try again after this refusal."""
    return refused.description == REASONS["database_slow"].description


def decode_all(data: bytes, position: int = 0, limits: Limits = DEFAULT_LIMITS) -> list[Any]:
    """Return all AMF0 values from `position` to the end of a message's body."""
    return amf0.Decoder(data, position, limits, limits.amf_elements).rest()


def encode_aggregate(stream_id: int, parts: Sequence[AggregatePart]) -> Message:
    return Message(AGGREGATE, parts[0].timestamp, stream_id, b"".join(tag(*part) for part in parts))


class SendingClient(ClientConnection):
    """A client connection that also sends media, shared objects and buffer lengths."""

    def send_audio(self, stream_id: int, timestamp: int, payload: bytes) -> None:
        self.send_message(Message(AUDIO, timestamp, stream_id, payload))

    def send_video(self, stream_id: int, timestamp: int, payload: bytes) -> None:
        self.send_message(Message(VIDEO, timestamp, stream_id, payload))

    def send_data(self, stream_id: int, timestamp: int, name: str, *values: Any) -> None:
        self.send_message(encode_data(stream_id, timestamp, name, *values, amf3=self.amf3))

    def send_aggregate(self, stream_id: int, *parts: AggregatePart) -> None:
        self.send_message(encode_aggregate(stream_id, parts))

    def send_metadata(self, stream_id: int, timestamp: int, metadata: dict[str, Any]) -> None:
        self.send_data(stream_id, timestamp, "@setDataFrame", "onMetaData", metadata)

    def send_shared_object(self, content: SharedObject) -> None:
        self.send_message(encode_shared_object(content, amf3=self.amf3))

    def set_buffer_length(self, stream_id: int, length_ms: int) -> None:
        self.send_user_control(UserControl.SET_BUFFER_LENGTH, stream_id, length_ms)


class Changing:
    """Base class for objects whose state a test waits for. Subclasses set `_changed` after each change."""

    timeout_s = 5.0
    closed = False
    """True if the server has closed the connection."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    async def wait_until(self, condition: Callable[[], object], timeout_s: float | None = None) -> None:
        """Return as soon as the condition holds. Check it after each change."""
        async with asyncio.timeout(self.timeout_s if timeout_s is None else timeout_s):
            while not condition():
                if self.closed:
                    raise ConnectionError("the server closed the connection")
                self._changed.clear()
                await self._changed.wait()

    async def wait_closed(self, timeout_s: float | None = None) -> None:
        await self.wait_until(lambda: self.closed, timeout_s)


class Client(Changing):
    """Base class of clients by TCP, or by the Unix socket `path`."""

    def __init__(
        self, host: str = "127.0.0.1", *, port: int = 0, path: Path | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        super().__init__()
        self.host, self.port, self.path, self.tls = host, port, path, tls
        self._reading: asyncio.Task[None] | None = None

    def to_send(self) -> bytes:
        raise NotImplementedError

    def take(self, data: bytes) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        if self.path is not None:
            self._reader, self._writer = await asyncio.open_unix_connection(self.path, limit=NEVER_FULL)
        else:
            at = asyncio.open_connection(self.host, self.port, ssl=self.tls, limit=NEVER_FULL)
            self._reader, self._writer = await at
        self._writer.write(self.to_send())
        self._reading = asyncio.create_task(self._read())

    async def close(self) -> None:
        """Close the connection after everything written has gone out."""
        if self._reading:
            self._reading.cancel()
            self._writer.close()
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()
            self._reading = None

    def abort(self) -> None:
        """Reset the connection."""
        self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def pause_reading(self) -> None:
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]

    def resume_reading(self) -> None:
        self._writer.transport.resume_reading()  # type: ignore[attr-defined]

    async def _read(self) -> None:
        try:
            while data := await self._reader.read(1 << 18):
                self.take(data)
                self._changed.set()
        except (OSError, RemoteProtocolError, h11.RemoteProtocolError):
            pass
        finally:
            self.closed = True
            self._changed.set()


class RtmpClient(Client):
    """An RTMP connection. It keeps all events in `received`, in order."""

    def __init__(self, host: str = "127.0.0.1", *, timeout_s: float = 5.0, **at: Any) -> None:
        super().__init__(host, **at)
        self.timeout_s = timeout_s
        self.protocol = SendingClient(nonce=os.urandom(NONCE_BYTES), answers_calls=True)
        self.procedures: dict[str, Callable[..., Any]] = {}
        """Functions that the server may call, by name."""
        self.received: list[events.Event] = []
        self.listener: Callable[[events.Event], None] = lambda _event: None
        """A function that is called with each event at once."""

    async def open(self) -> None:
        await super().open()
        await self.wait_for(events.HandshakeCompleted)

    def to_send(self) -> bytes:
        return self.protocol.data_to_send()

    async def flush(self) -> None:
        self._writer.write(self.to_send())
        await self._writer.drain()

    def take(self, data: bytes) -> None:
        arrived = self.protocol.receive_data(data)
        for event in arrived:
            if isinstance(event, events.CallReceived) and event.request_id:
                self._answer(event)
            self.listener(event)
        self.received += arrived
        if answer := self.to_send():
            self._writer.write(answer)

    def _answer(self, call: events.CallReceived) -> None:
        if procedure := self.procedures.get(call.procedure):
            self.protocol.answer_call(call.request_id, procedure(*call.arguments))
        else:
            self.protocol.fail_call(call.request_id, "NetConnection.Call.Failed", "There is no such procedure.")

    # --- Waiting ---

    async def wait_for(
        self,
        kind: type[E],
        match: Callable[[E], bool] = lambda _event: True,
        *,
        after: int = 0,
        timeout_s: float | None = None,
    ) -> E:
        """Return the first event of its kind in `received[after:]` that matches."""

        def found() -> Iterator[E]:
            return (event for event in self.received[after:] if isinstance(event, kind) and match(event))

        await self.wait_until(lambda: any(True for _ in found()), timeout_s)
        return next(found())

    async def wait_count(self, kind: type[E], count: int, timeout_s: float | None = None) -> None:
        await self.wait_until(lambda: len(self.of(kind)) >= count, timeout_s)

    def of(self, kind: type[E], *, stream_id: int | None = None) -> list[E]:
        """Return the events of a kind, in order. None: of all message streams."""
        found = (event for event in self.received if isinstance(event, kind))
        return [event for event in found if stream_id in (None, getattr(event, "stream_id", None))]

    # --- Commands: they raise Refused ---

    async def connect(self, app: str, *, tc_url: str | None = None, **properties: Any) -> events.ResultReceived:
        self.protocol.connect(app, tc_url or f"rtmp://{self.host}:{self.port}/{app}", **properties)
        return await self._result("connect")

    async def call(self, procedure: str, *arguments: Any) -> Any:
        """Call a procedure of the server and return its result."""
        transaction = self.protocol.call(procedure, *arguments)
        return (await self._result(procedure, transaction)).values[-1]

    async def create_stream(self) -> int:
        self.protocol.create_stream()
        return int((await self._result("createStream")).values[-1])

    async def publish(self, name: str, kind: str = "live", *, stream_id: int | None = None) -> int:
        """Publish, by default on a new message stream. Return the message stream's id."""
        return await self._begin(stream_id, "NetStream.Publish.Start", lambda at: self.protocol.publish(at, name, kind))

    async def play(self, name: str, *, stream_id: int | None = None) -> int:
        """Play, by default on a new message stream. Return the message stream's id."""
        return await self._begin(stream_id, "NetStream.Play.Start", lambda at: self.protocol.play(at, name))

    async def _begin(self, stream_id: int | None, code: str, ask: Callable[[int], object]) -> int:
        at = await self.create_stream() if stream_id is None else stream_id
        after = len(self.received)
        ask(at)
        await self.flush()
        status = await self.wait_for(
            events.StatusReceived,
            lambda event: event.stream_id == at and (event.code == code or event.level == "error"),
            after=after,
        )
        if status.code != code:
            raise Refused(status.code, status.description)
        return at

    async def delete_stream(self, stream_id: int) -> None:
        self.protocol.delete_stream(stream_id)
        await self.flush()

    async def send_audio(self, stream_id: int, timestamp: int, payload: bytes) -> None:
        self.protocol.send_audio(stream_id, timestamp, payload)
        await self.flush()

    async def send_video(self, stream_id: int, timestamp: int, payload: bytes) -> None:
        self.protocol.send_video(stream_id, timestamp, payload)
        await self.flush()

    async def send_metadata(self, stream_id: int, metadata: dict[str, Any]) -> None:
        self.protocol.send_metadata(stream_id, 0, metadata)
        await self.flush()

    async def _result(self, procedure: str, transaction: float | None = None) -> events.ResultReceived:
        after = len(self.received)
        await self.flush()
        result = await self.wait_for(
            events.ResultReceived,
            lambda event: event.procedure == procedure and transaction in (None, event.transaction),
            after=after,
        )
        if not result.succeeded:
            info = next((value for value in reversed(result.values) if isinstance(value, dict)), {})
            raise Refused(str(info.get("code", "")), str(info.get("description", "")))
        return result
