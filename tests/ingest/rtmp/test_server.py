"""The server's end: what it answers, in which order, what it lets through and what it refuses."""

import struct
from typing import Any

import pytest

from ingest.rtmp import (
    LimitExceeded,
    Limits,
    LocalProtocolError,
    Message,
    Phase,
    RemoteProtocolError,
    ServerConnection,
    UserControl,
    amf0,
    events,
)
from tests.ingest.rtmp.pair import ConnectionPair, accept
from tests.rtmpdecode import Decoded, decode_stream

SECRET = "rk_topsecretkey"


def sent(pair: ConnectionPair) -> list[Decoded]:
    """All messages of the server, by the other decoder."""
    return decode_stream(bytes(pair.to_client))


def commands(pair: ConnectionPair) -> list[tuple[int, list[Any]]]:
    """The commands that the server sent: message stream id and values."""
    return [(message.stream_id, amf0.decode_all(message.payload)) for message in sent(pair) if message.type_id == 20]


def answers(pair: ConnectionPair, action: Any) -> list[tuple[int, list[Any]]]:
    """The commands that the server sends because of what `action` does."""
    before = len(commands(pair))
    action()
    pair.run()
    return commands(pair)[before:]


def command(*values: Any, stream_id: int = 0, type_id: int = 20) -> Message:
    return Message(type_id, 0, stream_id, amf0.encode(*values))


def wait(server: ServerConnection, event: Any) -> None:
    """Decides nothing."""


def decide_all_but(kind: type) -> Any:
    def decide(server: ServerConnection, event: Any) -> None:
        if not isinstance(event, kind):
            accept(server, event)

    return decide


