"""Players that are given batches: each is sent, byte for byte, what it would be by a queue of its own."""

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.live import LiveStream, QueueLimits, Registry, Subscriber
from ingest.live.message import ALL_EXTENSIONS, Kind
from ingest.rtmp.media import write_video
from tests.pure.live.payloads import (
    LABELS,
    PATH,
    Player,
    avc_header,
    inter,
    keyframe,
    publisher,
    read_chunks,
    send_headers,
    sound,
)
from tests.pure.live.test_extended import SENT
from tests.pure.rtmp.codecs.test_video import sps
from tests.pure.rtmp.wire import Sent

NO_BOUNDS = QueueLimits(messages=1 << 30, size_bytes=1 << 40, seconds=1e9)


class Reader(Player):
    """A player that keeps what it has read."""

    data = b""

    def flush(self) -> None:
        self.data += b"".join(self.subscriber.take())


class Watcher:
    """A player whose peer takes all that it is given, unless it is full."""

    def __init__(self, stream: LiveStream, now: float, stream_id: int, takes: int) -> None:
        self.stream = stream
        self.data = b""
        self.given: list[bytes] = []
        self.is_full = self.is_marked = False
        self.subscriber = Subscriber(
            stream_id, NO_BOUNDS, self._wake, write=self._write, session_id="player", takes=takes
        )
        stream.subscribe(self.subscriber, now)

    def _wake(self, _subscriber: Subscriber) -> None:
        self.is_marked = True

    def _write(self, data: bytes) -> bool:
        if not self.is_full:
            self.data += data
            self.given.append(data)
        return not self.is_full

    def flush(self) -> None:
        if not self.is_full:
            self.data += b"".join(self.subscriber.take())
            self.stream.catch_up(self.subscriber)

    def read(self) -> list[Sent]:
        return read_chunks(self.data)


class Pair:
    """The same stream twice: delivered message by message to queues, and in batches."""

    def __init__(self) -> None:
        self.woken = 0
        self.plain = Registry("node-1").get_or_create(PATH, LABELS)
        self.batched = Registry("node-1", wake=self._wake).get_or_create(PATH, LABELS)
        self.players: list[tuple[Reader, Watcher]] = []
        self.gone: list[tuple[Reader, Watcher]] = []
        self.now = 0.0
        self.at = 0
        self.number = 0

    def _wake(self, stream: LiveStream, _is_urgent: bool) -> None:
        assert stream is self.batched
        self.woken += 1

    def both(self, act: Callable[[LiveStream], object]) -> None:
        act(self.plain)
        act(self.batched)

    def start(self) -> None:
        self.both(lambda stream: stream.start(publisher(), self.now))
        self.both(lambda stream: send_headers(stream, self.now))

    def restart(self) -> None:
        self.both(lambda stream: stream.stop("session-1", self.now))
        self.start()

    def video(self, *, key: bool, size: int) -> None:
        self.number += 1
        payload = keyframe(self.number, size) if key else inter(self.number, size)
        self.both(lambda stream: stream.video(self.at, payload, self.now))

    def audio(self, size: int) -> None:
        self.number += 1
        payload = sound(self.number, size)
        self.both(lambda stream: stream.audio(self.at, payload, self.now))

    def data(self) -> None:
        self.both(lambda stream: stream.data(self.at, "onCuePoint", [], b"\x02\x00\x0aonCuePoint\x05", self.now))

    def header(self, height: int) -> None:
        payload = avc_header(sps(width_mbs=120, height_units=height))
        self.both(lambda stream: stream.video(self.at, payload, self.now))

    def extended(self, which: int) -> None:
        payload = write_video(SENT[which % len(SENT)][0])
        self.both(lambda stream: stream.video(self.at, payload, self.now))

    def pass_time(self, ms: int) -> None:
        self.now += ms / 1000
        self.at = (self.at + ms) & 0xFFFFFFFF

    def join(self, stream_id: int, takes: int) -> None:
        player = Reader(self.plain, self.now, stream_id=stream_id, limits=NO_BOUNDS, takes=takes)
        self.players.append((player, Watcher(self.batched, self.now, stream_id, takes)))

    def leave(self, which: int) -> None:
        if self.players:
            player, watcher = self.players.pop(which % len(self.players))
            watcher.is_full = False
            self.deliver()
            watcher.flush()
            self.plain.unsubscribe(player.subscriber)
            self.batched.unsubscribe(watcher.subscriber)
            self.gone.append((player, watcher))

    def mute(self, which: int, kinds: frozenset[Kind]) -> None:
        if self.players:
            player, watcher = self.players[which % len(self.players)]
            watcher.is_full = False
            self.deliver()  # What waits would be forgotten, and the other one has no queue by now.
            watcher.flush()
            player.flush()
            self.plain.mute(player.subscriber, kinds, self.now)
            self.batched.mute(watcher.subscriber, kinds, self.now)

    def fill(self, which: int, *, full: bool) -> None:
        if self.players:
            watcher = self.players[which % len(self.players)][1]
            watcher.is_full = full
            watcher.flush()

    def deliver(self) -> None:
        self.batched.deliver()
        for _, watcher in self.players:
            if watcher.is_marked:
                watcher.is_marked = False
                watcher.flush()


