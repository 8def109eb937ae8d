"""One viewer of a live stream: a subscriber's queue on one side, a response or WebSocket on the other.

What it is sent is an FLV file that ends with the stream. Each message is made a tag once, for all of its viewers.
"""

from typing import Final

from ingest.contracts import PlayAccept
from ingest.flv.tags import FILE_HEADER, HAS_AUDIO, HAS_VIDEO, POINTER_BYTES, SIGNATURE, tag_bytes
from ingest.live import LiveStream, Subscriber
from ingest.live.message import STREAM_ID, WIRE, SharedMessage
from ingest.live.subscriber import Batch
from ingest.server.asgi import DESCRIPTIONS, STREAM_ENDED
from ingest.server.media.connection import MediaConnection
from ingest.server.playing import LiveOutput

HELD_MESSAGES: Final = 64
"""What may come before the first frame, headers in all likelihood, until the file's header is written all the same."""


def file_start(*, audio: bool, video: bool) -> bytes:
    """FLV's header, which tells what the file holds, and the size of no tag before it (FLV 10.1, annex E.2, E.3)."""
    flags = HAS_AUDIO * audio | HAS_VIDEO * video
    return FILE_HEADER.pack(SIGNATURE, 1, flags, FILE_HEADER.size) + bytes(POINTER_BYTES)


def tag_of(message: SharedMessage) -> bytes:
    tag = message.tag
    if tag is None:
        tag = message.tag = tag_bytes(WIRE[message.kind][0], message.timestamp, message.payload)
    return tag


def tags_of(batch: Batch) -> bytes:
    return b"".join([tag_of(message) for message in batch.messages])


class LiveViewer(LiveOutput[MediaConnection]):
    """Without a publisher it waits in silence. Its message stream is the only one, as an RTMP player would have it."""

    def __init__(self, connection: MediaConnection, accept: PlayAccept, live: LiveStream) -> None:
        super().__init__(connection, STREAM_ID, accept["session_id"], accept["path"])
        subscriber = Subscriber(
            STREAM_ID,
            connection.server.config.queue,
            self._wake,
            write=self._write,
            form=tags_of,
            counts_payloads=True,
            held=connection.outlet.held_bytes,
            session_id=self.session_id,
            is_counted=not accept.get("preview", False),
            takes=0,  # HTTP has no way to say more.
        )
        self._follow(live, subscriber)
        self._has_begun = False
        self._held: list[SharedMessage] = []

    def _write(self, tags: bytes) -> bool:
        """What all viewers are given that are at the live edge."""
        if self._stopped or not self._outlet.is_open:
            return False
        self.connection.write_media([tags], len(tags))
        return True

    def flush(self) -> None:
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

    def check_deadlines(self, now: float) -> None:
        """HTTP and WebSocket can tell by their own end alone that the stream has ended."""
        if self.subscriber.is_too_slow(now):
            self.connection.end("too_slow", DESCRIPTIONS["too_slow"])
        elif self.live.has_ended(self.subscriber, now, self.connection.server.config.deadlines.end_players_s):
            self.connection.end("completed", STREAM_ENDED)