class TestConnect:
    def test_the_answer_is_one_write_in_its_order(self) -> None:
        pair = ConnectionPair(decide=wait)
        pair.connected()
        (request,) = pair.take_server(events.ConnectRequested)
        pair.server.accept_connect(request.request_id)
        pair.to_client += pair.server.data_to_send()
        messages = sent(pair)
        assert [message.type_id for message in messages] == [5, 6, 1, 20]
        assert [message.stream_id for message in messages] == [0, 0, 0, 0]
        assert messages[0].payload == struct.pack(">I", 2_500_000)
        assert messages[1].payload == struct.pack(">IB", 2_500_000, 2)
        assert messages[2].payload == struct.pack(">I", 60_000)
        assert amf0.decode_all(messages[3].payload) == [
            "_result",
            1.0,
            {"fmsVer": "FMS/3,5,7,7009", "capabilities": 31.0, "mode": 1.0},
            {
                "level": "status",
                "code": "NetConnection.Connect.Success",
                "description": "Connection succeeded.",
                "objectEncoding": 0.0,
            },
        ]
        assert pair.server.phase is Phase.CONNECTED
        assert pair.server.events() == [
            events.StatusSent(0, "status", "NetConnection.Connect.Success", "Connection succeeded.")
        ]

    def test_what_the_client_asked(self) -> None:
        pair = ConnectionPair().connected(app="live/x?key=1", objectEncoding=3, fpad=False)
        (request,) = pair.take_server(events.ConnectRequested)
        assert (request.app, request.tc_url) == ("live/x?key=1", "rtmp://127.0.0.1/live/x?key=1")
        assert request.flash_ver.startswith("FMLE/3.0")
        assert request.properties["fpad"] is False
        assert request.object_encoding == pair.server.object_encoding == 3
        (_, result), *_ = commands(pair)
        assert result[3]["objectEncoding"] == 3.0

    @pytest.mark.parametrize("encoding", [1, 2, 4, -1, "3", None, float("inf")])
    def test_other_encodings_count_as_amf0(self, encoding: Any) -> None:
        assert ConnectionPair().connected(objectEncoding=encoding).server.object_encoding == 0

    def test_properties_and_info_are_added(self) -> None:
        def decide(server: ServerConnection, event: Any) -> None:
            if isinstance(event, events.ConnectRequested):
                server.accept_connect(event.request_id, properties={"capsEx": 4}, info={"data": "x"})

        pair = ConnectionPair(decide=decide).connected()
        (_, result), *_ = commands(pair)
        assert result[2]["capsEx"] == 4.0
        assert result[3]["data"] == "x"

    def test_chunk_size_and_window_are_options(self) -> None:
        pair = ConnectionPair(chunk_size=4096, window=1000).connected()
        assert [message.payload for message in sent(pair)[:3]] == [
            struct.pack(">I", 1000),
            struct.pack(">IB", 1000, 2),
            struct.pack(">I", 4096),
        ]

    def test_rejected(self) -> None:
        def decide(server: ServerConnection, event: Any) -> None:
            if isinstance(event, events.ConnectRequested):
                server.reject_connect(event.request_id, "NetConnection.Connect.InvalidApp", "No such app.", ex={"a": 1})

        pair = ConnectionPair(decide=decide).connected()
        assert [message.type_id for message in sent(pair)] == [20]
        assert commands(pair) == [
            (
                0,
                [
                    "_error",
                    1.0,
                    None,
                    {
                        "level": "error",
                        "code": "NetConnection.Connect.InvalidApp",
                        "description": "No such app.",
                        "ex": {"a": 1.0},
                    },
                ],
            )
        ]
        assert pair.server.phase is Phase.CLOSED
        assert pair.take_server(events.StatusSent) == [
            events.StatusSent(0, "error", "NetConnection.Connect.InvalidApp", "No such app.")
        ]
        (result,) = pair.take_client(events.ResultReceived)
        assert (result.procedure, result.succeeded) == ("connect", False)
        assert pair.server.receive_data(b"\xff" * 50) == []

    def test_its_transaction_id_is_answered_as_sent(self) -> None:
        pair = ConnectionPair()
        pair.run()
        pair.client.send_message(command("connect", 7.0, {"app": "live"}))
        pair.run()
        assert commands(pair)[0][1][1] == 7.0

    @pytest.mark.parametrize(
        "values",
        [
            ("connect",),
            ("connect", 1.0),
            ("connect", 1.0, None),
            ("connect", None, "x"),
            ("connect", 1.0, {"app": 5.0}),
        ],
    )
    def test_with_parts_missing(self, values: tuple[Any, ...]) -> None:
        pair = ConnectionPair()
        pair.run()
        pair.client.send_message(command(*values))
        pair.run()
        (request,) = pair.take_server(events.ConnectRequested)
        assert (request.app, request.tc_url, request.flash_ver) == ("", "", "")

    def test_a_second_connect_is_an_error(self) -> None:
        pair = ConnectionPair().connected()
        pair.client.send_message(command("connect", 1.0, {"app": "live"}))
        with pytest.raises(RemoteProtocolError):
            pair.run()
        assert pair.server.phase is Phase.CLOSED

    @pytest.mark.parametrize(
        "message",
        [
            command("createStream", 2.0, None),
            command("publish", 0.0, None, "x", stream_id=1),
            Message(8, 0, 1, b"\xaf\x01"),
            Message(9, 0, 1, b"\x17\x01"),
            Message(18, 0, 1, amf0.encode("onMetaData", {})),
            Message(22, 0, 1, b""),
            Message(99, 0, 0, b""),
        ],
        ids=["createStream", "publish", "audio", "video", "data", "aggregate", "unknown"],
    )
    def test_nothing_else_may_come_before_it(self, message: Message) -> None:
        pair = ConnectionPair()
        pair.run()
        pair.client.send_message(message)
        with pytest.raises(RemoteProtocolError):
            pair.run()

    def test_control_messages_may(self) -> None:
        """OBS sends Set Chunk Size first."""
        pair = ConnectionPair()
        pair.run()
        pair.client.send_chunk_size(4096)
        pair.client.send_window(2_500_000)
        pair.client.send_user_control(UserControl.SET_BUFFER_LENGTH, 0, 300)
        assert pair.connected().server.phase is Phase.CONNECTED


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
    def test_nothing_is_processed_while_a_decision_is_awaited(self, size: int) -> None:
        pair, data = self.everything()
        server = pair.server
        found = [event for at in range(0, len(data), size) for event in server.receive_data(data[at : at + size])]
        (request,) = found
        assert server.paused
        assert server.data_to_send() == b""
        assert server.events() == []

        server.accept_connect(request.request_id)
        found = server.events()
        assert [type(event) for event in found] == [events.StatusSent, events.StreamCreated, events.PublishRequested]
        assert server.paused

        server.accept_publish(found[-1].request_id, "Go.", public_name="cam")
        found = server.events()
        assert found[:3] == [
            events.StatusSent(1, "status", "NetStream.Publish.Start", "Go."),
            events.VideoReceived(1, 0, b"video"),
            events.PublishStopped(1, "FCUnpublish"),
        ]
        assert not server.paused
        assert server.ignored_messages == 1

    def test_media_of_a_refused_publish_is_ignored(self) -> None:
        pair, data = self.everything()
        server = pair.server
        (request,) = server.receive_data(data)
        server.accept_connect(request.request_id)
        request = server.events()[-1]
        server.reject_publish(request.request_id, "NetStream.Publish.BadName", "Taken.")
        assert server.events() == [events.StatusSent(1, "error", "NetStream.Publish.BadName", "Taken.")]
        assert server.ignored_messages == 2

    def test_bytes_count_as_received_meanwhile(self) -> None:
        pair, data = self.everything()
        before = pair.server.bytes_received
        for at in range(len(data)):
            pair.server.receive_data(data[at : at + 1])
        assert pair.server.bytes_received == before + len(data)

    def test_an_error_waits_for_its_turn(self) -> None:
        pair, data = self.everything()
        (request,) = pair.server.receive_data(data + b"\xff" * 20)
        pair.server.accept_connect(request.request_id)
        publish = pair.server.events()[-1]
        pair.server.accept_publish(publish.request_id, "", public_name="cam")
        with pytest.raises(RemoteProtocolError):
            pair.server.events()
        assert events.VideoReceived(1, 0, b"video") in pair.server.events()


