"""The shared objects of a node: what becomes of a client's message, and who is sent what.

One message's steps are done one after the other, then all are told of them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol

from ingest.live.shared_objects.state import (
    OBJECT_BYTES,
    LiveObject,
    M,
    ObjectLimits,
    Put,
    Refused,
    Step,
    Stored,
    encoded,
    read_steps,
    restore,
    waiting_size,
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

NO_READ: Final = "SharedObject.NoReadAccess"
NOT_CREATED: Final = "SharedObject.ObjectCreationFailed"
BAD_PERSISTENCE: Final = "SharedObject.BadPersistence"
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

    def apply(self, steps: Iterable[Step]) -> list[Delivery[M]]:
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


class ObjectPersistence(Protocol[M]):
    """Where persistent objects come from and go to. None of it is waited for."""

    def load(self, shared: LiveObject[M], member: M) -> None:
        """Ask for the object; `Objects.loaded` or `Objects.failed` follows at any time."""

    def changed(self, shared: LiveObject[M]) -> None:
        """It has something unsaved."""

    def save(self, shared: LiveObject[M], member: M) -> bool:
        """Its last client, this one, is leaving. False: it could not be handed over, and has to be kept."""


@dataclass(eq=False, repr=False)
class ObjectRegistry(Generic[M]):
    """By application instance, persistence and name. An object is here while it is used, or unsaved."""

    _persistence: ObjectPersistence[M]
    limits: ObjectLimits
    wire: Limits
    """What one message of a peer may hold; ours hold no more."""
    _objects: dict[tuple[str, bool, str], LiveObject[M]] = field(default_factory=dict)
    _used: dict[M, dict[LiveObject[M], None]] = field(default_factory=dict)
    _of_app: Counter[str] = field(default_factory=Counter)
    held_bytes: int = 0
    """What all objects take, and what waits for them."""
    encoded_bytes: int = 0
    """What is kept of messages, see `whole`."""

    def __len__(self) -> int:
        return len(self._objects)

    # --- From clients ---

    def handle(
        self, member: M, name: str, events: Iterable[SharedObjectEvent], *, persistent: bool
    ) -> list[Delivery[M]]:
        steps = read_steps(events, self.limits, amf3=member.amf3)
        shared = self._objects.get((member.app, persistent, name))
        if shared is None:
            if not any(isinstance(step, Use) for step in steps):
                return self.refuse(member, name, NO_WRITE, persistent=persistent) if _asks(steps) else []
            refused = self._refusal(member, persistent) or self._no_room(member, name)
            if refused:
                return self.refuse(member, name, refused, persistent=persistent)
            shared = self._make(member, name, persistent)
        if shared.waiting is not None:
            return self._wait(shared, shared.waiting, member, steps)
        deliveries = self._apply(shared, member, steps)
        self._end_unused(shared, member)
        return deliveries

    def leave(self, member: M) -> None:
        for shared in list(self._used.get(member, ())):
            self.release(shared, member)
            if shared.waiting is None:
                self._end_unused(shared, member)
            elif not shared.waiting:
                self._forget(shared)
            elif shared.loader is member:
                shared.loader = next(iter(shared.waiting))
                self._persistence.load(shared, shared.loader)

    # --- From where they are kept ---

    def loaded(self, shared: LiveObject[M], version: int, slots: Mapping[str, Stored]) -> list[Delivery[M]]:
        """The object, as it was saved. What those who wait for it have asked for is done by `resume`, for each."""
        if self.held_bytes + sum(shared.cost(name, value) for name, value in slots.items()) > self.limits.node_bytes:
            return self.failed(shared, NOT_CREATED)
        shared.pending, shared.waiting, shared.loader = shared.waiting or {}, None, None
        shared.version = version
        for name, value in slots.items():
            self.set(shared, name, value)
        shared.take_unsaved()
        return []

    def resume(self, shared: LiveObject[M], member: M) -> list[Delivery[M]]:
        """With what the client asked for before the object was loaded, unless that was done since."""
        if member not in shared.pending:
            return []
        deliveries = self._apply(shared, member, [])
        self._end_unused(shared, member)
        return deliveries

    def failed(self, shared: LiveObject[M], code: str) -> list[Delivery[M]]:
        waiting = list(shared.waiting or ())
        for member in waiting:
            self.release(shared, member)
        self._forget(shared)
        return [
            delivery
            for member in waiting
            for delivery in self.refuse(member, shared.name, code, persistent=shared.persistent)
        ]

    # --- Admission ---

    def _refusal(self, member: M, persistent: bool) -> str | None:
        if member.access == "none":
            return NO_READ
        return BAD_PERSISTENCE if persistent and member.access == "temporary" else None

    def _no_room(self, member: M, name: str) -> str | None:
        limits = self.limits
        no_room = (
            self._of_app[member.app] >= limits.per_application
            or self.held_bytes + OBJECT_BYTES + len(name) > limits.node_bytes
            or self._has_all(member)
        )
        return NOT_CREATED if no_room else None

    def _has_all(self, member: M) -> bool:
        return len(self._used.get(member, ())) >= self.limits.per_connection

    def refuse(self, member: M, name: str, code: str, *, persistent: bool) -> list[Delivery[M]]:
        content = SharedObject(name, 0, persistent, [Status(code, level_of(code))])
        return [Delivery([member], content, member)]

    def _make(self, member: M, name: str, persistent: bool) -> LiveObject[M]:
        shared: LiveObject[M] = LiveObject(member.app, name, persistent)
        self._objects[(member.app, persistent, name)] = shared
        self._of_app[member.app] += 1
        self.held_bytes += OBJECT_BYTES + len(name)
        if persistent:
            shared.waiting = {}
        return shared

    # --- While it is loaded ---

    def _wait(
        self, shared: LiveObject[M], waiting: dict[M, list[Step]], member: M, steps: list[Step]
    ) -> list[Delivery[M]]:
        """Keeps what is asked for. Messages to others have nobody who would get them."""
        if member not in waiting and not any(isinstance(step, Use) for step in steps):
            return self.refuse(member, shared.name, NO_WRITE, persistent=shared.persistent) if _asks(steps) else []
        steps = [step for step in steps if not isinstance(step, SendMessage)]
        cost = sum(map(waiting_size, steps))
        full = shared.waiting_bytes + cost > self.limits.object_bytes or self.held_bytes + cost > self.limits.node_bytes
        if member not in waiting:
            refused = self._refusal(member, shared.persistent) or (
                NOT_CREATED if full or self._has_all(member) or len(waiting) >= self.limits.clients else None
            )
            if refused:
                if not waiting:
                    self._forget(shared)
                return self.refuse(member, shared.name, refused, persistent=shared.persistent)
            waiting[member] = []
            self._used.setdefault(member, {})[shared] = None
        elif full:
            return self.refuse(member, shared.name, NO_WRITE, persistent=shared.persistent)
        shared.waiting_bytes += cost
        self.held_bytes += cost
        waiting[member] += steps
        if shared.loader is None:
            shared.loader = member
            self._persistence.load(shared, member)
        return []

    def _take_waiting(self, shared: LiveObject[M], member: M) -> list[Step]:
        """What it has asked for before the object was loaded, which counts no longer."""
        steps = (shared.pending if shared.waiting is None else shared.waiting).pop(member, [])
        cost = sum(map(waiting_size, steps))
        shared.waiting_bytes -= cost
        self.held_bytes -= cost
        return steps

    def _apply(self, shared: LiveObject[M], member: M, steps: list[Step]) -> list[Delivery[M]]:
        deliveries = ChangeBatch(self, shared, member).apply(self._take_waiting(shared, member) + steps)
        if shared.unsaved:
            self._persistence.changed(shared)
        return deliveries

    # --- What a turn asks for ---

    def has_room(self, cost: int) -> bool:
        return self.held_bytes + cost <= self.limits.node_bytes

    def join(self, shared: LiveObject[M], member: M) -> str | None:
        waited = shared in self._used.get(member, ())
        refused = self._refusal(member, shared.persistent)
        if len(shared.members) >= self.limits.clients or (not waited and self._has_all(member)):
            refused = refused or NOT_CREATED
        if refused:
            self.release(shared, member)
            return refused
        shared.members[member] = None
        self._used.setdefault(member, {})[shared] = None
        return None

    def release(self, shared: LiveObject[M], member: M) -> None:
        shared.members.pop(member, None)
        self._take_waiting(shared, member)
        used = self._used.get(member, {})
        used.pop(shared, None)
        if not used:
            self._used.pop(member, None)

    def set(self, shared: LiveObject[M], name: str, value: Stored) -> None:
        self._count(shared, -1)
        shared.set(name, value)
        self._count(shared, 1)

    def remove(self, shared: LiveObject[M], name: str) -> bool:
        self._count(shared, -1)
        removed = shared.remove(name)
        self._count(shared, 1)
        return removed

    def whole(self, shared: LiveObject[M], member: M) -> bytes:
        self._count(shared, -1)
        head = SharedObject(shared.name, shared.version, shared.persistent, [])
        data = shared.whole.messages(head, shared.slots, self.wire, amf3=member.amf3)
        if self.encoded_bytes + shared.whole.held_bytes > self.limits.encoded_bytes:
            shared.whole.forget()
        self._count(shared, 1)
        return data

    # --- State ---

    def _count(self, shared: LiveObject[M], sign: int) -> None:
        self.held_bytes += sign * shared.size
        self.encoded_bytes += sign * shared.whole.held_bytes

    def _end_unused(self, shared: LiveObject[M], member: M) -> None:
        if not (shared.members or shared.pending) and (not shared.unsaved or self._persistence.save(shared, member)):
            self._forget(shared)

    def _forget(self, shared: LiveObject[M]) -> None:
        key = (shared.app, shared.persistent, shared.name)
        if self._objects.get(key) is shared:
            del self._objects[key]
            self.held_bytes -= OBJECT_BYTES + len(shared.name)
            self._count(shared, -1)
            self._of_app[shared.app] -= 1
            if not self._of_app[shared.app]:
                del self._of_app[shared.app]


def _asks(steps: Iterable[Step]) -> bool:
    """Whether a client that doesn't use the object has to be told that it can't do so."""
    return any(not isinstance(step, Release) for step in steps)
