"""The shared objects of a node: what becomes of a client's message, and who is sent what."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol

from ingest.live.shared_objects.changes import NO_WRITE, ChangeBatch, Delivery
from ingest.live.shared_objects.state import (
    OBJECT_BYTES,
    LiveObject,
    M,
    ObjectLimits,
    Step,
    Stored,
    read_steps,
    waiting_size,
)
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages.shared_object import Release, SendMessage, SharedObject, SharedObjectEvent, Status, Use
from ingest.rtmp.status import level_of

NO_READ: Final = "SharedObject.NoReadAccess"
NOT_CREATED: Final = "SharedObject.ObjectCreationFailed"
BAD_PERSISTENCE: Final = "SharedObject.BadPersistence"


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
        deliveries = self._act(shared, member, steps)
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
        deliveries = self._act(shared, member, [])
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

    def _act(self, shared: LiveObject[M], member: M, steps: list[Step]) -> list[Delivery[M]]:
        deliveries = ChangeBatch(self, shared, member).act(self._take_waiting(shared, member) + steps)
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