class TestDecisions:
    def test_only_what_was_asked_can_be_answered(self) -> None:
        pair = ConnectionPair(decide=wait)
        server = pair.server
        with pytest.raises(LocalProtocolError):
            server.accept_connect(1)
        pair.connected()
        (request,) = pair.take_server(events.ConnectRequested)
        for wrong in (
            lambda: server.accept_connect(request.request_id + 1),
            lambda: server.accept_publish(request.request_id, "", public_name=""),
            lambda: server.reject_publish(request.request_id, "x", ""),
            lambda: server.accept_play(request.request_id, ""),
            lambda: server.reject_play(request.request_id, "x", ""),
        ):
            with pytest.raises(LocalProtocolError):
                wrong()
        assert server.paused
        server.accept_connect(request.request_id)
        with pytest.raises(LocalProtocolError):
            server.accept_connect(request.request_id)
        with pytest.raises(LocalProtocolError):
            server.reject_connect(request.request_id, "x", "")


class TestPublish:
    def test_the_answer(self) -> None:
        pair = ConnectionPair().connected()
        pair.create_stream()
        before = len(sent(pair))
        pair.client.publish(1, f"cam?key={SECRET}")
        pair.run()
        begin, status = sent(pair)[before:]
        assert (begin.type_id, begin.stream_id, begin.payload) == (4, 0, b"\x00\x00\x00\x00\x00\x01")
        assert status.stream_id == 1
        assert amf0.decode_all(status.payload) == [
            "onStatus",
            0.0,
            None,
            {"level": "status", "code": "NetStream.Publish.Start", "description": "Publishing."},
        ]
        (request,) = pair.take_server(events.PublishRequested)
        assert (request.stream_id, request.name, request.publish_type) == (1, f"cam?key={SECRET}", "live")

    def test_status_goes_out_on_its_own_chunk_stream(self) -> None:
        pair = ConnectionPair().connected()
        at = len(pair.to_client)
        pair.create_stream()
        assert pair.to_client[at] == 3
        pair.client.publish(1, "cam")
        at = len(pair.to_client)
        pair.run()
        user_control_bytes = 12 + 6
        assert (pair.to_client[at], pair.to_client[at + user_control_bytes]) == (2, 5)

    @pytest.mark.parametrize(
        ("arguments", "publish_type"),
        [
            (["cam"], "live"),
            (["cam", "live"], "live"),
            (["cam", "record"], "record"),
            (["cam", "append"], "append"),
            (["cam", "LIVE"], "live"),
            (["cam", "nonsense"], "live"),
            (["cam", None], "live"),
            (["", "live"], "live"),
        ],
    )
    def test_publish_types(self, arguments: list[Any], publish_type: str) -> None:
        pair = ConnectionPair().connected()
        pair.create_stream()
        pair.client.notify("publish", *arguments, stream_id=1)
        pair.run()
        (request,) = pair.take_server(events.PublishRequested)
        assert (request.name, request.publish_type) == (arguments[0], publish_type)

    def test_refused(self) -> None:
        def decide(server: ServerConnection, event: Any) -> None:
            if isinstance(event, events.PublishRequested):
                server.reject_publish(event.request_id, "NetStream.Publish.Denied", "Wrong key.")
            else:
                accept(server, event)

        pair = ConnectionPair(decide=decide)
        pair.publishing(SECRET)
        (status,) = pair.take_client(events.StatusReceived)
        assert (status.stream_id, status.level, status.code) == (1, "error", "NetStream.Publish.Denied")
        # The same stream may try again.
        pair.decide = accept
        pair.client.publish(1, "cam")
        pair.run()
        assert pair.take_client(events.StatusReceived)[-1].code == "NetStream.Publish.Start"

    def test_media_arrives(self) -> None:
        pair = ConnectionPair()
        stream_id = pair.publishing()
        client = pair.client
        client.send_metadata(stream_id, 0, {"width": 1280.0})
        client.send_audio(stream_id, 1, b"\xaf\x00\x12\x10")
        client.send_video(stream_id, 0xFFFFFFFF, b"\x17\x01" + bytes(100_000))
        client.send_audio(stream_id, 3, b"")
        pair.run()
        assert pair.take_server(events.AudioReceived, events.VideoReceived, events.DataReceived) == [
            events.DataReceived(1, 0, "onMetaData", [{"width": 1280.0}], amf0.encode("onMetaData", {"width": 1280.0})),
            events.AudioReceived(1, 1, b"\xaf\x00\x12\x10"),
            events.VideoReceived(1, 0xFFFFFFFF, b"\x17\x01" + bytes(100_000)),
            events.AudioReceived(1, 3, b""),
        ]

    def test_several_streams_on_one_connection(self) -> None:
        pair = ConnectionPair()
        pair.publishing("one")
        for name in ("two", "three"):
            pair.client.publish(pair.create_stream(), name)
        pair.run()
        for stream_id in (3, 1, 2):
            pair.client.send_video(stream_id, stream_id, b"v")
        pair.client.delete_stream(2)
        pair.client.send_video(2, 9, b"v")
        pair.client.send_video(3, 9, b"v")
        pair.run()
        assert [(event.stream_id, event.timestamp) for event in pair.take_server(events.VideoReceived)] == [
            (3, 3),
            (1, 1),
            (2, 2),
            (3, 9),
        ]
        assert pair.take_server(events.PublishStopped) == [events.PublishStopped(2, "deleteStream")]

    def test_a_stream_that_is_not_there_or_busy(self) -> None:
        pair = ConnectionPair()
        pair.publishing()
        for stream_id in (1, 2, 77):
            pair.client.publish(stream_id, SECRET)
            pair.run()
            status = pair.take_client(events.StatusReceived)[-1]
            assert (status.stream_id, status.code) == (stream_id, "NetStream.Publish.Failed")
        assert len(pair.take_server(events.PublishRequested)) == 1

    def test_on_message_stream_0_the_only_stream_is_meant(self) -> None:
        pair = ConnectionPair().connected()
        pair.create_stream()
        pair.client.publish(0, "cam")
        pair.run()
        assert pair.take_server(events.PublishRequested)[0].stream_id == 1
        assert pair.take_client(events.StatusReceived)[-1].stream_id == 1

    def test_publish_false_ends_it(self) -> None:
        pair = ConnectionPair()
        pair.publishing()
        pair.client.notify("publish", False, stream_id=1)
        pair.run()
        assert pair.take_server(events.PublishStopped) == [events.PublishStopped(1, "publish")]

    @pytest.mark.parametrize("name", [None, 5.0, {}, ["x"], True])
    def test_a_name_that_is_no_text(self, name: Any) -> None:
        pair = ConnectionPair().connected()
        pair.create_stream()
        pair.client.notify("publish", name, stream_id=1)
        pair.run()
        assert pair.take_client(events.StatusReceived)[-1].code == "NetStream.Publish.Failed"


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
        action = lambda: pair.client.call("releaseStream", "x", stream_id=1)  # noqa: E731
        assert answers(pair, action)[0][1][0] == "_result"

    def test_the_length_of_what_is_live_is_0(self) -> None:
        pair = ConnectionPair().connected()
        assert answers(pair, lambda: pair.client.call("getStreamLength", "x")) == [(0, ["_result", 2.0, None, 0.0])]
        assert answers(pair, lambda: pair.client.notify("getStreamLength", "x")) == []

    def test_create_stream_is_answered_even_without_a_transaction(self) -> None:
        pair = ConnectionPair().connected()
        assert answers(pair, lambda: pair.client.notify("createStream")) == [(0, ["_result", 0.0, None, 1.0])]
        assert pair.create_stream() == 2
        assert pair.take_server(events.StreamCreated) == [events.StreamCreated(1), events.StreamCreated(2)]


