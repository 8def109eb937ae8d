"""All other commands and messages: answered, reported, or refused."""

from functools import partial
from typing import Any

import pytest

from ingest.rtmp import LimitExceeded, Limits, LocalProtocolError, Message, RemoteProtocolError, events
from ingest.rtmp.amf import UNDEFINED, amf0
from tests.pure.rtmp.pair import SECRET, ConnectionPair, answers, command


class TestSmallCommands:
    @pytest.mark.parametrize(
        "procedure", ["releaseStream", "FCPublish", "_checkbw", "FCUnpublish", "FCUnsubscribe", "_onbwcheck"]
    )
    @pytest.mark.parametrize("stream_id", [0, 1])
    def test_small_command_is_answered_only_when_it_has_a_transaction(
        self, pair: ConnectionPair, procedure: str, stream_id: int
    ) -> None:
        if stream_id:
            pair.create_stream()
        assert answers(pair, lambda: pair.client.notify(procedure, SECRET)) == []
        ((_, answer),) = answers(pair, lambda: pair.client.call(procedure, SECRET, stream_id=stream_id))
        assert answer == ["_result", 2.0 + stream_id, None, UNDEFINED]
        assert SECRET.encode() not in pair.to_client
        assert pair.take_server(events.CallReceived) == []

    def test_fc_subscribe_is_answered_by_on_fc_subscribe(self, pair: ConnectionPair) -> None:
        info = {"level": "status", "code": "NetStream.Play.Start", "description": "Subscribed."}
        notice = (0, ["onFCSubscribe", 0.0, None, info])
        assert answers(pair, lambda: pair.client.notify("FCSubscribe", SECRET)) == [notice]
        answer = (0, ["_result", 2.0, None, UNDEFINED])
        assert answers(pair, lambda: pair.client.call("FCSubscribe", SECRET)) == [answer, notice]
        assert SECRET.encode() not in pair.to_client

    def test_get_stream_length_is_reported_and_answered_with_the_length(self, pair: ConnectionPair) -> None:
        """And the connection goes on meanwhile."""
        assert answers(pair, lambda: pair.client.notify("getStreamLength", "y")) == []
        assert answers(pair, lambda: pair.client.call("getStreamLength", "x")) == []
        (asked,) = pair.take_server(events.LengthRequested)
        assert asked.name == "x", "of the other nobody wants to know"
        pair.create_stream()
        length = answers(pair, lambda: pair.server.answer_call(asked.request_id, 7.5))
        assert length == [(0, ["_result", 2.0, None, 7.5])]

    @pytest.mark.parametrize("name", ["x" * 1025, "é" * 513])
    def test_get_stream_length_of_an_overlong_name_is_answered_with_0(self, pair: ConnectionPair, name: str) -> None:
        found = answers(pair, lambda: pair.client.call("getStreamLength", name))
        assert found == [(0, ["_result", 2.0, None, 0.0])]

    def test_create_stream_is_answered_even_without_a_transaction(self, pair: ConnectionPair) -> None:
        assert answers(pair, lambda: pair.client.notify("createStream")) == [(0, ["_result", 0.0, None, 1.0])]
        assert pair.create_stream() == 2
        assert list(pair.server.streams) == [1, 2]


FAILED = {"level": "error", "code": "NetConnection.Call.Failed"}


NAMELESS = (b"", b"\x05", amf0.encode(1.0), amf0.encode(None, 1.0), b"\x02\x00", b"\x11\x01")
"""Commands without a name."""


