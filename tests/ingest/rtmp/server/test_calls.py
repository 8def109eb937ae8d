"""All other commands and messages: answered, reported, or refused."""

from functools import partial
from typing import Any

import pytest

from ingest.rtmp import LimitExceeded, Limits, LocalProtocolError, Message, RemoteProtocolError, events
from ingest.rtmp.amf import amf0
from tests.ingest.rtmp.pair import ConnectionPair
from tests.ingest.rtmp.server.helpers import SECRET, answers, command


class TestSmallCommands:
    @pytest.mark.parametrize(
        "procedure", ["releaseStream", "FCPublish", "_checkbw", "FCUnpublish", "FCUnsubscribe", "_onbwcheck"]
    )
    @pytest.mark.parametrize("created", [False, True])
    def test_are_answered_when_they_want_it(self, procedure: str, created: bool) -> None:
        pair = ConnectionPair().connected()
        if created:
            pair.create_stream()
        assert answers(pair, lambda: pair.client.notify(procedure, SECRET)) == []
        transaction = 0.0

        def call() -> None:
            nonlocal transaction
            transaction = pair.client.call(procedure, SECRET)

        assert answers(pair, call) == [(0, ["_result", transaction, None, amf0.UNDEFINED])]
        assert SECRET.encode() not in pair.to_client
        assert pair.take_server(events.CallReceived) == []

    def test_on_a_message_stream_too(self) -> None:
        pair = ConnectionPair().connected()
        pair.create_stream()
        assert answers(pair, lambda: pair.client.call("releaseStream", "x", stream_id=1))[0][1][0] == "_result"

    def test_a_subscriber_is_told_by_on_fc_subscribe(self) -> None:
        pair = ConnectionPair().connected()
        info = {"level": "status", "code": "NetStream.Play.Start", "description": "Subscribed."}
        notice = (0, ["onFCSubscribe", 0.0, None, info])
        assert answers(pair, lambda: pair.client.notify("FCSubscribe", SECRET)) == [notice]
        answer = (0, ["_result", 2.0, None, amf0.UNDEFINED])
        assert answers(pair, lambda: pair.client.call("FCSubscribe", SECRET)) == [answer, notice]
        assert SECRET.encode() not in pair.to_client

    def test_the_length_of_a_stream_is_asked(self) -> None:
        """And the connection goes on meanwhile."""
        pair = ConnectionPair().connected()
        assert answers(pair, lambda: pair.client.call("getStreamLength", "x")) == []
        (asked,) = pair.take_server(events.LengthRequested)
        assert asked.name == "x"
        pair.create_stream()
        length = answers(pair, lambda: pair.server.answer_call(asked.request_id, 7.5))
        assert length == [(0, ["_result", 2.0, None, 7.5])]

    @pytest.mark.parametrize("name", ["x" * 1025, "é" * 513])
    def test_of_a_name_that_is_too_long_it_is_0(self, name: str) -> None:
        pair = ConnectionPair().connected()
        found = answers(pair, lambda: pair.client.call("getStreamLength", name))
        assert found == [(0, ["_result", 2.0, None, 0.0])]

    def test_nobody_wants_the_length(self) -> None:
        pair = ConnectionPair().connected()
        assert answers(pair, lambda: pair.client.notify("getStreamLength", "x")) == []
        assert pair.take_server(events.LengthRequested) == []

    def test_create_stream_is_answered_even_without_a_transaction(self) -> None:
        pair = ConnectionPair().connected()
        assert answers(pair, lambda: pair.client.notify("createStream")) == [(0, ["_result", 0.0, None, 1.0])]
        assert pair.create_stream() == 2
        assert pair.take_server(events.StreamCreated) == [events.StreamCreated(1), events.StreamCreated(2)]


FAILED = {"level": "error", "code": "NetConnection.Call.Failed"}


