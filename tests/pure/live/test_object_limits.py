"""Shared objects: what clients may ask for, what many of them cost, any order of events, and any value."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ingest.live.shared_objects import ObjectLimits, state
from ingest.live.shared_objects.state import OBJECT_BYTES, encoded_events
from ingest.rtmp import LocalProtocolError
from ingest.rtmp.amf import Amf3, amf0
from ingest.rtmp.limits import DEFAULT_LIMITS
from ingest.rtmp.messages.shared_object import (
    Change,
    Release,
    Remove,
    RequestChange,
    RequestRemove,
    SendMessage,
    SharedObject,
    SharedObjectEvent,
    Status,
    Use,
    decode_shared_object,
    encode_shared_object,
)
from tests.pure.live.test_objects import NO_WRITE, NOT_CREATED, Copy, Node, heard, shared
from tests.pure.rtmp.amf0.test_amf0 import amf0_values
from tests.pure.rtmp.amf3.test_amf3 import amf3_values, same


def test_objects_per_connection_and_per_application_are_limited() -> None:
    node, one, other, stranger = Node(per_connection=2, per_application=3), Copy(), Copy(), Copy(app="else")
    for copy, names in ((one, "abc"), (other, "de"), (stranger, "f")):
        for name in names:
            copy.ask(Use(), name=name)
    node.settle(one, other, stranger)
    assert (one.statuses, other.statuses, stranger.statuses) == ([NOT_CREATED], [NOT_CREATED], [])
    one.ask(Release(), name="a")
    one.ask(Use(), name="c")
    node.settle(one)
    assert one.statuses == [NOT_CREATED]


def test_clients_per_object_are_limited() -> None:
    node, copies = Node(clients=2), [Copy() for _ in range(3)]
    for copy in copies:
        copy.ask(Use())
    node.settle(*copies)
    assert [copy.statuses for copy in copies] == [[], [], [NOT_CREATED]]


@pytest.mark.parametrize("persistent", [False, True])
def test_a_refused_client_leaves_nothing_behind(persistent: bool) -> None:
    node, one = Node(object_bytes=1000, node_bytes=OBJECT_BYTES + 100), Copy()
    node.ask(one, Use(), RequestChange("a", "x" * 900), persistent=persistent)
    assert one.statuses == [NOT_CREATED if persistent else NO_WRITE]
    node.objects.leave(one)
    assert (len(node.objects), node.objects.held_bytes, node.objects._used) == (0, 0, {})


@pytest.mark.parametrize(
    ("limits", "fitting", "refused"),
    [
        ({"slots": 2}, [("a", 1.0), ("b", 1.0), ("a", 2.0)], ("c", 1.0)),
        ({"value_bytes": 100}, [("a", "x" * 90)], ("a", "x" * 100)),
        ({"object_bytes": 1000}, [("a", "x" * 400), ("a", "y" * 500)], ("b", "x" * 400)),
        ({"node_bytes": OBJECT_BYTES + 1000}, [("a", "x" * 600)], ("b", "x" * 600)),
    ],
    ids=["slots", "value", "object", "node"],
)
def test_property_over_a_limit_is_refused_and_its_value_sent_back(
    limits: dict[str, int], fitting: list[tuple[str, Any]], refused: tuple[str, Any]
) -> None:
    """The client is told what the property is: its own copy may say otherwise."""
    node, one, other = Node(**limits), Copy(), Copy()
    shared(node, one, other)
    for name, value in fitting:
        one.ask(RequestChange(name, value))
    node.settle(one, other)
    before = dict(other.properties)
    one.received.clear()
    one.ask(RequestChange(*refused))
    node.settle(one, other)
    name = refused[0]
    is_there = Change(name, before[name]) if name in before else Remove(name)
    assert heard(one) == [[Status(NO_WRITE, "error")], [is_there]]
    assert other.properties == before
    one.ask(RequestRemove("a"))
    one.ask(RequestChange("fits", 1.0))
    node.settle(one, other)
    assert other.properties["fits"] == 1.0


def test_requests_waiting_for_an_object_to_load_are_bounded() -> None:
    node, one = Node(object_bytes=2000), Copy()
    one.ask(Use())
    for _ in range(20):
        node.ask(one, RequestChange("a", "x" * 900), persistent=True)
    assert one.statuses == [NO_WRITE] * 19
    assert node.objects.held_bytes < OBJECT_BYTES + 2100
    node.objects.leave(one)
    assert node.objects.held_bytes == 0


def test_messages_have_no_more_in_them_than_our_own_readers_take() -> None:
    """Many properties, long ones, and such of many values: whatever the object holds."""
    node, one = Node(slots=5000, object_bytes=10_000_000), Copy()
    shared(node, one)
    for number in range(1500):
        one.ask(RequestChange(f"small {number}", float(number)))
    for number in range(10):
        one.ask(RequestChange(f"long {number}", "x" * 30_000))
        node.ask(one, RequestChange(f"many {number}", [True] * 1500))
    for amf3_too in (False, True):
        late = Copy(amf3=amf3_too)
        node.ask(late, Use())
        assert late.properties == one.properties
        assert len(late.received) > 10


def test_object_fills_its_default_byte_limit_and_counts_it_exactly() -> None:
    """As it is counted; the limits are those of the default."""
    node, copies = Node(), [Copy() for _ in range(3)]
    shared(node, *copies)
    for number in range(3000):
        copies[0].ask(RequestChange(f"{number:04}", "x" * 1000))
    node.settle(*copies)
    limits = ObjectLimits()
    [found] = node.objects._objects.values()
    assert limits.object_bytes - 2000 < found.size <= limits.object_bytes
    assert found.size == sum(len(name) + value.size + 256 for name, value in found.slots.items())


def test_properties_are_encoded_once_for_all_who_are_sent_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever number of clients begin to use the object, and whether it had to be loaded before."""
    encoded: list[str] = []

    def counted(events: Iterable[SharedObjectEvent], *, amf3: bool) -> bytes:
        changes = list(events)
        if len(changes) > 1:  # One by itself is what a client's change is told by.
            encoded.extend(event.name for event in changes if isinstance(event, Change))
        return encoded_events(changes, amf3=amf3)

    monkeypatch.setattr(state, "encoded_events", counted)
    node = Node()
    values = {f"user {number}": {"a": float(number), "b": "x" * 10} for number in range(500)}
    node.saved = {name: amf0.encode(value) for name, value in values.items()}
    early = [Copy(amf3=number % 2 == 1) for number in range(50)]
    for copy in early:
        copy.ask(Use())
    node.settle(*early, persistent=True)
    node.loaded()
    late = [Copy(amf3=number % 2 == 1) for number in range(50)]
    for copy in late:
        copy.ask(Use())
    node.settle(*early, *late, persistent=True)
    assert all(copy.properties == values for copy in early + late)
    assert sorted(encoded) == sorted([*values, *values]), "once in each encoding"
    encoded.clear()
    early[0].ask(RequestChange("user 7", 1.0))
    joining = Copy()
    joining.ask(Use())
    node.settle(*early, joining, persistent=True)
    assert joining.properties == values | {"user 7": 1.0}
    assert "user 7" in encoded
    assert len(encoded) < 60, "what was beside it in a message, and nothing else"


