"""`publish`, the commands around it, the media that it lets through, and the many ways in which it ends."""

from typing import Any

import pytest

from ingest.rtmp import LimitExceeded, Limits, LocalProtocolError, Message, ServerConnection, events
from ingest.rtmp.amf import Amf3, amf0
from tests.pure.rtmp import wire
from tests.pure.rtmp.pair import SECRET, ConnectionPair, Sink, accept, answers, commands, deciding, sent
from tests.pure.rtmp.test_conversations import held_bytes
from tests.rtmp_client import decode_all

NAMES = {"plain": ("n" * 1024, "n" * 1025), "wide": ("\N{GRINNING FACE}" * 256, "\N{GRINNING FACE}" * 257)}


DENYING = deciding(
    events.PublishRequested,
    lambda server, event: server.reject_publish(event.request_id, "NetStream.Publish.Denied", "Wrong key."),
)


class TestLongNames:
    """Names are kept as long as the connection: of one of many characters the server keeps nothing."""

    @pytest.mark.parametrize("kind", NAMES)
    @pytest.mark.parametrize(
        ("procedure", "code"), [("publish", "NetStream.Publish.BadName"), ("play", "NetStream.Play.Failed")]
    )
    def test_overlong_stream_names_are_refused(
        self, idle: ConnectionPair, procedure: str, code: str, kind: str
    ) -> None:
        within, over = NAMES[kind]
        getattr(idle.client, procedure)(1, over)
        (status,) = idle.take_client(events.StatusReceived)
        assert (status.stream_id, status.level, status.code) == (1, "error", code)
        assert idle.take_server(events.PublishRequested, events.PlayRequested) == []
        getattr(idle.client, procedure)(1, within)
        (request,) = idle.take_server(events.PublishRequested, events.PlayRequested)
        assert request.name == within

    def test_overlong_names_are_not_kept_by_fc_publish(self, pair: ConnectionPair) -> None:
        before = held_bytes(pair.server)
        for number in range(32):
            pair.client.call("FCPublish", f"\N{GRINNING FACE}{number:05}" + "a" * 65_000)
            pair.run()
        assert len(pair.take_client(events.ResultReceived)) == 33
        assert held_bytes(pair.server) < before + 100_000


