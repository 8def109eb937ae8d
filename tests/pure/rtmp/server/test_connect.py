"""`connect`, and what waits while a decision is awaited."""

import struct
from collections.abc import Callable
from typing import Any

import pytest

from ingest.rtmp import (
    LocalProtocolError,
    Message,
    Phase,
    RemoteProtocolError,
    ServerConnection,
    UserControl,
    events,
)
from ingest.rtmp.amf import amf0
from ingest.rtmp.capabilities import RELAY_CAPABILITIES, read_capabilities
from ingest.rtmp.messages import AggregatePart
from tests.pure.rtmp.pair import SECRET, ConnectionPair, Decide, answers, command, commands, deciding, sent
from tests.rtmp_client import decode_all, encode_aggregate


def wait(server: ServerConnection, event: Any) -> None:
    """Decides nothing."""


def take(server: ServerConnection, data: bytes | None = None) -> list[Any]:
    """What the server tells, of `data` if there is some."""
    return list(server.events() if data is None else server.receive_data(data))


PLAIN = {"fmsVer": "FMS/3,5,7,7009", "capabilities": 31.0, "mode": 1.0}
SUCCESS: dict[str, Any] = {
    "level": "status",
    "code": "NetConnection.Connect.Success",
    "description": "Connection succeeded.",
    "objectEncoding": 0.0,
}


def connected_by(decide: Decide) -> ConnectionPair:
    return ConnectionPair(decide=deciding(events.ConnectRequested, decide)).connected()


