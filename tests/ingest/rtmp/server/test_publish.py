"""`publish`, the commands around it, and the media that it lets through."""

from typing import Any

import pytest

from ingest.rtmp import LimitExceeded, Limits, Message, ServerConnection, events
from ingest.rtmp.amf import amf0
from tests.ingest.rtmp import wire
from tests.ingest.rtmp.held import held_bytes
from tests.ingest.rtmp.pair import ConnectionPair, Sink, accept
from tests.ingest.rtmp.server.helpers import SECRET, commands, decide_all_but, sent

NAMES = {"plain": ("n" * 1024, "n" * 1025), "wide": ("\N{GRINNING FACE}" * 256, "\N{GRINNING FACE}" * 257)}


class TestLongNames:
    """Names are kept as long as the connection: of one of many characters the server keeps nothing."""

    @pytest.mark.parametrize("kind", NAMES)
    @pytest.mark.parametrize(
        ("procedure", "code"), [("publish", "NetStream.Publish.BadName"), ("play", "NetStream.Play.Failed")]
    )
    def test_are_refused(self, procedure: str, code: str, kind: str) -> None:
        within, over = NAMES[kind]
        pair = ConnectionPair().connected()
        stream_id = pair.create_stream()
        getattr(pair.client, procedure)(stream_id, over)
        pair.run()
        (status,) = pair.take_client(events.StatusReceived)
        assert (status.stream_id, status.level, status.code) == (stream_id, "error", code)
        assert pair.take_server(events.PublishRequested, events.PlayRequested) == []
        getattr(pair.client, procedure)(stream_id, within)
        pair.run()
        (request,) = pair.take_server(events.PublishRequested, events.PlayRequested)
        assert request.name == within

    def test_are_not_remembered_by_fc_publish(self) -> None:
        pair = ConnectionPair().connected()
        before = held_bytes(pair.server)
        for number in range(32):
            pair.client.fc_publish(f"\N{GRINNING FACE}{number:05}" + "a" * 65_000)
            pair.run()
        assert len(pair.take_client(events.ResultReceived)) == 33
        assert held_bytes(pair.server) < before + 100_000


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
            events.DataReceived(
                1, 0, "onMetaData", [{"width": 1280.0}], amf0.encode("onMetaData", {"width": 1280.0}), kept=True
            ),
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


class TestAdmission:
    """Long messages are for those who were admitted to publish: a stranger can't make the server hold much."""

    def fill(self, server: ServerConnection, count: int, size: int, type_id: int = 9) -> None:
        """Begin that many messages, each on a chunk stream of its own, and leave them unfinished."""
        server.receive_data(wire.set_chunk_size(60_000))
        for csid in range(10, 10 + count):
            server.receive_data(wire.type0(csid, 0, type_id, 1, bytes(60_000), size))

    @pytest.mark.parametrize("type_id", [8, 9, 15, 18, 22, 77])
    @pytest.mark.parametrize("stage", ["handshake", "connected", "playing", "refused"])
    def test_not_before(self, stage: str, type_id: int) -> None:
        def decide(server: ServerConnection, event: Any) -> None:
            if isinstance(event, events.PublishRequested):
                server.reject_publish(event.request_id, "NetStream.Publish.Denied", "No.")
            else:
                accept(server, event)

        pair = ConnectionPair(decide=decide)
        pair.run()
        if stage != "handshake":
            pair.connected()
            pair.create_stream()
        if stage == "playing":
            pair.client.play(1, "cam")
        if stage == "refused":
            pair.client.publish(1, "cam")
        pair.run()
        with pytest.raises(LimitExceeded):
            self.fill(pair.server, 1, 70_000, type_id)

    def test_a_stranger_can_make_the_server_hold_little(self) -> None:
        pair = ConnectionPair().connected()
        with pytest.raises(LimitExceeded):
            self.fill(pair.server, 3, 65_000)
        pair = ConnectionPair().connected()
        with pytest.raises(LimitExceeded):
            pair.server.receive_data(b"".join(wire.type0(csid, 0, 3, 0, bytes(4)) for csid in range(10, 30)))

    def test_a_publisher_has_room_also_after_its_stream_ended(self) -> None:
        pair = ConnectionPair()
        pair.publishing()
        self.fill(pair.server, 20, 700_000)
        pair.server.stop_stream(1)
        pair.server.receive_data(wire.type0(50, 0, 9, 1, bytes(60_000), 700_000))

    def test_media_right_behind_publish_may_be_long(self) -> None:
        """Clients that don't wait for the answer."""
        pair = ConnectionPair().connected()
        pair.create_stream()
        pair.client.publish(1, "cam")
        pair.client.send_video(1, 0, bytes(1_000_000))
        pair.run()
        assert [len(event.payload) for event in pair.take_server(events.VideoReceived)] == [1_000_000]


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

    def test_names_that_wait_are_limited_and_one_too_many_is_refused(self) -> None:
        pair = ConnectionPair(server_limits=Limits(message_streams=2)).connected()
        for name in ("cam0", "cam1", "cam0", "cam", "n" * 1025):
            pair.client.fc_publish(name)
        pair.run()
        results = pair.take_client(events.ResultReceived)[1:]
        assert [result.succeeded for result in results] == [True, True, True, False, False]
        assert [result.values[-1]["description"] for result in results[3:]] == [
            "2 names await their publish, as many as may: publish one first.",
            "The stream's name is too long.",
        ]
        pair.create_stream()
        pair.client.publish(1, "cam")
        pair.run()
        assert [values[0] for values in self.notices(pair)] == ["onStatus"]