class TestPublish:
    def test_publish_is_answered_with_stream_begin_and_start_status(self, idle: ConnectionPair) -> None:
        before = len(sent(idle))
        idle.client.publish(1, f"cam?key={SECRET}")
        (request,) = idle.take_server(events.PublishRequested)
        assert (request.stream_id, request.name, request.publish_type) == (1, f"cam?key={SECRET}", "live")
        begin, status = sent(idle)[before:]
        assert (begin.type_id, begin.stream_id, begin.payload) == (4, 0, b"\x00\x00\x00\x00\x00\x01")
        assert status.stream_id == 1
        info = {"level": "status", "code": "NetStream.Publish.Start", "description": "Publishing."}
        assert decode_all(status.payload) == ["onStatus", 0.0, None, info]

    def test_status_goes_out_on_its_own_chunk_stream(self, pair: ConnectionPair) -> None:
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
    def test_publish_types_are_read_with_live_as_default(
        self, idle: ConnectionPair, arguments: list[Any], publish_type: str
    ) -> None:
        idle.client.notify("publish", *arguments, stream_id=1)
        (request,) = idle.take_server(events.PublishRequested)
        assert (request.name, request.publish_type) == (arguments[0], publish_type)

    def test_refused_publish_sends_an_error_and_may_be_retried(self) -> None:
        pair = ConnectionPair(decide=DENYING)
        pair.publishing(SECRET)
        (status,) = pair.take_client(events.StatusReceived)
        assert (status.stream_id, status.level, status.code) == (1, "error", "NetStream.Publish.Denied")
        # The same stream may try again.
        pair.decide = accept
        pair.client.publish(1, "cam")
        assert pair.take_client(events.StatusReceived)[-1].code == "NetStream.Publish.Start"

    def test_published_media_and_metadata_arrive_as_sent(self, publisher: ConnectionPair) -> None:
        client, properties = publisher.client, {"width": 1280.0}
        client.send_metadata(1, 0, properties)
        client.send_audio(1, 1, b"\xaf\x00\x12\x10")
        client.send_video(1, 0xFFFFFFFF, b"\x17\x01" + bytes(100_000))
        client.send_audio(1, 3, b"")
        assert publisher.take_server(events.AudioReceived, events.VideoReceived, events.DataReceived) == [
            events.DataReceived(1, 0, "onMetaData", [properties], amf0.encode("onMetaData", properties), kept=True),
            events.AudioReceived(1, 1, b"\xaf\x00\x12\x10"),
            events.VideoReceived(1, 0xFFFFFFFF, b"\x17\x01" + bytes(100_000)),
            events.AudioReceived(1, 3, b""),
        ]

    def test_several_streams_on_one_connection(self, publisher: ConnectionPair) -> None:
        for name in ("two", "three"):
            publisher.client.publish(publisher.create_stream(), name)
        publisher.run()
        for stream_id in (3, 1, 2):
            publisher.client.send_video(stream_id, stream_id, b"v")
        publisher.client.delete_stream(2)
        publisher.client.send_video(2, 9, b"v")
        publisher.client.send_video(3, 9, b"v")
        videos = publisher.take_server(events.VideoReceived)
        assert [(event.stream_id, event.timestamp) for event in videos] == [(3, 3), (1, 1), (2, 2), (3, 9)]
        assert publisher.take_server(events.PublishStopped) == [events.PublishStopped(2, "deleteStream")]

    def test_publish_on_a_missing_or_busy_stream_fails(self, publisher: ConnectionPair) -> None:
        for stream_id in (1, 2, 77):
            publisher.client.publish(stream_id, SECRET)
            status = publisher.take_client(events.StatusReceived)[-1]
            assert (status.stream_id, status.code) == (stream_id, "NetStream.Publish.Failed")
        assert len(publisher.take_server(events.PublishRequested)) == 1

    def test_publish_on_message_stream_0_uses_the_only_stream(self, idle: ConnectionPair) -> None:
        idle.client.publish(0, "cam")
        assert idle.take_server(events.PublishRequested)[0].stream_id == 1
        assert idle.take_client(events.StatusReceived)[-1].stream_id == 1

    def test_publish_with_false_ends_publishing(self, publisher: ConnectionPair) -> None:
        publisher.client.notify("publish", False, stream_id=1)
        assert publisher.take_server(events.PublishStopped) == [events.PublishStopped(1, "publish")]

    @pytest.mark.parametrize("name", [None, 5.0, {}, ["x"], True])
    def test_publish_with_a_name_that_is_no_text_fails(self, idle: ConnectionPair, name: Any) -> None:
        idle.client.notify("publish", name, stream_id=1)
        assert idle.take_client(events.StatusReceived)[-1].code == "NetStream.Publish.Failed"


class TestAdmission:
    """Long messages are for those who were admitted to publish: a stranger can't make the server hold much."""

    def fill(self, server: ServerConnection, count: int, size: int, type_id: int = 9) -> None:
        """Begin that many messages, each on a chunk stream of its own, and leave them unfinished."""
        server.receive_data(wire.set_chunk_size(60_000))
        for csid in range(10, 10 + count):
            server.receive_data(wire.type0(csid, 0, type_id, 1, bytes(60_000), size))

    @pytest.mark.parametrize("type_id", [8, 9, 15, 18, 22, 77])
    @pytest.mark.parametrize("stage", ["handshake", "connected", "playing", "refused"])
    def test_long_message_before_publish_is_accepted_exceeds_the_limit(self, stage: str, type_id: int) -> None:
        pair = ConnectionPair(decide=DENYING)
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

    def test_unadmitted_client_exceeds_low_limits_for_data_and_chunk_streams(self) -> None:
        with pytest.raises(LimitExceeded):
            self.fill(ConnectionPair().connected().server, 3, 65_000)
        data = b"".join(wire.type0(csid, 0, 3, 0, bytes(4)) for csid in range(10, 30))
        with pytest.raises(LimitExceeded):
            ConnectionPair().connected().server.receive_data(data)

    def test_a_publisher_has_room_also_after_its_stream_ended(self, publisher: ConnectionPair) -> None:
        self.fill(publisher.server, 20, 700_000)
        publisher.server.stop_stream(1)
        publisher.server.receive_data(wire.type0(50, 0, 9, 1, bytes(60_000), 700_000))

    def test_media_right_behind_publish_may_be_long(self, idle: ConnectionPair) -> None:
        """Clients that don't wait for the answer."""
        idle.client.publish(1, "cam")
        idle.client.send_video(1, 0, bytes(1_000_000))
        assert [len(event.payload) for event in idle.take_server(events.VideoReceived)] == [1_000_000]