def test_cached_encoded_properties_are_bounded_in_bytes() -> None:
    node, one, other = Node(encoded_bytes=3000), Copy(), Copy()
    shared(node, one)
    for number in range(100):
        one.ask(RequestChange(f"{number}", "x" * 100))
    one.ask(Use())
    other.ask(Use())
    node.settle(one, other)
    assert other.properties == one.properties
    assert len(other.properties) == 100
    assert node.objects.encoded_bytes <= 3000
    for copy in (one, other):
        node.objects.leave(copy)
    assert node.objects.encoded_bytes == 0


VALUES = st.one_of(
    st.none(), st.booleans(), st.floats(allow_nan=False), st.text("ab", max_size=3), st.lists(st.booleans(), max_size=2)
)
NAMES = st.sampled_from("xyz")
EVENTS = st.one_of(
    st.builds(RequestChange, NAMES, VALUES),
    st.builds(RequestRemove, NAMES),
    st.builds(SendMessage, st.just("say"), st.lists(VALUES, max_size=2)),
    st.builds(Use),
)
COPIES = st.integers(0, 3)


class Sharing(RuleBasedStateMachine):
    """Four clients of both encodings, whose messages are under way for any time. At rest all copies are alike."""

    @initialize(persistent=st.booleans())
    def begin(self, persistent: bool) -> None:
        self.persistent = persistent
        self.node = Node()
        self.copies = [Copy(amf3=number % 2 == 1) for number in range(4)]

    @rule(number=COPIES, events=st.lists(EVENTS, min_size=1, max_size=4))
    def ask(self, number: int, events: list[SharedObjectEvent]) -> None:
        copy = self.copies[number]
        if not copy.shares and not isinstance(events[0], Use):
            events = [Use(), *events]
        copy.ask(*events)

    @rule(number=COPIES)
    def release(self, number: int) -> None:
        self.copies[number].ask(Release())
        self.copies[number].properties.clear()

    @rule(number=COPIES)
    def vanish(self, number: int) -> None:
        self.node.objects.leave(self.copies[number])
        self.copies[number] = Copy(amf3=number % 2 == 1)

    @rule(number=COPIES)
    def arrive(self, number: int) -> None:
        if self.copies[number].asked:
            self.node.process(self.copies[number], persistent=self.persistent)

    @rule(number=COPIES)
    def hear(self, number: int) -> None:
        if self.copies[number].told:
            self.copies[number].hear()

    @precondition(lambda self: self.node.loading)
    @rule()
    def load(self) -> None:
        shared = self.node.loading[-1]
        self.node.loading.clear()
        if shared.waiting:  # Else all who asked for it are gone.
            self.node.loading.append(shared)
            self.node.loaded()

    @rule()
    def rest(self) -> None:
        while self.node.loading or any(copy.asked or copy.told for copy in self.copies):
            if self.node.loading:
                self.load()
            self.node.settle(*self.copies, persistent=self.persistent)
        users = [copy for copy in self.copies if copy.shares]
        objects = list(self.node.objects._objects.values())
        assert len(objects) == (1 if users else 0)
        for copy in users:
            found = {name: amf0.decode(value.data)[0] for name, value in objects[0].slots.items()}
            assert copy.properties == found
            assert copy.version <= objects[0].version
            assert copy in objects[0].members

    @invariant()
    def is_counted(self) -> None:
        objects = self.node.objects
        held = sum(each.size + each.waiting_bytes + OBJECT_BYTES + len(each.name) for each in objects._objects.values())
        assert objects.held_bytes == held
        assert objects.encoded_bytes == sum(each.whole.held_bytes for each in objects._objects.values())

    def teardown(self) -> None:
        for copy in self.copies:
            self.node.objects.leave(copy)
        assert (len(self.node.objects), self.node.objects.held_bytes, self.node.objects.encoded_bytes) == (0, 0, 0)
        assert (self.node.objects._used, self.node.objects._of_app) == ({}, {})