class TestCalls:
    @pytest.mark.parametrize("procedure", ["ping", "checkBandwidth", "", "__class__"])
    def test_unknown_call_is_reported_and_can_be_answered_once(self, pair: ConnectionPair, procedure: str) -> None:
        assert answers(pair, lambda: pair.client.call(procedure, SECRET, 1, command_object={"a": None})) == []
        (call,) = pair.take_server(events.CallReceived)
        assert call == events.CallReceived(1, 0, procedure, 2.0, {"a": None}, [SECRET, 1.0])
        found = answers(pair, lambda: pair.server.answer_call(1, {"b": [True, "c"]}))
        assert found == [(0, ["_result", 2.0, None, {"b": [True, "c"]}])]
        with pytest.raises(LocalProtocolError):
            pair.server.answer_call(1, None)

    def test_calls_can_be_answered_in_any_order(self, pair: ConnectionPair) -> None:
        for number in range(3):
            pair.client.call("count", number)
        ids = [event.request_id for event in pair.take_server(events.CallReceived)]
        for request_id in reversed(ids):
            pair.server.answer_call(request_id, request_id)
        found = pair.take_client(events.ResultReceived)[1:]
        assert [(event.transaction, event.values[1]) for event in found] == [(4.0, 3.0), (3.0, 2.0), (2.0, 1.0)]

    def test_failed_call_is_answered_with_its_error_code_and_description(self, pair: ConnectionPair) -> None:
        pair.client.call("x")
        pair.run()
        found = answers(pair, lambda: pair.server.fail_call(1, "Chess.Illegal", "No such move."))
        info = {"level": "error", "code": "Chess.Illegal", "description": "No such move."}
        assert found == [(0, ["_error", 2.0, None, info])]

    @pytest.mark.parametrize("result", [object(), 1 << 2000, "\ud800", "x" * 262_145, [[]] * 100_000])
    def test_a_result_that_cannot_be_sent_leaves_the_call_open(self, pair: ConnectionPair, result: Any) -> None:
        pair.client.call("x")
        pair.run()
        with pytest.raises(LocalProtocolError):
            pair.server.answer_call(1, result)
        assert answers(pair, lambda: pair.server.fail_call(1, "X", ""))[0][1][0] == "_error"

    def test_too_deeply_nested_result_raises_local_protocol_error(self, pair: ConnectionPair) -> None:
        nested: list[Any] = []
        for _ in range(100_000):
            nested = [nested]
        pair.client.call("x")
        pair.run()
        with pytest.raises(LocalProtocolError):
            pair.server.answer_call(1, nested)
        while nested:  # Piece by piece, as the interpreter frees what is nested by recursion.
            nested = nested.pop()

    def test_calls_over_the_pending_limit_fail_until_one_is_answered(self) -> None:
        pair = ConnectionPair(server_limits=Limits(pending_calls=2)).connected()
        pair.client.call("a")
        pair.client.call("getStreamLength", "b")
        pair.run()
        refused = answers(pair, lambda: pair.client.call("c"))
        assert refused[0][1][3] == FAILED | {"description": "Too many calls await their answers."}
        length = answers(pair, lambda: pair.client.call("getStreamLength", "d"))
        assert length == [(0, ["_result", 5.0, None, 0.0])]
        pair.server.answer_call(1, None)
        assert answers(pair, lambda: pair.client.call("e"))[0][1][0] == "_result", "the one that was just given"
        assert [event.procedure for event in pair.take_server(events.CallReceived)] == ["a", "e"]

    def test_call_with_overlong_procedure_name_fails_and_is_not_reported(self, pair: ConnectionPair) -> None:
        found = answers(pair, lambda: pair.client.call("x" * 257))
        assert found[0][1][3] == FAILED | {"description": "The procedure's name is too long."}
        assert pair.take_server(events.CallReceived) == []

    def test_calls_without_transaction_are_reported_and_take_no_pending_slot(self) -> None:
        pair = ConnectionPair(server_limits=Limits(pending_calls=1)).connected()
        for _ in range(3):
            assert answers(pair, lambda: pair.client.notify("x", True, 0)) == []
        assert [event.request_id for event in pair.take_server(events.CallReceived)] == [0, 0, 0]

    def test_server_call_is_answered_by_a_client_that_answers_calls(self, pair: ConnectionPair) -> None:
        pair.client.answers_calls = True
        transaction = pair.server.call("add", 1, 2)
        pair.server.notify("told")
        add, told = pair.take_client(events.CallReceived)
        assert (add.procedure, add.arguments, told.procedure, told.request_id) == ("add", [1.0, 2.0], "told", 0)
        pair.client.answer_call(add.request_id, 3)
        assert pair.take_server(events.ResultReceived) == [events.ResultReceived("add", transaction, True, [None, 3.0])]

    def test_server_call_is_refused_by_a_client_that_answers_no_calls(self, pair: ConnectionPair) -> None:
        pair.server.call("add", 1, 2)
        (result,) = pair.take_server(events.ResultReceived)
        assert (result.succeeded, result.values[1]["code"]) == (False, "NetConnection.Call.Failed")

    def test_unsendable_server_call_does_not_count_as_pending(self) -> None:
        pair = ConnectionPair(server_limits=Limits(calls=2)).connected()
        transaction = pair.server.call("add", 1, 2)
        for _ in range(3):
            with pytest.raises(LocalProtocolError):
                pair.server.call("add", object())
        assert [found.transaction for found in pair.take_server(events.ResultReceived)] == [transaction]

    def test_client_call_before_connect_raises_local_protocol_error(self, unconnected: ConnectionPair) -> None:
        with pytest.raises(LocalProtocolError):
            unconnected.client.call("x")

    @pytest.mark.parametrize("name", ["_result", "_error", "onStatus"])
    def test_answers_are_never_answered(self, pair: ConnectionPair, name: str) -> None:
        assert answers(pair, lambda: pair.client.send_message(command(name, 5.0, None, {}))) == []

    @pytest.mark.parametrize("payload", NAMELESS)
    def test_nameless_command_before_connect_ends_the_connection(
        self, unconnected: ConnectionPair, payload: bytes
    ) -> None:
        unconnected.ended_by(RemoteProtocolError, Message(20, 0, 0, payload))

    STRAY = (b"\x00\x00\x09", b"\xff", b"\x02\x00", b"\x03\x00\x01a", b"\x11\x12")

    @pytest.mark.parametrize("stray", STRAY, ids=bytes.hex)
    @pytest.mark.parametrize("type_id", [20, 17])
    def test_stray_bytes_behind_a_command_are_reported_and_it_is_done(
        self, pair: ConnectionPair, type_id: int, stray: bytes
    ) -> None:
        body = amf0.encode("releaseStream", 9.0, None, SECRET) + stray
        prefix = b"\x00" if type_id == 17 else b""
        found = answers(pair, lambda: pair.client.send_message(Message(type_id, 0, 0, prefix + body)))
        assert found == [(0, ["_result", 9.0, None, UNDEFINED])]
        assert pair.take_server(events.UnknownMessage) == [events.UnknownMessage(type_id, 0, stray)]

    @pytest.mark.parametrize("stray", STRAY, ids=bytes.hex)
    def test_call_with_unreadable_tail_is_reported_with_its_readable_arguments(
        self, pair: ConnectionPair, stray: bytes
    ) -> None:
        pair.client.send_message(Message(20, 0, 0, amf0.encode("anything", 9.0, None, "x") + stray))
        pair.client.send_message(Message(20, 0, 0, amf0.encode("nothing") + stray))
        assert pair.take_server(events.CallReceived) == [
            events.CallReceived(1, 0, "anything", 9.0, None, ["x"]),
            events.CallReceived(0, 0, "nothing", 0.0, None, []),
        ]

    def test_a_connect_may_have_stray_bytes_but_not_unreadable_properties(self, unconnected: ConnectionPair) -> None:
        body = amf0.encode("connect", 1.0, {"app": "live"})
        unconnected.client.send_message(Message(20, 0, 0, body + b"\xff"))
        (request,) = unconnected.take_server(events.ConnectRequested)
        assert request.app == "live"
        other = ConnectionPair()
        other.run()
        other.client.send_message(Message(20, 0, 0, body[:-1]))
        other.ended_by(RemoteProtocolError, match="properties")

    @pytest.mark.parametrize("values", [("createStream",), ("createStream", None), ("createStream", "x", None)])
    def test_create_stream_with_missing_parts_is_answered(self, pair: ConnectionPair, values: tuple[Any, ...]) -> None:
        assert answers(pair, lambda: pair.client.send_message(command(*values))) == [(0, ["_result", 0.0, None, 1.0])]

    def test_more_calls_in_one_read_than_the_limit_end_the_connection(self) -> None:
        pair = ConnectionPair(server_limits=Limits(messages_per_read=10)).connected()
        for _ in range(3):
            for _ in range(10):
                pair.client.call("_checkbw")
            pair.run()
        for _ in range(11):
            pair.client.call("_checkbw")
        pair.ended_by(LimitExceeded)

    def test_overlong_call_ends_the_connection(self, pair: ConnectionPair) -> None:
        pair.client.call("x", "a" * 65_536)
        pair.ended_by(LimitExceeded)

    def test_call_with_too_many_values_ends_the_connection(self, pair: ConnectionPair) -> None:
        pair.client.call("x", *[None] * 2_000)
        pair.run()
        pair.client.call("x", *[None] * 2_100)
        pair.ended_by(LimitExceeded)

    def test_a_stream_too_many_is_refused_and_the_others_go_on(self) -> None:
        pair = ConnectionPair(server_limits=Limits(message_streams=3)).connected()
        for _ in range(10):
            pair.client.delete_stream(pair.create_stream())
        first, *_ = [pair.create_stream() for _ in range(3)]
        pair.client.publish(first, "cam")
        pair.run()
        for transaction in (77.0, 0.0):
            refused = answers(pair, partial(pair.client.send_message, command("createStream", transaction, None)))
            description = "This connection has 3 message streams, and may have no more: delete one first."
            assert refused == [(0, ["_error", transaction, None, FAILED | {"description": description}])]
        pair.client.send_video(first, 0, b"v")
        pair.client.delete_stream(first + 1)
        assert pair.create_stream() == first + 3, "the others go on, and there is room for one again"
        assert pair.take_server(events.VideoReceived) == [events.VideoReceived(first, 0, b"v")]


