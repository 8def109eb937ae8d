"""A live stream for who publishes it again: another node, for its own players, or another server.

They are sent what players are, in the same bytes, but for data that later players are to have: those are as their
publisher sent them, behind "@setDataFrame", as only that tells the next server to keep them too."""

from functools import lru_cache
from typing import Final

from ingest.live.message import SharedMessage
from ingest.live.subscriber import Batch, Form, Subscriber, in_chunks
from ingest.rtmp.amf import amf0
from ingest.rtmp.messages.commands import SET_DATA_FRAME

MARK: Final = amf0.encode(SET_DATA_FRAME)


@lru_cache(maxsize=64)
def as_published(stream_id: int) -> Form:
    """In chunks, on this message stream."""

    def form(batch: Batch) -> bytes:
        if not batch.has_kept_data:
            return batch.form(in_chunks(stream_id))
        return b"".join([encoded(message, stream_id) for message in batch.messages])

    return form


def encoded(message: SharedMessage, stream_id: int) -> bytes:
    """The message in chunks, as its publisher sent it."""
    is_kept = message.kind == "data" and message.is_header
    return (message.marked(MARK) if is_kept else message).encoded(stream_id)


def taken(subscriber: Subscriber, most: int) -> list[bytes]:
    """Of what waits in its queue, about so many bytes."""
    before = subscriber.sent_bytes
    parts = [encoded(message, subscriber.stream_id) for message in subscriber.take_messages(most)]
    subscriber.count_sent(before + sum(map(len, parts)) - subscriber.sent_bytes)
    return parts
