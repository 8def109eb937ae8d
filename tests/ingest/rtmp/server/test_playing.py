"""What is asked of a message stream that plays: playlists, play2, pause, seek, receiveAudio and receiveVideo."""

from collections.abc import Callable
from typing import Any

import pytest

from ingest.rtmp import Limits, LocalProtocolError, events
from ingest.rtmp.amf import amf0
from tests.ingest.rtmp.pair import ConnectionPair, accept
from tests.ingest.rtmp.server.helpers import answers, decide_all_but, sent

OLD, NEW, LAST = "old", "new", "last"


def connection(*, decides: bool = True, playlist_items: int = 256) -> ConnectionPair:
    """A client with message stream 1. `decides`: what it asks to play is accepted at once."""
    decide = accept if decides else decide_all_but(events.PlayRequested)
    pair = ConnectionPair(decide=decide, server_limits=Limits(playlist_items=playlist_items)).connected()
    pair.create_stream()
    return pair


def playing(playlist_items: int = 256) -> ConnectionPair:
    pair = connection(playlist_items=playlist_items)
    ask(pair, "play", OLD)
    return pair


def ask(pair: ConnectionPair, procedure: str, *arguments: Any, stream_id: int = 1) -> None:
    pair.client.notify(procedure, *arguments, stream_id=stream_id)
    pair.run()


def requests(pair: ConnectionPair) -> list[events.PlayRequested]:
    return pair.take_server(events.PlayRequested)


def names(pair: ConnectionPair) -> list[str]:
    return [request.name for request in requests(pair)]


def codes(pair: ConnectionPair) -> list[str]:
    """Of the statuses that the client was sent on its message stream."""
    return [status.code for status in pair.take_client(events.StatusReceived)]


def play_statuses(pair: ConnectionPair) -> list[str]:
    values = [amf0.decode_all(message.payload) for message in sent(pair) if message.type_id == 18]
    return [info["code"] for name, *rest in values if name == "onPlayStatus" for info in rest]


def go_on(pair: ConnectionPair) -> bool:
    """What played is over."""
    found = pair.server.play_next_item(1)
    pair.run()
    return found


