"""`play` and its end, and what is asked of a message stream that plays: playlists, play2, pause, seek, receiveAudio."""

from typing import Any

import pytest

from ingest.rtmp import Limits, LocalProtocolError, events
from ingest.rtmp.amf import UNDEFINED
from tests.pure.rtmp.pair import SECRET, ConnectionPair, accept, answers, deciding, sent
from tests.rtmp_client import decode_all

OLD, NEW, LAST = "old", "new", "last"
MISSING = "NetStream.Play.StreamNotFound"
UNDECIDED = deciding(events.PlayRequested)


@pytest.fixture
def playing(idle: ConnectionPair) -> ConnectionPair:
    """Message stream 1 plays `old`."""
    ask(idle, "play", OLD)
    return idle


def with_short_playlist() -> ConnectionPair:
    """With message stream 1; a playlist may have two items."""
    pair = ConnectionPair(server_limits=Limits(playlist_items=2)).connected()
    pair.create_stream()
    return pair


def ask(pair: ConnectionPair, procedure: str, *arguments: Any, stream_id: int = 1) -> None:
    pair.client.notify(procedure, *arguments, stream_id=stream_id)
    pair.run()


def queue(pair: ConnectionPair, *names: str) -> None:
    for name in names:
        ask(pair, "play", name, -2.0, -1.0, False)


def refuse(pair: ConnectionPair) -> None:
    """What was asked for last."""
    pair.server.reject_play(requests(pair)[-1].request_id, MISSING, "Not here.")
    pair.run()


def requests(pair: ConnectionPair) -> list[events.PlayRequested]:
    return pair.take_server(events.PlayRequested)


def names(pair: ConnectionPair) -> list[str]:
    return [request.name for request in requests(pair)]


def codes(pair: ConnectionPair) -> list[str]:
    """Of the statuses that the client was sent on its message stream."""
    return [status.code for status in pair.take_client(events.StatusReceived)]


def play_statuses(pair: ConnectionPair) -> list[str]:
    values = [decode_all(message.payload) for message in sent(pair) if message.type_id == 18]
    return [info["code"] for name, *rest in values if name == "onPlayStatus" for info in rest]


def go_on(pair: ConnectionPair) -> bool:
    """What played is over."""
    found = pair.server.play_next_item(1)
    pair.run()
    return found


