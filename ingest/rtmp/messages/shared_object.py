"""Shared object messages (RTMP 1.0, section 7.1.3): an object's name and version, then events.

Type 19 is AMF0; type 16 has the format byte 0 before the same, in which values may be in AMF3 behind the marker 11.
Should a sender leave that marker out, the message is read all the same: as one whose values are all in AMF3, but for
names of handlers, if it makes no sense otherwise. The specification names the events and no sizes. As Flash Media
Server's clients, Red5 and crtmpserver have them:

    name (text)  version (4 bytes)  flags (4: 2 is persistent)  unused (4)
    and to the end:  event type (1)  length of its body (4)  body

A text is its length (2) and UTF-8, without a marker. Values are those of AMF, with their markers.

| event              | sent by | body                                      |
|--------------------|---------|-------------------------------------------|
| 1 Use              | client  |                                           |
| 2 Release          | client  |                                           |
| 3 Request Change   | client  | property (text), value                    |
| 4 Change           | server  | property (text), value; more of them      |
| 5 Success          | server  | property (text)                           |
| 6 SendMessage      | both    | handler (value: a string), values         |
| 7 Status           | server  | code (text), level (text)                 |
| 8 Clear            | server  |                                           |
| 9 Remove           | server  | property (text)                           |
| 10 Request Remove  | client  | property (text)                           |
| 11 Use Success     | server  |                                           |

Where a body goes on, it is read as several events of its type; each is written in a body of its own.
"""

import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from ingest.rtmp.amf import amf0
from ingest.rtmp.errors import LimitExceeded, RemoteProtocolError
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages import Message, MessageType
from ingest.rtmp.messages.commands import FORMAT_BYTE, in_amf3

_u8: Final = struct.Struct(">B")
_u16: Final = struct.Struct(">H")
_u32: Final = struct.Struct(">I")
_head: Final = struct.Struct(">III")
_event: Final = struct.Struct(">BI")

_STRING_MARKER: Final = bytes([amf0.STRING])

PERSISTENT: Final = 2
"""Of the flags. Flash Media Server sets others, of which nothing is known."""


class _Decoder(amf0.Decoder):
    """`end` is that of the event's body, or else of the message."""

    __slots__ = ()

    def handler(self) -> Any:
        """The value that should name one."""
        return self.value(0)

    def short_text(self) -> str:
        size = self.take(_u16)
        if size > self.end - self.position:
            raise RemoteProtocolError("a name in a shared object is cut short")
        if size > self.limits.shared_object_name_bytes:
            raise LimitExceeded(f"a name of more than {self.limits.shared_object_name_bytes} bytes in a shared object")
        return self.text(size)

    def properties_left(self) -> Iterator[str]:
        """Names, one at least. The caller reads what follows each."""
        while True:
            yield self.short_text()
            if self.position >= self.end:
                return


class _BareDecoder(_Decoder):
    """Values are in AMF3 without the marker."""

    __slots__ = ()

    def handler(self) -> Any:
        is_amf0 = self.data[self.position : self.position + 1] == _STRING_MARKER
        return super().value(0) if is_amf0 else self.value(0)

    def value(self, depth: int) -> Any:
        return self.avmplus(depth)


class _Encoder(amf0.Encoder):
    __slots__ = ("in_amf3",)

    def __init__(self, out: bytearray, *, in_amf3: bool) -> None:
        super().__init__(out)
        self.in_amf3 = in_amf3

    def any_value(self, value: Any) -> None:
        self.value(in_amf3(value) if self.in_amf3 else value)


@dataclass(frozen=True, slots=True)
class SharedObjectEvent:
    """One of the table above; without a body, unless its class says so."""

    @classmethod
    def read(cls, decoder: _Decoder) -> Iterator["SharedObjectEvent"]:
        """Those of one body, once the decoder's end is the body's."""
        yield cls()

    def write(self, encoder: _Encoder) -> None:
        """Appends the body. Raises LocalProtocolError."""


@dataclass(frozen=True, slots=True)
class _Named(SharedObjectEvent):
    name: str

    @classmethod
    def read(cls, decoder: _Decoder) -> Iterator[SharedObjectEvent]:
        return (cls(name) for name in decoder.properties_left())

    def write(self, encoder: _Encoder) -> None:
        encoder.name(self.name)


@dataclass(frozen=True, slots=True)
class _Property(SharedObjectEvent):
    name: str
    value: Any

    @classmethod
    def read(cls, decoder: _Decoder) -> Iterator[SharedObjectEvent]:
        return (cls(name, decoder.value(0)) for name in decoder.properties_left())

    def write(self, encoder: _Encoder) -> None:
        encoder.name(self.name)
        encoder.any_value(self.value)


class Use(SharedObjectEvent):
    __slots__ = ()


class Release(SharedObjectEvent):
    __slots__ = ()


class RequestChange(_Property):
    """Null and undefined delete the property."""

    __slots__ = ()


class Change(_Property):
    __slots__ = ()