class TestFcPublish:
    def notices(self, pair: ConnectionPair) -> list[list[Any]]:
        return [values for _, values in commands(pair) if values[0] in ("onFCPublish", "onFCUnpublish", "onStatus")]

    def test_on_fc_publish_comes_with_the_decision_and_the_public_name(self) -> None:
        pair = ConnectionPair().connected()
        pair.client.fc_publish(f"cam?key={SECRET}")
        pair.create_stream()
        assert self.notices(pair) == []
        pair.client.publish(1, f"cam?key={SECRET}")
        pair.run()
        notice, status = self.notices(pair)
        assert notice == [
            "onFCPublish",
            0.0,
            None,
            {"level": "status", "code": "NetStream.Publish.Start", "description": "cam"},
        ]
        assert status[3]["code"] == "NetStream.Publish.Start"
        assert SECRET.encode() not in pair.to_client

    def test_not_when_the_publish_is_refused(self) -> None:
        pair = ConnectionPair(decide=decide_all_but(events.PublishRequested)).connected()
        pair.client.fc_publish(SECRET)
        pair.create_stream()
        pair.client.publish(1, SECRET)
        pair.run()
        (request,) = pair.take_server(events.PublishRequested)
        pair.server.reject_publish(request.request_id, "NetStream.Publish.Denied", "No.")
        pair.run()
        assert [values[0] for values in self.notices(pair)] == ["onStatus"]

    def test_after_publish_it_is_answered_at_once(self) -> None:
        pair = ConnectionPair()
        pair.publishing(SECRET + "?x")
        pair.client.fc_publish("garbage|@setDataFrame()")
        pair.run()
        assert len(self.notices(pair)) == 1
        pair.client.fc_publish(SECRET + "?x")
        pair.run()
        assert self.notices(pair)[-1][0] == "onFCPublish"

    def test_names_that_wait_are_limited(self) -> None:
        pair = ConnectionPair(server_limits=Limits(message_streams=2)).connected()
        for number in range(50):
            pair.client.fc_publish(f"cam{number}")
        pair.client.fc_publish("cam")
        pair.create_stream()
        pair.client.publish(1, "cam")
        pair.run()
        assert [values[0] for values in self.notices(pair)] == ["onStatus"]