class TestPlay:
    def test_play_is_answered_with_begin_reset_start_and_sample_access(self, idle: ConnectionPair) -> None:
        before = len(sent(idle))
        idle.client.play(1, SECRET, reset=True)
        idle.run()
        begin, reset, start, access = sent(idle)[before:]
        assert (begin.type_id, begin.stream_id, begin.payload) == (4, 0, b"\x00\x00\x00\x00\x00\x01")
        assert [decode_all(message.payload)[3]["code"] for message in (reset, start)] == [
            "NetStream.Play.Reset",
            "NetStream.Play.Start",
        ]
        assert [message.stream_id for message in (reset, start, access)] == [1, 1, 1]
        assert access.type_id == 18
        assert decode_all(access.payload) == ["|RtmpSampleAccess", True, True]
        assert SECRET.encode() not in idle.to_client

    @pytest.mark.parametrize(
        ("arguments", "start", "duration", "reset"),
        [
            ([], -2.0, -1.0, False),
            ([-2.0], -2.0, -1.0, False),
            ([-2000.0], -2.0, -1.0, False),
            ([-1000.0], -1.0, -1.0, False),
            ([-1.0], -1.0, -1.0, False),
            ([0.0], 0.0, -1.0, False),
            ([1500.0, 3000.0], 1500.0, 3000.0, False),
            ([-2.0, -1.0, True], -2.0, -1.0, True),
            ([-2.0, -1.0, False], -2.0, -1.0, False),
            ([-2.0, -1.0, 1.0], -2.0, -1.0, True),
            ([-2.0, -1.0, 0.0], -2.0, -1.0, False),
            ([None, None, None], -2.0, -1.0, False),
            ([float("nan"), float("inf")], -2.0, -1.0, False),
            (["soon", {}, UNDEFINED], -2.0, -1.0, False),
        ],
    )
    def test_play_arguments_are_read_with_defaults_for_senseless_values(
        self, idle: ConnectionPair, arguments: list[Any], start: float, duration: float, reset: bool
    ) -> None:
        ask(idle, "play", "x", *arguments)
        (request,) = requests(idle)
        assert (request.stream_id, request.name) == (1, "x")
        assert (request.start, request.duration, request.reset) == (start, duration, reset)
        assert codes(idle) == [*(["NetStream.Play.Reset"] if reset else []), "NetStream.Play.Start"]

    def test_refused_play_sends_an_error_status(self, idle: ConnectionPair) -> None:
        idle.decide = UNDECIDED
        ask(idle, "play", "x")
        refuse(idle)
        (status,) = idle.take_client(events.StatusReceived)
        assert (status.stream_id, status.level, status.code) == (1, "error", MISSING)

    @pytest.mark.parametrize(
        ("procedure", "streams", "code"), [("closeStream", [1], "NetStream.Play.Stop"), ("deleteStream", [], None)]
    )
    def test_close_or_delete_stream_by_the_client_ends_the_play(
        self, playing: ConnectionPair, procedure: str, streams: list[int], code: str | None
    ) -> None:
        found = answers(playing, lambda: playing.client.call(procedure, 1.0, stream_id=1))
        assert [values[3]["code"] for _, values in found] == ([code] if code else [])
        # A status comes before the end of the session that it belongs to.
        assert playing.server_events[-1] == events.PlayStopped(1, procedure)
        assert list(playing.server.streams) == streams

    def test_play_with_false_ends_the_play(self, playing: ConnectionPair) -> None:
        assert answers(playing, lambda: playing.client.notify("play", False, stream_id=1)) == []
        assert playing.take_server(events.PlayStopped) == [events.PlayStopped(1, "play")]

    def test_play_on_a_publishing_stream_fails_and_publishing_goes_on(self, publisher: ConnectionPair) -> None:
        publisher.client.play(1, "x")
        assert publisher.take_client(events.StatusReceived)[-1].code == "NetStream.Play.Failed"
        publisher.client.send_video(1, 0, b"v")
        assert len(publisher.take_server(events.VideoReceived)) == 1

    def test_a_player_cannot_send_media(self, playing: ConnectionPair) -> None:
        playing.client.send_video(1, 0, b"v")
        playing.client.send_data(1, 0, "onMetaData", {})
        playing.run()
        assert playing.server.ignored_messages == 2

    def test_set_buffer_length_is_reported(self, playing: ConnectionPair) -> None:
        playing.client.set_buffer_length(1, 36_000_000)
        assert playing.take_server(events.BufferLengthSet) == [events.BufferLengthSet(1, 36_000_000)]


