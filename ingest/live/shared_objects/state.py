"""One shared object: its properties as they are kept and as clients of both encodings are sent them, and its users.

With what clients may make a node hold, and what one asks for in one message, which is looked at once, before anything
of it is done.

What is kept is bytes, so that what it takes is known: AMF0, or the marker 11 and AMF3 if it came so. Each is encoded by
itself, since references count from the beginning of a message, and can't be put together to messages as it is.

They are parted among messages, each with as many as its size allows, and the events of each are encoded once for an
encoding. What is set or deleted makes its own part anew, so that a client more costs hardly more than its bytes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar

from ingest.live.message import OUT_CHUNK_SIZE
from ingest.rtmp.amf import UNDEFINED, amf0
from ingest.rtmp.amf.amf3_to_amf0 import Amf3ToAmf0
from ingest.rtmp.chunk_writer import CSID_COMMAND, encode_message
from ingest.rtmp.errors import LocalProtocolError
from ingest.rtmp.limits import KIB, MIB, Limits
from ingest.rtmp.messages.commands import in_amf3
from ingest.rtmp.messages.shared_object import (
    Change,
    Clear,
    Release,
    RequestChange,
    RequestRemove,
    SendMessage,
    SharedObject,
    SharedObjectEvent,
    Use,
    UseSuccess,
    encode_events,
    join_shared_object,
)

OBJECT_BYTES: Final = 1 * KIB
"""Counted for an object besides its properties,"""
SLOT_BYTES: Final = 256
"""for a property besides its name and value, and for each request that waits for an object to be loaded."""


@dataclass(frozen=True, slots=True)
class ObjectLimits:
    """What goes over one is refused with a status of the object; over `work_per_s` the connection ends.

    How long names, messages and values nested in values may be is in `ingest.rtmp.Limits`.
    """

    per_connection: int = 64
    """Objects that one client uses at once. Applications with rooms have some ten."""

    per_application: int = 1000
    """Objects of an application instance that are in use."""

    clients: int = 1000
    """Of one object: each of its changes is sent to all of them."""

    slots: int = 1000
    """Properties of an object. A list of users has one for each."""

    value_bytes: int = 32 * KIB
    """A property's value, or those of a message, in the longer of AMF0 and AMF3."""

    object_bytes: int = 256 * KIB
    """All properties of an object; once more for requests that wait until it is loaded. A new client is sent all."""

    node_bytes: int = 64 * MIB
    """All objects of a node, with what waits for them."""

    encoded_bytes: int = 32 * MIB
    """Of a node's objects, as new clients are sent them: kept for the next ones. What is over it is made each time."""

    work_per_s: int = 10_000
    """What a client's requests cause in a second, as a mean over `work_s`: one for each message to a client, for each
    KiB of it, and for each 64 bytes of an object that a new client is sent. About 15 % of a core; a chat of 1,000
    users takes 10 messages a second from each of them."""

    work_s: float = 1.0
    """Of work that may come at once. Short, as it is done at once: some 0.15 s."""


class Stored(NamedTuple):
    data: bytes
    size: int
    """Bytes of the longer of its forms."""


def plain(value: Any) -> Any:
    """The value for those who read AMF0 only."""
    return Amf3ToAmf0().convert(value)


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


@dataclass(frozen=True, slots=True)
class Put:
    name: str
    stored: Stored | None
    """None: it was set to null or undefined, which deletes it."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A value that is too long, or that half of the clients couldn't be sent; of a property, or of a message."""

    name: str | None


Step = Use | Release | Put | RequestRemove | SendMessage | Refused


def read_steps(events: Iterable[SharedObjectEvent], limits: ObjectLimits, *, amf3: bool) -> list[Step]:
    """Leaves out what only servers send, and events that nobody knows. `amf3`: the client's encoding."""
    steps: list[Step] = []
    for event in events:
        if isinstance(event, RequestChange) and (event.value is None or event.value is UNDEFINED):
            steps.append(Put(event.name, None))
        elif isinstance(event, RequestChange):
            stored = _fitting(event.value if amf3 else plain(event.value), limits, amf3=amf3)
            steps.append(Put(event.name, stored) if stored else Refused(event.name))
        elif isinstance(event, SendMessage):
            values = event.values if amf3 else [plain(value) for value in event.values]
            fits = _fitting(values, limits, amf3=amf3)
            steps.append(SendMessage(event.handler, values) if fits else Refused(None))
        elif isinstance(event, Use | Release | RequestRemove):
            steps.append(event)
    return steps


def waiting_size(step: Step) -> int:
    return SLOT_BYTES + (len(step.name) + step.stored.size if isinstance(step, Put) and step.stored else 0)


def _fitting(value: Any, limits: ObjectLimits, *, amf3: bool) -> Stored | None:
    stored = store(value, amf3=amf3)
    return stored if stored is not None and stored.size <= limits.value_bytes else None


PART_BYTES: Final = 1024
"""Of names and values, in a message with several properties. An element of a value takes a byte at least, so none has
more of them than readers take; and to encode one anew takes under a millisecond."""

