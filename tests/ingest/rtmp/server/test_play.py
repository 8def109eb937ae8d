"""`play` and its end."""

from typing import Any

import pytest

from ingest.rtmp import events
from ingest.rtmp.amf import amf0
from tests.ingest.rtmp.pair import ConnectionPair
from tests.ingest.rtmp.server.helpers import SECRET, answers, decide_all_but, sent


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
        # A status comes before the end of the session that it belongs to.
        assert pair.server_events[-1] == events_after[-1]

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