class TestPlaylist:
    @pytest.mark.parametrize(("reset", "queues"), [(False, True), (0.0, True), (2.0, True)])
    def test_values_that_queue(self, reset: Any, queues: bool) -> None:
        pair = playing()
        ask(pair, "play", NEW, 1000.0, 2000.0, reset)
        assert names(pair) == [OLD]
        assert pair.server.has_next_item(1)
        assert go_on(pair)
        request = requests(pair)[-1]
        assert (request.name, request.start, request.duration, request.follows) == (NEW, 1000.0, 2000.0, True)
        assert not pair.take_server(events.PlayStopped), "the server ended it, not the client"

    @pytest.mark.parametrize(("rest", "tells"), [([True], True), ([1.0], True), ([3.0], True), ([], False)])
    def test_values_that_replace(self, rest: list[Any], tells: bool) -> None:
        pair = playing()
        ask(pair, "play", LAST, -2.0, -1.0, False)
        ask(pair, "play", NEW, -2.0, -1.0, *rest)
        assert names(pair) == [OLD, NEW]
        assert pair.take_server(events.PlayStopped) == [events.PlayStopped(1, "play")]
        assert not pair.server.has_next_item(1), "the playlist went with what played"
        assert ("NetStream.Play.Reset" in codes(pair)) is tells

    def test_item_after_item_to_the_end(self) -> None:
        pair = playing()
        for name in (NEW, LAST):
            ask(pair, "play", name, -2.0, -1.0, False)
        assert [go_on(pair), go_on(pair), go_on(pair)] == [True, True, False]
        assert names(pair) == [OLD, NEW, LAST]
        assert [request.follows for request in requests(pair)] == [False, True, True]
        ask(pair, "play", OLD, -2.0, -1.0, False)
        assert names(pair)[3:] == [OLD], "nothing plays now, so that it begins"

    def test_a_full_one_takes_no_more(self) -> None:
        pair = playing(playlist_items=2)
        for _ in range(3):
            ask(pair, "play", NEW, -2.0, -1.0, False)
        (status,) = [status for status in pair.take_client(events.StatusReceived) if status.level == "warning"]
        assert (status.code, status.description) == ("NetStream.Play.Failed", "The playlist is full.")
        assert [go_on(pair) for _ in range(3)] == [True, True, False]

    def test_a_missing_item_is_skipped(self) -> None:
        pair = playing()
        for name in (NEW, LAST):
            ask(pair, "play", name, -2.0, -1.0, False)
        pair.decide = decide_all_but(events.PlayRequested)
        assert go_on(pair)
        pair.server.reject_play(requests(pair)[-1].request_id, "NetStream.Play.StreamNotFound", "Not here.")
        pair.run()
        assert play_statuses(pair) == ["NetStream.Play.StreamNotFound"]
        assert "NetStream.Play.StreamNotFound" not in codes(pair), "an error would end FFmpeg's playing"
        assert go_on(pair)
        assert names(pair) == [OLD, NEW, LAST]

    def test_the_first_is_missing(self) -> None:
        pair = connection(decides=False)
        for number, name in enumerate((OLD, NEW, LAST)):
            pair.client.notify("play", name, -2.0, -1.0, number == 0, stream_id=1)
        pair.run()
        assert names(pair) == [OLD], "nothing that comes for it is done before the decision"
        pair.server.reject_play(requests(pair)[-1].request_id, "NetStream.Play.StreamNotFound", "Not here.")
        pair.decide = accept
        pair.run()
        assert names(pair) == [OLD, NEW]
        assert codes(pair) == ["NetStream.Play.StreamNotFound", "NetStream.Play.Start"]
        assert pair.server.has_next_item(1)

    def test_while_another_request_is_pending(self) -> None:
        pair = playing()
        ask(pair, "play", NEW, -2.0, -1.0, False)
        other = pair.create_stream()
        pair.decide = decide_all_but(events.PublishRequested)
        pair.client.publish(other, "cam")
        pair.run()
        assert go_on(pair)
        assert names(pair) == [OLD, NEW], "of another message stream"
        (publish,) = pair.take_server(events.PublishRequested)
        pair.server.accept_publish(publish.request_id, "Publishing.", public_name="cam")
        pair.run()
        assert codes(pair)[1:] == ["NetStream.Play.Start", "NetStream.Publish.Start"]

    @pytest.mark.parametrize("procedure", ["closeStream", "deleteStream"])
    def test_it_ends_with_its_stream(self, procedure: str) -> None:
        pair = playing()
        ask(pair, "play", NEW, -2.0, -1.0, False)
        ask(pair, procedure, 1.0)
        assert not pair.server.has_next_item(1)
        with pytest.raises(LocalProtocolError):
            pair.server.play_next_item(1)

    def test_our_side_ends_it(self) -> None:
        pair = playing()
        ask(pair, "play", NEW, -2.0, -1.0, False)
        pair.server.stop_stream(1)
        assert not pair.server.has_next_item(1)


def play2(pair: ConnectionPair, name: str | None, transition: str | None = None, **options: Any) -> None:
    said = options | ({"streamName": name} if name is not None else {})
    ask(pair, "play2", said | ({"transition": transition} if transition else {}))