EVENT_BYTES: Final = 8
"""Counted for each property besides."""

HEAD: Final = encoded_events([UseSuccess(), Clear()], amf3=False)
"""What a client is told before the properties; without a value, so it is the same in both encodings."""


@dataclass(eq=False, slots=True)
class _Part:
    names: dict[str, int] = field(default_factory=dict)
    """Of properties, and what each takes."""
    size: int = 0
    events: dict[bool, bytes] = field(default_factory=dict)
    """What was encoded so far: in AMF3, or not."""


@dataclass(eq=False, repr=False, slots=True)
class InitialState:
    """`held_bytes`: what is kept of encoded messages."""

    _parts: dict[_Part, None] = field(default_factory=dict)
    _part_of: dict[str, _Part] = field(default_factory=dict)
    _last: _Part | None = None
    """Where new properties go while there is room."""
    held_bytes: int = 0

    def put(self, name: str, value: Stored) -> None:
        size = EVENT_BYTES + len(name) + value.size
        part = self._part_of.get(name)
        if part is None or (part.size - part.names[name] + size > PART_BYTES and len(part.names) > 1):
            self.remove(name)
            part = self._with_room(size)
            self._part_of[name] = part
        part.size += size - part.names.get(name, 0)
        part.names[name] = size
        self._changed(part)

    def remove(self, name: str) -> None:
        part = self._part_of.pop(name, None)
        if part is None:
            return
        part.size -= part.names.pop(name)
        self._changed(part)
        if not part.names:
            del self._parts[part]
            if part is self._last:
                self._last = None

    def forget(self) -> None:
        for part in self._parts:
            self._changed(part)

    def messages(self, head: SharedObject, slots: Mapping[str, Stored], limits: Limits, *, amf3: bool) -> bytes:
        """UseSuccess, Clear, and a Change for each property, in chunks. `head`: the object, without events."""
        found = [in_chunks(head, events, amf3=amf3) for events in self._events(slots, limits, amf3)]
        return b"".join(found)

    def _events(self, slots: Mapping[str, Stored], limits: Limits, amf3: bool) -> Iterator[bytes]:
        before = HEAD
        for part in self._parts:
            events = part.events.get(amf3)
            if events is None:
                changes = [Change(name, restore(slots[name].data, limits)[0]) for name in part.names]
                events = part.events[amf3] = encoded_events(changes, amf3=amf3)
                self.held_bytes += len(events)
            yield before + events
            before = b""
        if before:
            yield before

    def _with_room(self, size: int) -> _Part:
        part = self._last
        if part is None or part.size + size > PART_BYTES:
            part = self._last = _Part()
            self._parts[part] = None
        return part

    def _changed(self, part: _Part) -> None:
        self.held_bytes -= sum(map(len, part.events.values()))
        part.events.clear()


Access = Literal["none", "temporary", "persistent"]
"""Which objects an application has: persistent ones besides temporary ones."""


@dataclass(eq=False, slots=True)
class Member:
    """A client. The shell adds how it is reached."""

    app: str
    """With its instance."""
    access: Access
    amf3: bool
    """Whether it is sent values in AMF3."""


M = TypeVar("M", bound=Member)


@dataclass(eq=False, slots=True)
class LiveObject(Generic[M]):
    app: str
    name: str
    persistent: bool
    version: int = 0
    """Grows with each message that changes something."""
    slots: dict[str, Stored] = field(default_factory=dict)
    size: int = 0
    """What the properties take, as bytes are counted."""
    members: dict[M, None] = field(default_factory=dict)
    """Those who use it, in the order in which they came."""
    unsaved: dict[str, bytes | None] = field(default_factory=dict)
    """Of a persistent one: what has become of properties since the latest `take_unsaved`; None: deleted."""
    waiting: dict[M, list[Step]] | None = None
    """While it is being loaded: who wants to use it, and what they asked for."""
    waiting_bytes: int = 0
    loader: M | None = None
    """Through whom it is being loaded."""
    pending: dict[M, list[Step]] = field(default_factory=dict)
    """Once it is loaded: who has waited, and what of theirs is still to be done."""
    whole: InitialState = field(default_factory=InitialState)

    def cost(self, name: str, value: Stored) -> int:
        """By how many bytes the object grows when the property is set."""
        former = self.slots.get(name)
        return value.size + SLOT_BYTES + len(name) if former is None else value.size - former.size

    def set(self, name: str, value: Stored) -> None:
        self.size += self.cost(name, value)
        self.slots[name] = value
        self.whole.put(name, value)
        if self.persistent:
            self.unsaved[name] = value.data

    def remove(self, name: str) -> bool:
        former = self.slots.pop(name, None)
        if former is None:
            return False
        self.size -= former.size + SLOT_BYTES + len(name)
        self.whole.remove(name)
        if self.persistent:
            self.unsaved[name] = None
        return True

    def take_unsaved(self) -> dict[str, bytes | None]:
        taken, self.unsaved = self.unsaved, {}
        return taken