class TestClose:
    def test_close_ends_all_streams_then_the_connection(self, publisher: ConnectionPair) -> None:
        player = publisher.create_stream()
        publisher.client.play(player, "other")
        publisher.run()
        before = len(publisher.server_events)
        publisher.client.notify("close")
        publisher.client.create_stream()
        publisher.run()
        assert [event for event in publisher.server_events[before:] if not isinstance(event, events.StatusSent)] == [
            events.PublishStopped(1, "close"),
            events.PlayStopped(player, "close"),
            events.CloseRequested(),
        ]

    def test_close_of_an_idle_connection_is_reported_without_an_answer(self, pair: ConnectionPair) -> None:
        assert answers(pair, lambda: pair.client.notify("close")) == []
        assert pair.take_server(events.CloseRequested) == [events.CloseRequested()]


@pytest.mark.parametrize("type_id", [0, 7, 10, 11, 12, 13, 14, 21, *range(23, 256, 29), 255])
@pytest.mark.parametrize("stream_id", [0, 1, 9])
def test_unknown_messages_are_reported(publisher: ConnectionPair, type_id: int, stream_id: int) -> None:
    """Also types that the specification leaves free among its own."""
    publisher.client.send_message(Message(type_id, 5, stream_id, b"?"))
    publisher.server.send_message(Message(type_id, 5, stream_id, b"?"))
    assert publisher.take_server(events.UnknownMessage) == [events.UnknownMessage(type_id, stream_id, b"?")]
    assert publisher.take_client(events.UnknownMessage) == [events.UnknownMessage(type_id, stream_id, b"?")]


