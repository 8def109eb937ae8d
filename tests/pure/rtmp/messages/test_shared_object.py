"""Shared object messages: vectors both ways, limits, and any values in any order; then over a connection."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp import LimitExceeded, Limits, LocalProtocolError, Message, RemoteProtocolError, events
from ingest.rtmp.amf import UNDEFINED, Date
from ingest.rtmp.amf.amf3 import Dictionary
from ingest.rtmp.messages import shared_object
from ingest.rtmp.messages.shared_object import (
    EVENTS,
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
    encode_shared_object,
)
from tests.pure.rtmp.amf0.test_amf0 import amf0_values
from tests.pure.rtmp.amf3.test_amf3 import amf3_values, same
from tests.pure.rtmp.pair import ConnectionPair
from tests.pure.rtmp.wire import h, ids
from tests.rtmpdecode import decode_stream

Case = tuple[str, SharedObject, bool, bytes]

HEAD = "0001 73  00000007 00000000 00000000"
"""The object 's' in version 7."""


def case(name: str, body: str, *happened: SharedObjectEvent, amf3: bool = False) -> Case:
    return (name, SharedObject("s", 7, False, list(happened)), amf3, h(("00" if amf3 else "") + HEAD + body))


OBJECTS: list[Case] = [
    case("no event", ""),
    case("use", "01 00000000", Use()),
    case("release", "02 00000000", Release()),
    case("request change", "03 0000000b 0003 666f6f 02 0003 626172", RequestChange("foo", "bar")),
    case("request change to nothing", "03 00000006 0003 666f6f 05", RequestChange("foo", None)),
    case("change", "04 0000000e 0003 666f6f 00 3ff0000000000000", Change("foo", 1.0)),
    case("success", "05 00000005 0003 666f6f", Success("foo")),
    case("message", "06 00000004 02 0001 66", SendMessage("f")),
    case("message with values", "06 00000007 02 0001 66 0101 05", SendMessage("f", [True, None])),
    case(
        "status",
        "07 00000022 0019 5368617265644f626a6563742e4e6f52656164416363657373 0005 6572726f72",
        Status("SharedObject.NoReadAccess", "error"),
    ),
    case("clear", "08 00000000", Clear()),
    case("remove", "09 00000005 0003 666f6f", Remove("foo")),
    case("request remove", "0a 00000005 0003 666f6f", RequestRemove("foo")),
    case("use success", "0b 00000000", UseSuccess()),
    case("unknown event", "0c 00000003 010203", OtherEvent(12, b"\x01\x02\x03")),
    case("unknown event without a body", "00 00000000", OtherEvent(0, b"")),
    case("empty names", "09 00000002 0000 0a 00000002 0000", Remove(""), RequestRemove("")),
    case(
        "what a new user is sent",
        "0b 00000000 08 00000000 04 00000005 0001 61 0101 04 00000005 0001 62 0100",
        UseSuccess(),
        Clear(),
        Change("a", True),
        Change("b", False),
    ),
    case(
        "references over several events",
        "04 0000000a 0001 61 0a 00000001 0101 04 00000006 0001 62 07 0000",
        Change("a", shared := [True]),
        Change("b", shared),
    ),
    ("persistent", SharedObject("s", 7, True, []), False, h("0001 73 00000007 00000002 00000000")),
    ("highest version", SharedObject("", 2**32 - 1, False, []), False, h("0000 ffffffff 00000000 00000000")),
    case("AMF3: use", "01 00000000", Use(), amf3=True),
    case("AMF3: change of a simple value", "04 00000005 0001 61 0101", Change("a", True), amf3=True),
    case("AMF3: change", "04 00000009 0001 61 11 09 03 01 06 01", Change("a", [""]), amf3=True),
    case("AMF3: bytes", "03 00000007 0001 61 11 0c 03 ff", RequestChange("a", b"\xff"), amf3=True),
    case("AMF3: message", "06 0000000d 02 0001 66 00 3ff0000000000000", SendMessage("f", [1.0]), amf3=True),
    case(
        "AMF3: tables over several events",
        "04 0000000a 0001 61 11 09 03 01 06 03 78 06 0000000d 02 0001 66 11 09 03 01 06 00 11 09 00",
        Change("a", again := ["x"]),
        SendMessage("f", [["x"], again]),
        amf3=True,
    ),
]

OBJECTS_ONE_WAY: list[Case] = [
    case("several changes in a body", "04 0000000a 0001 61 0101 0001 62 0100", Change("a", True), Change("b", False)),
    case("several names in a body", "05 00000006 0001 61 0001 62", Success("a"), Success("b")),
    case("a body that none should have", "08 00000003 010203 01 00000000", Clear(), Use()),
    case("a status with a rest", "07 00000007 0001 61 0001 62 00", Status("a", "b")),
    case("AMF3 in type 19", "04 00000006 0001 61 11 04 05", Change("a", 5)),
    case("a handler in AMF3", "06 00000005 11 06 05 6f6e", SendMessage("on"), amf3=True),
    *(
        case(f"bare AMF3: {name}", f"04 {3 + len(h(body)):08x} 0001 61 {body}", Change("a", value), amf3=True)
        for name, body, value in [
            ("undefined", "00", UNDEFINED),
            ("null", "01", None),
            ("false", "02", False),
            ("true", "03", True),
            ("integer", "04 05", 5),
            ("double", "05 3ff0000000000000", 1.0),
            ("double of zeros", "05 0000000000000000", 0.0),
            ("text", "06 07 616263", "abc"),
            ("empty text", "06 01", ""),
            ("long text", "06 8101" + "61" * 64, "a" * 64),
            ("date", "08 01 0000000000000000", Date(0.0)),
            ("array", "09 05 01 06 03 78 06 00", ["x", "x"]),
            ("object", "0a 0b 01 03 78 01 01", {"x": None}),
            ("bytes", "0c 03 ff", b"\xff"),
            ("dictionary", "11 03 00 04 01 03", Dictionary([(1, True)])),
        ]
    ),
    case(
        "bare AMF3: several properties, and a message by the same tables",
        "04 0000000b 0001 61 06 03 78 0001 62 06 00 06 00000007 02 0001 66 06 00 03",
        Change("a", "x"),
        Change("b", "x"),
        SendMessage("f", ["x", True]),
        amf3=True,
    ),
    case("bare AMF3: a handler too", "06 00000005 06 03 66 04 05", SendMessage("f", [5]), amf3=True),
    ("other flags", SharedObject("s", 7, False, []), False, h("0001 73 00000007 00000030 00000000")),
    ("other flags and persistent", SharedObject("s", 7, True, []), False, h("0001 73 00000007 00000012 00000001")),
]

OBJECTS_REFUSED: list[tuple[str, bool, bytes]] = [
    ("nothing", False, b""),
    ("a cut head", False, h("0001 73 00000007 00000000 000000")),
    ("an event without a length", False, h(HEAD + "01 000000")),
    ("a cut body", False, h(HEAD + "05 00000006 0003 666f6f")),
    ("no name", False, h(HEAD + "09 00000000")),
    ("a name over the end of its body", False, h(HEAD + "09 00000004 0003 6162 0b 00000000")),
    ("a value over the end of its body", False, h(HEAD + "04 00000008 0001 61 00 3ff00000 0b 00000000")),
    ("no value", False, h(HEAD + "04 00000003 0001 61")),
    ("an unknown value", False, h(HEAD + "04 00000004 0001 61 ff")),
    ("no handler", False, h(HEAD + "06 00000000")),
    ("a handler that is no text", False, h(HEAD + "06 00000001 05")),
    ("a status without a level", False, h(HEAD + "07 00000003 0001 61")),
    ("AMF3: nothing", True, b""),
    ("AMF3: another format", True, h("03" + HEAD)),
    ("bare AMF3 in type 19", False, h(HEAD + "04 00000008 0001 61 06 07 616263")),
    ("bare AMF3: a value over the end of its body", True, h("00" + HEAD + "04 00000005 0001 61 04 ff 0b 00000000")),
    ("bare AMF3: a handler that is no text", True, h("00" + HEAD + "06 00000002 04 05")),
    ("bare AMF3: no handler", True, h("00" + HEAD + "06 00000000")),
    ("AMF3: an integer over the end of its body", True, h("00" + HEAD + "04 00000006 0001 61 11 04 ff 0b 00000000")),
]


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
