"""One viewer of a live stream: a subscriber's queue on one side, a response or WebSocket on the other.

What it is sent is an FLV file that ends with the stream. Each message is made a tag once, for all of its viewers.
"""

import asyncio
from typing import Any, Final, Protocol

from ingest.contracts import EndReason, PlayAccept, Totals
from ingest.flv.tags import FILE_HEADER, HAS_AUDIO, HAS_VIDEO, POINTER_BYTES, SIGNATURE, tag_bytes
from ingest.live import LiveStream, Subscriber
from ingest.live.message import WIRE, SharedMessage
from ingest.live.subscriber import Batch
from ingest.server.asgi import Status
from ingest.server.output import Outlet, flush_one
from ingest.server.ports import Hub, Owner

STREAM_ID: Final = 1
"""Of the only message stream, as an RTMP player would have it."""

HELD_MESSAGES: Final = 64
"""What may come before the first frame, headers in all likelihood, until the file's header is written all the same."""


class ViewerConnection(Owner, Protocol):
    """The connection, as its viewer sees it."""

    loop: asyncio.AbstractEventLoop
    outlet: Outlet

    @property
    def server(self) -> Hub[Any]: ...

    def write_media(self, parts: list[bytes], size: int) -> None:
        """Gathered, framed as the peer wants it. `size`: all parts together."""

    def broken(self, error: Exception) -> None: ...


def file_start(*, audio: bool, video: bool) -> bytes:
    """FLV's header, which tells what the file holds, and the size of no tag before it (FLV 10.1, annex E.2, E.3)."""
    flags = HAS_AUDIO * audio | HAS_VIDEO * video
    return FILE_HEADER.pack(SIGNATURE, 1, flags, FILE_HEADER.size) + bytes(POINTER_BYTES)


def tag_of(message: SharedMessage) -> bytes:
    """Made when the first viewer needs it."""
    tag = message.tag
    if tag is None:
        tag = message.tag = tag_bytes(WIRE[message.kind][0], message.timestamp, message.payload)
    return tag


def tags_of(batch: Batch) -> bytes:
    """All of its messages as tags."""
    return b"".join([tag_of(message) for message in batch.messages])


class LiveViewer:
    """A viewer's session from its accept to its end. Without a publisher it waits in silence."""

    event = "rtmp.stop"

    def __init__(self, connection: ViewerConnection, accept: PlayAccept, live: LiveStream) -> None:
        self.connection = connection
        self.stream_id = STREAM_ID
        self.session_id = accept["session_id"]
        self.path = accept["path"]
        self.live = live
        config = connection.server.config
        self.subscriber = Subscriber(
            STREAM_ID,
            config.queue,
            self._wake,
            write=self._write,
            form=tags_of,
            session_id=self.session_id,
            is_counted=not accept.get("preview", False),
            takes=0,  # HTTP has no way to say more.
        )
        self._outlet = connection.outlet
        self._batch_bytes = config.write_high_bytes
        self._has_begun = False
        self._held: list[SharedMessage] = []
        self._stopped = False

    def start(self, now: float) -> None:
        self.live.subscribe(self.subscriber, now)

    def stop(self, now: float) -> Totals:
        self._stopped = True
        totals = self.subscriber.totals(now)
        self.live.unsubscribe(self.subscriber)
        return totals

    def status_of(self, reason: EndReason) -> Status | None:
        return None

    def _write(self, tags: bytes) -> bool:
        """What all viewers are given that are level."""
        if self._stopped or not self._outlet.is_open:
            return False
        self.connection.write_media([tags], len(tags))
        return True

    def _wake(self, _subscriber: Subscriber) -> None:
        self.connection.server.flusher.mark(self)

    def flush(self) -> None:
        """Write what waits, unless the peer is behind: what stays in the queue can still be dropped."""
        if self._stopped or not self._outlet.is_open:
            return
        messages = self.subscriber.take_messages(self._batch_bytes)
        if not self._has_begun:
            messages = self._begin(messages)
        tags = [message.tag or tag_of(message) for message in messages]
        if tags:
            self.connection.write_media(tags, sum(map(len, tags)))
        if self._has_begun and not self.subscriber.pending_messages and self._outlet.is_open:
            self.live.catch_up(self.subscriber)
        self.resume()

    def _begin(self, messages: list[SharedMessage]) -> list[SharedMessage]:
        """What was held back and these, once they tell what the file's header names: players wait for all of that."""
        held = self._held = [*self._held, *messages]
        if len(held) < HELD_MESSAGES and not any(message.is_frame for message in held):
            return []
        self._has_begun = True
        self._held = []
        kinds = {message.kind for message in held}
        media = self.live.media
        start = file_start(
            audio="audio" in kinds or "audio_codec" in media, video="video" in kinds or "video_codec" in media
        )
        self.connection.write_media([start], len(start))
        return held

    def is_too_slow(self, now: float) -> bool:
        return self.subscriber.is_too_slow(now)

    def has_ended(self, now: float, patience_s: float) -> bool:
        """Whether its stream has: HTTP and WebSocket can tell so by their own end alone."""
        return self.live.has_ended(self.subscriber, now, patience_s)

    def broken(self, error: Exception) -> None:
        self.connection.broken(error)

    def resume(self) -> None:
        """Go on with what is left, if there is anything and the peer takes it."""
        if self.subscriber.pending_messages and self._outlet.is_open:
            self.connection.loop.call_soon(flush_one, self)