TOO_SHORT = ("", "00", "0006", "0006000000", "0007", "000300000001", "001b" + "00" * 41)
UNKNOWN = ("0005", "001a01", "001c" + "00" * 42, "00ff00000001", "0000 00000001")
"""User control."""
UNREADABLE = [
    *(Message(20, 0, 0, payload) for payload in NAMELESS),
    *(Message(18, 0, 1, payload) for payload in (b"", b"\xff\xff", amf0.encode(1.0), amf0.encode("@setDataFrame"))),
    Message(18, 0, 1, amf0.encode("onMetaData") + b"\x11\x12"),
    *(Message(19, 0, 0, b"so"), Message(16, 0, 0, b"\x00so"), Message(16, 0, 0, b"\x01"), Message(22, 0, 1, b"abc")),
    *(Message(4, 0, 0, bytes.fromhex(payload)) for payload in (*TOO_SHORT, *UNKNOWN)),
]


@pytest.mark.parametrize("message", UNREADABLE, ids=lambda message: f"{message.type_id} {message.payload.hex()}")
def test_unreadable_message_is_reported_and_ends_no_stream(publisher: ConnectionPair, message: Message) -> None:
    publisher.client.send_message(message)
    publisher.client.send_video(1, 0, b"v")
    unknown = events.UnknownMessage(message.type_id, message.stream_id, message.payload)
    assert publisher.take_server(events.UnknownMessage) == [unknown]
    assert len(publisher.take_server(events.VideoReceived)) == 1


def test_status_sent_by_the_server_is_reported_and_reaches_the_client(pair: ConnectionPair) -> None:
    pair.server.send_status(0, "status", "NetConnection.Connect.ReconnectRequest", "Move.", tcUrl="rtmp://x/live")
    assert pair.server.events() == [events.StatusSent(0, "status", "NetConnection.Connect.ReconnectRequest", "Move.")]
    (status,) = pair.take_client(events.StatusReceived)
    assert (status.stream_id, status.info["tcUrl"]) == (0, "rtmp://x/live")


def test_events_keep_secrets_out_of_their_representation() -> None:
    pair = ConnectionPair()
    pair.connected(app=f"live?key={SECRET}")
    stream_id = pair.create_stream()
    pair.client.publish(stream_id, SECRET)
    pair.client.call("custom", SECRET)
    pair.run()
    assert SECRET not in repr(pair.server_events)
