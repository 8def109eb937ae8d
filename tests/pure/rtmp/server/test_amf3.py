"""Object encoding 3: commands of type 17 and data of type 15, both ways, and what players get of it."""

from functools import partial
from typing import Any

import pyamf
import pytest

from ingest.rtmp import Limits, Message, ServerConnection, events
from ingest.rtmp.amf import UNSUPPORTED, Amf3, amf0
from tests.pure.rtmp.pair import ConnectionPair, Decide, answers, deciding, sent
from tests.rtmpdecode import Decoded, decode_stream

COMMANDS = (17, 20)


def connected(**options: Any) -> ConnectionPair:
    return ConnectionPair(**options).connected(objectEncoding=3)


def accepting(info: dict[str, Any]) -> Decide:
    return deciding(events.ConnectRequested, lambda server, event: server.accept_connect(event.request_id, info=info))


def command_types(data: bytearray) -> list[int]:
    return [message.type_id for message in decode_stream(bytes(data)) if message.type_id in COMMANDS]


def extended(*values: Any, stream_id: int = 0, type_id: int = 17) -> Message:
    return Message(type_id, 0, stream_id, b"\x00" + amf0.encode(*values))


class TestCommands:
    def test_all_but_connect_and_its_result_go_out_as_type_17(self) -> None:
        pair = connected()
        pair.client.publish(pair.create_stream(), "cam")
        pair.run()
        assert pair.server.amf3
        assert pair.client.amf3
        assert command_types(pair.to_server) == [20, 17, 17]
        assert command_types(pair.to_client) == [20, 17, 17]
        (status,) = pair.take_client(events.StatusReceived)
        assert (status.stream_id, status.code) == (1, "NetStream.Publish.Start")

    def test_status_in_amf3_has_the_expected_bytes_and_pyamf_reads_them(self) -> None:
        """The protocol's own texts and numbers in AMF0, the objects in AMF3; another reader reads the same."""
        pair = connected()
        pair.server.send_status(1, "error", "c", "d", ex={"n": 1.0})
        pair.run()
        payload = bytes.fromhex(
            "00 02 0008 6f6e537461747573 00 0000000000000000 05"
            "11 0a 0b 01 0b 6c6576656c 06 0b 6572726f72 09 636f6465 06 03 63"
            "17 6465736372697074696f6e 06 03 64 05 6578 0a 01 03 6e 05 3ff0000000000000 01 01"
        )
        assert sent(pair)[-1] == Decoded(17, 0, 1, payload)
        info = {"level": "error", "code": "c", "description": "d", "ex": {"n": 1.0}}
        assert list(pyamf.decode(payload[1:], encoding=pyamf.AMF0)) == ["onStatus", 0.0, None, info]

    @pytest.mark.parametrize("info", [{"objectEncoding": 0}, {"objectEncoding": None}])
    def test_the_client_keeps_to_amf0_with_a_server_that_knows_no_other(self, info: dict[str, Any]) -> None:
        pair = connected(decide=accepting(info))
        pair.create_stream()
        assert command_types(pair.to_server) == [20, 20]

    def test_a_client_that_did_not_ask_is_sent_amf0(self, idle: ConnectionPair) -> None:
        assert command_types(idle.to_client) == [20, 20]

    def test_client_keeps_amf0_when_the_server_answers_encoding_3_unasked(self) -> None:
        pair = ConnectionPair(decide=accepting({"objectEncoding": 3})).connected()
        pair.create_stream()
        assert command_types(pair.to_server) == [20, 20]

    def test_a_refused_connect_is_answered_in_amf0(self) -> None:
        def refuse(server: ServerConnection, event: events.ConnectRequested) -> None:
            server.reject_connect(event.request_id, "NetConnection.Connect.Rejected", "No.")

        pair = connected(decide=deciding(events.ConnectRequested, refuse))
        assert command_types(pair.to_client) == [20]

    def test_type_17_with_or_without_format_byte_and_type_20_are_answered(self) -> None:
        pair = connected()
        body = amf0.encode("createStream", 2.0, None)
        for message in (Message(17, 0, 0, b"\x00" + body), Message(17, 0, 0, body), Message(20, 0, 0, body)):
            found = answers(pair, partial(pair.client.send_message, message))
            assert [values[0] for _, values in found] == ["_result"]

    def test_command_wholly_in_amf3_with_integer_transaction_is_answered(self) -> None:
        """As Red5 writes it; its transaction id is an integer then."""
        pair = connected()
        message = extended(Amf3("createStream"), Amf3(7), Amf3(None))
        assert answers(pair, partial(pair.client.send_message, message)) == [(0, ["_result", 7.0, None, 1.0])]

    def test_answer_wholly_in_amf3_is_matched_to_its_call(self) -> None:
        pair = connected()
        transaction = pair.client.call("x")
        pair.client.data_to_send()
        pair.server.send_message(extended(Amf3("_result"), Amf3(int(transaction)), Amf3(None), Amf3(5)))
        assert pair.take_client(events.ResultReceived)[-1] == events.ResultReceived("x", transaction, True, [None, 5])

    def test_amf3_integer_arguments_of_play_and_delete_stream_are_read(self) -> None:
        pair = connected()
        for stream_id in (1, 2):
            assert pair.create_stream() == stream_id
        pair.client.send_message(extended("play", 0, None, "cam", Amf3(-1000), Amf3(5), Amf3(0), stream_id=1))
        pair.client.send_message(extended("deleteStream", 0, None, Amf3(1), stream_id=2))
        (play,) = pair.take_server(events.PlayRequested)
        assert (play.start, play.duration, play.reset) == (-1.0, 5, False)
        assert list(pair.server.streams) == [2]

    def test_connect_with_amf3_properties_is_read_and_enables_amf3(self, unconnected: ConnectionPair) -> None:
        unconnected.client.send_message(extended("connect", 1, Amf3({"app": "live", "objectEncoding": 3})))
        (request,) = unconnected.take_server(events.ConnectRequested)
        assert (request.app, request.object_encoding, unconnected.server.amf3) == ("live", 3, True)

    def test_call_arguments_keep_their_amf3_types(self) -> None:
        pair = connected()
        pair.client.call("x", {"a": 1}, "b", b"\x00")
        (call,) = pair.take_server(events.CallReceived)
        assert call.arguments == [{"a": 1}, "b", b"\x00"]
        assert type(call.arguments[0]["a"]) is int

    def test_call_with_unreadable_amf3_value_is_received_and_the_rest_reported(self) -> None:
        pair = connected()
        pair.client.send_message(Message(17, 0, 0, b"\x00" + amf0.encode("x", 2.0, None) + b"\x11\x12"))
        assert [event.arguments for event in pair.take_server(events.CallReceived)] == [[]]
        assert pair.take_server(events.UnknownMessage) == [events.UnknownMessage(17, 0, b"\x11\x12")]