class TestUnpublish:
    def ended(self, pair: ConnectionPair) -> list[Any]:
        return pair.take_server(events.PublishStopped, events.StreamDeleted)

    @pytest.mark.parametrize("name", ["cam?secret", "other", None])
    def test_fc_unpublish(self, name: str | None) -> None:
        pair = ConnectionPair()
        pair.publishing("cam?secret")
        found = answers(pair, lambda: pair.client.call("FCUnpublish", *([name] if name else [])))
        assert [values[0] for _, values in found] == ["onFCUnpublish", "_result", "onStatus"]
        assert found[0][1][3] == {"level": "status", "code": "NetStream.Unpublish.Success", "description": "cam"}
        assert found[2][0] == 1
        assert found[2][1][3]["code"] == "NetStream.Unpublish.Success"
        assert self.ended(pair) == [events.PublishStopped(1, "FCUnpublish")]

    @pytest.mark.parametrize(
        "arguments", [[1.0], ["cam?secret"], ["unknown"], []], ids=["id", "name", "another name", "nothing"]
    )
    @pytest.mark.parametrize("stream_id", [0, 1])
    def test_delete_stream(self, arguments: list[Any], stream_id: int) -> None:
        pair = ConnectionPair()
        pair.publishing("cam?secret")
        found = answers(pair, lambda: pair.client.call("deleteStream", *arguments, stream_id=stream_id))
        assert [(stream, values[0], values[3]["code"]) for stream, values in found] == [
            (1, "onStatus", "NetStream.Unpublish.Success")
        ]
        assert self.ended(pair) == [events.PublishStopped(1, "deleteStream"), events.StreamDeleted(1)]

    def test_close_stream_leaves_the_stream_to_be_used_again(self) -> None:
        pair = ConnectionPair()
        pair.publishing("cam")
        found = answers(pair, lambda: pair.client.close_stream(1))
        assert [values[3]["code"] for _, values in found] == ["NetStream.Unpublish.Success"]
        assert self.ended(pair) == [events.PublishStopped(1, "closeStream")]
        pair.client.publish(1, "cam")
        pair.run()
        assert pair.take_client(events.StatusReceived)[-1].code == "NetStream.Publish.Start"

    @pytest.mark.parametrize(
        "order",
        [
            ["FCUnpublish", "deleteStream"],
            ["FCUnpublish", "closeStream", "deleteStream"],
            ["closeStream", "FCUnpublish", "deleteStream"],
            ["deleteStream", "FCUnpublish", "closeStream", "deleteStream"],
        ],
    )
    def test_in_any_order_it_ends_once(self, order: list[str]) -> None:
        pair = ConnectionPair()
        pair.publishing("cam")
        for procedure in order:
            pair.client.notify(procedure, 1.0 if procedure == "deleteStream" else "cam", stream_id=1)
        pair.run()
        assert self.ended(pair) == [events.PublishStopped(1, order[0]), events.StreamDeleted(1)]
        statuses = [status.code for status in pair.take_client(events.StatusReceived)]
        assert statuses == ["NetStream.Publish.Start", "NetStream.Unpublish.Success"]

    @pytest.mark.parametrize("key", [7.0, -1.0, 0.5, float("nan"), float("inf"), 1e300])
    def test_ids_that_are_not_there(self, key: float) -> None:
        pair = ConnectionPair()
        pair.publishing()
        pair.client.notify("deleteStream", key, stream_id=1)
        pair.run()
        assert self.ended(pair) == []

    def test_media_that_comes_later_is_counted_and_ignored(self) -> None:
        pair = ConnectionPair(server_limits=Limits(ignored_messages=3))
        pair.publishing()
        pair.client.delete_stream(1)
        for number in range(3):
            pair.client.send_message(Message((8, 9, 18)[number], 0, 1, b""))
        pair.run()
        assert pair.server.ignored_messages == 3
        assert pair.take_server(events.AudioReceived, events.VideoReceived, events.DataReceived) == []
        pair.client.send_audio(1, 0, b"")
        with pytest.raises(LimitExceeded):
            pair.run()

    def test_stopped_by_our_side(self) -> None:
        pair = ConnectionPair()
        pair.publishing()
        pair.server.send_status(1, "error", "NetStream.Publish.Denied", "Kicked.")
        pair.server.stop_stream(1)
        pair.client.send_video(1, 0, b"v")
        pair.run()
        assert pair.take_server(events.VideoReceived, events.PublishStopped) == []
        assert pair.server.ignored_messages == 1
        assert pair.take_client(events.StatusReceived)[-1].code == "NetStream.Publish.Denied"
        with pytest.raises(LocalProtocolError):
            pair.server.stop_stream(2)


