"""Values of properties: as they are kept, and as clients of both encodings are sent them.

What is kept is bytes, so that what it takes is known: AMF0, or the marker 11 and AMF3 if it came so. Each is encoded by
itself, since references count from the beginning of a message, and can't be put together to messages as it is.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from ingest.live.shared import OUT_CHUNK_SIZE
from ingest.rtmp import amf0
from ingest.rtmp.chunks import CSID_COMMAND
from ingest.rtmp.chunks.writer import encode_message
from ingest.rtmp.errors import LocalProtocolError
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages.shared_object import (
    Change,
    SendMessage,
    SharedObject,
    SharedObjectEvent,
    encode_events,
    join_shared_object,
)
from ingest.rtmp.messages.values import in_amf3


class Stored(NamedTuple):
    """A value."""

    data: bytes
    size: int
    """Bytes of the longer of its forms."""


def plain(value: Any) -> Any:
    """The value for those who read AMF0 only."""
    return amf0.Plain().convert(value)


def store(value: Any, *, amf3: bool) -> Stored | None:
    """None for what has no form in one of the encodings. Without `amf3` the value is plain."""
    try:
        as_amf0, as_amf3 = amf0.encode(plain(value)), amf0.encode(in_amf3(value))
    except LocalProtocolError:
        return None
    return Stored(as_amf3 if amf3 else as_amf0, max(len(as_amf0), len(as_amf3)))


def restore(data: bytes, limits: Limits) -> tuple[Any, int]:
    """The value, and how many elements it has. Raises RemoteProtocolError for what no `store` has made."""
    decoder = amf0.Decoder(data, 0, limits, limits.amf_elements)
    value = decoder.value(0)
    return value, limits.amf_elements - decoder.elements


def restored(data: bytes, limits: Limits) -> Stored:
    """A value that was kept, with its size. Raises RemoteProtocolError for what no `store` has made."""
    again = store(restore(data, limits)[0], amf3=True)
    return Stored(data, max(len(data), again.size if again else 0))


def encoded(content: SharedObject, *, amf3: bool) -> bytes:
    """The message in chunks, which all clients of this encoding can be sent."""
    return in_chunks(content, encoded_events(content.events, amf3=amf3), amf3=amf3)


def encoded_events(events: Iterable[SharedObjectEvent], *, amf3: bool) -> bytes:
    """All of them are there at once: values that come again are known by their identity."""
    return encode_events(events if amf3 else [_plain(event) for event in events], amf3=amf3)


def in_chunks(content: SharedObject, events: bytes, *, amf3: bool) -> bytes:
    """The same with events that were encoded before, in place of its own."""
    message = join_shared_object(content, events, amf3=amf3)
    return encode_message(message, chunk_stream_id=CSID_COMMAND, chunk_size=OUT_CHUNK_SIZE)


def _plain(event: SharedObjectEvent) -> SharedObjectEvent:
    if isinstance(event, Change):
        return Change(event.name, plain(event.value))
    if isinstance(event, SendMessage):
        return SendMessage(event.handler, plain(event.values))
    return event