TestSharing = Sharing.TestCase
TestSharing.settings = settings(max_examples=100, stateful_step_count=40)


@given(before=st.lists(st.tuples(NAMES, VALUES), max_size=30))
def test_saved_properties_are_restored_at_the_next_use(before: list[tuple[str, Any]]) -> None:
    node, one = Node(), Copy(amf3=True)
    for _ in range(2):
        node.ask(one, Use(), persistent=True)
        node.loaded()
        half = len(before) // 2
        for name, value in before[:half]:
            one.ask(RequestChange(name, value))
        before = before[half:]
        node.settle(one, persistent=True)
        node.objects.leave(one)
        last = one.properties
        one = Copy(amf3=True)
    node.ask(one, Use(), persistent=True)
    node.loaded()
    node.settle(one)
    assert one.properties == last


@pytest.mark.parametrize("sender_amf3", [False, True], ids=["AMF0", "AMF3"])
@given(value=st.one_of(amf0_values, amf3_values, amf3_values.map(Amf3)))
@settings(max_examples=60)
def test_any_client_value_reaches_all_clients_alike_or_is_refused(sender_amf3: bool, value: Any) -> None:
    """All are sent the same, and those who come later too; or the sender is told that it is not taken."""
    asked = SharedObject("chat", 0, False, [RequestChange("a", value), SendMessage("say", [value])])
    try:
        payload = encode_shared_object(asked, amf3=sender_amf3).payload
    except LocalProtocolError:
        return
    node, sender = Node(), Copy(amf3=sender_amf3)
    others = [Copy(), Copy(amf3=True)]
    shared(node, sender, *others)
    sender.ask(*decode_shared_object(payload, DEFAULT_LIMITS, amf3=sender_amf3).events)
    node.settle(sender, *others)
    late = [Copy(), Copy(amf3=True)]
    shared(node, *late)
    for other, later in zip(others, late, strict=True):
        assert same(other.properties, later.properties)
    there = [bool(copy.properties) for copy in (*others, *late)]
    said = [len(copy.messages) for copy in others]
    if NO_WRITE in sender.statuses:
        assert not all(there) or not all(said)
    else:
        assert said == [1, 1]
        assert len(set(there)) == 1