class TestFcPublish:
    def notices(self, pair: ConnectionPair) -> list[list[Any]]:
        return [values for _, values in commands(pair) if values[0] in ("onFCPublish", "onFCUnpublish", "onStatus")]

    def test_on_fc_publish_comes_with_the_decision_and_the_public_name(self, pair: ConnectionPair) -> None:
        pair.client.call("FCPublish", f"cam?key={SECRET}")
        pair.create_stream()
        assert self.notices(pair) == []
        pair.client.publish(1, f"cam?key={SECRET}")
        pair.run()
        notice, status = self.notices(pair)
        info = {"level": "status", "code": "NetStream.Publish.Start", "description": "cam"}
        assert notice == ["onFCPublish", 0.0, None, info]
        assert status[3]["code"] == "NetStream.Publish.Start"
        assert SECRET.encode() not in pair.to_client

    def test_on_fc_publish_is_not_sent_when_the_publish_is_refused(self) -> None:
        pair = ConnectionPair(decide=DENYING).connected()
        pair.client.call("FCPublish", SECRET)
        pair.create_stream()
        pair.client.publish(1, SECRET)
        pair.run()
        assert [values[0] for values in self.notices(pair)] == ["onStatus"]

    def test_fc_publish_of_a_published_name_is_answered_at_once(self) -> None:
        pair = ConnectionPair()
        pair.publishing(SECRET + "?x")
        pair.client.call("FCPublish", "garbage|@setDataFrame()")
        pair.run()
        assert len(self.notices(pair)) == 1
        pair.client.call("FCPublish", SECRET + "?x")
        pair.run()
        assert self.notices(pair)[-1][0] == "onFCPublish"

    def test_names_that_wait_are_limited_and_one_too_many_is_refused(self) -> None:
        pair = ConnectionPair(server_limits=Limits(message_streams=2)).connected()
        for name in ("cam0", "cam1", "cam0", "cam", "n" * 1025):
            pair.client.call("FCPublish", name)
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
    @pytest.mark.parametrize("kept", [False, True])
    @pytest.mark.parametrize("stray", [b"\x00\x00\x09", b"\xff", b"\x03\x00\x01a", b"\x11\x12"], ids=bytes.hex)
    def test_stray_bytes_behind_the_values_are_taken_off(
        self, publisher: ConnectionPair, stray: bytes, kept: bool
    ) -> None:
        body = amf0.encode("onMetaData", {"width": 1280.0})
        said = amf0.encode("@setDataFrame") if kept else b""
        publisher.client.send_message(Message(18, 0, 1, said + body + stray))
        assert publisher.take_server(events.DataReceived) == [
            events.DataReceived(1, 0, "onMetaData", [{"width": 1280.0}], body, kept=kept)
        ]
        assert publisher.take_server(events.UnknownMessage) == [events.UnknownMessage(18, 1, stray)]

    def test_stray_bytes_behind_values_in_amf3_are_taken_off(self, publisher: ConnectionPair) -> None:
        body = amf0.encode("onMetaData", Amf3({"width": 1280.0}))
        publisher.client.send_message(Message(15, 0, 1, b"\x00" + body + b"\x11\x12"))
        assert publisher.take_server(events.DataReceived) == [
            events.DataReceived(1, 0, "onMetaData", [{"width": 1280.0}], amf0.encode("onMetaData", {"width": 1280.0}))
        ]
        assert publisher.take_server(events.UnknownMessage) == [events.UnknownMessage(15, 1, b"\x11\x12")]

    def test_data_nested_too_deep_ends_the_connection(self, publisher: ConnectionPair) -> None:
        publisher.ended_by(LimitExceeded, Message(18, 0, 1, amf0.encode("x") + b"\x0a\x00\x00\x00\x01" * 100))

    def test_data_with_a_name_alone_and_clear_data_frame_are_reported(self, publisher: ConnectionPair) -> None:
        publisher.client.send_data(1, 7, "onCuePoint")
        publisher.client.send_data(1, 8, "@clearDataFrame", "onMetaData")
        assert publisher.take_server(events.DataReceived) == [
            events.DataReceived(1, 7, "onCuePoint", [], amf0.encode("onCuePoint")),
            events.DataReceived(1, 8, "@clearDataFrame", ["onMetaData"], amf0.encode("@clearDataFrame", "onMetaData")),
        ]