class TestPlay2:
    @pytest.mark.parametrize("transition", [None, "switch", "swap"])
    def test_what_plays_goes_on_until_the_new_is_there(self, transition: str | None) -> None:
        pair = playing()
        ask(pair, "play", LAST, -2.0, -1.0, False)
        pair.decide = decide_all_but(events.PlayRequested)
        play2(pair, NEW, transition, start=500.0, len=700.0)
        request = requests(pair)[-1]
        assert (request.name, request.start, request.duration) == (NEW, 500.0, 700.0)
        assert (request.transition, request.follows, request.reset) == (transition or "switch", False, False)
        assert not pair.take_server(events.PlayStopped)
        pair.server.accept_switch(request.request_id, "Switching.")
        pair.run()
        (status,) = [status for status in pair.take_client(events.StatusReceived) if "Transition" in status.code]
        assert (status.level, status.code) == ("status", "NetStream.Play.Transition")
        assert status.info["reason"] == "NetStream.Transition.Success"
        assert pair.server.has_next_item(1), "the playlist is kept"

    def test_it_is_refused(self) -> None:
        pair = playing()
        pair.decide = decide_all_but(events.PlayRequested)
        play2(pair, NEW)
        pair.server.reject_play(requests(pair)[-1].request_id, "NetStream.Play.StreamNotFound", "Not here.")
        pair.run()
        assert codes(pair)[-1] == "NetStream.Play.StreamNotFound"
        ask(pair, "pause", True, 0.0)
        assert pair.take_server(events.PauseRequested), "what played goes on"

    def test_what_plays_ends_before_the_decision(self) -> None:
        pair = playing()
        ask(pair, "play", LAST, -2.0, -1.0, False)
        pair.decide = decide_all_but(events.PlayRequested)
        play2(pair, NEW)
        assert go_on(pair), "the new one follows"
        assert names(pair) == [OLD, NEW]
        pair.server.reject_play(requests(pair)[-1].request_id, "NetStream.Play.StreamNotFound", "Not here.")
        pair.run()
        assert play_statuses(pair) == ["NetStream.Play.StreamNotFound"]
        assert go_on(pair)
        assert names(pair) == [OLD, NEW, LAST]

    def test_our_side_ends_what_plays_before_the_decision(self) -> None:
        pair = playing()
        pair.decide = decide_all_but(events.PlayRequested)
        play2(pair, NEW)
        pair.server.stop_stream(1)
        pair.server.accept_play(requests(pair)[-1].request_id, "Playing.")
        pair.run()
        assert codes(pair) == ["NetStream.Play.Start", "NetStream.Play.Start"]

    def test_swap_takes_the_place_of_one_that_waits(self) -> None:
        pair = playing()
        for name in (NEW, LAST):
            ask(pair, "play", name, -2.0, -1.0, False)
        play2(pair, "other", "swap", oldStreamName=NEW)
        assert names(pair) == [OLD]
        assert [go_on(pair), go_on(pair)] == [True, True]
        assert names(pair) == [OLD, "other", LAST]

    def test_a_switch_gives_its_name_to_the_stream(self) -> None:
        pair = playing()
        pair.decide = decide_all_but(events.PlayRequested)
        play2(pair, NEW)
        pair.server.accept_switch(requests(pair)[-1].request_id, "Switching.")
        pair.run()
        pair.decide = accept
        ask(pair, "deleteStream", NEW)
        assert pair.take_server(events.StreamDeleted) == [events.StreamDeleted(1)]

    @pytest.mark.parametrize("transition", ["append", "appendAndWait"])
    def test_append_to_what_plays(self, transition: str) -> None:
        pair = playing()
        play2(pair, NEW, transition)
        assert names(pair) == [OLD]
        assert go_on(pair)
        assert names(pair) == [OLD, NEW]

    def test_append_begins_what_was_put_together(self) -> None:
        pair = connection()
        play2(pair, OLD, "appendAndWait")
        play2(pair, NEW, "appendAndWait")
        assert names(pair) == []
        play2(pair, LAST, "append")
        assert names(pair) == [OLD]
        assert [go_on(pair), go_on(pair), go_on(pair)] == [True, True, False]
        assert names(pair) == [OLD, NEW, LAST]

    def test_a_list_that_waits_is_bounded_and_goes_with_play(self) -> None:
        pair = connection(playlist_items=2)
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
        self, transition: str, options: dict[str, Any], start: float, reset: bool
    ) -> None:
        pair = playing()
        ask(pair, "play", LAST, -2.0, -1.0, False)
        play2(pair, NEW, transition, **options)
        request = requests(pair)[-1]
        assert (request.name, request.start, request.reset, request.transition) == (NEW, start, reset, "")
        assert pair.take_server(events.PlayStopped) == [events.PlayStopped(1, "play2")]
        assert not pair.server.has_next_item(1)

    @pytest.mark.parametrize("transition", [None, "switch", "swap", "append", "reset", "resume"])
    def test_where_nothing_plays_it_is_a_play(self, transition: str | None) -> None:
        pair = connection()
        play2(pair, NEW, transition)
        (request,) = requests(pair)
        assert (request.name, request.transition) == (NEW, "")
        assert codes(pair)[-1] == "NetStream.Play.Start"

    def test_stop_ends_all(self) -> None:
        pair = playing()
        ask(pair, "play", NEW, -2.0, -1.0, False)
        play2(pair, None, "stop")
        assert codes(pair)[-1] == "NetStream.Play.Stop"
        assert pair.take_server(events.PlayStopped) == [events.PlayStopped(1, "play2")]
        assert not pair.server.has_next_item(1)

    @pytest.mark.parametrize(
        "arguments", [[], [None], ["new"], [{}], [{"streamName": 7.0}], [{"streamName": NEW, "transition": "fade"}]]
    )
    def test_what_makes_no_sense(self, arguments: list[Any]) -> None:
        pair = playing()
        ask(pair, "play2", *arguments)
        assert names(pair) == [OLD]
        assert codes(pair)[-1] == "NetStream.Play.Failed"


