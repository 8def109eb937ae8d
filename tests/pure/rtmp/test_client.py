"""The client's end: it talks to the server's end, and to servers that answer in other ways."""

from typing import Any

import pytest

from ingest.rtmp import (
    ClientConnection,
    LocalProtocolError,
    Message,
    Phase,
    RemoteProtocolError,
    encode_message,
    events,
)
from ingest.rtmp.amf import amf0
from ingest.rtmp.status import RECONNECT_REQUEST
from tests.pure.rtmp.pair import CLIENT_NONCE, ConnectionPair
from tests.pure.rtmp.test_conversations import held_bytes
from tests.rtmp_client import decode_all
from tests.rtmpdecode import decode_stream


@pytest.fixture
def asking() -> ClientConnection:
    """A client that asked to connect; its answer is the test's."""
    client = ClientConnection(nonce=CLIENT_NONCE)
    client.receive_data(b"\x03" + bytes(3072))
    client.connect("live", "rtmp://127.0.0.1/live")
    return client


@pytest.fixture
def client(asking: ClientConnection) -> ClientConnection:
    """Its connect was accepted."""
    answer(asking, "_result", 1, None, SUCCESS)
    return asking


def answer(client: ClientConnection, *values: Any, stream_id: int = 0) -> list[Any]:
    message = Message(20, 0, stream_id, amf0.encode(*values))
    return list(client.receive_data(encode_message(message, chunk_stream_id=3, chunk_size=128)))


def test_calls_that_are_never_answered_take_no_room(client: ClientConnection) -> None:
    held = []
    for _ in range(3):
        for _ in range(1000):
            client.delete_stream(1)
            client.publish(1, "cam")
        client.data_to_send()
        held.append(held_bytes(client))
    assert held[2] <= held[0]
    last = client.call("anything")
    assert answer(client, "_result", last, None) == [events.ResultReceived("anything", last, True, [None])]


SUCCESS = {"level": "status", "code": "NetConnection.Connect.Success"}


class TestConnect:
    def test_connect_before_the_handshake_raises_local_protocol_error(self) -> None:
        client = ClientConnection(nonce=CLIENT_NONCE)
        with pytest.raises(LocalProtocolError):
            client.connect("live", "")

    @pytest.mark.parametrize(
        ("procedure", "arguments"),
        [("create_stream", []), ("publish", [1, "x"]), ("call", ["releaseStream", "x"])],
    )
    def test_commands_before_connect_is_accepted_raise_local_protocol_error(
        self, asking: ClientConnection, procedure: str, arguments: list[Any]
    ) -> None:
        with pytest.raises(LocalProtocolError):
            getattr(asking, procedure)(*arguments)

    def test_accepted_connect_makes_the_client_connected(self, asking: ClientConnection) -> None:
        found = answer(asking, "_result", 1, {"fmsVer": "x"}, SUCCESS)
        assert found == [events.ResultReceived("connect", 1.0, True, [{"fmsVer": "x"}, SUCCESS])]
        assert asking.phase is Phase.CONNECTED

    def test_refused_connect_closes_the_client(self, asking: ClientConnection) -> None:
        found = answer(asking, "_error", 1, None, {"level": "error", "code": "NetConnection.Connect.Rejected"})
        assert [(event.procedure, event.succeeded) for event in found] == [("connect", False)]
        assert asking.phase is Phase.CLOSED

    def test_connect_sends_the_given_properties_and_arguments(self, unconnected: ConnectionPair) -> None:
        unconnected.client.connect("live", "rtmp://127.0.0.1/live", "more", objectEncoding=3, fourCcList=["hvc1"])
        unconnected.run()
        message = next(m for m in decode_stream(bytes(unconnected.to_server)) if m.type_id == 20)
        properties = {
            "app": "live",
            "type": "nonprivate",
            "flashVer": "FMLE/3.0 (compatible; rtmpweb)",
            "tcUrl": "rtmp://127.0.0.1/live",
            "objectEncoding": 3.0,
            "fourCcList": ["hvc1"],
        }
        assert decode_all(message.payload) == ["connect", 1.0, properties, "more"]
        assert unconnected.client.amf3

    def test_media_before_connect_is_accepted_are_a_protocol_error(self, asking: ClientConnection) -> None:
        with pytest.raises(RemoteProtocolError):
            asking.receive_data(encode_message(Message(9, 0, 1, b"v"), chunk_stream_id=6, chunk_size=128))