class TestSink:
    def test_sink_is_given_audio_and_video_instead_of_events(self, fed: ConnectionPair, sink: Sink) -> None:
        fed.client.send_message(Message(9, 10, 1, b"\x27\x01picture"))
        fed.client.send_message(Message(8, 0xFFFFFFFF, 1, b"\xaf\x01sound"))
        assert fed.take_server(events.VideoReceived, events.AudioReceived) == []
        assert sink.taken == [("video", 10, b"\x27\x01picture"), ("audio", 0xFFFFFFFF, b"\xaf\x01sound")]

    def test_media_behind_a_waiting_event_become_events_instead_of_sink_calls(
        self, fed: ConnectionPair, sink: Sink
    ) -> None:
        fed.client.send_message(Message(9, 1, 1, b"first"))
        fed.client.send_message(Message(18, 2, 1, amf0.encode("onCuePoint")))
        fed.client.send_message(Message(9, 3, 1, b"second"))
        fed.client.send_message(Message(8, 3, 1, b"third"))
        late = fed.take_server(events.DataReceived, events.VideoReceived, events.AudioReceived)
        assert [event.payload for event in late] == [amf0.encode("onCuePoint"), b"second", b"third"]
        assert [payload for _, _, payload in sink.taken] == [b"first"]

    def test_sink_is_given_nothing_after_the_stream_was_stopped(self, fed: ConnectionPair, sink: Sink) -> None:
        fed.server.stop_stream(1)
        fed.client.send_message(Message(9, 1, 1, b"late"))
        fed.run()
        assert sink.taken == []
        assert fed.server.ignored_messages == 1


def ended(pair: ConnectionPair) -> tuple[list[Any], bool]:
    """How its publishing did, and whether its message stream is gone."""
    return pair.take_server(events.PublishStopped), not pair.server.streams


@pytest.fixture
def secret() -> ConnectionPair:
    """Publishes as `cam?secret`, which is shown as `cam`."""
    pair = ConnectionPair()
    pair.publishing("cam?secret")
    return pair


