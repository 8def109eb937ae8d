"""Shared objects: what becomes of clients' messages (RTMP 1.0, 7.1.3 and 7.3.2)."""

from collections import deque
from collections.abc import Mapping
from typing import Any

import pytest

from ingest.live.shared_objects import Access, Delivery, LiveObject, Member, ObjectLimits, ObjectRegistry, restored
from ingest.rtmp import RemoteProtocolError
from ingest.rtmp.amf import UNDEFINED, UNSUPPORTED, Date, TypedObject, XmlDocument, amf0, amf3
from ingest.rtmp.chunk_reader import ChunkReader
from ingest.rtmp.limits import DEFAULT_LIMITS
from ingest.rtmp.messages import MessageType
from ingest.rtmp.messages.shared_object import (
    Change,
    Clear,
    OtherEvent,
    Release,
    Remove,
    RequestChange,
    RequestRemove,
    SendMessage,
    SharedObject,
    SharedObjectEvent,
    Status,
    Success,
    Use,
    UseSuccess,
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


def test_use_change_and_message_follow_the_exchange_of_the_specification() -> None:
    node, one, other = Node(), Copy(), Copy()
    node.ask(one, Use())
    assert heard(one) == [[UseSuccess(), Clear()]]
    node.ask(one, RequestChange("colour", "red"))
    assert heard(one) == [[Success("colour")]]
    node.ask(other, Use())
    assert heard(other) == [[UseSuccess(), Clear(), Change("colour", "red")]]
    one.ask(RequestChange("colour", "blue"))
    one.ask(SendMessage("say", ["hello", 1.0]))
    node.settle(one, other)
    said = SendMessage("say", ["hello", 1.0])
    assert heard(one) == [[Success("colour")], [said]]
    assert heard(other) == [[Change("colour", "blue")], [said]]
    assert one.version == other.version == 2


@pytest.mark.parametrize("nothing", [None, UNDEFINED], ids=["null", "undefined"])
def test_null_and_undefined_delete_a_property(nothing: Any) -> None:
    node, one, other = Node(), Copy(), Copy()
    shared(node, one, other)
    one.ask(RequestChange("a", 1.0), RequestChange("a", nothing), RequestChange("b", nothing))
    node.settle(one, other)
    assert heard(one) == [[Success("a"), Success("a"), Success("b")]]
    assert heard(other) == [[Change("a", 1.0), Remove("a")]]
    assert other.properties == {}


def test_a_request_to_remove_is_answered_whether_or_not_there_was_something() -> None:
    node, one, other = Node(), Copy(), Copy()
    shared(node, one, other)
    one.ask(RequestChange("a", True))
    one.ask(RequestRemove("a"))
    one.ask(RequestRemove("a"))
    node.settle(one, other)
    assert heard(one) == [[Success("a")], [Remove("a")], [Remove("a")]]
    assert heard(other) == [[Change("a", True)], [Remove("a")]]
    assert one.version == 2, "the second one changed nothing"


def test_change_sent_along_with_use_is_in_the_answer() -> None:
    """As from a client that kept a copy, and changed it meanwhile: Clear must not take that away."""
    node, one, other = Node(), Copy(), Copy()
    shared(node, one)
    other.ask(Use(), RequestChange("mine", 5.0))
    node.settle(one, other)
    assert heard(other) == [[UseSuccess(), Clear(), Change("mine", 5.0)], [Success("mine")]]
    assert heard(one) == [[Change("mine", 5.0)]]


def test_repeated_use_sends_the_whole_object_again() -> None:
    node, one = Node(), Copy()
    shared(node, one)
    one.ask(RequestChange("a", 1.0))
    node.ask(one, Use())
    assert heard(one)[-1] == [UseSuccess(), Clear(), Change("a", 1.0)]


def test_client_that_released_an_object_gets_and_writes_nothing_more() -> None:
    node, one, other = Node(), Copy(), Copy()
    shared(node, one, other)
    one.ask(Release())
    other.ask(RequestChange("a", 1.0))
    one.ask(RequestChange("a", 2.0), SendMessage("say"))
    node.settle(one, other)
    assert heard(one) == [[Status(NO_WRITE, "error")]]
    assert other.properties == {"a": 1.0}


def test_a_temporary_object_ends_with_its_last_client() -> None:
    node, one, other = Node(), Copy(), Copy()
    shared(node, one, other)
    one.ask(RequestChange("a", 1.0))
    node.settle(one, other)
    node.objects.leave(one)
    one = Copy()
    shared(node, one)
    assert one.properties == {"a": 1.0}
    node.ask(other, Release())
    node.objects.leave(one)
    assert (len(node.objects), node.objects.held_bytes) == (0, 0)
    again = Copy()
    shared(node, again)
    assert again.properties == {}


def test_names_applications_and_persistence_tell_objects_apart() -> None:
    """As Flash Media Server has it: an object of the other persistence is another one."""
    node = Node()
    one, room = Copy(), Copy(app="room/two")
    for copy, name, persistent in ((one, "a", False), (one, "b", False), (room, "a", False), (one, "a", True)):
        copy.ask(Use(), RequestChange("is", f"{copy.app} {name} {persistent}"), name=name)
        node.process(copy, persistent=persistent)
    node.loaded({}, 0)
    told = set()
    for copy in (one, room):
        while copy.told:
            copy.hear()
        for found in copy.received:
            told |= {(found.name, found.persistent, event.value) for event in found.events if isinstance(event, Change)}
    assert told == {
        ("a", False, "room a False"),
        ("b", False, "room b False"),
        ("a", False, "room/two a False"),
        ("a", True, "room a True"),
    }
    assert len(node.objects) == 4


def test_events_that_only_servers_send_mean_nothing() -> None:
    node, one, other = Node(), Copy(), Copy()
    shared(node, one, other)
    one.ask(Change("a", 1.0), Remove("a"), Clear(), UseSuccess(), Success("a"), Status("a", "b"), OtherEvent(12, b"1"))
    node.settle(one, other)
    assert heard(one) == heard(other) == []


def test_each_client_gets_values_in_its_own_encoding() -> None:
    """Bytes have no form in AMF0; all else is the same."""
    node, old, new, newer = Node(), Copy(), Copy(amf3=True), Copy(amf3=True)
    shared(node, old, new, newer)
    values = {
        "bytes": b"\x00\xff",
        "vector": amf3.Vector(amf3.Items.INT, [1, 2]),
        "object": amf3.Object("Point", {"x": 1, "y": [2.5]}, sealed=["x", "y"]),
        "date": Date(1e12),
    }
    for name, value in values.items():
        new.ask(RequestChange(name, value))
    old.ask(RequestChange("typed", TypedObject("Point", {"x": 1.0})), RequestChange("list", [1.0, {"a": "b"}]))
    node.settle(new, old, newer)
    late_old, late_new = Copy(), Copy(amf3=True)
    shared(node, late_old, late_new)
    plain = {
        "bytes": UNSUPPORTED,
        "vector": [1.0, 2.0],
        "object": TypedObject("Point", {"x": 1.0, "y": [2.5]}),
        "date": Date(1e12),
    }
    theirs = {"typed": TypedObject("Point", {"x": 1.0}), "list": [1.0, {"a": "b"}]}
    assert old.properties == late_old.properties == plain | theirs
    assert newer.properties == late_new.properties == values | theirs


def test_a_value_in_amf3_from_a_client_of_amf0_is_kept_in_amf0() -> None:
    """It may send one, behind the marker, but has to be sent it again in what it agreed on."""
    node, old, new = Node(), Copy(), Copy(amf3=True)
    shared(node, old, new)
    old.ask(RequestChange("a", amf3.Vector(amf3.Items.INT, [1])), SendMessage("say", [amf3.Xml("<a/>")]))
    node.settle(old, new)
    assert new.properties == {"a": [1.0]}
    assert new.messages == old.messages == [("say", [XmlDocument("<a/>")])]


def test_values_with_shared_references_reach_clients_unchanged() -> None:
    inner: list[Any] = [1.0]
    node, one, other = Node(), Copy(), Copy()
    shared(node, one, other)
    one.ask(RequestChange("a", [inner, inner]), RequestChange("b", {"x": inner, "y": inner}))
    node.settle(one, other)
    late, late_new = Copy(), Copy(amf3=True)
    shared(node, late, late_new)
    for copy in (other, late, late_new):
        assert copy.properties == {"a": [[1.0], [1.0]], "b": {"x": [1.0], "y": [1.0]}}


def test_a_value_that_half_of_the_clients_could_not_be_sent_is_refused() -> None:
    node, one = Node(), Copy()
    shared(node, one)
    node.ask(one, RequestChange("a", {"": 1.0}), SendMessage("say", [{"": 1.0}]))
    assert heard(one) == [[Status(NO_WRITE, "error")], [Remove("a")]]


@pytest.mark.parametrize(
    ("access", "persistent", "code"),
    [("none", False, NO_READ), ("none", True, NO_READ), ("temporary", True, BAD_PERSISTENCE)],
)
def test_object_beyond_the_applications_access_is_refused(access: Any, persistent: bool, code: str) -> None:
    node, one = Node(), Copy(access=access)
    node.ask(one, Use(), RequestChange("a", 1.0), persistent=persistent)
    assert heard(one) == [[Status(code, "error")]]
    assert (len(node.objects), node.objects.held_bytes, node.loading) == (0, 0, [])


def test_nothing_is_written_to_an_object_that_is_not_used() -> None:
    node, one, user = Node(), Copy(), Copy()
    node.ask(one, RequestChange("a", 1.0), RequestRemove("a"), SendMessage("say"))
    shared(node, user)
    one.ask(RequestChange("a", 1.0), RequestRemove("a"), SendMessage("say"))
    node.settle(one, user)
    assert heard(one) == [[Status(NO_WRITE, "error")]] * 2
    assert (user.properties, user.messages) == ({}, [])


def test_a_persistent_object_is_loaded_once_and_waited_for() -> None:
    node, one, other, elsewhere = Node(), Copy(), Copy(), Copy()
    node.saved, node.version = {"a": amf0.encode(1.0)}, 41
    one.ask(Use())
    other.ask(Use(), RequestChange("b", True), SendMessage("too early"))
    other.ask(RequestChange("b", False))
    node.settle(one, other, persistent=True)
    shared(node, elsewhere)
    assert (heard(one), heard(other), len(node.loading)) == ([], [], 1)
    node.loaded()
    node.settle(one, other)
    assert one.properties == other.properties == {"a": 1.0, "b": False}
    assert one.version == other.version == 42
    assert all(found.persistent for found in one.received + other.received)
    assert heard(other) == [[UseSuccess(), Clear(), Change("a", 1.0), Change("b", False)], [Success("b"), Success("b")]]
    for copy in (one, other, elsewhere):
        node.objects.leave(copy)
    assert node.saved == {"a": amf0.encode(1.0), "b": amf0.encode(False)}
    assert node.objects.held_bytes == 0


def test_only_changed_properties_are_saved() -> None:
    node, one = Node(), Copy()
    node.ask(one, Use(), persistent=True)
    node.loaded({"kept": amf0.encode(1.0), "old": amf0.encode(2.0)}, 7)
    node.ask(one, RequestChange("new", "x"), RequestRemove("old"), RequestRemove("never there"), persistent=True)
    [found] = node.objects._objects.values()
    assert found.take_unsaved() == {"new": amf0.encode("x"), "old": None}
    assert found.take_unsaved() == {}


def test_failed_load_is_reported_to_all_waiting_clients() -> None:
    node, one, other = Node(), Copy(), Copy()
    for copy in (one, other):
        copy.ask(Use())
    node.settle(one, other, persistent=True)
    node.deliver(node.objects.failed(node.loading.pop(), NOT_CREATED))
    node.settle(one, other)
    assert heard(one) == heard(other) == [[Status(NOT_CREATED, "error")]]
    assert (len(node.objects), node.objects.held_bytes) == (0, 0)


def test_restoring_unreadable_values_raises_a_protocol_error() -> None:
    node, one = Node(), Copy()
    node.ask(one, Use(), persistent=True)
    with pytest.raises(RemoteProtocolError):
        restored(b"\xff", DEFAULT_LIMITS)
    assert heard(one) == []
    node.loaded({}, 0)
    node.settle(one)
    assert heard(one) == [[UseSuccess(), Clear()]]


def test_object_load_passes_to_another_client_when_the_first_leaves() -> None:
    node, one, other = Node(), Copy(), Copy()
    for copy in (one, other):
        copy.ask(Use())
    node.settle(one, other, persistent=True)
    node.objects.leave(one)
    assert node.asked_through == [one, other]
    assert node.loading[0] is node.loading[1]
    node.objects.leave(other)
    assert (len(node.objects), node.objects.held_bytes) == (0, 0)


def test_object_stays_in_memory_until_its_changes_are_taken_for_saving() -> None:
    node, one = Node(), Copy()
    node.ask(one, Use(), RequestChange("a", 1.0), persistent=True)
    node.loaded({}, 0)
    node.takes = False
    node.objects.leave(one)
    assert len(node.objects) == 1
    node.takes = True
    later = Copy()
    later.ask(Use())
    node.ask(later, Release(), persistent=True)
    assert heard(later) == [[UseSuccess(), Clear(), Change("a", 1.0)]]
    assert (len(node.objects), node.saved, node.loading) == (0, {"a": amf0.encode(1.0)}, [])