class Success(_Named):
    """The property that this client asked to set was set."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class SendMessage(SharedObjectEvent):
    """A call of a handler of all who share the object."""

    handler: str
    values: list[Any] = field(default_factory=list)

    @classmethod
    def read(cls, decoder: _Decoder) -> Iterator[SharedObjectEvent]:
        handler = decoder.handler()
        if not isinstance(handler, str):
            raise RemoteProtocolError("a message to a shared object without the name of its handler")
        yield cls(handler, decoder.rest())

    def write(self, encoder: _Encoder) -> None:
        encoder.value(self.handler)
        for value in self.values:
            encoder.any_value(value)


@dataclass(frozen=True, slots=True)
class Status(SharedObjectEvent):
    """What went wrong, as 'SharedObject.NoReadAccess' and 'error'."""

    code: str
    level: str

    @classmethod
    def read(cls, decoder: _Decoder) -> Iterator[SharedObjectEvent]:
        yield cls(decoder.short_text(), decoder.short_text())

    def write(self, encoder: _Encoder) -> None:
        encoder.name(self.code)
        encoder.name(self.level)


class Clear(SharedObjectEvent):
    __slots__ = ()


class Remove(_Named):
    __slots__ = ()


class RequestRemove(_Named):
    __slots__ = ()


class UseSuccess(SharedObjectEvent):
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class OtherEvent(SharedObjectEvent):
    """One that the specification doesn't know: Flash Media Server has 12, 13 and 14."""

    event_type: int
    body: bytes

    def write(self, encoder: _Encoder) -> None:
        encoder.out += self.body


_KINDS: Final[list[type[SharedObjectEvent]]] = [
    *(Use, Release, RequestChange, Change, Success, SendMessage),
    *(Status, Clear, Remove, RequestRemove, UseSuccess),
]
EVENTS: Final = dict(enumerate(_KINDS, 1))
EVENT_TYPES: Final = {kind: event_type for event_type, kind in EVENTS.items()}


@dataclass(slots=True)
class SharedObject:
    name: str
    version: int
    persistent: bool
    events: list[SharedObjectEvent]


def decode_shared_object(payload: bytes, limits: Limits, *, amf3: bool = False) -> SharedObject:
    """Of type 19, or 16 if `amf3`. What follows in a body that is longer than its event is left out.

    Raises RemoteProtocolError.
    """
    if not amf3:
        return _read(_Decoder(payload, 0, limits, limits.command_amf_elements))
    if not payload.startswith(FORMAT_BYTE):
        raise RemoteProtocolError("a shared object message in an unknown format")
    try:
        return _read(_Decoder(payload, 1, limits, limits.command_amf_elements))
    except RemoteProtocolError:
        # In another form what is read as AMF0 means anything, also something that goes over a limit.
        with suppress(RemoteProtocolError):
            return _read(_BareDecoder(payload, 1, limits, limits.command_amf_elements))
        raise


def _read(decoder: _Decoder) -> SharedObject:
    limits = decoder.limits
    name = decoder.short_text()
    version, flags = decoder.take(_u32), decoder.take(_u32)
    decoder.take(_u32)
    found = SharedObject(name, version, bool(flags & PERSISTENT), [])
    for event in _read_events(decoder, decoder.end):
        if len(found.events) >= limits.shared_object_events:
            raise LimitExceeded(f"more than {limits.shared_object_events} events in a shared object message")
        found.events.append(event)
    return found


def _read_events(decoder: _Decoder, end: int) -> Iterator[SharedObjectEvent]:
    while decoder.position < end:
        decoder.end = end
        event_type = decoder.take(_u8)
        after = decoder.take(_u32) + decoder.position
        if after > end:
            raise RemoteProtocolError("an event of a shared object is cut short")
        decoder.end = after
        if event_type in EVENTS:
            yield from EVENTS[event_type].read(decoder)
            if decoder.position > after:  # Within a value in AMF3, which knows the end of the message alone.
                raise RemoteProtocolError("a value in a shared object is cut short")
        else:
            yield OtherEvent(event_type, decoder.data[decoder.position : after])
        decoder.position = after


def encode_shared_object(content: SharedObject, *, amf3: bool = False) -> Message:
    """Type 19, or 16 if `amf3`. Raises LocalProtocolError."""
    return join_shared_object(content, encode_events(content.events, amf3=amf3), amf3=amf3)


def encode_events(events: Iterable[SharedObjectEvent], *, amf3: bool = False) -> bytes:
    """All of a message's events that have values, as references count from the first. Raises LocalProtocolError."""
    out = bytearray()
    encoder = _Encoder(out, in_amf3=amf3)
    for event in events:
        start = len(out)
        out += bytes(_event.size)
        event_type = event.event_type if isinstance(event, OtherEvent) else EVENT_TYPES[type(event)]
        event.write(encoder)
        _event.pack_into(out, start, event_type, len(out) - start - _event.size)
    return bytes(out)


def join_shared_object(content: SharedObject, events: bytes, *, amf3: bool = False) -> Message:
    """A message with these events, encoded before, and of `content` all but its own. Raises LocalProtocolError."""
    out = bytearray(FORMAT_BYTE if amf3 else b"")
    amf0.Encoder(out).name(content.name)
    out += _head.pack(content.version & 0xFFFFFFFF, PERSISTENT if content.persistent else 0, 0)
    out += events
    return Message(MessageType.SHARED_OBJECT_AMF3 if amf3 else MessageType.SHARED_OBJECT_AMF0, 0, 0, bytes(out))
