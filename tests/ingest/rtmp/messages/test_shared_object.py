"""Shared object messages: vectors both ways, limits, and any values in any order; then over a connection."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp import (
    LimitExceeded,
    Limits,
    LocalProtocolError,
    Message,
    RemoteProtocolError,
    ServerConnection,
    events,
)
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
from tests.ingest.rtmp.amf0.strategies import same
from tests.ingest.rtmp.amf0.strategies import values as amf0_values
from tests.ingest.rtmp.amf3.strategies import values as amf3_values
from tests.ingest.rtmp.messages.shared_objects import BOTH_WAYS, HEAD, ONE_WAY, REFUSED, Case, h
from tests.ingest.rtmp.pair import SERVER_NONCE, ConnectionPair
from tests.rtmpdecode import decode_stream


def ids(rows: list[Any]) -> list[str]:
    return [row[0] for row in rows]


@pytest.mark.parametrize("vector", BOTH_WAYS + ONE_WAY, ids=ids(BOTH_WAYS + ONE_WAY))
def test_decode(vector: Case) -> None:
    _, content, amf3, payload = vector
    assert decode_shared_object(payload, Limits(), amf3=amf3) == content


@pytest.mark.parametrize("vector", BOTH_WAYS, ids=ids(BOTH_WAYS))
def test_encode(vector: Case) -> None:
    _, content, amf3, payload = vector
    assert encode_shared_object(content, amf3=amf3) == Message(16 if amf3 else 19, 0, 0, payload)


def test_every_event_has_its_vector() -> None:
    seen = {type(event) for _, content, _, _ in BOTH_WAYS for event in content.events}
    assert len(EVENTS) == 11
    assert seen == {kind for kind, _ in EVENTS.values()} | {OtherEvent}


@pytest.mark.parametrize("vector", BOTH_WAYS, ids=ids(BOTH_WAYS))
def test_a_cut_message_is_refused_or_has_fewer_events(vector: Case) -> None:
    _, content, amf3, payload = vector
    for end in range(len(payload)):
        try:
            found = decode_shared_object(payload[:end], Limits(), amf3=amf3)
        except RemoteProtocolError:
            continue
        assert found.events == content.events[: len(found.events)]
        assert len(found.events) < len(content.events)


@pytest.mark.parametrize(("name", "amf3", "payload"), REFUSED, ids=ids(REFUSED))
def test_refused(name: str, amf3: bool, payload: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_shared_object(payload, Limits(), amf3=amf3)


class TestLimits:
    def test_events(self) -> None:
        payload = h(HEAD) + h("01 00000000") * 3
        assert decode_shared_object(payload, Limits(shared_object_events=3)).events == [Use()] * 3
        with pytest.raises(LimitExceeded):
            decode_shared_object(payload, Limits(shared_object_events=2))

    def test_events_in_one_body(self) -> None:
        payload = h(HEAD) + h("05 00000006 0000 0000 0000")
        assert decode_shared_object(payload, Limits(shared_object_events=3)).events == [Success("")] * 3
        with pytest.raises(LimitExceeded):
            decode_shared_object(payload, Limits(shared_object_events=2))

    @pytest.mark.parametrize(
        "event",
        [Change("abc", None), Success("abc"), Status("abc", ""), Status("", "abc")],
        ids=["property", "name", "code", "level"],
    )
    def test_names(self, event: Any) -> None:
        payload = encode_shared_object(SharedObject("s", 0, False, [event])).payload
        assert decode_shared_object(payload, Limits(shared_object_name_bytes=3)).events == [event]
        with pytest.raises(LimitExceeded):
            decode_shared_object(payload, Limits(shared_object_name_bytes=2))

    def test_the_objects_own_name(self) -> None:
        payload = encode_shared_object(SharedObject("abc", 0, False, [])).payload
        with pytest.raises(LimitExceeded):
            decode_shared_object(payload, Limits(shared_object_name_bytes=2))

    def test_values_of_all_events_together(self) -> None:
        content = SharedObject("s", 0, False, [Change("a", [None, None]), SendMessage("f", [None])])
        payload = encode_shared_object(content).payload
        assert decode_shared_object(payload, Limits(command_amf_elements=5)) == content
        with pytest.raises(LimitExceeded):
            decode_shared_object(payload, Limits(command_amf_elements=4))

    def test_depth(self) -> None:
        payload = encode_shared_object(SharedObject("s", 0, False, [Change("a", [[[]]])])).payload
        with pytest.raises(LimitExceeded):
            decode_shared_object(payload, Limits(amf_depth=2))


@pytest.mark.parametrize(
    "content",
    [SharedObject("x" * 65_536, 0, False, []), SharedObject("s", 0, False, [Change("a", object())])],
    ids=["name", "value"],
)
def test_what_cannot_be_said(content: SharedObject) -> None:
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


versions = st.integers(0, 2**32 - 1)


@given(st.builds(SharedObject, names, versions, st.booleans(), any_events(amf0_values)))
def test_what_is_encoded_is_decoded(content: SharedObject) -> None:
    found = decode_shared_object(encode_shared_object(content).payload, Limits())
    assert found == content
    for one, other in zip(found.events, content.events, strict=True):
        assert same(getattr(one, "value", None), getattr(other, "value", None))


@given(st.builds(SharedObject, names, versions, st.booleans(), any_events(amf3_values)))
def test_what_is_encoded_in_amf3_is_decoded(content: SharedObject) -> None:
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
    def test_both_ends_send_and_report(self, encoding: int) -> None:
        pair = ConnectionPair().connected(objectEncoding=encoding)
        pair.client.send_shared_object(CHAT)
        pair.server.send_shared_object(CHAT)
        pair.run()
        expected = [events.SharedObjectReceived("chat", 3, True, CHAT.events)]
        assert pair.take_server(events.SharedObjectReceived) == expected
        assert pair.take_client(events.SharedObjectReceived) == expected
        for carried in (pair.to_server, pair.to_client):
            message = decode_stream(bytes(carried))[-1]
            assert (message.type_id, message.stream_id, message.timestamp) == (16 if encoding else 19, 0, 0)

    def test_an_object_in_either_encoding_on_one_connection(self) -> None:
        pair = ConnectionPair().connected(objectEncoding=3)
        pair.client.send_message(encode_shared_object(CHAT))
        pair.client.send_message(encode_shared_object(CHAT, amf3=True))
        assert len(pair.take_server(events.SharedObjectReceived)) == 2

    def test_they_are_not_answered(self, pair: ConnectionPair) -> None:
        before = len(pair.to_client)
        pair.client.send_shared_object(CHAT)
        pair.run()
        assert len(pair.to_client) == before

    @pytest.mark.parametrize(("type_id", "payload"), [(19, b"so"), (16, b"\x00so"), (16, b"\x01")])
    def test_bad_ones_end_no_stream(self, publisher: ConnectionPair, type_id: int, payload: bytes) -> None:
        publisher.client.send_message(Message(type_id, 0, 0, payload))
        publisher.client.send_video(1, 0, b"v")
        assert publisher.take_server(events.UnknownMessage) == [events.UnknownMessage(type_id, 0, payload)]
        assert len(publisher.take_server(events.VideoReceived)) == 1

    def test_too_much_ends_the_connection(self) -> None:
        pair = ConnectionPair(server_limits=Limits(shared_object_events=1)).connected()
        pair.client.send_shared_object(CHAT)
        pair.ended_by(LimitExceeded)

    @pytest.mark.parametrize("type_id", [16, 19])
    def test_not_before_connect(self, unconnected: ConnectionPair, type_id: int) -> None:
        unconnected.ended_by(RemoteProtocolError, Message(type_id, 0, 0, b""))

    def test_neither_end_sends_one_before_it_is_connected(self) -> None:
        for connection in (ServerConnection(nonce=SERVER_NONCE), ConnectionPair().client):
            with pytest.raises(LocalProtocolError):
                connection.send_shared_object(CHAT)

    def test_representations_give_no_names(self) -> None:
        assert "chat" not in repr(events.SharedObjectReceived("chat", 3, True, CHAT.events))