SIZES = st.one_of(st.integers(20, 400), st.sampled_from([59_999, 60_000, 60_001, 120_000, 130_000]))
WHICH = st.integers(0, 5)


def step(name: str, **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Callable[[Pair], None]]:
    """A method of a pair, and what it is given."""
    return st.fixed_dictionaries(arguments).map(lambda given: lambda pair: getattr(pair, name)(**given))


STEPS = st.one_of(
    step("video", key=st.just(False), size=SIZES),
    step("video", key=st.just(True), size=SIZES),
    step("audio", size=SIZES),
    step("pass_time", ms=st.sampled_from([0, 1, 23, 40, 400, 3000, 0xFFFF00])),
    step("deliver"),
    step("data"),
    step("header", height=st.integers(10, 12)),
    step("extended", which=st.integers(0, len(SENT) - 1)),
    step("restart"),
    step("join", stream_id=st.sampled_from([1, 1, 1, 3]), takes=st.sampled_from([ALL_EXTENSIONS, ALL_EXTENSIONS, 0])),
    step("leave", which=WHICH),
    step("mute", which=WHICH, kinds=st.frozensets(st.sampled_from(["video", "audio", "data"]))),
    step("fill", which=WHICH, full=st.booleans()),
)


@settings(max_examples=150)
@given(st.lists(STEPS, min_size=10, max_size=60))
def test_batched_player_gets_the_same_messages_as_from_its_own_queue(steps: list[Callable[[Pair], None]]) -> None:
    pair = Pair()
    pair.start()
    pair.join(1, ALL_EXTENSIONS)
    for step in steps:
        step(pair)
    pair.deliver()
    for player, watcher in (*pair.players, *pair.gone):
        watcher.is_full = False
        watcher.flush()
        player.flush()
        assert watcher.read() == read_chunks(player.data)
        assert watcher.subscriber.sent_bytes == player.subscriber.sent_bytes == len(watcher.data)
        assert watcher.subscriber.totals(pair.now) == player.subscriber.totals(pair.now)
        assert watcher.subscriber.has_media == player.subscriber.has_media
    assert pair.batched.player_count == pair.plain.player_count == len(pair.players)


def _live() -> Pair:
    pair = Pair()
    pair.start()
    pair.video(key=True, size=500)
    return pair


def test_players_at_the_live_edge_share_the_same_bytes() -> None:
    """Also those that came at different times, and one whose message stream has another id its own."""
    pair = _live()
    for stream_id in (1, 1, 3):
        pair.join(stream_id, ALL_EXTENSIONS)
        pair.video(key=False, size=300)
        pair.deliver()
    for _, watcher in pair.players:
        assert watcher.subscriber.is_at_live_edge
        watcher.given.clear()
    pair.video(key=False, size=300)
    pair.audio(40)
    pair.deliver()
    ((one,), (other,), (third,)) = (watcher.given for _, watcher in pair.players)
    assert one is other
    assert [message.stream_id for message in read_chunks(third)] == [3, 3]


def test_stream_wakes_once_per_delivery_and_once_more_for_a_picture() -> None:
    pair = _live()
    pair.audio(40)
    assert pair.woken == 0, "without players nobody is"
    pair.join(1, ALL_EXTENSIONS)
    pair.deliver()
    pair.woken = 0
    for _ in range(3):
        pair.audio(40)
    assert pair.woken == 1
    for _ in range(3):
        pair.video(key=False, size=40)
    assert pair.woken == 2
    pair.deliver()
    pair.audio(40)
    assert pair.woken == 3


def test_full_player_delays_no_other_and_returns_to_the_live_edge() -> None:
    pair = _live()
    for _ in range(2):
        pair.join(1, ALL_EXTENSIONS)
    pair.deliver()
    slow, other = pair.players[0][1], pair.players[1][1]
    slow.is_full = True
    for _ in range(3):
        pair.video(key=False, size=300)
        pair.deliver()
    assert (slow.subscriber.is_at_live_edge, other.subscriber.is_at_live_edge) == (False, True)
    assert slow.subscriber.pending_messages == 3
    pair.fill(0, full=False)
    assert slow.subscriber.is_at_live_edge
    assert slow.read() == other.read()


def test_player_of_audio_alone_is_at_the_live_edge_until_video_comes() -> None:
    pair = Pair()
    pair.start()
    pair.join(1, ALL_EXTENSIONS)
    pair.audio(40)
    pair.deliver()
    watcher = pair.players[0][1]
    assert watcher.subscriber.is_at_live_edge
    pair.video(key=False, size=300)
    pair.deliver()
    assert not watcher.subscriber.is_at_live_edge
    pair.video(key=True, size=300)
    pair.deliver()
    assert watcher.subscriber.is_at_live_edge
    types = [message.type_id for message in watcher.read()]
    assert types.count(9) == 2, "the header and the keyframe, and no picture before it"


def test_player_without_extensions_leaves_the_live_edge_once_some_come() -> None:
    pair = _live()
    pair.join(1, 0)
    pair.deliver()
    player, watcher = pair.players[0]
    assert watcher.subscriber.is_at_live_edge
    for which in range(len(SENT)):
        pair.extended(which)
        pair.deliver()
    assert not watcher.subscriber.is_at_live_edge
    player.flush()
    assert watcher.read() == read_chunks(player.data)