class TestPlaylist:
    @pytest.mark.parametrize("reset", [False, 0.0, 2.0])
    def test_play_with_reset_false_0_or_2_queues_the_item(self, playing: ConnectionPair, reset: Any) -> None:
        ask(playing, "play", NEW, 1000.0, 2000.0, reset)
        assert names(playing) == [OLD]
        assert playing.server.has_next_item(1)
        assert go_on(playing)
        request = requests(playing)[-1]
        assert (request.name, request.start, request.duration, request.follows) == (NEW, 1000.0, 2000.0, True)
        assert not playing.take_server(events.PlayStopped), "the server ended it, not the client"

    @pytest.mark.parametrize(("rest", "tells"), [([True], True), ([1.0], True), ([3.0], True), ([], False)])
    def test_play_with_reset_true_or_missing_replaces_the_playlist(
        self, playing: ConnectionPair, rest: list[Any], tells: bool
    ) -> None:
        queue(playing, LAST)
        ask(playing, "play", NEW, -2.0, -1.0, *rest)
        assert names(playing) == [OLD, NEW]
        assert playing.take_server(events.PlayStopped) == [events.PlayStopped(1, "play")]
        assert not playing.server.has_next_item(1), "the playlist went with what played"
        assert ("NetStream.Play.Reset" in codes(playing)) is tells

    def test_playlist_items_play_in_order_to_the_end(self, playing: ConnectionPair) -> None:
        queue(playing, NEW, LAST)
        assert [go_on(playing), go_on(playing), go_on(playing)] == [True, True, False]
        assert names(playing) == [OLD, NEW, LAST]
        assert [request.follows for request in requests(playing)] == [False, True, True]
        queue(playing, OLD)
        assert names(playing)[3:] == [OLD], "nothing plays now, so that it begins"

    def test_full_playlist_refuses_further_items(self) -> None:
        pair = with_short_playlist()
        ask(pair, "play", OLD)
        queue(pair, NEW, NEW, NEW)
        (status,) = [status for status in pair.take_client(events.StatusReceived) if status.level == "warning"]
        assert (status.code, status.description) == ("NetStream.Play.Failed", "The playlist is full.")
        assert [go_on(pair) for _ in range(3)] == [True, True, False]

    def test_a_missing_item_is_skipped(self, playing: ConnectionPair) -> None:
        queue(playing, NEW, LAST)
        playing.decide = UNDECIDED
        assert go_on(playing)
        refuse(playing)
        assert play_statuses(playing) == [MISSING]
        assert MISSING not in codes(playing), "an error would end FFmpeg's playing"
        assert go_on(playing)
        assert names(playing) == [OLD, NEW, LAST]

    def test_queued_items_play_when_the_first_item_is_refused(self, idle: ConnectionPair) -> None:
        idle.decide = UNDECIDED
        for number, name in enumerate((OLD, NEW, LAST)):
            idle.client.notify("play", name, -2.0, -1.0, number == 0, stream_id=1)
        assert names(idle) == [OLD], "nothing that comes for it is done before the decision"
        idle.server.reject_play(requests(idle)[-1].request_id, MISSING, "Not here.")
        idle.decide = accept
        assert names(idle) == [OLD, NEW]
        assert codes(idle) == [MISSING, "NetStream.Play.Start"]
        assert idle.server.has_next_item(1)

    def test_next_item_plays_while_a_publish_on_another_stream_is_undecided(self, playing: ConnectionPair) -> None:
        queue(playing, NEW)
        other = playing.create_stream()
        playing.decide = deciding(events.PublishRequested)
        playing.client.publish(other, "cam")
        playing.run()
        assert go_on(playing)
        assert names(playing) == [OLD, NEW], "of another message stream"
        (publish,) = playing.take_server(events.PublishRequested)
        playing.server.accept_publish(publish.request_id, "Publishing.", public_name="cam")
        playing.run()
        assert codes(playing)[1:] == ["NetStream.Play.Start", "NetStream.Publish.Start"]

    @pytest.mark.parametrize("procedure", ["closeStream", "deleteStream", ""])
    def test_playlist_ends_with_its_stream(self, playing: ConnectionPair, procedure: str) -> None:
        queue(playing, NEW)
        if procedure:
            ask(playing, procedure, 1.0)
            with pytest.raises(LocalProtocolError):
                playing.server.play_next_item(1)
        else:
            playing.server.stop_stream(1)
        assert not playing.server.has_next_item(1)


def play2(pair: ConnectionPair, name: str | None, transition: str | None = None, **options: Any) -> None:
    said = options | ({"streamName": name} if name is not None else {})
    ask(pair, "play2", said | ({"transition": transition} if transition else {}))


