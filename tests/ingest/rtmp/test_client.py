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
from ingest.rtmp.capabilities import NO_CAPABILITIES, AudioCodecs, Capabilities, CapsEx, FourCcInfo
from ingest.rtmp.status import RECONNECT_REQUEST
from tests.ingest.rtmp.held import held_bytes
from tests.ingest.rtmp.pair import CLIENT_NONCE, ConnectionPair
from tests.rtmpdecode import decode_stream


def connected_client() -> ClientConnection:
    """A client that asked to connect; its answer is the test's."""
    client = ClientConnection(nonce=CLIENT_NONCE)
    client.receive_data(b"\x03" + bytes(3072))
    client.connect("live", "rtmp://127.0.0.1/live")
    return client


def answer(client: ClientConnection, *values: Any, stream_id: int = 0) -> list[Any]:
    message = Message(20, 0, stream_id, amf0.encode(*values))
    return list(client.receive_data(encode_message(message, chunk_stream_id=3, chunk_size=128)))


def test_calls_that_are_never_answered_take_no_room() -> None:
    client = connected_client()
    answer(client, "_result", 1.0, None, SUCCESS)
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
    def test_what_is_sent(self) -> None:
        pair = ConnectionPair().connected(app="live", objectEncoding=0)
        message = next(m for m in decode_stream(bytes(pair.to_server)) if m.type_id == 20)
        name, transaction, properties = amf0.decode_all(message.payload)
        assert (name, transaction) == ("connect", 1.0)
        assert properties["app"] == "live"
        assert properties["tcUrl"] == "rtmp://127.0.0.1/live"
        assert properties["objectEncoding"] == 0.0

    def test_not_before_the_handshake(self) -> None:
        client = ClientConnection(nonce=CLIENT_NONCE)
        with pytest.raises(LocalProtocolError):
            client.connect("live", "")

    @pytest.mark.parametrize("procedure", ["create_stream", "publish", "play", "release_stream"])
    def test_nothing_else_before_it_is_accepted(self, procedure: str) -> None:
        client = connected_client()
        arguments: dict[str, list[Any]] = {"publish": [1, "x"], "play": [1, "x"], "release_stream": ["x"]}
        with pytest.raises(LocalProtocolError):
            getattr(client, procedure)(*arguments.get(procedure, []))

    def test_accepted(self) -> None:
        client = connected_client()
        found = answer(client, "_result", 1, {"fmsVer": "x"}, SUCCESS)
        assert found == [events.ResultReceived("connect", 1.0, True, [{"fmsVer": "x"}, SUCCESS])]
        assert client.phase is Phase.CONNECTED

    def test_refused(self) -> None:
        client = connected_client()
        found = answer(client, "_error", 1, None, {"level": "error", "code": "NetConnection.Connect.Rejected"})
        assert [(event.procedure, event.succeeded) for event in found] == [("connect", False)]
        assert client.phase is Phase.CLOSED

    def test_what_it_can_do_is_offered(self) -> None:
        offer = Capabilities(
            object_encoding=3,
            audio_codecs=AudioCodecs.AAC | AudioCodecs.MP3,
            fourcc_list=("hvc1", "Opus"),
            video_fourcc_info={"hvc1": FourCcInfo.CAN_DECODE | FourCcInfo.CAN_ENCODE},
            caps_ex=CapsEx.RECONNECT,
        )
        pair = ConnectionPair()
        pair.run()
        pair.client.connect("live", "rtmp://127.0.0.1/live", "more", offer=offer, capsEx=3)
        pair.run()
        message = next(m for m in decode_stream(bytes(pair.to_server)) if m.type_id == 20)
        name, transaction, properties, argument = amf0.decode_all(message.payload)
        assert (name, transaction, argument) == ("connect", 1.0, "more")
        assert properties == {
            "app": "live",
            "type": "nonprivate",
            "flashVer": "FMLE/3.0 (compatible; rtmpweb)",
            "tcUrl": "rtmp://127.0.0.1/live",
            "objectEncoding": 3.0,
            "audioCodecs": 1028.0,
            "fourCcList": ["hvc1", "Opus"],
            "videoFourCcInfoMap": {"hvc1": 3.0},
            "capsEx": 3.0,
        }
        assert pair.client.amf3

    @pytest.mark.parametrize(
        ("properties", "info", "expected"),
        [
            ({"capsEx": 3.0}, SUCCESS, Capabilities(caps_ex=CapsEx(3))),
            (None, SUCCESS | {"capsEx": 3.0}, Capabilities(caps_ex=CapsEx(3))),
            ({"capsEx": 1.0}, SUCCESS | {"capsEx": 3.0}, Capabilities(caps_ex=CapsEx(1))),
            ({"videoFourCcInfoMap": {"*": 4.0}}, SUCCESS, Capabilities(video_fourcc_info={"*": FourCcInfo(4)})),
            ({"fmsVer": "x", "capabilities": 31.0}, SUCCESS, NO_CAPABILITIES),
            ({"capsEx": float("nan")}, SUCCESS, NO_CAPABILITIES),
            ("x", 5.0, NO_CAPABILITIES),
        ],
    )
    def test_what_a_server_says_that_it_can_do(self, properties: Any, info: Any, expected: Capabilities) -> None:
        client = connected_client()
        assert client.server_capabilities == NO_CAPABILITIES
        answer(client, "_result", 1, properties, info)
        assert client.server_capabilities == expected

    def test_media_before_it_is_accepted(self) -> None:
        client = connected_client()
        with pytest.raises(RemoteProtocolError):
            client.receive_data(encode_message(Message(9, 0, 1, b"v"), chunk_stream_id=6, chunk_size=128))


