"""What both ends do with messages that hold several things: aggregates, and the events of shared objects."""

from functools import partial
from typing import Final

from ingest.rtmp.connection import MEDIA_PER_MESSAGE, Connection, Handler
from ingest.rtmp.events import SharedObjectReceived, UnknownMessage
from ingest.rtmp.messages.aggregate import decode_aggregate
from ingest.rtmp.messages.message import MessageType
from ingest.rtmp.messages.shared_object import decode_shared_object

MEDIA: Final = frozenset({MessageType.AUDIO, MessageType.VIDEO})
AGGREGATED: Final = MEDIA | {MessageType.DATA_AMF0, MessageType.DATA_AMF3}
"""What aggregates may hold: commands would have to stop the reader, and control is not of a message stream."""


def on_aggregate(connection: Connection, timestamp: int, stream_id: int, payload: bytes) -> None:
    """Each message goes the way of its type. One that has no place here, and a rest, are reported as unknown."""
    connection.require_connected()
    parts, rest = decode_aggregate(timestamp, payload, connection.left * MEDIA_PER_MESSAGE)
    connection.spend(1 + len(parts) // MEDIA_PER_MESSAGE)
    connection.media_messages += len(parts)
    for type_id, sent_at, body in parts:
        if type_id not in MEDIA:
            connection.charge(type_id, body)
        if type_id in AGGREGATED:
            connection.handlers[type_id](connection, sent_at, stream_id, body)
        else:
            connection.report(UnknownMessage(type_id, stream_id, body))
    if rest:
        connection.report(UnknownMessage(MessageType.AGGREGATE, stream_id, rest))


def on_shared_object(
    connection: Connection,
    timestamp: int,
    stream_id: int,
    payload: bytes,
    *,
    type_id: int = MessageType.SHARED_OBJECT_AMF0,
) -> None:
    connection.require_connected()
    decode = partial(decode_shared_object, amf3=type_id == MessageType.SHARED_OBJECT_AMF3)
    found = connection.read_or_report(decode, type_id, stream_id, payload)
    if found is not None:
        connection.report(SharedObjectReceived(found.name, found.version, found.persistent, found.events))


BUNDLES: Final[dict[int, Handler]] = {
    MessageType.AGGREGATE: on_aggregate,
    MessageType.SHARED_OBJECT_AMF0: on_shared_object,
    MessageType.SHARED_OBJECT_AMF3: partial(on_shared_object, type_id=MessageType.SHARED_OBJECT_AMF3),
}
