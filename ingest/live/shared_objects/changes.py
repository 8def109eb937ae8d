"""What comes of one message of a client: its steps are done one after the other, then all are told of them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol

from ingest.live.shared_objects.state import (
    Erase,
    LiveObject,
    M,
    ObjectLimits,
    Put,
    Refused,
    Step,
    Stored,
    encoded,
    restore,
)
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages.shared_object import (
    Change,
    Release,
    Remove,
    RequestRemove,
    SendMessage,
    SharedObject,
    SharedObjectEvent,
    Status,
    Success,
    Use,
)
from ingest.rtmp.status import level_of

NO_WRITE: Final = "SharedObject.NoWriteAccess"

JOIN_BYTES_PER_UNIT: Final = 64
"""Of an object that a new client is sent, as each may be an AMF value. See `ObjectLimits.work_per_s`."""


@dataclass(frozen=True, slots=True)
class Delivery(Generic[M]):
    """A message, the same for all of its receivers but for the encoding."""

    receivers: Sequence[M]
    content: SharedObject
    cause: M
    """Whose request it follows from."""
    units: int = 0
    """Work that making it was, in those of `ObjectLimits.work_per_s`."""
    data: bytes | None = None
    """For one receiver, in its encoding: the messages, where they were encoded before."""

    def encoded(self, *, amf3: bool) -> bytes:
        """In chunks."""
        return encoded(self.content, amf3=amf3) if self.data is None else self.data


class ObjectLookup(Protocol[M]):
    """What a message finds: `registry.Objects`."""

    limits: ObjectLimits
    wire: Limits

    def has_room(self, cost: int) -> bool:
        """Whether what objects of the node take may grow by as many bytes."""

    def join(self, shared: LiveObject[M], member: M) -> str | None:
        """The client uses the object. Else the code of the status that says why it can't."""

    def part(self, shared: LiveObject[M], member: M) -> None: ...

    def set(self, shared: LiveObject[M], name: str, value: Stored) -> None: ...

    def remove(self, shared: LiveObject[M], name: str) -> bool: ...

    def whole(self, shared: LiveObject[M], member: M) -> bytes:
        """All that a client which begins to use the object is sent."""


@dataclass(slots=True)
class ChangeBatch(Generic[M]):
    room: ObjectLookup[M]
    shared: LiveObject[M]
    member: M
    answer: list[SharedObjectEvent] = field(default_factory=list)
    others: list[SharedObjectEvent] = field(default_factory=list)
    refused: dict[str, None] = field(default_factory=dict)
    """Properties that were not set: the client is told what they are."""
    statuses: dict[str, None] = field(default_factory=dict)
    joined: bool = False
    changed: bool = False

    def act(self, steps: Iterable[Step]) -> list[Delivery[M]]:
        for step in steps:
            _STEPS[type(step)](self, step)
        if self.changed:
            self.shared.version += 1
        return list(self._deliveries())

    def _deliveries(self) -> Iterator[Delivery[M]]:
        shared, member = self.shared, self.member
        others = [each for each in shared.members if each is not member]
        if self.others and others:
            yield Delivery(others, self._content(self.others), member)
        if self.joined and member in shared.members:
            data = self.room.whole(shared, member)
            yield Delivery([member], self._content([]), member, shared.size // JOIN_BYTES_PER_UNIT, data)
            self.refused.clear()
        statuses = [Status(code, level_of(code)) for code in self.statuses]
        if self.answer or statuses:
            yield Delivery([member], self._content([*self.answer, *statuses]), member)
        if self.refused:
            for events in self._parts(self.refused):
                yield Delivery([member], self._content(events), member, shared.size // JOIN_BYTES_PER_UNIT)

    def _content(self, events: list[SharedObjectEvent]) -> SharedObject:
        shared = self.shared
        return SharedObject(shared.name, shared.version, shared.persistent, events)

    def _parts(self, names: Iterable[str]) -> Iterator[list[SharedObjectEvent]]:
        """What the properties are: in one message, or as many as their sizes ask for."""
        shared, wire = self.shared, self.room.wire
        most_bytes = wire.command_message_bytes // 2
        most_elements = wire.command_amf_elements // 2
        size = elements = 0
        events: list[SharedObjectEvent] = []
        for name in names:
            value = shared.slots.get(name)
            found, count = restore(value.data, wire) if value else (None, 0)
            size += len(name) + (value.size if value else 0)
            elements += count
            full = size > most_bytes or elements > most_elements or len(events) >= wire.shared_object_events
            if full and events:
                yield events
                events, size, elements = [], 0, 0
            events.append(Change(name, found) if value else Remove(name))
        if events:
            yield events

    # --- Steps ---

    def _use(self, _step: Use) -> None:
        refused = None if self.member in self.shared.members else self.room.join(self.shared, self.member)
        if refused:
            self.statuses[refused] = None
        else:
            self.joined = True

    def _release(self, _step: Release) -> None:
        self.room.part(self.shared, self.member)

    def _put(self, step: Put) -> None:
        if not self._may_write():
            return
        shared, room, limits = self.shared, self.room, self.room.limits
        cost = shared.cost(step.name, step.stored)
        if (
            (step.name not in shared.slots and len(shared.slots) >= limits.slots)
            or (cost > 0 and shared.size + cost > limits.object_bytes)
            or (cost > 0 and not room.has_room(cost))
        ):
            self._refused(Refused(step.name))
            return
        room.set(shared, step.name, step.stored)
        self.changed = True
        self.answer.append(Success(step.name))
        self.others.append(Change(step.name, restore(step.stored.data, room.wire)[0]))

    def _erase(self, step: Erase) -> None:
        if self._may_write():
            self.answer.append(Success(step.name))
            self._remove(step.name)

    def _request_remove(self, step: RequestRemove) -> None:
        """The client is told in any case: it waits for that."""
        if self._may_write():
            self.answer.append(Remove(step.name))
            self._remove(step.name)

    def _send(self, step: SendMessage) -> None:
        if self._may_write():
            self.answer.append(step)
            self.others.append(step)

    def _refused(self, step: Refused) -> None:
        if self._may_write():
            self.statuses[NO_WRITE] = None
            if step.name is not None:
                self.refused[step.name] = None

    def _remove(self, name: str) -> None:
        if self.room.remove(self.shared, name):
            self.changed = True
            self.others.append(Remove(name))

    def _may_write(self) -> bool:
        if self.member in self.shared.members:
            return True
        self.statuses[NO_WRITE] = None
        return False


_STEPS: Final[dict[type, Callable[[ChangeBatch[Any], Any], None]]] = {
    Use: ChangeBatch._use,
    Release: ChangeBatch._release,
    Put: ChangeBatch._put,
    Erase: ChangeBatch._erase,
    RequestRemove: ChangeBatch._request_remove,
    SendMessage: ChangeBatch._send,
    Refused: ChangeBatch._refused,
}