class TestPlay2:
    @pytest.mark.parametrize("transition", [None, "switch", "swap"])
    def test_play2_keeps_the_current_play_until_the_switch_is_accepted(
        self, playing: ConnectionPair, transition: str | None
    ) -> None:
        queue(playing, LAST)
        playing.decide = UNDECIDED
        play2(playing, NEW, transition, start=500.0, len=700.0)
        request = requests(playing)[-1]
        assert (request.name, request.start, request.duration) == (NEW, 500.0, 700.0)
        assert (request.transition, request.follows, request.reset) == (transition or "switch", False, False)
        assert not playing.take_server(events.PlayStopped)
        playing.server.accept_switch(request.request_id, "Switching.")
        (status,) = [status for status in playing.take_client(events.StatusReceived) if "Transition" in status.code]
        assert (status.level, status.code) == ("status", "NetStream.Play.Transition")
        assert status.info["reason"] == "NetStream.Transition.Success"
        assert playing.server.has_next_item(1), "the playlist is kept"

    def test_refused_play2_leaves_the_current_play_going(self, playing: ConnectionPair) -> None:
        playing.decide = UNDECIDED
        play2(playing, NEW)
        refuse(playing)
        assert codes(playing)[-1] == MISSING
        ask(playing, "pause", True, 0.0)
        assert playing.take_server(events.PauseRequested), "what played goes on"

    def test_undecided_play2_becomes_the_next_item_when_the_play_ends(self, playing: ConnectionPair) -> None:
        queue(playing, LAST)
        playing.decide = UNDECIDED
        play2(playing, NEW)
        assert go_on(playing), "the new one follows"
        assert names(playing) == [OLD, NEW]
        refuse(playing)
        assert play_statuses(playing) == [MISSING]
        assert go_on(playing)
        assert names(playing) == [OLD, NEW, LAST]

    def test_undecided_play2_is_a_plain_play_after_the_server_stops_the_stream(self, playing: ConnectionPair) -> None:
        playing.decide = UNDECIDED
        play2(playing, NEW)
        playing.server.stop_stream(1)
        playing.server.accept_play(requests(playing)[-1].request_id, "Playing.")
        playing.run()
        assert codes(playing) == ["NetStream.Play.Start", "NetStream.Play.Start"]

    def test_play2_swap_replaces_the_queued_item_of_the_old_name(self, playing: ConnectionPair) -> None:
        queue(playing, NEW, LAST)
        play2(playing, "other", "swap", oldStreamName=NEW)
        assert names(playing) == [OLD]
        assert [go_on(playing), go_on(playing)] == [True, True]
        assert names(playing) == [OLD, "other", LAST]

    def test_stream_can_be_deleted_by_its_new_name_after_a_switch(self, playing: ConnectionPair) -> None:
        playing.decide = UNDECIDED
        play2(playing, NEW)
        playing.server.accept_switch(requests(playing)[-1].request_id, "Switching.")
        playing.run()
        playing.decide = accept
        ask(playing, "deleteStream", NEW)
        assert playing.server.streams == {}

    @pytest.mark.parametrize("transition", ["append", "appendAndWait"])
    def test_play2_append_queues_behind_the_current_play(self, playing: ConnectionPair, transition: str) -> None:
        play2(playing, NEW, transition)
        assert names(playing) == [OLD]
        assert go_on(playing)
        assert names(playing) == [OLD, NEW]

    def test_play2_append_starts_the_list_built_by_append_and_wait(self, idle: ConnectionPair) -> None:
        play2(idle, OLD, "appendAndWait")
        play2(idle, NEW, "appendAndWait")
        assert names(idle) == []
        play2(idle, LAST, "append")
        assert names(idle) == [OLD]
        assert [go_on(idle), go_on(idle), go_on(idle)] == [True, True, False]
        assert names(idle) == [OLD, NEW, LAST]

    def test_append_and_wait_list_is_bounded_and_dropped_by_play(self) -> None:
        pair = with_short_playlist()
        for _ in range(3):
            play2(pair, NEW, "appendAndWait")
        assert codes(pair) == ["NetStream.Play.Failed"]
        ask(pair, "play", OLD)
        assert names(pair) == [OLD]
        assert not pair.server.has_next_item(1)

    @pytest.mark.parametrize(
        ("transition", "options", "start", "reset"),
        [("reset", {"start": 400.0}, 400.0, True), ("resume", {"offset": 900.0}, 900.0, False)],
    )
    def test_reset_and_resume_play_at_once(
        self, playing: ConnectionPair, transition: str, options: dict[str, Any], start: float, reset: bool
    ) -> None:
        queue(playing, LAST)
        play2(playing, NEW, transition, **options)
        request = requests(playing)[-1]
        assert (request.name, request.start, request.reset, request.transition) == (NEW, start, reset, "")
        assert playing.take_server(events.PlayStopped) == [events.PlayStopped(1, "play2")]
        assert not playing.server.has_next_item(1)

    @pytest.mark.parametrize("transition", [None, "switch", "swap", "append", "reset", "resume"])
    def test_play2_on_an_idle_stream_is_a_plain_play(self, idle: ConnectionPair, transition: str | None) -> None:
        play2(idle, NEW, transition)
        (request,) = requests(idle)
        assert (request.name, request.transition) == (NEW, "")
        assert codes(idle)[-1] == "NetStream.Play.Start"

    def test_play2_stop_ends_the_play_and_its_playlist(self, playing: ConnectionPair) -> None:
        queue(playing, NEW)
        play2(playing, None, "stop")
        assert codes(playing)[-1] == "NetStream.Play.Stop"
        assert playing.take_server(events.PlayStopped) == [events.PlayStopped(1, "play2")]
        assert not playing.server.has_next_item(1)

    @pytest.mark.parametrize(
        "arguments", [[], [None], ["new"], [{}], [{"streamName": 7.0}], [{"streamName": NEW, "transition": "fade"}]]
    )
    def test_senseless_play2_fails_without_a_request(self, playing: ConnectionPair, arguments: list[Any]) -> None:
        ask(playing, "play2", *arguments)
        assert names(playing) == [OLD]
        assert codes(playing)[-1] == "NetStream.Play.Failed"


