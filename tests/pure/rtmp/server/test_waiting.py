"""A publish or play that awaits its decision holds up its own message stream, and nothing else of the connection."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp import LimitExceeded, Limits, Message, Phase, RemoteProtocolError, ServerConnection, events
from ingest.rtmp.amf import amf0
from ingest.rtmp.messages import AggregatePart
from tests.pure.rtmp.pair import ConnectionPair, accept, answers
from tests.pure.rtmp.test_conversations import held_bytes

PUBLIC = "cam"


class Slow(ConnectionPair):
    """Its server decides on what is called slow when it is told to, and on all else at once."""

    def __init__(self, **options: Any) -> None:
        super().__init__(decide=self._decide, **options)
        self.pending: list[Any] = []

    def _decide(self, server: ServerConnection, event: Any) -> None:
        if getattr(event, "name", "").startswith("slow"):
            self.pending.append(event)
        else:
            accept(server, event)

    def accept(self, at: int = 0) -> None:
        """One of the pending requests."""
        event = self.pending.pop(at)
        if isinstance(event, events.PublishRequested):
            self.server.accept_publish(event.request_id, "Publishing.", public_name=PUBLIC)
        else:
            self.server.accept_play(event.request_id, "Playing.")
        self.run()

    def refuse(self) -> None:
        self.server.reject_publish(self.pending.pop(0).request_id, "NetStream.Publish.BadName", "Taken.")
        self.run()

    def asks(self, name: str = "slow") -> int:
        """A message stream whose publish is not decided yet."""
        stream_id = self.create_stream()
        self.client.publish(stream_id, name)
        self.run()
        return stream_id

    def pictures(self, stream_id: int) -> list[bytes]:
        return [event.payload for event in self.take_server(events.VideoReceived) if event.stream_id == stream_id]


LIVE = 1
"""The message stream that is."""


@pytest.fixture
def live() -> Slow:
    """Publishes already."""
    pair = Slow()
    pair.publishing("quick")
    return pair


@pytest.fixture
def stranger() -> Slow:
    """Connected, and admitted to nothing."""
    pair = Slow()
    pair.connected()
    return pair


class TestOthers:
    def test_media_of_another_stream_go_on(self, live: Slow) -> None:
        waiting = live.asks()
        for number in range(3):
            live.client.send_video(LIVE, number, b"%d" % number)
            live.client.send_audio(waiting, number, b"?")
        assert live.pictures(LIVE) == [b"0", b"1", b"2"]
        assert not live.server.paused

    @pytest.mark.parametrize("kind", ["live", "stranger"])
    def test_commands_are_executed_while_a_publish_waits(self, kind: str, request: pytest.FixtureRequest) -> None:
        pair: Slow = request.getfixturevalue(kind)
        pair.asks()
        assert answers(pair, lambda: pair.client.call("_checkbw"))[0][1][0] == "_result"
        assert answers(pair, lambda: pair.client.call("FCPublish", "x"))[0][1][0] == "_result"
        pair.client.call("anything")
        assert [event.procedure for event in pair.take_server(events.CallReceived)] == ["anything"]
        other = pair.create_stream()
        pair.client.publish(other, "other")
        pair.client.send_video(other, 0, b"v")
        pair.client.delete_stream(other)
        assert pair.pictures(other) == [b"v"]
        assert other not in pair.server.streams

    @pytest.mark.parametrize("first", [0, 1])
    def test_several_publishes_wait_and_are_decided_in_any_order(self, stranger: Slow, first: int) -> None:
        streams = [stranger.asks("slow one"), stranger.asks("slow two")]
        for stream_id in streams:
            stranger.client.send_video(stream_id, 0, b"%d" % stream_id)
        stranger.run()
        assert len(stranger.pending) == 2
        stranger.accept(first)
        assert [len(stranger.pictures(stream_id)) for stream_id in streams] == [1 - first, first]
        stranger.accept()
        assert [len(stranger.pictures(stream_id)) for stream_id in streams] == [1, 1]

    def test_a_play_waits_like_a_publish(self, live: Slow) -> None:
        player = live.create_stream()
        live.client.play(player, "slow")
        live.client.notify("pause", True, 0.0, stream_id=player)
        live.client.send_video(LIVE, 0, b"v")
        assert live.pictures(LIVE) == [b"v"]
        assert live.take_server(events.PauseRequested) == []
        live.accept()
        assert [event.paused for event in live.take_server(events.PauseRequested)] == [True]


ENDS: dict[str, Callable[[Slow, int], object]] = {
    "by id": lambda pair, stream_id: pair.client.delete_stream(stream_id),
    "by name": lambda pair, _: pair.client.call("deleteStream", "slow"),
    "unpublish": lambda pair, _: pair.client.call("FCUnpublish", "slow"),
    "close stream": lambda pair, stream_id: pair.client.call("closeStream", stream_id=stream_id),
    "close": lambda pair, _: pair.client.notify("close"),
}


class TestItsOwn:
    @pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
    def test_messages_for_a_waiting_publish_keep_their_order(
        self, live: Slow, end: Callable[[Slow, int], object]
    ) -> None:
        """Also what names it on the connection itself. So nothing ends it before it began."""
        stream_id = live.asks()
        live.client.send_video(stream_id, 0, b"v")
        live.client.send_metadata(stream_id, 0, {"width": 640.0})
        end(live, stream_id)
        live.client.send_video(stream_id, 40, b"late")
        live.run()
        before = len(live.server_events)
        live.accept()
        told = [type(event) for event in live.server_events[before:] if getattr(event, "stream_id", 0) == stream_id]
        kinds = [kind for kind in told if kind is not events.StatusSent]
        assert kinds[:3] == [events.VideoReceived, events.DataReceived, events.PublishStopped]
        assert live.pictures(stream_id) == [b"v"]

    def test_media_of_a_refused_publish_are_ignored(self, live: Slow) -> None:
        stream_id = live.asks()
        live.client.send_video(stream_id, 0, b"v")
        live.run()
        live.refuse()
        live.client.send_video(LIVE, 0, b"live")
        assert live.take_server(events.VideoReceived) == [events.VideoReceived(LIVE, 0, b"live")]
        live.client.publish(stream_id, "again")
        assert live.take_client(events.StatusReceived)[-1].code == "NetStream.Publish.Start"

    def test_aggregate_for_a_waiting_publish_is_held_until_accepted(self, live: Slow) -> None:
        stream_id = live.asks()
        live.client.send_aggregate(stream_id, *[AggregatePart(9, 7 * number, b"%d" % number) for number in range(3)])
        assert live.pictures(stream_id) == []
        live.accept()
        assert live.pictures(stream_id) == [b"0", b"1", b"2"]

    def test_second_publish_on_a_waiting_stream_awaits_its_own_decision(self, live: Slow) -> None:
        stream_id = live.asks()
        live.client.send_video(stream_id, 0, b"first")
        live.client.call("closeStream", stream_id=stream_id)
        live.client.publish(stream_id, "slow again")
        live.client.send_video(stream_id, 0, b"second")
        live.run()
        live.accept()
        assert (live.pictures(stream_id), len(live.pending)) == ([b"first"], 1)
        live.accept()
        assert live.pictures(stream_id) == [b"first", b"second"]

    @pytest.mark.parametrize("is_accepted", [True, False])
    def test_media_before_a_fault_are_reported_before_the_error(self, live: Slow, is_accepted: bool) -> None:
        stream_id = live.asks()
        live.client.send_video(LIVE, 0, b"live")
        live.client.send_video(stream_id, 0, b"v")
        live.client.send_message(Message(3, 0, 0, b""))
        live.client.send_video(stream_id, 0, b"behind it")
        live.run()
        phases = [live.server.phase]
        with pytest.raises(RemoteProtocolError):
            live.accept() if is_accepted else live.refuse()
        live.server_events += live.server.events()
        assert live.pictures(LIVE) == [b"live"]
        assert live.pictures(stream_id) == [b"v"] * is_accepted
        assert [*phases, live.server.phase] == [Phase.CONNECTED, Phase.CLOSED]

    def test_earlier_of_two_faults_is_raised_when_the_publish_is_refused(self) -> None:
        """Media that may not be ignored any more, once their stream is refused, before what broke the protocol."""
        pair = Slow(server_limits=Limits(ignored_messages=2))
        pair.connected()
        stream_id = pair.asks()
        for number in range(4):
            pair.client.send_video(stream_id, number, b"v")
        pair.client.send_message(Message(3, 0, 0, b""))
        pair.run()
        with pytest.raises(LimitExceeded, match="streams that aren't open"):
            pair.refuse()
        assert pair.server.phase is Phase.CLOSED
        assert [type(event) for event in pair.server.events()] == [events.StatusSent]


class TestBounds:
    def test_reading_stops_over_the_held_bytes_limit_until_the_decision(self) -> None:
        limits = Limits(held_bytes=100_000)
        pair = Slow(server_limits=limits)
        live = pair.publishing("quick")
        stream_id = pair.asks()
        sent = [bytes([number]) * 9_000 for number in range(40)]
        before = held_bytes(pair.server)
        for frame in sent:
            pair.client.send_video(stream_id, 0, frame)
            pair.run()
        assert pair.server.paused
        assert pair.take_server(events.ReadingStopped) == [events.ReadingStopped()]
        pair.client.send_video(live, 0, b"v")
        assert pair.pictures(live) == []
        assert held_bytes(pair.server) < before + 1.2 * sum(map(len, sent)), "what was given is kept unread"
        pair.accept()
        assert pair.pictures(stream_id) == sent
        assert pair.pictures(live) == [b"v"]
        assert not pair.server.paused

    @pytest.mark.parametrize("is_accepted", [True, False])
    def test_long_message_of_an_unadmitted_client_waits_for_the_decision(
        self, stranger: Slow, is_accepted: bool
    ) -> None:
        """It may be sent by those alone who were admitted; not all wait for that."""
        stream_id = stranger.asks()
        stranger.client.send_video(stream_id, 0, bytes(1_000_000))
        stranger.run()
        assert stranger.server.paused
        if is_accepted:
            stranger.accept()
            assert [len(picture) for picture in stranger.pictures(stream_id)] == [1_000_000]
            assert not stranger.server.paused
        else:
            with pytest.raises(LimitExceeded, match="1000000 bytes"):
                stranger.refuse()

    def test_a_long_message_that_was_admitted_holds_up_nothing_behind_it(self, stranger: Slow) -> None:
        """Though another publish is not decided yet."""
        stream_id = stranger.asks("slow one")
        stranger.asks("slow two")
        stranger.client.send_video(stream_id, 0, bytes(1_000_000))
        stranger.run()
        stranger.accept()
        stranger.client.send_video(stream_id, 40, b"next")
        assert [len(picture) for picture in stranger.pictures(stream_id)] == [1_000_000, 4]
        assert not stranger.server.paused
        assert len(stranger.pending) == 1

    def test_reading_pauses_after_little_held_data_of_an_unadmitted_client(self, stranger: Slow) -> None:
        stream_id = stranger.asks()
        for _ in range(20):
            stranger.client.send_video(stream_id, 0, bytes(9_000))
        stranger.client.send_message(Message(20, 0, stream_id, amf0.encode("pause", 0.0, None, True)))
        stranger.run()
        assert stranger.server.paused
        stranger.accept()
        assert len(stranger.pictures(stream_id)) == 20


NAMES = {1: "slow one", 2: "slow two"}
OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["publish", "video", "video", "unpublish", "close", "decide"]), st.sampled_from([1, 2])),
    max_size=40,
)


def short(event: Any) -> tuple[Any, ...]:
    return (type(event).__name__, *(getattr(event, name, "") for name in ("payload", "code", "command")))


def told(operations: list[tuple[str, int]], *, late: bool) -> dict[int, list[tuple[Any, ...]]]:
    """What the shell is told of each stream, whose requests are decided at once or late."""
    pair = Slow()
    pair.connected()
    streams = [pair.create_stream(), pair.create_stream()]
    for number, (kind, stream_id) in enumerate(operations):
        if kind == "publish":
            pair.client.publish(stream_id, NAMES[stream_id])
        elif kind == "video":
            pair.client.send_video(stream_id, number, b"%d" % number)
        elif kind == "unpublish":
            pair.client.call("FCUnpublish", NAMES[stream_id])
        elif kind == "close":
            pair.client.call("closeStream", stream_id=stream_id)
        pair.run()
        while pair.pending and (not late or kind == "decide"):
            pair.accept(-1)
            if late:
                break
    while pair.pending:
        pair.accept()
    return {
        stream_id: [short(event) for event in pair.server_events if getattr(event, "stream_id", 0) == stream_id]
        for stream_id in streams
    }


@given(OPERATIONS)
def test_stream_events_are_the_same_for_early_and_late_decisions(operations: list[tuple[str, int]]) -> None:
    assert told(operations, late=True) == told(operations, late=False)