class TestCalls:
    @pytest.mark.parametrize("procedure", ["ping", "checkBandwidth", "", "__class__"])
    def test_are_reported_and_answered_by_the_shell(self, procedure: str) -> None:
        pair = ConnectionPair().connected()
        assert answers(pair, lambda: pair.client.call(procedure, SECRET, 1, command_object={"a": None})) == []
        (call,) = pair.take_server(events.CallReceived)
        assert call == events.CallReceived(1, 0, procedure, 2.0, {"a": None}, [SECRET, 1.0])
        found = answers(pair, lambda: pair.server.answer_call(1, {"b": [True, "c"]}))
        assert found == [(0, ["_result", 2.0, None, {"b": [True, "c"]}])]
        with pytest.raises(LocalProtocolError):
            pair.server.answer_call(1, None)

    def test_are_answered_in_any_order(self) -> None:
        pair = ConnectionPair().connected()
        for number in range(3):
            pair.client.call("count", number)
        pair.run()
        ids = [event.request_id for event in pair.take_server(events.CallReceived)]

        def answer() -> None:
            for request_id in reversed(ids):
                pair.server.answer_call(request_id, request_id)
            pair.client.publish(pair.create_stream(), "cam")

        assert [values[:2] for _, values in answers(pair, answer)[:3]] == [
            ["_result", 4.0],
            ["_result", 3.0],
            ["_result", 2.0],
        ]

    def test_fail_with_a_code(self) -> None:
        pair = ConnectionPair().connected()
        pair.client.call("x")
        pair.run()
        found = answers(pair, lambda: pair.server.fail_call(1, "Chess.Illegal", "No such move."))
        info = {"level": "error", "code": "Chess.Illegal", "description": "No such move."}
        assert found == [(0, ["_error", 2.0, None, info])]

    @pytest.mark.parametrize("result", [object(), 1 << 2000, "\ud800", "x" * 262_145, [[]] * 100_000])
    def test_a_result_that_cannot_be_sent_leaves_the_call_open(self, result: Any) -> None:
        pair = ConnectionPair().connected()
        pair.client.call("x")
        pair.run()
        with pytest.raises(LocalProtocolError):
            pair.server.answer_call(1, result)
        assert answers(pair, lambda: pair.server.fail_call(1, "X", ""))[0][1][0] == "_error"

    def test_a_result_that_is_nested_too_deep(self) -> None:
        nested: list[Any] = []
        for _ in range(100_000):
            nested = [nested]
        pair = ConnectionPair().connected()
        pair.client.call("x")
        pair.run()
        with pytest.raises(LocalProtocolError):
            pair.server.answer_call(1, nested)
        while nested:  # Piece by piece, as the interpreter frees what is nested by recursion.
            nested = nested.pop()

    def test_only_so_many_await_their_answers(self) -> None:
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

    def test_a_name_that_is_too_long(self) -> None:
        pair = ConnectionPair().connected()
        found = answers(pair, lambda: pair.client.call("x" * 257))
        assert found[0][1][3] == FAILED | {"description": "The procedure's name is too long."}
        assert pair.take_server(events.CallReceived) == []

    def test_without_a_transaction_they_want_no_answer(self) -> None:
        pair = ConnectionPair(server_limits=Limits(pending_calls=1)).connected()
        for _ in range(3):
            assert answers(pair, lambda: pair.client.notify("x", True, 0)) == []
        assert [event.request_id for event in pair.take_server(events.CallReceived)] == [0, 0, 0]

    def test_of_the_server_are_answered_by_a_client_that_does(self) -> None:
        pair = ConnectionPair().connected()
        pair.client.answers_calls = True
        transaction = pair.server.call("add", 1, 2)
        pair.server.notify("told")
        pair.run()
        add, told = pair.take_client(events.CallReceived)
        assert (add.procedure, add.arguments, told.procedure, told.request_id) == ("add", [1.0, 2.0], "told", 0)
        pair.client.answer_call(add.request_id, 3)
        pair.run()
        assert pair.take_server(events.ResultReceived) == [events.ResultReceived("add", transaction, True, [None, 3.0])]

    def test_of_the_server_are_refused_by_one_that_does_not(self) -> None:
        pair = ConnectionPair().connected()
        pair.server.call("add", 1, 2)
        pair.run()
        (result,) = pair.take_server(events.ResultReceived)
        assert (result.succeeded, result.values[1]["code"]) == (False, "NetConnection.Call.Failed")

    def test_of_the_server_that_cannot_be_sent_await_no_answer(self) -> None:
        pair = ConnectionPair(server_limits=Limits(calls=2)).connected()
        transaction = pair.server.call("add", 1, 2)
        for _ in range(3):
            with pytest.raises(LocalProtocolError):
                pair.server.call("add", object())
        pair.run()
        assert [found.transaction for found in pair.take_server(events.ResultReceived)] == [transaction]

    def test_of_ours_none_is_made_before_connect(self) -> None:
        pair = ConnectionPair()
        pair.run()
        with pytest.raises(LocalProtocolError):
            pair.client.call("x")

    @pytest.mark.parametrize("name", ["_result", "_error", "onStatus"])
    def test_answers_are_never_answered(self, name: str) -> None:
        pair = ConnectionPair().connected()
        assert answers(pair, lambda: pair.client.send_message(command(name, 5.0, None, {}))) == []

    @pytest.mark.parametrize(
        "payload", [b"", b"\x05", amf0.encode(1.0), amf0.encode(None, 1.0), b"\x02\x00", b"\x11\x01"]
    )
    def test_a_command_without_a_name(self, payload: bytes) -> None:
        """It ends nothing that is live; before connect it tells of another protocol."""
        pair = ConnectionPair()
        pair.run()
        pair.client.send_message(Message(20, 0, 0, payload))
        with pytest.raises(RemoteProtocolError):
            pair.run()
        pair = ConnectionPair()
        stream_id = pair.publishing()
        pair.client.send_message(Message(20, 0, 0, payload))
        pair.client.send_video(stream_id, 0, b"v")
        pair.run()
        assert pair.take_server(events.UnknownMessage) == [events.UnknownMessage(20, 0, payload)]
        assert len(pair.take_server(events.VideoReceived)) == 1

    STRAY = (b"\x00\x00\x09", b"\xff", b"\x02\x00", b"\x03\x00\x01a", b"\x11\x12")

    @pytest.mark.parametrize("stray", STRAY, ids=bytes.hex)
    @pytest.mark.parametrize("type_id", [20, 17])
    def test_stray_bytes_behind_a_command_are_reported_and_it_is_done(self, type_id: int, stray: bytes) -> None:
        pair = ConnectionPair().connected()
        body = amf0.encode("releaseStream", 9.0, None, SECRET) + stray
        prefix = b"\x00" if type_id == 17 else b""
        found = answers(pair, lambda: pair.client.send_message(Message(type_id, 0, 0, prefix + body)))
        assert found == [(0, ["_result", 9.0, None, amf0.UNDEFINED])]
        assert pair.take_server(events.UnknownMessage) == [events.UnknownMessage(type_id, 0, stray)]

    @pytest.mark.parametrize("stray", STRAY, ids=bytes.hex)
    def test_a_call_that_can_not_be_read_to_its_end_is_one_with_what_can(self, stray: bytes) -> None:
        pair = ConnectionPair().connected()
        pair.client.send_message(Message(20, 0, 0, amf0.encode("anything", 9.0, None, "x") + stray))
        pair.client.send_message(Message(20, 0, 0, amf0.encode("nothing") + stray))
        pair.run()
        assert pair.take_server(events.CallReceived) == [
            events.CallReceived(1, 0, "anything", 9.0, None, ["x"]),
            events.CallReceived(0, 0, "nothing", 0.0, None, []),
        ]

    def test_a_connect_may_have_stray_bytes_but_not_unreadable_properties(self) -> None:
        pair = ConnectionPair()
        pair.run()
        pair.client.send_message(Message(20, 0, 0, amf0.encode("connect", 1.0, {"app": "live"}) + b"\xff"))
        pair.run()
        (request,) = pair.take_server(events.ConnectRequested)
        assert request.app == "live"
        pair = ConnectionPair()
        pair.run()
        pair.client.send_message(Message(20, 0, 0, amf0.encode("connect", 1.0, {"app": "live"})[:-1]))
        with pytest.raises(RemoteProtocolError, match="properties"):
            pair.run()

    @pytest.mark.parametrize("values", [("createStream",), ("createStream", None), ("createStream", "x", None)])
    def test_parts_may_be_missing(self, values: tuple[Any, ...]) -> None:
        pair = ConnectionPair().connected()
        assert answers(pair, lambda: pair.client.send_message(command(*values))) == [(0, ["_result", 0.0, None, 1.0])]

    def test_too_many_at_once(self) -> None:
        pair = ConnectionPair(server_limits=Limits(messages_per_read=10)).connected()
        for _ in range(3):
            for _ in range(10):
                pair.client.call("_checkbw")
            pair.run()
        for _ in range(11):
            pair.client.call("_checkbw")
        with pytest.raises(LimitExceeded):
            pair.run()

    def test_too_long(self) -> None:
        pair = ConnectionPair().connected()
        pair.client.call("x", "a" * 65_536)
        with pytest.raises(LimitExceeded):
            pair.run()

    def test_too_many_values(self) -> None:
        pair = ConnectionPair().connected()
        pair.client.call("x", *[None] * 2_000)
        pair.run()
        pair.client.call("x", *[None] * 2_100)
        with pytest.raises(LimitExceeded):
            pair.run()

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
    def test_ends_all_streams_then_the_connection(self) -> None:
        pair = ConnectionPair()
        pair.publishing()
        player = pair.create_stream()
        pair.client.play(player, "other")
        pair.run()
        before = len(pair.server_events)
        pair.client.close_connection()
        pair.client.create_stream()
        pair.run()
        assert [event for event in pair.server_events[before:] if not isinstance(event, events.StatusSent)] == [
            events.PublishStopped(1, "close"),
            events.PlayStopped(player, "close"),
            events.CloseRequested(),
        ]

    def test_of_an_idle_connection(self) -> None:
        pair = ConnectionPair().connected()
        assert answers(pair, pair.client.close_connection) == []
        assert pair.take_server(events.CloseRequested) == [events.CloseRequested()]