class TestWhileItPlays:
    @pytest.mark.parametrize("procedure", ["pause", "pauseRaw"])
    @pytest.mark.parametrize(
        ("arguments", "paused", "at_ms"),
        [([True, 1500.0], True, 1500.0), ([False, 70.0], False, 70.0), ([True], True, 0.0), ([True, -5.0], True, 0.0)],
    )
    def test_pause_is_reported_with_its_state_and_position(
        self, playing: ConnectionPair, procedure: str, arguments: list[Any], paused: bool, at_ms: float
    ) -> None:
        ask(playing, procedure, *arguments)
        assert playing.take_server(events.PauseRequested) == [events.PauseRequested(1, 0.0, paused, at_ms)]

    def test_a_publisher_may_pause(self, publisher: ConnectionPair) -> None:
        ask(publisher, "pause", True, 0.0)
        assert publisher.take_server(events.PauseRequested) == [events.PauseRequested(1, 0.0, True, 0.0)]

    def test_pause_on_an_idle_stream_is_answered_with_an_error(self, idle: ConnectionPair) -> None:
        ((_, values),) = answers(idle, lambda: idle.client.call("pause", True, 0.0, stream_id=1))
        assert values[0] == "_error"
        assert values[3]["code"] == "NetStream.InvalidArg"
        assert not idle.take_server(events.PauseRequested)

    def test_seek_is_reported_with_its_position(self, playing: ConnectionPair) -> None:
        ask(playing, "seek", 12_000.0)
        assert playing.take_server(events.SeekRequested) == [events.SeekRequested(1, 0.0, 12_000.0)]

    def test_seek_on_an_idle_stream_fails(self, idle: ConnectionPair) -> None:
        ask(idle, "seek", 12_000.0)
        (status,) = idle.take_client(events.StatusReceived)
        assert (status.level, status.code) == ("error", "NetStream.Seek.Failed")
        assert not idle.take_server(events.SeekRequested)

    @pytest.mark.parametrize(("procedure", "kind"), [("receiveAudio", "audio"), ("receiveVideo", "video")])
    @pytest.mark.parametrize(("arguments", "wanted"), [([True], True), ([False], False), ([], True)])
    def test_receive_audio_or_video_is_reported_on_a_playing_stream_only(
        self, playing: ConnectionPair, procedure: str, kind: Any, arguments: list[Any], wanted: bool
    ) -> None:
        ask(playing, procedure, *arguments)
        assert playing.take_server(events.ReceiveRequested) == [events.ReceiveRequested(1, kind, wanted)]
        other = playing.create_stream()
        assert answers(playing, lambda: playing.client.notify(procedure, *arguments, stream_id=other)) == []
        assert len(playing.take_server(events.ReceiveRequested)) == 1, "of a stream that does not play"

    @pytest.mark.parametrize("procedure", ["pause", "seek", "receiveAudio", "receiveVideo", "play2", "play"])
    def test_play_commands_on_a_missing_stream_raise_no_request(self, playing: ConnectionPair, procedure: str) -> None:
        before = len(playing.server_events)
        ask(playing, procedure, 0.0, stream_id=9)
        asked = (events.PauseRequested, events.SeekRequested, events.ReceiveRequested, events.PlayRequested)
        assert not [event for event in playing.server_events[before:] if isinstance(event, asked)]

    def test_pipelined_commands_wait_for_the_decision_and_keep_their_order(self, idle: ConnectionPair) -> None:
        idle.decide = UNDECIDED
        for procedure, *arguments in (["play", OLD], ["pause", True, 0.0], ["receiveVideo", False], ["seek", 5.0]):
            idle.client.notify(str(procedure), *arguments, stream_id=1)
        asked = (events.PauseRequested, events.ReceiveRequested, events.SeekRequested)
        assert not idle.take_server(*asked)
        idle.server.accept_play(requests(idle)[-1].request_id, "Playing.")
        assert [type(event) for event in idle.take_server(*asked)] == list(asked)