class TestPlay:
    def playing(self, *arguments: Any) -> ConnectionPair:
        pair = ConnectionPair().connected()
        pair.create_stream()
        pair.client.call("play", *arguments, stream_id=1)
        pair.run()
        return pair

    def test_the_answer(self) -> None:
        pair = ConnectionPair().connected()
        pair.create_stream()
        before = len(sent(pair))
        pair.client.play(1, SECRET, reset=True)
        pair.run()
        begin, reset, start, access = sent(pair)[before:]
        assert (begin.type_id, begin.stream_id, begin.payload) == (4, 0, b"\x00\x00\x00\x00\x00\x01")
        assert [amf0.decode_all(message.payload)[3]["code"] for message in (reset, start)] == [
            "NetStream.Play.Reset",
            "NetStream.Play.Start",
        ]
        assert [message.stream_id for message in (reset, start, access)] == [1, 1, 1]
        assert access.type_id == 18
        assert amf0.decode_all(access.payload) == ["|RtmpSampleAccess", True, True]
        assert SECRET.encode() not in pair.to_client

    @pytest.mark.parametrize(
        ("arguments", "start", "duration", "reset"),
        [
            (["x"], -2.0, -1.0, False),
            (["x", -2.0], -2.0, -1.0, False),
            (["x", -2000.0], -2.0, -1.0, False),
            (["x", -1000.0], -1.0, -1.0, False),
            (["x", -1.0], -1.0, -1.0, False),
            (["x", 0.0], 0.0, -1.0, False),
            (["x", 1500.0, 3000.0], 1500.0, 3000.0, False),
            (["x", -2.0, -1.0, True], -2.0, -1.0, True),
            (["x", -2.0, -1.0, False], -2.0, -1.0, False),
            (["x", -2.0, -1.0, 1.0], -2.0, -1.0, True),
            (["x", -2.0, -1.0, 0.0], -2.0, -1.0, False),
            (["x", None, None, None], -2.0, -1.0, False),
            (["x", float("nan"), float("inf")], -2.0, -1.0, False),
            (["x", "soon", {}, amf0.UNDEFINED], -2.0, -1.0, False),
        ],
    )
    def test_arguments(self, arguments: list[Any], start: float, duration: float, reset: bool) -> None:
        pair = self.playing(*arguments)
        (request,) = pair.take_server(events.PlayRequested)
        assert (request.stream_id, request.name) == (1, "x")
        assert (request.start, request.duration, request.reset) == (start, duration, reset)
        codes = [status.code for status in pair.take_client(events.StatusReceived)]
        assert codes == [*(["NetStream.Play.Reset"] if reset else []), "NetStream.Play.Start"]

    def test_refused(self) -> None:
        pair = ConnectionPair(decide=decide_all_but(events.PlayRequested)).connected()
        pair.create_stream()
        pair.client.play(1, "x")
        pair.run()
        (request,) = pair.take_server(events.PlayRequested)
        pair.server.reject_play(request.request_id, "NetStream.Play.StreamNotFound", "Not here.")
        pair.run()
        (status,) = pair.take_client(events.StatusReceived)
        assert (status.stream_id, status.level, status.code) == (1, "error", "NetStream.Play.StreamNotFound")

    @pytest.mark.parametrize(
        ("procedure", "events_after", "code"),
        [
            ("closeStream", [events.PlayStopped(1, "closeStream")], "NetStream.Play.Stop"),
            ("deleteStream", [events.PlayStopped(1, "deleteStream"), events.StreamDeleted(1)], None),
        ],
    )
    def test_ended_by_the_client(self, procedure: str, events_after: list[Any], code: str | None) -> None:
        pair = self.playing("x")
        found = answers(pair, lambda: pair.client.call(procedure, 1.0, stream_id=1))
        assert [values[3]["code"] for _, values in found] == ([code] if code else [])
        assert pair.take_server(events.PlayStopped, events.StreamDeleted) == events_after

    def test_a_new_play_replaces_the_old_one(self) -> None:
        pair = self.playing("x")
        pair.client.play(1, "y")
        pair.run()
        assert pair.take_server(events.PlayStopped) == [events.PlayStopped(1, "play")]
        assert [request.name for request in pair.take_server(events.PlayRequested)] == ["x", "y"]

    def test_play_false_ends_it(self) -> None:
        pair = self.playing("x")
        assert answers(pair, lambda: pair.client.notify("play", False, stream_id=1)) == []
        assert pair.take_server(events.PlayStopped) == [events.PlayStopped(1, "play")]

    def test_a_stream_does_one_thing_at_a_time(self) -> None:
        pair = ConnectionPair()
        pair.publishing()
        pair.client.play(1, "x")
        pair.run()
        assert pair.take_client(events.StatusReceived)[-1].code == "NetStream.Play.Failed"
        pair.client.send_video(1, 0, b"v")
        pair.run()
        assert len(pair.take_server(events.VideoReceived)) == 1

    def test_a_player_cannot_send_media(self) -> None:
        pair = self.playing("x")
        pair.client.send_video(1, 0, b"v")
        pair.client.send_data(1, 0, "onMetaData", {})
        pair.run()
        assert pair.server.ignored_messages == 2

    def test_buffer_length(self) -> None:
        pair = self.playing("x")
        pair.client.set_buffer_length(1, 36_000_000)
        pair.run()
        assert pair.take_server(events.BufferLengthSet) == [events.BufferLengthSet(1, 36_000_000)]


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
        pair = ConnectionPair(server_limits=Limits(commands_per_read=10)).connected()
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
        for message in (
            Message(17, 0, 0, b"\x00" + amf0.encode("createStream", 2.0, None)),
            Message(17, 0, 0, amf0.encode("createStream", 3.0, None)),
        ):
            found = answers(pair, lambda message=message: pair.client.send_message(message))
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

    def test_amf3_values_in_a_command_are_refused_clearly(self) -> None:
        pair = ConnectionPair().connected(objectEncoding=3)
        pair.client.send_message(Message(17, 0, 0, b"\x00" + amf0.encode("x", 2.0, None) + b"\x11\x01"))
        with pytest.raises(RemoteProtocolError, match="AMF3"):
            pair.run()