class TestConnect:
    def test_connect_answer_is_one_write_of_control_messages_then_result(self) -> None:
        pair = ConnectionPair(decide=wait)
        pair.connected()
        (request,) = pair.take_server(events.ConnectRequested)
        pair.server.accept_connect(request.request_id)
        pair.to_client += pair.server.data_to_send()
        *control, result = sent(pair)
        assert [(message.type_id, message.stream_id, message.payload) for message in control] == [
            (5, 0, struct.pack(">I", 2_500_000)),
            (6, 0, struct.pack(">IB", 2_500_000, 2)),
            (4, 0, struct.pack(">HI", 0, 0)),
            (1, 0, struct.pack(">I", 60_000)),
        ]
        assert (result.type_id, result.stream_id) == (20, 0)
        assert decode_all(result.payload) == ["_result", 1.0, PLAIN, SUCCESS]
        assert pair.server.phase is Phase.CONNECTED
        assert pair.server.events() == [events.StatusSent(0, "status", SUCCESS["code"], SUCCESS["description"])]

    def test_connect_request_reports_app_url_properties_and_encoding(self) -> None:
        pair = ConnectionPair().connected(app="live/x?key=1", objectEncoding=3, fpad=False)
        (request,) = pair.take_server(events.ConnectRequested)
        assert (request.app, request.tc_url) == ("live/x?key=1", "rtmp://127.0.0.1/live/x?key=1")
        assert request.flash_ver.startswith("FMLE/3.0")
        assert request.properties["fpad"] is False
        assert request.object_encoding == request.capabilities.object_encoding == 3
        (_, result), *_ = commands(pair)
        assert result[3]["objectEncoding"] == 3.0

    @pytest.mark.parametrize("encoding", [1, 2, 4, -1, "3", None, float("inf")])
    def test_other_encodings_count_as_amf0(self, encoding: Any) -> None:
        pair = ConnectionPair().connected(objectEncoding=encoding)
        (request,) = pair.take_server(events.ConnectRequested)
        assert request.object_encoding == 0
        assert commands(pair)[0][1][3]["objectEncoding"] == 0.0

    OURS = {"fourCcList": ["*"], "videoFourCcInfoMap": {"*": 4.0}, "audioFourCcInfoMap": {"*": 4.0}, "capsEx": 15.0}

    @pytest.mark.parametrize(
        "properties",
        [
            {"fourCcList": ["av01", "hvc1"]},
            {"videoFourCcInfoMap": {"*": 4}},
            {"audioFourCcInfoMap": {"Opus": 1}},
            {"capsEx": 0},
        ],
        ids=lambda properties: next(iter(properties)),
    )
    def test_enhanced_rtmp_client_is_sent_the_capabilities_of_the_server(self, properties: dict[str, Any]) -> None:
        pair = ConnectionPair().connected(**properties)
        (_, result), *_ = commands(pair)
        assert result[2] == PLAIN | self.OURS
        assert "capsEx" not in result[3]
        assert read_capabilities(result[2]) == RELAY_CAPABILITIES
        (request,) = pair.take_server(events.ConnectRequested)
        assert request.capabilities == read_capabilities(properties) == pair.server.capabilities

    @pytest.mark.parametrize(
        "properties",
        [
            {},
            {"audioCodecs": 4071, "videoCodecs": 252, "videoFunction": 1, "fpad": False, "capabilities": 15},
            {"capsEx": "1", "fourCcList": "hvc1", "videoFourCcInfoMap": []},
            {"supportsGoAway": True, "swfUrl": "rtmp://127.0.0.1/live"},
        ],
        ids=["none", "ffmpeg", "senseless", "obs"],
    )
    def test_client_without_enhanced_rtmp_gets_the_plain_answer(self, properties: dict[str, Any]) -> None:
        pair = ConnectionPair().connected(**properties)
        answer = next(message for message in sent(pair) if message.type_id == 20)
        assert answer.payload == amf0.encode("_result", 1.0, PLAIN, SUCCESS)

    def test_optional_arguments_are_handed_on(self, unconnected: ConnectionPair) -> None:
        unconnected.client.connect("live", "rtmp://127.0.0.1/live", "user", {"a": 1.0}, None)
        (request,) = unconnected.take_server(events.ConnectRequested)
        assert request.arguments == ["user", {"a": 1.0}, None]

    def test_accept_connect_adds_given_properties_and_info_to_the_result(self) -> None:
        pair = connected_by(
            lambda server, event: server.accept_connect(event.request_id, properties={"capsEx": 4}, info={"data": "x"})
        )
        (_, result), *_ = commands(pair)
        assert (result[2]["capsEx"], result[3]["data"]) == (4.0, "x")

    def test_chunk_size_and_window_are_options(self) -> None:
        pair = ConnectionPair(chunk_size=4096, window_bytes=1000).connected()
        assert [message.payload for message in sent(pair)[:4]] == [
            struct.pack(">I", 1000),
            struct.pack(">IB", 1000, 2),
            bytes(6),
            struct.pack(">I", 4096),
        ]

    def test_rejected_connect_sends_an_error_and_closes_the_connection(self) -> None:
        code, description = "NetConnection.Connect.InvalidApp", "No such app."
        pair = connected_by(
            lambda server, event: server.reject_connect(event.request_id, code, description, ex={"a": 1})
        )
        assert [message.type_id for message in sent(pair)] == [20]
        info = {"level": "error", "code": code, "description": description, "ex": {"a": 1.0}}
        assert commands(pair) == [(0, ["_error", 1.0, None, info])]
        assert pair.server.phase is Phase.CLOSED
        assert pair.take_server(events.StatusSent) == [events.StatusSent(0, "error", code, description)]
        (result,) = pair.take_client(events.ResultReceived)
        assert (result.procedure, result.succeeded) == ("connect", False)
        assert pair.server.receive_data(b"\xff" * 50) == []

    def test_connect_transaction_id_is_answered_as_sent(self, unconnected: ConnectionPair) -> None:
        unconnected.client.send_message(command("connect", 7.0, {"app": "live"}))
        unconnected.run()
        assert commands(unconnected)[0][1][1] == 7.0

    @pytest.mark.parametrize("values", [(), (1.0,), (1.0, None), (None, "x"), (1.0, {"app": 5.0})])
    def test_connect_with_missing_parts_is_requested_with_empty_fields(
        self, unconnected: ConnectionPair, values: tuple[Any, ...]
    ) -> None:
        unconnected.client.send_message(command("connect", *values))
        (request,) = unconnected.take_server(events.ConnectRequested)
        assert (request.app, request.tc_url, request.flash_ver) == ("", "", "")

    def test_a_second_connect_is_refused_and_the_connection_goes_on(self, publisher: ConnectionPair) -> None:
        refused = answers(publisher, lambda: publisher.client.send_message(command("connect", 9.0, {"app": "other"})))
        description = "This connection is connected already."
        info = {"level": "error", "code": "NetConnection.Connect.Rejected", "description": description}
        assert refused == [(0, ["_error", 9.0, None, info])]
        assert len(publisher.take_server(events.ConnectRequested)) == 1
        publisher.client.send_video(1, 0, b"v")
        assert publisher.take_server(events.VideoReceived) == [events.VideoReceived(1, 0, b"v")]

    @pytest.mark.parametrize(
        "message",
        [
            Message(8, 0, 1, b"\xaf\x01"),
            Message(9, 0, 1, b"\x17\x01"),
            Message(18, 0, 1, amf0.encode("onMetaData", {})),
            Message(16, 0, 0, b""),
            Message(19, 0, 0, b""),
            Message(22, 0, 1, b""),
            encode_aggregate(1, [AggregatePart(8, 0, b"a")]),
            Message(99, 0, 0, b""),
        ],
        ids=lambda message: f"{message.type_id}-{len(message.payload)}",
    )
    def test_non_command_message_before_connect_ends_the_connection(
        self, unconnected: ConnectionPair, message: Message
    ) -> None:
        unconnected.ended_by(RemoteProtocolError, message)

    @pytest.mark.parametrize(
        ("message", "is_answered"),
        [
            (command("createStream", 2.0, None), True),
            (command("createStream", 0.0, None), True),
            (command("publish", 5.0, None, SECRET, stream_id=1), True),
            (command("publish", 0.0, None, SECRET, stream_id=1), False),
            (command("anything", 5.0, None), True),
            (command("_result", 5.0, None), False),
            (command("onStatus", 5.0, None), False),
        ],
        ids=["createStream", "no transaction", "publish", "publish unasked", "call", "a result", "a status"],
    )
    def test_command_before_connect_is_refused_and_connect_still_succeeds(
        self, unconnected: ConnectionPair, message: Message, is_answered: bool
    ) -> None:
        refused = answers(unconnected, lambda: unconnected.client.send_message(message))
        description = "This connection has to connect first."
        info = {"level": "error", "code": "NetConnection.Call.Failed", "description": description}
        transaction = decode_all(message.payload)[1]
        assert refused == ([(0, ["_error", transaction, None, info])] if is_answered else [])
        assert unconnected.take_server(events.PublishRequested, events.CallReceived) == []
        assert unconnected.connected().server.streams == {}
        assert unconnected.create_stream() == 1

    def test_control_messages_before_connect_are_accepted(self, unconnected: ConnectionPair) -> None:
        """OBS sends Set Chunk Size first."""
        unconnected.client.send_chunk_size(4096)
        unconnected.client.send_window(2_500_000)
        unconnected.client.send_user_control(UserControl.SET_BUFFER_LENGTH, 0, 300)
        assert unconnected.connected().server.phase is Phase.CONNECTED


