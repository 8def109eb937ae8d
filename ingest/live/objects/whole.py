"""All properties of an object, as clients that begin to use it are sent them.

They are parted among messages, each with as many as its size allows, and the events of each are encoded once for an
encoding. What is set or deleted makes its own part anew, so that a client more costs hardly more than its bytes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ingest.live.objects.values import Stored, encoded_events, in_chunks, restore
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages.shared_object import Change, Clear, SharedObject, UseSuccess

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


class Whole:
    """`bytes`: what is kept of encoded messages."""

    __slots__ = ("_last", "_part_of", "_parts", "bytes")

    def __init__(self) -> None:
        self._parts: dict[_Part, None] = {}
        self._part_of: dict[str, _Part] = {}
        self._last: _Part | None = None
        """Where new properties go while there is room."""
        self.bytes = 0

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
        """All that was encoded."""
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
                self.bytes += len(events)
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
        self.bytes -= sum(map(len, part.events.values()))
        part.events.clear()
