"""Shared object messages: vectors both ways, limits, and any values in any order; then over a connection."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp import LimitExceeded, Limits, LocalProtocolError, Message, RemoteProtocolError, events
from ingest.rtmp.messages import shared_object
from ingest.rtmp.messages.shared_object import (
    EVENTS,
    Change,
    Clear,
    OtherEvent,
    RequestChange,
    SendMessage,
    SharedObject,
    Status,
    Success,
    Use,
    UseSuccess,
    decode_shared_object,
    encode_shared_object,
)
from tests.pure.rtmp.amf0.strategies import values as amf0_values
from tests.pure.rtmp.amf3.strategies import same
from tests.pure.rtmp.amf3.strategies import values as amf3_values
from tests.pure.rtmp.messages.vectors import HEAD, OBJECTS, OBJECTS_ONE_WAY, OBJECTS_REFUSED, Case
from tests.pure.rtmp.pair import ConnectionPair
from tests.pure.rtmp.wire import h, ids
from tests.rtmpdecode import decode_stream


@pytest.mark.parametrize("vector", OBJECTS + OBJECTS_ONE_WAY, ids=ids(OBJECTS + OBJECTS_ONE_WAY))
def test_decode(vector: Case) -> None:
    _, content, amf3, payload = vector
    assert decode_shared_object(payload, Limits(), amf3=amf3) == content


@pytest.mark.parametrize("vector", OBJECTS, ids=ids(OBJECTS))
def test_encode(vector: Case) -> None:
    _, content, amf3, payload = vector
    assert encode_shared_object(content, amf3=amf3) == Message(16 if amf3 else 19, 0, 0, payload)


def test_every_event_has_its_vector() -> None:
    seen = {type(event) for _, content, _, _ in OBJECTS for event in content.events}
    assert len(EVENTS) == 11
    assert seen == {*EVENTS.values(), OtherEvent}


@pytest.mark.parametrize("vector", OBJECTS, ids=ids(OBJECTS))
def test_a_cut_message_is_refused_or_has_fewer_events(vector: Case) -> None:
    _, content, amf3, payload = vector
    for end in range(len(payload)):
        try:
            found = decode_shared_object(payload[:end], Limits(), amf3=amf3)
        except RemoteProtocolError:
            continue
        assert found.events == content.events[: len(found.events)]
        assert len(found.events) < len(content.events)


@pytest.mark.parametrize(("name", "amf3", "payload"), OBJECTS_REFUSED, ids=ids(OBJECTS_REFUSED))
def test_malformed_shared_objects_are_refused(name: str, amf3: bool, payload: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_shared_object(payload, Limits(), amf3=amf3)


def one_event(event: Any) -> bytes:
    return encode_shared_object(SharedObject("s", 0, False, [event])).payload


TWO = SharedObject("s", 0, False, [Change("a", [None, None]), SendMessage("f", [None])])


@pytest.mark.parametrize(
    ("payload", "limit", "least"),
    [
        (h(HEAD) + h("01 00000000") * 3, "shared_object_events", 3),
        (h(HEAD) + h("05 00000006 0000 0000 0000"), "shared_object_events", 3),
        (one_event(Change("abc", None)), "shared_object_name_bytes", 3),
        (one_event(Success("abc")), "shared_object_name_bytes", 3),
        (one_event(Status("abc", "")), "shared_object_name_bytes", 3),
        (one_event(Status("", "abc")), "shared_object_name_bytes", 3),
        (encode_shared_object(SharedObject("abc", 0, False, [])).payload, "shared_object_name_bytes", 3),
        (encode_shared_object(TWO).payload, "command_amf_elements", 5),
        (one_event(Change("a", [[[]]])), "amf_depth", 3),
    ],
    ids=["events", "in one body", "property", "name", "code", "level", "its own name", "values of all", "depth"],
)
def test_shared_objects_over_a_limit_are_refused(payload: bytes, limit: str, least: int) -> None:
    within = decode_shared_object(payload, replace(Limits(), **{limit: least}))
    assert within == decode_shared_object(payload, Limits())
    with pytest.raises(LimitExceeded):
        decode_shared_object(payload, replace(Limits(), **{limit: least - 1}))


@pytest.mark.parametrize(
    "content",
    [SharedObject("x" * 65_536, 0, False, []), SharedObject("s", 0, False, [Change("a", object())])],
    ids=["name", "value"],
)
def test_unencodable_shared_object_raises_local_protocol_error(content: SharedObject) -> None:
    with pytest.raises(LocalProtocolError):
        encode_shared_object(content)


names = st.text(st.characters(codec="utf-8"), max_size=8)


def any_events(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    one = st.one_of(
        *(st.just(kind()) for kind in (Use, shared_object.Release, Clear, UseSuccess)),
        *(st.builds(kind, names) for kind in (Success, shared_object.Remove, shared_object.RequestRemove)),
        *(st.builds(kind, names, values) for kind in (RequestChange, Change)),
        st.builds(SendMessage, names, st.lists(values, max_size=3)),
        st.builds(Status, names, names),
        st.builds(OtherEvent, st.integers(12, 255), st.binary(max_size=9)),
    )
    return st.lists(one, max_size=5)


def any_objects(values: st.SearchStrategy[Any]) -> st.SearchStrategy[SharedObject]:
    return st.builds(SharedObject, names, st.integers(0, 2**32 - 1), st.booleans(), any_events(values))


@given(any_objects(amf0_values))
def test_any_shared_object_in_amf0_round_trips(content: SharedObject) -> None:
    found = decode_shared_object(encode_shared_object(content).payload, Limits())
    assert found == content
    for one, other in zip(found.events, content.events, strict=True):
        assert same(getattr(one, "value", None), getattr(other, "value", None))


@given(any_objects(amf3_values))
def test_any_shared_object_in_amf3_round_trips(content: SharedObject) -> None:
    found = decode_shared_object(encode_shared_object(content, amf3=True).payload, Limits(), amf3=True)
    assert found == content


@given(st.booleans(), st.binary(max_size=120))
def test_any_bytes_are_decoded_or_refused(amf3: bool, data: bytes) -> None:
    for payload in (data, (b"\x00" if amf3 else b"") + h(HEAD) + data):
        try:
            decode_shared_object(payload, Limits(), amf3=amf3)
        except RemoteProtocolError:
            continue


CHAT = SharedObject("chat", 3, True, [RequestChange("a", [1.0, "x"]), SendMessage("say", ["hello"])])


class TestConnection:
    @pytest.mark.parametrize("encoding", [0, 3])
    def test_shared_objects_are_sent_and_reported_by_both_ends(self, encoding: int) -> None:
        pair = ConnectionPair().connected(objectEncoding=encoding)
        pair.client.send_shared_object(CHAT)
        pair.server.send_message(encode_shared_object(CHAT, amf3=pair.server.amf3))
        pair.run()
        expected = [events.SharedObjectReceived("chat", 3, True, CHAT.events)]
        assert pair.take_server(events.SharedObjectReceived) == expected
        assert pair.take_client(events.SharedObjectReceived) == expected
        for carried in (pair.to_server, pair.to_client):
            message = decode_stream(bytes(carried))[-1]
            assert (message.type_id, message.stream_id, message.timestamp) == (16 if encoding else 19, 0, 0)

    def test_shared_objects_in_both_encodings_are_read_on_one_connection(self) -> None:
        pair = ConnectionPair().connected(objectEncoding=3)
        pair.client.send_message(encode_shared_object(CHAT))
        pair.client.send_message(encode_shared_object(CHAT, amf3=True))
        assert len(pair.take_server(events.SharedObjectReceived)) == 2

    def test_shared_objects_are_not_answered(self, pair: ConnectionPair) -> None:
        before = len(pair.to_client)
        pair.client.send_shared_object(CHAT)
        pair.run()
        assert len(pair.to_client) == before

    def test_shared_object_with_too_many_events_ends_the_connection(self) -> None:
        pair = ConnectionPair(server_limits=Limits(shared_object_events=1)).connected()
        pair.client.send_shared_object(CHAT)
        pair.ended_by(LimitExceeded)

    def test_shared_object_name_is_left_out_of_the_event_repr(self) -> None:
        assert "chat" not in repr(events.SharedObjectReceived("chat", 3, True, CHAT.events))