class TestData:
    def publishing(self, **options: Any) -> ConnectionPair:
        pair = connected(**options)
        pair.client.publish(pair.create_stream(), "cam")
        pair.run()
        return pair

    def test_the_client_sends_type_15(self) -> None:
        pair = self.publishing()
        pair.client.send_metadata(1, 7, {"width": 640, "name": "x"})
        pair.run()
        message = decode_stream(bytes(pair.to_server))[-1]
        assert (message.type_id, message.timestamp, message.stream_id) == (15, 7, 1)
        assert message.payload[:1] == b"\x00"
        assert b"\x11\x0a" in message.payload
        values = [{"width": 640.0, "name": "x"}]
        assert pair.take_server(events.DataReceived) == [
            events.DataReceived(1, 7, "onMetaData", values, amf0.encode("onMetaData", *values), kept=True)
        ]

    @pytest.mark.parametrize("type_id", [15, 18])
    @pytest.mark.parametrize("name", ["onMetaData", Amf3("onMetaData")])
    def test_amf3_is_relayed_as_amf0(self, type_id: int, name: Any) -> None:
        """The tables of AMF3 are those of the whole message: `@setDataFrame` has a place in them too."""
        pair = self.publishing()
        body = amf0.encode(Amf3("@setDataFrame"), name, Amf3({"onMetaData": "@setDataFrame"}), Amf3([1, b"x"]))
        pair.client.send_message(Message(type_id, 0, 1, body))
        pair.run()
        values = [{"onMetaData": "@setDataFrame"}, [1.0, UNSUPPORTED]]
        assert pair.take_server(events.DataReceived) == [
            events.DataReceived(1, 0, "onMetaData", values, amf0.encode("onMetaData", *values), kept=True)
        ]

    def test_data_without_amf3_values_keeps_its_payload_bytes(self) -> None:
        """Also where a number's bytes look like the switch to AMF3, and in forms that writing it anew would change."""
        pair = self.publishing()
        body = amf0.encode("onMetaData", 3.3e-226) + bytes.fromhex("08 000000ff 0001 61 0111 000009")
        assert b"\x11" in body
        for payload in (b"\x00" + body, body, b"\x00" + amf0.encode("@setDataFrame") + body):
            pair.client.send_message(Message(15, 0, 1, payload))
        assert [event.payload for event in pair.take_server(events.DataReceived)] == [body] * 3

    @pytest.mark.parametrize("type_id", [15, 18])
    def test_data_over_the_limit_after_conversion_to_amf0_is_only_reported(self, type_id: int) -> None:
        """Else it would be sent to players at many times its size, or be more than a message can hold."""
        texts = [["a" * 63] * count for count in (20, 21)]
        bodies = [amf0.encode("onMetaData", values) for values in texts]
        pair = self.publishing(server_limits=Limits(data_message_bytes=len(bodies[0])))
        for values in texts:
            pair.client.send_message(extended("onMetaData", Amf3(values), stream_id=1, type_id=type_id))
        assert [event.payload for event in pair.take_server(events.DataReceived)] == bodies[:1]
        assert [event.type_id for event in pair.take_server(events.UnknownMessage)] == [type_id]

    @pytest.mark.parametrize("type_id", [15, 18])
    @pytest.mark.parametrize(
        "payload",
        [
            amf0.encode("onMetaData") + b"\x11\x12",
            amf0.encode("onMetaData", Amf3({"x" * 65_536: 1})),
            amf0.encode(Amf3(["onMetaData"])),
        ],
        ids=["unknown marker", "a name too long for AMF0", "no name"],
    )
    def test_data_not_convertible_to_amf0_is_only_reported(self, payload: bytes, type_id: int) -> None:
        pair = self.publishing()
        pair.client.send_message(Message(type_id, 0, 1, payload))
        assert pair.take_server(events.DataReceived) == []
        assert pair.take_server(events.UnknownMessage) == [events.UnknownMessage(type_id, 1, payload)]
