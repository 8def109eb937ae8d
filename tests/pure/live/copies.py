"""Clients of shared objects without sockets: what each knows of an object, as the bytes of its messages say."""

from collections import deque
from collections.abc import Mapping
from typing import Any

from ingest.live.shared_objects import Access, Delivery, LiveObject, Member, ObjectLimits, ObjectRegistry, restored
from ingest.rtmp.chunk_reader import ChunkReader
from ingest.rtmp.limits import DEFAULT_LIMITS
from ingest.rtmp.messages import MessageType
from ingest.rtmp.messages.shared_object import (
    Change,
    Clear,
    Release,
    Remove,
    RequestChange,
    SendMessage,
    SharedObject,
    SharedObjectEvent,
    Status,
    Success,
    Use,
    decode_shared_object,
)
from tests.pure.rtmp.wire import set_chunk_size

NO_READ = "SharedObject.NoReadAccess"
NO_WRITE = "SharedObject.NoWriteAccess"
NOT_CREATED = "SharedObject.ObjectCreationFailed"
BAD_PERSISTENCE = "SharedObject.BadPersistence"

CHUNK_SIZE = 60_000


class Copy(Member):
    """A client: it asks, and keeps what it is told. Both directions may have messages under way."""

    def __init__(self, app: str = "room", access: Access = "persistent", *, amf3: bool = False) -> None:
        super().__init__(app, access, amf3)
        self.properties: dict[str, Any] = {}
        self.version = 0
        self.shares = False
        """Whether its latest word on it was Use."""
        self.messages: list[tuple[str, list[Any]]] = []
        self.statuses: list[str] = []
        self.received: list[SharedObject] = []
        self.asked: deque[tuple[str, list[SharedObjectEvent]]] = deque()
        self.told: deque[bytes] = deque()
        self._pending: dict[str, deque[Any]] = {}
        self._reader = ChunkReader(DEFAULT_LIMITS)
        self._reader.feed(set_chunk_size(CHUNK_SIZE))
        self._reader.read()
        self._reader.keep()

    def ask(self, *events: SharedObjectEvent, name: str = "chat") -> None:
        for event in events:
            if isinstance(event, Use | Release):
                self.shares = isinstance(event, Use)
            elif isinstance(event, RequestChange):
                self._pending.setdefault(event.name, deque()).append(event.value)
        self.asked.append((name, list(events)))

    def hear(self) -> None:
        """Take the next message, or those that came with it."""
        self._reader.feed(self.told.popleft())
        for type_id, _, _, payload in self._reader.read():
            amf3 = type_id == MessageType.SHARED_OBJECT_AMF3
            assert amf3 == self.amf3
            found = decode_shared_object(bytes(payload), DEFAULT_LIMITS, amf3=amf3)
            self.received.append(found)
            self.version = found.version
            for event in found.events:
                self._apply(event)
        self._reader.keep()

    def _apply(self, event: SharedObjectEvent) -> None:
        match event:
            case Status(code):
                self.statuses.append(code)
            case Success(name):
                self._accepted(name, self._pending[name].popleft())
            case _ if not self.shares:  # Said before the client's Release arrived.
                pass
            case Clear():
                self.properties.clear()
            case Change(name, value):
                self.properties[name] = value
            case Remove(name):
                self.properties.pop(name, None)
            case SendMessage(handler, values):
                self.messages.append((handler, values))

    def _accepted(self, name: str, value: Any) -> None:
        if value is None:
            self.properties.pop(name, None)
        else:
            self.properties[name] = value


class Node:
    """The objects, and where persistent ones are kept."""

    def __init__(self, **limits: int) -> None:
        self.objects: ObjectRegistry[Copy] = ObjectRegistry(self, ObjectLimits(**limits), DEFAULT_LIMITS)
        self.loading: list[LiveObject[Copy]] = []
        self.asked_through: list[Copy] = []
        self.saved: dict[str, bytes] = {}
        self.version = 0
        self.takes = True
        """Whether what is to be saved is taken."""

    # --- Keeper ---

    def load(self, shared: LiveObject[Copy], member: Copy) -> None:
        self.loading.append(shared)
        self.asked_through.append(member)

    def changed(self, shared: LiveObject[Copy]) -> None:
        pass

    def save(self, shared: LiveObject[Copy], member: Copy) -> bool:
        if self.takes:
            self.version = shared.version
            for name, data in shared.take_unsaved().items():
                if data is None:
                    self.saved.pop(name, None)
                else:
                    self.saved[name] = data
        return self.takes

    # --- The network ---

    def process(self, copy: Copy, *, persistent: bool = False) -> None:
        """The next message that the client sent."""
        name, events = copy.asked.popleft()
        self.deliver(self.objects.handle(copy, name, events, persistent=persistent))

    def deliver(self, deliveries: list[Delivery[Copy]]) -> None:
        for delivery in deliveries:
            for copy in delivery.receivers:
                copy.told.append(delivery.encoded(amf3=copy.amf3))

    def loaded(self, slots: Mapping[str, bytes] | None = None, version: int | None = None) -> None:
        """All that waited goes on at once."""
        shared = self.loading.pop()
        found = {
            name: restored(data, DEFAULT_LIMITS) for name, data in (self.saved if slots is None else slots).items()
        }
        self.deliver(self.objects.loaded(shared, self.version if version is None else version, found))
        for copy in list(shared.pending):
            self.deliver(self.objects.resume(shared, copy))

    def ask(self, copy: Copy, *events: SharedObjectEvent, persistent: bool = False) -> None:
        copy.ask(*events)
        self.settle(copy, persistent=persistent)

    def settle(self, *copies: Copy, persistent: bool = False) -> None:
        """Everything that is under way arrives."""
        for copy in copies:
            while copy.asked:
                self.process(copy, persistent=persistent)
        for copy in copies:
            while copy.told:
                copy.hear()


def heard(copy: Copy) -> list[list[SharedObjectEvent]]:
    """The events of each message that it got since this was asked last."""
    found = [message.events for message in copy.received]
    copy.received.clear()
    return found


def shared(node: Node, *copies: Copy) -> None:
    """All use the object; what they were told of that is forgotten."""
    for copy in copies:
        copy.ask(Use())
    node.settle(*copies)
    for copy in copies:
        copy.received.clear()
