"""Shared objects: any order of events, and any value."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ingest.live.shared_objects.state import OBJECT_BYTES
from ingest.rtmp import LocalProtocolError
from ingest.rtmp.amf import amf0
from ingest.rtmp.limits import DEFAULT_LIMITS
from ingest.rtmp.messages.shared_object import (
    Release,
    RequestChange,
    RequestRemove,
    SendMessage,
    SharedObject,
    SharedObjectEvent,
    Use,
    decode_shared_object,
    encode_shared_object,
)
from tests.ingest.live.copies import NO_WRITE, Copy, Node, shared
from tests.ingest.rtmp.amf0 import strategies as amf0_values
from tests.ingest.rtmp.amf3 import strategies as amf3_values

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
        assert objects.bytes == held
        assert objects.encoded_bytes == sum(each.whole.bytes for each in objects._objects.values())

    def teardown(self) -> None:
        for copy in self.copies:
            self.node.objects.leave(copy)
        assert (len(self.node.objects), self.node.objects.bytes, self.node.objects.encoded_bytes) == (0, 0, 0)
        assert (self.node.objects._used, self.node.objects._of_app) == ({}, {})


TestSharing = Sharing.TestCase
TestSharing.settings = settings(max_examples=100, stateful_step_count=40)


@given(before=st.lists(st.tuples(NAMES, VALUES), max_size=30))
def test_what_is_saved_is_what_comes_back(before: list[tuple[str, Any]]) -> None:
    node, one = Node(), Copy(amf3=True)
    for _ in range(2):
        one.ask(Use())
        node.settle(one, persistent=True)
        node.loaded()
        half = len(before) // 2
        for name, value in before[:half]:
            one.ask(RequestChange(name, value))
        before = before[half:]
        node.settle(one, persistent=True)
        node.objects.leave(one)
        last = one.properties
        one = Copy(amf3=True)
    one.ask(Use())
    node.settle(one, persistent=True)
    node.loaded()
    node.settle(one)
    assert one.properties == last


@pytest.mark.parametrize("sender_amf3", [False, True], ids=["AMF0", "AMF3"])
@given(value=st.one_of(amf0_values.values, amf3_values.values, amf3_values.values.map(amf0.Amf3)))
@settings(max_examples=60)
def test_whatever_value_a_client_may_send(sender_amf3: bool, value: Any) -> None:
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
        strategies = amf3_values if other.amf3 else amf0_values
        assert strategies.same(other.properties, later.properties)
    there = [bool(copy.properties) for copy in (*others, *late)]
    said = [len(copy.messages) for copy in others]
    if NO_WRITE in sender.statuses:
        assert not all(there) or not all(said)
    else:
        assert said == [1, 1]
        assert len(set(there)) == 1