class TestPausing:
    def everything(self) -> tuple[ConnectionPair, bytes]:
        """A client that waits for no answer: connect, createStream, publish, media, all in one go."""
        pair = ConnectionPair(decide=wait)
        pair.run()
        client = pair.client
        client.connect("live", "rtmp://127.0.0.1/live")
        for message in (
            command("createStream", 2.0, None),
            command("publish", 3.0, None, "cam", "live", stream_id=1),
            Message(9, 0, 1, b"video"),
            command("FCUnpublish", 4.0, None, "cam"),
            Message(9, 40, 1, b"late"),
        ):
            client.send_message(message)
        return pair, client.data_to_send()

    @pytest.mark.parametrize("size", [1, 10_000])
    def test_nothing_is_processed_while_connect_is_decided_and_no_request_is_overtaken(self, size: int) -> None:
        pair, data = self.everything()
        server = pair.server
        found: list[Any] = []
        for at in range(0, len(data), size):
            found += server.receive_data(data[at : at + size])
        (request,) = found
        assert server.paused
        assert server.data_to_send() == b""
        assert server.events() == []

        server.accept_connect(request.request_id)
        found = take(server)
        assert [type(event) for event in found] == [events.StatusSent, events.PublishRequested]
        assert (server.paused, server.has_more_events) == (False, True)

        server.accept_publish(found[-1].request_id, "Go.", public_name="cam")
        found = take(server)
        assert found == [
            events.StatusSent(1, "status", "NetStream.Publish.Start", "Go."),
            events.VideoReceived(1, 0, b"video"),
            events.StatusSent(1, "status", "NetStream.Unpublish.Success", "Publishing stopped."),
            events.PublishStopped(1, "FCUnpublish"),
        ]
        assert (server.paused, server.has_more_events) == (False, False)
        assert server.ignored_messages == 1

    def test_media_of_a_refused_publish_is_ignored(self) -> None:
        pair, data = self.everything()
        server = pair.server
        (request,) = take(server, data)
        server.accept_connect(request.request_id)
        request = take(server)[-1]
        server.reject_publish(request.request_id, "NetStream.Publish.BadName", "Taken.")
        assert server.events() == [events.StatusSent(1, "error", "NetStream.Publish.BadName", "Taken.")]
        assert server.ignored_messages == 2

    def test_bytes_count_as_received_while_connect_awaits_its_decision(self) -> None:
        pair, data = self.everything()
        before = pair.server.bytes_received
        for at in range(len(data)):
            pair.server.receive_data(data[at : at + 1])
        assert pair.server.bytes_received == before + len(data)

    def test_protocol_error_is_raised_after_the_messages_before_it(self) -> None:
        pair, data = self.everything()
        (request,) = take(pair.server, data + b"\xff" * 20)
        pair.server.accept_connect(request.request_id)
        publish = take(pair.server)[-1]
        pair.server.accept_publish(publish.request_id, "", public_name="cam")
        with pytest.raises(RemoteProtocolError):
            pair.server.events()
        assert events.VideoReceived(1, 0, b"video") in pair.server.events()


class TestDecisions:
    def test_decision_without_a_matching_request_raises_local_protocol_error(self) -> None:
        pair = ConnectionPair(decide=wait)
        server = pair.server
        with pytest.raises(LocalProtocolError):
            server.accept_connect(1)
        pair.connected()
        (request,) = pair.take_server(events.ConnectRequested)
        wrong: list[Callable[[], None]] = [
            lambda: server.accept_connect(request.request_id + 1),
            lambda: server.accept_publish(request.request_id, "", public_name=""),
            lambda: server.reject_publish(request.request_id, "x", ""),
            lambda: server.accept_play(request.request_id, ""),
            lambda: server.reject_play(request.request_id, "x", ""),
        ]
        for decide in wrong:
            with pytest.raises(LocalProtocolError):
                decide()
        assert server.paused
        server.accept_connect(request.request_id)
        with pytest.raises(LocalProtocolError):
            server.accept_connect(request.request_id)
        with pytest.raises(LocalProtocolError):
            server.reject_connect(request.request_id, "x", "")
