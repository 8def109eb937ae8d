"""What comes of one message of a client: its steps are done one after the other, then all are told of them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic

from ingest.live.shared_objects.state import (
    LiveObject,
    M,
    Put,
    Refused,
    Step,
    encoded,
    restore,
)
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

if TYPE_CHECKING:
    from ingest.live.shared_objects.registry import ObjectRegistry

NO_WRITE: Final = "SharedObject.NoWriteAccess"

JOIN_BYTES_PER_UNIT: Final = 64
"""Of an object that a new client is sent, as each may be an AMF value. See `ObjectLimits.work_per_s`."""


@dataclass(frozen=True, slots=True)
class Delivery(Generic[M]):
    """A message, the same for all of its receivers but for the encoding."""

    receivers: Sequence[M]
    content: SharedObject
    cause: M
    units: int = 0
    """Work that making it was, in those of `ObjectLimits.work_per_s`."""
    data: bytes | None = None
    """For one receiver, in its encoding: the messages, where they were encoded before."""

    def encoded(self, *, amf3: bool) -> bytes:
        return encoded(self.content, amf3=amf3) if self.data is None else self.data


@dataclass(slots=True)
class ChangeBatch(Generic[M]):
    objects: "ObjectRegistry[M]"
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
            data = self.objects.whole(shared, member)
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
        shared, wire = self.shared, self.objects.wire
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
        refused = None if self.member in self.shared.members else self.objects.join(self.shared, self.member)
        if refused:
            self.statuses[refused] = None
        else:
            self.joined = True

    def _release(self, _step: Release) -> None:
        self.objects.release(self.shared, self.member)

    def _put(self, step: Put) -> None:
        if not self._may_write():
            return
        if step.stored is None:
            self.answer.append(Success(step.name))
            self._remove(step.name)
            return
        shared, objects, limits = self.shared, self.objects, self.objects.limits
        cost = shared.cost(step.name, step.stored)
        if (
            (step.name not in shared.slots and len(shared.slots) >= limits.slots)
            or (cost > 0 and shared.size + cost > limits.object_bytes)
            or (cost > 0 and not objects.has_room(cost))
        ):
            self._refused(Refused(step.name))
            return
        objects.set(shared, step.name, step.stored)
        self.changed = True
        self.answer.append(Success(step.name))
        self.others.append(Change(step.name, restore(step.stored.data, objects.wire)[0]))

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
        if self.objects.remove(self.shared, name):
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
    RequestRemove: ChangeBatch._request_remove,
    SendMessage: ChangeBatch._send,
    Refused: ChangeBatch._refused,
}