@pytest.mark.parametrize("type_id", [0, 7, 10, 11, 12, 13, 14, 21, *range(23, 256, 29), 255])
@pytest.mark.parametrize("stream_id", [0, 1, 9])
def test_unknown_messages_are_reported(type_id: int, stream_id: int) -> None:
    """Also types that the specification leaves free among its own."""
    pair = ConnectionPair()
    pair.publishing()
    pair.client.send_message(Message(type_id, 5, stream_id, b"?"))
    pair.server.send_message(Message(type_id, 5, stream_id, b"?"))
    pair.run()
    assert pair.take_server(events.UnknownMessage) == [events.UnknownMessage(type_id, stream_id, b"?")]
    assert pair.take_client(events.UnknownMessage) == [events.UnknownMessage(type_id, stream_id, b"?")]


def test_messages_that_cannot_be_read_are_reported() -> None:
    pair = ConnectionPair().connected()
    for message in (
        Message(22, 0, 1, b"abc"),
        Message(19, 0, 0, b"so"),
        Message(4, 0, 0, b"\x00\x1c" + bytes(42)),
    ):
        pair.client.send_message(message)
    pair.run()
    found = [(event.type_id, event.stream_id) for event in pair.take_server(events.UnknownMessage)]
    assert found == [(22, 1), (19, 0), (4, 0)]


def test_a_status_of_ours_is_sent_and_reported() -> None:
    pair = ConnectionPair().connected()
    pair.server.send_status(0, "status", "NetConnection.Connect.ReconnectRequest", "Move.", tcUrl="rtmp://x/live")
    assert pair.server.events() == [events.StatusSent(0, "status", "NetConnection.Connect.ReconnectRequest", "Move.")]
    pair.run()
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