Asking = Callable[[ConnectionPair], None]


class TestWhileItPlays:
    @pytest.mark.parametrize("procedure", ["pause", "pauseRaw"])
    @pytest.mark.parametrize(
        ("arguments", "paused", "at_ms"),
        [([True, 1500.0], True, 1500.0), ([False, 70.0], False, 70.0), ([True], True, 0.0), ([True, -5.0], True, 0.0)],
    )
    def test_pause(self, procedure: str, arguments: list[Any], paused: bool, at_ms: float) -> None:
        pair = playing()
        ask(pair, procedure, *arguments)
        assert pair.take_server(events.PauseRequested) == [events.PauseRequested(1, 0.0, paused, at_ms)]

    def test_a_publisher_may_pause(self) -> None:
        pair = ConnectionPair()
        pair.publishing()
        ask(pair, "pause", True, 0.0)
        assert pair.take_server(events.PauseRequested) == [events.PauseRequested(1, 0.0, True, 0.0)]

    def test_there_is_nothing_to_pause(self) -> None:
        pair = connection()
        ((_, values),) = answers(pair, lambda: pair.client.call("pause", True, 0.0, stream_id=1))
        assert values[0] == "_error"
        assert values[3]["code"] == "NetStream.InvalidArg"
        assert not pair.take_server(events.PauseRequested)

    def test_seek(self) -> None:
        pair = playing()
        ask(pair, "seek", 12_000.0)
        assert pair.take_server(events.SeekRequested) == [events.SeekRequested(1, 0.0, 12_000.0)]

    def test_there_is_nothing_to_seek_in(self) -> None:
        pair = connection()
        ask(pair, "seek", 12_000.0)
        (status,) = pair.take_client(events.StatusReceived)
        assert (status.level, status.code) == ("error", "NetStream.Seek.Failed")
        assert not pair.take_server(events.SeekRequested)

    @pytest.mark.parametrize(("procedure", "kind"), [("receiveAudio", "audio"), ("receiveVideo", "video")])
    @pytest.mark.parametrize(("arguments", "wanted"), [([True], True), ([False], False), ([], True)])
    def test_receive(self, procedure: str, kind: Any, arguments: list[Any], wanted: bool) -> None:
        pair = playing()
        ask(pair, procedure, *arguments)
        assert pair.take_server(events.ReceiveRequested) == [events.ReceiveRequested(1, kind, wanted)]
        idle = connection()
        assert answers(idle, lambda: idle.client.notify(procedure, *arguments, stream_id=1)) == []
        assert not idle.take_server(events.ReceiveRequested)

    @pytest.mark.parametrize("procedure", ["pause", "seek", "receiveAudio", "receiveVideo", "play2", "play"])
    def test_a_stream_that_is_not_there(self, procedure: str) -> None:
        pair = playing()
        before = len(pair.server_events)
        ask(pair, procedure, 0.0, stream_id=9)
        asked = (events.PauseRequested, events.SeekRequested, events.ReceiveRequested, events.PlayRequested)
        assert not [event for event in pair.server_events[before:] if isinstance(event, asked)]

    def test_pipelined_commands_wait_for_the_decision_and_keep_their_order(self) -> None:
        pair = connection(decides=False)
        for procedure, *arguments in (["play", OLD], ["pause", True, 0.0], ["receiveVideo", False], ["seek", 5.0]):
            pair.client.notify(str(procedure), *arguments, stream_id=1)
        pair.run()
        asked = (events.PauseRequested, events.ReceiveRequested, events.SeekRequested)
        assert not pair.take_server(*asked)
        pair.server.accept_play(requests(pair)[-1].request_id, "Playing.")
        pair.run()
        assert [type(event) for event in pair.take_server(*asked)] == list(asked)