class TestData:
    @pytest.mark.parametrize(
        "payload",
        [b"", b"\xff\xff", amf0.encode(1.0), amf0.encode("@setDataFrame"), amf0.encode("onMetaData") + b"\x11\x01"],
    )
    def test_what_cannot_be_read_is_no_reason_to_end_a_stream(self, payload: bytes) -> None:
        pair = ConnectionPair()
        pair.publishing()
        pair.client.send_message(Message(18, 0, 1, payload))
        pair.client.send_video(1, 0, b"v")
        pair.run()
        assert pair.take_server(events.UnknownMessage) == [events.UnknownMessage(18, 1, payload)]
        assert len(pair.take_server(events.VideoReceived)) == 1

    def test_limits_hold_in_it(self) -> None:
        pair = ConnectionPair()
        pair.publishing()
        pair.client.send_message(Message(18, 0, 1, amf0.encode("x") + b"\x0a\x00\x00\x00\x01" * 100))
        with pytest.raises(LimitExceeded):
            pair.run()

    def test_a_name_alone(self) -> None:
        pair = ConnectionPair()
        pair.publishing()
        pair.client.send_data(1, 7, "onCuePoint")
        pair.client.send_data(1, 8, "@clearDataFrame", "onMetaData")
        pair.run()
        assert pair.take_server(events.DataReceived) == [
            events.DataReceived(1, 7, "onCuePoint", [], amf0.encode("onCuePoint")),
            events.DataReceived(1, 8, "@clearDataFrame", ["onMetaData"], amf0.encode("@clearDataFrame", "onMetaData")),
        ]


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
