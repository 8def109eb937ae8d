"""All other commands and messages: answered, reported, or refused."""

from functools import partial
from typing import Any

import pytest

from ingest.rtmp import (
    LimitExceeded,
    Limits,
    Message,
    RemoteProtocolError,
    amf0,
    events,
)
from tests.ingest.rtmp.pair import ConnectionPair
from tests.ingest.rtmp.server.helpers import SECRET, answers, command


class TestSmallCommands:
    @pytest.mark.parametrize("procedure", ["releaseStream", "FCPublish", "FCSubscribe", "_checkbw", "FCUnpublish"])
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

    def test_the_length_of_what_is_live_is_0(self) -> None:
        pair = ConnectionPair().connected()
        assert answers(pair, lambda: pair.client.call("getStreamLength", "x")) == [(0, ["_result", 2.0, None, 0.0])]
        assert answers(pair, lambda: pair.client.notify("getStreamLength", "x")) == []

    def test_create_stream_is_answered_even_without_a_transaction(self) -> None:
        pair = ConnectionPair().connected()
        assert answers(pair, lambda: pair.client.notify("createStream")) == [(0, ["_result", 0.0, None, 1.0])]
        assert pair.create_stream() == 2
        assert pair.take_server(events.StreamCreated) == [events.StreamCreated(1), events.StreamCreated(2)]


class TestCalls:
    @pytest.mark.parametrize("procedure", ["ping", "pause", "seek", "receiveAudio", "play2", "", "__class__"])
    def test_unknown_procedures_are_reported_and_answered(self, procedure: str) -> None:
        pair = ConnectionPair().connected()
        found = answers(pair, lambda: pair.client.call(procedure, SECRET, 1, command_object={"a": None}))
        assert found == [
            (
                0,
                [
                    "_error",
                    2.0,
                    None,
                    {
                        "level": "error",
                        "code": "NetConnection.Call.Failed",
                        "description": "There is no such procedure.",
                    },
                ],
            )
        ]
        assert pair.take_server(events.CallReceived) == [
            events.CallReceived(0, procedure, 2.0, {"a": None}, [SECRET, 1.0])
        ]

    def test_without_a_transaction_they_are_only_reported(self) -> None:
        pair = ConnectionPair().connected()
        assert answers(pair, lambda: pair.client.notify("pause", True, 0)) == []
        assert len(pair.take_server(events.CallReceived)) == 1

    @pytest.mark.parametrize("name", ["_result", "_error", "onStatus"])
    def test_answers_are_never_answered(self, name: str) -> None:
        pair = ConnectionPair().connected()
        assert answers(pair, lambda: pair.client.send_message(command(name, 5.0, None, {}))) == []

    @pytest.mark.parametrize(
        "payload", [b"", b"\x05", amf0.encode(1.0), amf0.encode(None, 1.0), b"\x02\x00", b"\x11\x01"]
    )
    def test_a_command_without_a_name(self, payload: bytes) -> None:
        pair = ConnectionPair().connected()
        pair.client.send_message(Message(20, 0, 0, payload))
        with pytest.raises(RemoteProtocolError):
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

    def test_too_many_streams(self) -> None:
        pair = ConnectionPair(server_limits=Limits(message_streams=3)).connected()
        for _ in range(10):
            pair.client.delete_stream(pair.create_stream())
        for _ in range(3):
            pair.create_stream()
        pair.client.create_stream()
        with pytest.raises(LimitExceeded):
            pair.run()


class TestAmf3Messages:
    """After objectEncoding 3, clients send type 17 and 15: a byte 0, then AMF0 values."""

    def test_commands(self) -> None:
        pair = ConnectionPair().connected(objectEncoding=3)
        for prefix in (b"\x00", b""):
            message = Message(17, 0, 0, prefix + amf0.encode("createStream", 2.0, None))
            found = answers(pair, partial(pair.client.send_message, message))
            assert [values[0] for _, values in found] == ["_result"]

    def test_data(self) -> None:
        pair = ConnectionPair()
        pair.publishing()
        body = amf0.encode("onMetaData", {"width": 5.0})
        for payload in (b"\x00" + body, body, b"\x00" + amf0.encode("@setDataFrame") + body):
            pair.client.send_message(Message(15, 0, 1, payload))
        pair.run()
        expected = events.DataReceived(1, 0, "onMetaData", [{"width": 5.0}], body)
        assert pair.take_server(events.DataReceived) == [expected] * 3

    def test_amf3_values_in_a_command(self) -> None:
        pair = ConnectionPair().connected(objectEncoding=3)
        body = amf0.encode("x", 2.0, None, amf0.Amf3({"a": 1}), "b")
        pair.client.send_message(Message(17, 0, 0, b"\x00" + body))
        pair.run()
        (call,) = pair.take_server(events.CallReceived)
        assert call.arguments == [{"a": 1}, "b"]

    def test_amf3_values_that_cannot_be_read(self) -> None:
        pair = ConnectionPair().connected(objectEncoding=3)
        pair.client.send_message(Message(17, 0, 0, b"\x00" + amf0.encode("x", 2.0, None) + b"\x11\x12"))
        with pytest.raises(RemoteProtocolError, match="AMF3"):
            pair.run()


def test_unknown_messages_are_reported() -> None:
    pair = ConnectionPair().connected()
    for message in (
        Message(22, 0, 1, b"abc"),
        Message(19, 0, 0, b"so"),
        Message(0, 0, 0, b""),
        Message(200, 0, 9, b"?"),
    ):
        pair.client.send_message(message)
    pair.client.send_message(Message(4, 0, 0, b"\x00\x1b" + bytes(42)))
    pair.run()
    assert [(event.type_id, event.stream_id) for event in pair.take_server(events.UnknownMessage)] == [
        (22, 1),
        (19, 0),
        (0, 0),
        (200, 9),
        (4, 0),
    ]


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