class TestAnswers:
    def client(self) -> ClientConnection:
        client = connected_client()
        answer(client, "_result", 1, None, SUCCESS)
        return client

    def test_are_matched_by_their_transaction(self) -> None:
        client = self.client()
        first, second = client.create_stream(), client.call("custom", 1)
        assert answer(client, "_error", second, None, {"code": "x"}) == [
            events.ResultReceived("custom", second, False, [None, {"code": "x"}])
        ]
        assert answer(client, "_result", first, None, 5) == [
            events.ResultReceived("createStream", first, True, [None, 5.0])
        ]
        assert answer(client, "_result", first, None, 5) == []
        assert answer(client, "_result", 99, None) == []

    def test_status(self) -> None:
        info = {"level": "status", "code": "NetStream.Play.Start", "description": "Go.", "details": "cam"}
        assert answer(self.client(), "onStatus", 0, None, info, stream_id=1) == [
            events.StatusReceived(1, "status", "NetStream.Play.Start", "Go.", info)
        ]

    @pytest.mark.parametrize("info", [{}, {"code": 5}, {"level": None}])
    def test_status_with_parts_missing(self, info: dict[str, Any]) -> None:
        (status,) = answer(self.client(), "onStatus", 0, None, info)
        assert (status.level, status.code, status.description) == ("", "", "")

    @pytest.mark.parametrize("values", [(), (0,), (0, None), (0, None, "text")])
    def test_status_without_its_object(self, values: tuple[Any, ...]) -> None:
        with pytest.raises(RemoteProtocolError):
            answer(self.client(), "onStatus", *values)

    @pytest.mark.parametrize(
        "where", [{}, {"tcUrl": "rtmp://foo.mydomain.com:1935/realtimeapp"}, {"tcUrl": "/realtimeapp"}]
    )
    def test_a_reconnect_request(self, where: dict[str, str]) -> None:
        """Enhanced RTMP v2: absolute, relative, or to the same server."""
        client = self.client()
        info = {"level": "status", "code": RECONNECT_REQUEST, "description": "Updates."} | where
        found = answer(client, "onStatus", 0, None, info)
        assert found == [events.StatusReceived(0, "status", RECONNECT_REQUEST, "Updates.", info)]
        assert client.phase is Phase.CONNECTED

    def test_calls_of_the_server(self) -> None:
        client = self.client()
        client.data_to_send()
        assert answer(client, "onBWDone", 0, None, 8192) == [events.CallReceived(0, 0, "onBWDone", 0.0, None, [8192.0])]
        assert client.data_to_send() == b""
        assert len(answer(client, "ping", 4, None)) == 1
        assert b"_error" in client.data_to_send()