class TestData:
    @pytest.mark.parametrize(
        "payload",
        [b"", b"\xff\xff", amf0.encode(1.0), amf0.encode("@setDataFrame"), amf0.encode("onMetaData") + b"\x11\x12"],
    )
    def test_what_cannot_be_read_is_no_reason_to_end_a_stream(self, payload: bytes) -> None:
        pair = ConnectionPair()
        pair.publishing()
        pair.client.send_message(Message(18, 0, 1, payload))
        pair.client.send_video(1, 0, b"v")
        pair.run()
        assert pair.take_server(events.UnknownMessage) == [events.UnknownMessage(18, 1, payload)]
        assert len(pair.take_server(events.VideoReceived)) == 1

    @pytest.mark.parametrize("kept", [False, True])
    @pytest.mark.parametrize("stray", [b"\x00\x00\x09", b"\xff", b"\x03\x00\x01a", b"\x11\x12"], ids=bytes.hex)
    def test_stray_bytes_behind_the_values_are_taken_off(self, stray: bytes, kept: bool) -> None:
        pair = ConnectionPair()
        pair.publishing()
        body = amf0.encode("onMetaData", {"width": 1280.0})
        said = amf0.encode("@setDataFrame") if kept else b""
        pair.client.send_message(Message(18, 0, 1, said + body + stray))
        pair.run()
        assert pair.take_server(events.DataReceived) == [
            events.DataReceived(1, 0, "onMetaData", [{"width": 1280.0}], body, kept=kept)
        ]
        assert pair.take_server(events.UnknownMessage) == [events.UnknownMessage(18, 1, stray)]

    def test_stray_bytes_behind_values_in_amf3_are_taken_off(self) -> None:
        pair = ConnectionPair()
        pair.publishing()
        body = amf0.encode("onMetaData", amf0.Amf3({"width": 1280.0}))
        pair.client.send_message(Message(15, 0, 1, b"\x00" + body + b"\x11\x12"))
        pair.run()
        assert pair.take_server(events.DataReceived) == [
            events.DataReceived(1, 0, "onMetaData", [{"width": 1280.0}], amf0.encode("onMetaData", {"width": 1280.0}))
        ]
        assert pair.take_server(events.UnknownMessage) == [events.UnknownMessage(15, 1, b"\x11\x12")]

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


class TestSink:
    def make(self) -> tuple[ConnectionPair, Sink]:
        sink = Sink()

        def decide(server: ServerConnection, event: Any) -> None:
            if isinstance(event, events.PublishRequested):
                server.accept_publish(event.request_id, "Publishing.", public_name="cam", sink=sink)
            else:
                accept(server, event)

        pair = ConnectionPair(decide=decide)
        pair.publishing()
        return pair, sink

    def test_it_is_given_audio_and_video_instead_of_events(self) -> None:
        pair, sink = self.make()
        pair.client.send_message(Message(9, 10, 1, b"\x27\x01picture"))
        pair.client.send_message(Message(8, 0xFFFFFFFF, 1, b"\xaf\x01sound"))
        pair.run()
        assert sink.taken == [("video", 10, b"\x27\x01picture"), ("audio", 0xFFFFFFFF, b"\xaf\x01sound")]
        assert pair.take_server(events.VideoReceived, events.AudioReceived) == []

    def test_nothing_overtakes_an_event_that_waits(self) -> None:
        pair, sink = self.make()
        pair.client.send_message(Message(9, 1, 1, b"first"))
        pair.client.send_message(Message(18, 2, 1, amf0.encode("onCuePoint")))
        pair.client.send_message(Message(9, 3, 1, b"second"))
        pair.client.send_message(Message(8, 3, 1, b"third"))
        pair.run()
        assert [payload for _, _, payload in sink.taken] == [b"first"]
        late = pair.take_server(events.DataReceived, events.VideoReceived, events.AudioReceived)
        assert [event.payload for event in late] == [amf0.encode("onCuePoint"), b"second", b"third"]

    def test_it_is_given_nothing_once_the_stream_was_stopped(self) -> None:
        pair, sink = self.make()
        pair.server.stop_stream(1)
        pair.client.send_message(Message(9, 1, 1, b"late"))
        pair.run()
        assert sink.taken == []
        assert pair.server.ignored_messages == 1