class TestUnpublish:
    @pytest.mark.parametrize("name", ["cam?secret", "other", None])
    def test_fc_unpublish_ends_publishing_and_keeps_the_stream(self, secret: ConnectionPair, name: str | None) -> None:
        found = answers(secret, lambda: secret.client.call("FCUnpublish", *([name] if name else [])))
        assert [values[0] for _, values in found] == ["onFCUnpublish", "_result", "onStatus"]
        assert found[0][1][3] == {"level": "status", "code": "NetStream.Unpublish.Success", "description": "cam"}
        assert found[2][0] == 1
        assert found[2][1][3]["code"] == "NetStream.Unpublish.Success"
        assert ended(secret) == ([events.PublishStopped(1, "FCUnpublish")], False)

    @pytest.mark.parametrize(
        "arguments", [[1.0], ["cam?secret"], ["unknown"], []], ids=["id", "name", "another name", "nothing"]
    )
    @pytest.mark.parametrize("stream_id", [0, 1])
    def test_delete_stream_ends_publishing_and_removes_the_stream(
        self, secret: ConnectionPair, arguments: list[Any], stream_id: int
    ) -> None:
        found = answers(secret, lambda: secret.client.call("deleteStream", *arguments, stream_id=stream_id))
        assert [(stream, values[0], values[3]["code"]) for stream, values in found] == [
            (1, "onStatus", "NetStream.Unpublish.Success")
        ]
        assert ended(secret) == ([events.PublishStopped(1, "deleteStream")], True)

    def test_close_stream_leaves_the_stream_to_be_used_again(self, publisher: ConnectionPair) -> None:
        found = answers(publisher, lambda: publisher.client.call("closeStream", stream_id=1))
        assert [values[3]["code"] for _, values in found] == ["NetStream.Unpublish.Success"]
        assert ended(publisher) == ([events.PublishStopped(1, "closeStream")], False)
        publisher.client.publish(1, "cam")
        assert publisher.take_client(events.StatusReceived)[-1].code == "NetStream.Publish.Start"

    @pytest.mark.parametrize(
        "order",
        [
            ["FCUnpublish", "deleteStream"],
            ["FCUnpublish", "closeStream", "deleteStream"],
            ["closeStream", "FCUnpublish", "deleteStream"],
            ["deleteStream", "FCUnpublish", "closeStream", "deleteStream"],
        ],
    )
    def test_unpublish_commands_in_any_order_end_publishing_once(
        self, publisher: ConnectionPair, order: list[str]
    ) -> None:
        for procedure in order:
            publisher.client.notify(procedure, 1.0 if procedure == "deleteStream" else "cam", stream_id=1)
        assert ended(publisher) == ([events.PublishStopped(1, order[0])], True)
        statuses = [status.code for status in publisher.take_client(events.StatusReceived)]
        assert statuses == ["NetStream.Publish.Start", "NetStream.Unpublish.Success"]

    @pytest.mark.parametrize("procedure", ["FCUnpublish", "deleteStream"])
    def test_name_in_unpublish_means_the_stream_that_publishes_it_now(
        self, publisher: ConnectionPair, procedure: str
    ) -> None:
        """The encoder ended another one by that name before, and made a new one."""
        publisher.client.call("closeStream", stream_id=1)
        stream_id = publisher.create_stream()
        publisher.client.publish(stream_id, "cam")
        publisher.run()
        publisher.client.notify(procedure, "cam", stream_id=0)
        assert publisher.take_server(events.PublishStopped)[1:] == [events.PublishStopped(stream_id, procedure)]

    @pytest.mark.parametrize(
        ("name", "ended"), [("b", [2]), ("b?key=2", [2]), ("a", []), ("a?key=1", [1]), ("c", [])], ids=str
    )
    def test_fc_unpublish_by_name_ends_a_stream_only_if_unambiguous(self, name: str, ended: list[int]) -> None:
        """Also without its parameters, as some encoders announce it; not if that could be another."""
        pair = ConnectionPair()
        pair.publishing("a?key=1")
        for other in ("b?key=2", "a?key=3"):
            pair.client.publish(pair.create_stream(), other)
        pair.run()
        pair.client.notify("FCUnpublish", name, stream_id=0)
        assert [event.stream_id for event in pair.take_server(events.PublishStopped)] == ended

    @pytest.mark.parametrize("key", [7.0, -1.0, 0.5, float("nan"), float("inf"), 1e300])
    def test_delete_stream_with_an_unknown_id_ends_nothing(self, publisher: ConnectionPair, key: float) -> None:
        publisher.client.notify("deleteStream", key, stream_id=1)
        assert ended(publisher) == ([], False)

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
        pair.ended_by(LimitExceeded)

    def test_late_media_is_no_fault_while_another_stream_publishes(self) -> None:
        """An encoder of several renditions, one of which was stopped here, goes on sending them all."""
        pair = ConnectionPair(server_limits=Limits(ignored_messages=3))
        pair.publishing("low")
        stream_id = pair.create_stream()
        pair.client.publish(stream_id, "high")
        pair.run()
        pair.server.stop_stream(1)
        for number in range(50):
            pair.client.send_video(1, number, b"low")
            pair.client.send_video(stream_id, number, b"high")
            pair.run()
        assert len(pair.take_server(events.VideoReceived)) == 50
        pair.server.stop_stream(stream_id)
        for number in range(4):
            pair.client.send_video(1 + number % 2, number, b"late")
        pair.ended_by(LimitExceeded)

    def test_late_media_of_one_session_is_forgotten_at_the_next(self) -> None:
        pair = ConnectionPair(server_limits=Limits(ignored_messages=3))
        stream_id = pair.publishing()
        for number in range(5):
            pair.client.delete_stream(stream_id)
            pair.client.send_video(stream_id, number, b"late")
            pair.client.send_video(stream_id, number, b"late")
            stream_id = pair.create_stream()
            pair.client.publish(stream_id, "cam")
            pair.run()
        assert len(pair.take_server(events.PublishStopped)) == 5

    def test_stream_stopped_by_the_server_ignores_late_media(self, publisher: ConnectionPair) -> None:
        publisher.server.send_status(1, "error", "NetStream.Publish.Denied", "Kicked.")
        publisher.server.stop_stream(1)
        publisher.client.send_video(1, 0, b"v")
        assert publisher.take_server(events.VideoReceived, events.PublishStopped) == []
        assert publisher.server.ignored_messages == 1
        assert publisher.take_client(events.StatusReceived)[-1].code == "NetStream.Publish.Denied"
        with pytest.raises(LocalProtocolError):
            publisher.server.stop_stream(2)