class TestPublish:
    """By a client that takes little at a time."""

    def test_urgent_messages_overtake_a_long_frame(self) -> None:
        pair = ConnectionPair()
        stream_id = pair.publishing()
        pair.client.send_video(stream_id, 0, b"v" * 1000)
        data = pair.client.data_to_send(limit=300)
        pair.client.send_audio(stream_id, 1, b"a")
        pair.client.send_ping(7)
        pair.client.delete_stream(stream_id)
        assert 1000 > pair.client.waiting_bytes > 600
        while pair.client.has_output:
            data += pair.client.data_to_send(limit=1)
        types = [message.type_id for message in decode_stream(bytes(pair.to_server) + data)]
        assert types[-4:] == [4, 8, 9, 20]
        assert self.received(pair, data) == [events.AudioReceived, events.VideoReceived, events.PublishStopped]
        assert pair.client.waiting_bytes == 0

    def test_media_that_nobody_wants_any_more(self) -> None:
        pair = ConnectionPair()
        stream_id = pair.publishing()
        pair.client.send_video(stream_id, 0, b"v" * 1000)
        pair.client.send_audio(stream_id, 1, b"a")
        data = pair.client.data_to_send(limit=300)
        pair.client.drop_media(stream_id)
        pair.client.delete_stream(stream_id)
        data += pair.client.data_to_send()
        assert len(data) < 500
        assert self.received(pair, data) == [events.AudioReceived, events.PublishStopped]

    @staticmethod
    def received(pair: ConnectionPair, data: bytes) -> list[type]:
        kinds = (events.AudioReceived, events.VideoReceived, events.PublishStopped)
        return [type(event) for event in pair.server.receive_data(data) if isinstance(event, kinds)]


class TestPlay:
    def test_media_of_the_server_arrive(self) -> None:
        pair = ConnectionPair().connected()
        pair.client.play(pair.create_stream(), "cam", -1)
        pair.run()
        for message in (
            Message(18, 0, 1, amf0.encode("onMetaData", {"width": 1.0})),
            Message(8, 10, 1, b"\xaf\x00"),
            Message(9, 20, 1, b"\x17\x00" + bytes(70_000)),
        ):
            pair.server.send_message(message)
        pair.run()
        assert pair.take_client(events.DataReceived, events.AudioReceived, events.VideoReceived) == [
            events.DataReceived(1, 0, "|RtmpSampleAccess", [True, True], amf0.encode("|RtmpSampleAccess", True, True)),
            events.DataReceived(1, 0, "onMetaData", [{"width": 1.0}], amf0.encode("onMetaData", {"width": 1.0})),
            events.AudioReceived(1, 10, b"\xaf\x00"),
            events.VideoReceived(1, 20, b"\x17\x00" + bytes(70_000)),
        ]

    def test_shared_bytes_can_be_mixed_with_what_the_server_queues(self) -> None:
        pair = ConnectionPair().connected()
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
def test_a_whole_session_in_pieces(size: int) -> None:
    pair = ConnectionPair(slice_bytes=size)
    pair.connected()
    client = pair.client
    client.release_stream("cam")
    client.fc_publish("cam")
    stream_id = pair.create_stream()
    client.publish(stream_id, "cam")
    pair.run()
    client.send_metadata(stream_id, 0, {"width": 1.0})
    client.send_chunk_size(4096)
    for number in range(5):
        client.send_video(stream_id, number * 40, bytes(9000))
        client.send_audio(stream_id, number * 40 + 3, bytes(300))
    client.fc_unpublish("cam")
    client.delete_stream(stream_id)
    pair.run()
    assert len(pair.take_server(events.VideoReceived, events.AudioReceived, events.DataReceived)) == 11
    assert pair.take_server(events.PublishStopped) == [events.PublishStopped(1, "FCUnpublish")]
    assert [event.procedure for event in pair.take_client(events.ResultReceived)] == [
        "connect",
        "releaseStream",
        "FCPublish",
        "createStream",
        "FCUnpublish",
    ]
    assert [status.code for status in pair.take_client(events.StatusReceived)] == [
        "NetStream.Publish.Start",
        "NetStream.Unpublish.Success",
    ]
    assert pair.server.ignored_messages == 0