class TestAnswers:
    def test_answers_are_matched_by_their_transaction(self, client: ClientConnection) -> None:
        first, second = client.create_stream(), client.call("custom", 1)
        refused = events.ResultReceived("custom", second, False, [None, {"code": "x"}])
        assert answer(client, "_error", second, None, {"code": "x"}) == [refused]
        created = events.ResultReceived("createStream", first, True, [None, 5.0])
        assert answer(client, "_result", first, None, 5) == [created]
        assert answer(client, "_result", first, None, 5) == []
        assert answer(client, "_result", 99, None) == []

    def test_status_is_reported_with_its_fields_and_info(self, client: ClientConnection) -> None:
        info = {"level": "status", "code": "NetStream.Play.Start", "description": "Go.", "details": "cam"}
        assert answer(client, "onStatus", 0, None, info, stream_id=1) == [
            events.StatusReceived(1, "status", "NetStream.Play.Start", "Go.", info)
        ]

    @pytest.mark.parametrize("info", [{}, {"code": 5}, {"level": None}])
    def test_status_with_missing_parts_has_empty_fields(self, client: ClientConnection, info: dict[str, Any]) -> None:
        (status,) = answer(client, "onStatus", 0, None, info)
        assert (status.level, status.code, status.description) == ("", "", "")

    @pytest.mark.parametrize("values", [(), (0,), (0, None), (0, None, "text")])
    def test_status_without_its_info_object_is_a_protocol_error(
        self, client: ClientConnection, values: tuple[Any, ...]
    ) -> None:
        with pytest.raises(RemoteProtocolError):
            answer(client, "onStatus", *values)

    @pytest.mark.parametrize(
        "where", [{}, {"tcUrl": "rtmp://foo.mydomain.com:1935/realtimeapp"}, {"tcUrl": "/realtimeapp"}]
    )
    def test_reconnect_request_is_reported_and_keeps_the_connection(
        self, client: ClientConnection, where: dict[str, str]
    ) -> None:
        """Enhanced RTMP v2: absolute, relative, or to the same server."""
        info = {"level": "status", "code": RECONNECT_REQUEST, "description": "Updates."} | where
        found = answer(client, "onStatus", 0, None, info)
        assert found == [events.StatusReceived(0, "status", RECONNECT_REQUEST, "Updates.", info)]
        assert client.phase is Phase.CONNECTED

    def test_server_calls_are_reported_and_those_with_a_transaction_refused(self, client: ClientConnection) -> None:
        client.data_to_send()
        assert answer(client, "onBWDone", 0, None, 8192) == [events.CallReceived(0, 0, "onBWDone", 0.0, None, [8192.0])]
        assert client.data_to_send() == b""
        assert len(answer(client, "ping", 4, None)) == 1
        assert b"_error" in client.data_to_send()


class TestPlay:
    def test_media_of_the_server_arrive(self, pair: ConnectionPair) -> None:
        pair.client.play(pair.create_stream(), "cam", -1)
        pair.run()
        for message in (
            Message(18, 0, 1, amf0.encode("onMetaData", {"width": 1.0})),
            Message(8, 10, 1, b"\xaf\x00"),
            Message(9, 20, 1, b"\x17\x00" + bytes(70_000)),
        ):
            pair.server.send_message(message)
        assert pair.take_client(events.DataReceived, events.AudioReceived, events.VideoReceived) == [
            events.DataReceived(1, 0, "|RtmpSampleAccess", [True, True], amf0.encode("|RtmpSampleAccess", True, True)),
            events.DataReceived(1, 0, "onMetaData", [{"width": 1.0}], amf0.encode("onMetaData", {"width": 1.0})),
            events.AudioReceived(1, 10, b"\xaf\x00"),
            events.VideoReceived(1, 20, b"\x17\x00" + bytes(70_000)),
        ]

    def test_shared_bytes_can_be_mixed_with_what_the_server_queues(self, pair: ConnectionPair) -> None:
        pair.client.play(pair.create_stream(), "cam")
        pair.run()
        shared = encode_message(Message(9, 0x1000000, 1, bytes(150_000)), chunk_stream_id=6, chunk_size=60_000)
        pair.server.send_ping(1)
        before = pair.server.data_to_send()
        pair.server.send_status(1, "status", "NetStream.Play.UnpublishNotify", "Gone.")
        data = before + shared + pair.server.data_to_send() + shared
        found = [event for at in range(0, len(data), 1448) for event in pair.client.receive_data(data[at : at + 1448])]
        assert [type(event) for event in found] == [events.VideoReceived, events.StatusReceived, events.VideoReceived]
        assert [event.timestamp for event in found if isinstance(event, events.VideoReceived)] == [0x1000000] * 2


@pytest.mark.parametrize("size", [1, 7, 1448])
def test_whole_publish_session_succeeds_in_pieces_of_any_size(size: int) -> None:
    pair = ConnectionPair(slice_bytes=size)
    pair.connected()
    client = pair.client
    client.call("releaseStream", "cam")
    client.call("FCPublish", "cam")
    stream_id = pair.create_stream()
    client.publish(stream_id, "cam")
    pair.run()
    client.send_metadata(stream_id, 0, {"width": 1.0})
    client.send_chunk_size(4096)
    for number in range(5):
        client.send_video(stream_id, number * 40, bytes(9000))
        client.send_audio(stream_id, number * 40 + 3, bytes(300))
    client.call("FCUnpublish", "cam")
    client.delete_stream(stream_id)
    assert len(pair.take_server(events.VideoReceived, events.AudioReceived, events.DataReceived)) == 11
    assert pair.take_server(events.PublishStopped) == [events.PublishStopped(1, "FCUnpublish")]
    answered = [event.procedure for event in pair.take_client(events.ResultReceived)]
    assert answered == ["connect", "releaseStream", "FCPublish", "createStream", "FCUnpublish"]
    codes = [status.code for status in pair.take_client(events.StatusReceived)]
    assert codes == ["NetStream.Publish.Start", "NetStream.Unpublish.Success"]
    assert pair.server.ignored_messages == 0


def test_server_call_before_the_connect_answer_is_ignored(asking: ClientConnection) -> None:
    """As some do with onBWDone."""
    assert answer(asking, "onBWDone", 0, None, 8192.0) == []
    assert answer(asking, "_result", 1, None, SUCCESS)[0].succeeded
    assert asking.phase is Phase.CONNECTED
