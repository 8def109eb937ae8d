"""A player's queue: bounded, in order, video only from keyframes on, headers never lost."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.live import QueueLimits, Subscriber
from ingest.live.message import SharedMessage
from ingest.live.player_queue import offer
from tests.pure.live.payloads import read_chunks

HEADER, KEY, INTER, AUDIO, DATA = "header", "key", "inter", "audio", "data"


def message(kind: str, number: int, *, at: float | None = None, size: int = 10, slot: int = 0) -> SharedMessage:
    """Its payload says its kind and number."""
    payload = f"{kind}:{number}:{slot}:".encode().ljust(size, b".")
    arrived = number * 0.01 if at is None else at
    stamp = number * 10
    match kind:
        case "header":
            return SharedMessage("video", stamp, payload, arrived, is_header=True, slot=slot)
        case "data":
            return SharedMessage("data", stamp, payload, arrived)
        case "audio":
            return SharedMessage("audio", stamp, payload, arrived, is_frame=True)
    return SharedMessage("video", stamp, payload, arrived, is_frame=True, is_keyframe=kind == KEY)


def player(limits: QueueLimits | None = None) -> tuple[Subscriber, list[Subscriber]]:
    woken: list[Subscriber] = []
    return Subscriber(1, limits or QueueLimits(), woken.append), woken


def read(subscriber: Subscriber, max_bytes: int | None = None) -> list[tuple[str, int]]:
    """(kind, number) of what is taken."""
    found = []
    for received in read_chunks(b"".join(subscriber.take(max_bytes))):
        kind, number, *_ = received.payload.decode().split(":")
        found.append((kind, int(number)))
    return found


def feed(subscriber: Subscriber, *kinds: str, first: int = 0, size: int = 10) -> None:
    for number, kind in enumerate(kinds, first):
        offer(message(kind, number, size=size), [subscriber])


def test_everything_passes_in_order_and_wakes_once() -> None:
    subscriber, woken = player()
    kinds = [HEADER, KEY, AUDIO, INTER, DATA, AUDIO, INTER]
    feed(subscriber, *kinds)
    assert woken == [subscriber]
    assert subscriber.pending_messages == 7
    assert read(subscriber) == [(kind, number) for number, kind in enumerate(kinds)]
    assert (subscriber.pending_messages, subscriber.pending_bytes, subscriber.pending_ms) == (0, 0, 0)
    feed(subscriber, AUDIO, first=7)
    assert woken == [subscriber, subscriber]


@pytest.mark.parametrize(
    ("most", "kinds", "taken", "dropped"),
    [
        # Video begins with a keyframe, and what is withheld before it is no drop.
        (100, [INTER, AUDIO, INTER, KEY, INTER], [1, 3, 4], 0),
        # Nor is it with a bound: it is audio that is dropped, down to half of that.
        (2, [AUDIO, AUDIO, AUDIO, INTER, KEY], [2, 4], 2),
        # Over the bound, video before the newest keyframe goes.
        (8, [KEY, AUDIO, INTER, INTER, KEY, AUDIO, INTER, INTER, INTER], [1, 4, 5, 6, 7, 8], 3),
        # Without a newer keyframe, video stops until the next.
        (4, [KEY, AUDIO, INTER, INTER, INTER, INTER, AUDIO, KEY, INTER], [1, 6, 7, 8], 5),
        # Audio is dropped last, and its oldest first.
        (6, [AUDIO] * 7, [4, 5, 6], 4),
    ],
)
def test_queue_over_its_bound_drops_old_video_first_and_audio_last(
    most: int, kinds: list[str], taken: list[int], dropped: int
) -> None:
    subscriber, _ = player(QueueLimits(messages=most))
    feed(subscriber, *kinds)
    assert read(subscriber) == [(kinds[number], number) for number in taken]
    assert subscriber.dropped_frames == dropped


def test_the_newest_header_of_each_slot_is_never_lost() -> None:
    subscriber, _ = player(QueueLimits(messages=5))
    offer(message(HEADER, 0, slot=2), [subscriber])
    for number in range(1, 50):
        offer(message(HEADER, number, slot=1), [subscriber])
    feed(subscriber, *[AUDIO] * 30, first=50)
    found = read(subscriber)
    headers = [number for kind, number in found if kind == HEADER]
    assert headers[0] == 0
    assert headers[-1] == 49
    assert len(found) <= 5


def test_bytes_are_a_bound() -> None:
    subscriber, _ = player(QueueLimits(size_bytes=1000))
    offer(message(KEY, 0, size=400), [subscriber])
    offer(message(INTER, 1, size=400), [subscriber])
    offer(message(AUDIO, 2, size=100), [subscriber])
    offer(message(INTER, 3, size=400), [subscriber])
    assert subscriber.pending_bytes == 100
    assert read(subscriber) == [(AUDIO, 2)]


def test_single_message_larger_than_the_bound_still_passes() -> None:
    subscriber, _ = player(QueueLimits(size_bytes=1000))
    offer(message(KEY, 0, size=4000), [subscriber])
    assert read(subscriber) == [(KEY, 0)]


def test_seconds_are_counted_by_arrival_so_that_timestamps_can_not_defeat_them() -> None:
    subscriber, _ = player(QueueLimits(seconds=10.0))
    offer(message(KEY, 0, at=0.0), [subscriber])
    for number in range(1, 40):  # The encoder's clock stands still.
        offer(SharedMessage("video", 0, b"inter:1:0:", 0.5 * number, is_frame=True), [subscriber])
    assert subscriber.pending_messages == 0
    assert subscriber.dropped_frames == 40
    offer(message(KEY, 100, at=20.0), [subscriber])
    assert read(subscriber) == [(KEY, 100)]


def test_a_jump_of_timestamps_drops_nothing() -> None:
    subscriber, _ = player()
    offer(message(KEY, 0, at=0.0), [subscriber])
    offer(SharedMessage("video", 0xFFFFFFF0, b"inter:1:0:", 0.04, is_frame=True), [subscriber])
    offer(SharedMessage("video", 5, b"inter:2:0:", 0.08, is_frame=True), [subscriber])
    assert read(subscriber) == [(KEY, 0), (INTER, 1), (INTER, 2)]


def test_the_first_burst_may_be_larger_than_the_bounds_until_it_is_taken() -> None:
    subscriber, woken = player(QueueLimits(messages=10))
    burst = [message(KEY, 0), *(message(INTER, number) for number in range(1, 30))]
    subscriber.begin(burst, 0.3, at_keyframe=True)
    assert woken == [subscriber]
    feed(subscriber, INTER, first=30)
    assert len(read(subscriber)) == 31
    feed(subscriber, *[INTER] * 14, first=31)
    assert subscriber.pending_messages <= 10
    assert subscriber.dropped_frames > 0


def test_an_old_group_of_pictures_counts_from_when_the_player_joined() -> None:
    subscriber, _ = player(QueueLimits(seconds=10.0))
    subscriber.begin([message(KEY, 0, at=0.0), message(INTER, 1, at=19.0)], 20.0, at_keyframe=True)
    assert read(subscriber, max_bytes=1) == [(KEY, 0)]
    offer(message(INTER, 2, at=29.0), [subscriber])
    assert read(subscriber) == [(INTER, 1), (INTER, 2)]


def test_a_part_is_taken_in_order_and_what_stays_can_still_be_dropped() -> None:
    subscriber, _ = player(QueueLimits(messages=6))
    feed(subscriber, KEY, INTER, INTER, AUDIO, INTER, INTER, size=100)
    assert read(subscriber, max_bytes=250) == [(KEY, 0), (INTER, 1)]
    assert subscriber.pending_bytes == 400
    feed(subscriber, INTER, INTER, INTER, first=6, size=100)
    assert read(subscriber) == [(AUDIO, 3)]
    assert subscriber.dropped_frames == 6


def test_player_is_slow_while_its_long_queue_waits() -> None:
    subscriber, _ = player()
    offer(message(KEY, 0, at=0.0), [subscriber])
    offer(message(INTER, 1, at=1.4), [subscriber])
    assert not subscriber.is_slow(2.0)
    offer(message(INTER, 2, at=2.1), [subscriber])
    assert subscriber.is_slow(3.0)
    assert subscriber.pending_ms == 2100
    read(subscriber, max_bytes=1)
    assert not subscriber.is_slow(6.0)


def test_bytes_held_by_its_connection_make_a_player_slow() -> None:
    held = 0
    subscriber = Subscriber(1, QueueLimits(), lambda _: None, held=lambda closely: held)
    seen = []
    for second in range(14):
        held = 125_000 * (second if second < 8 else 14 - second)  # 1,000 kbit/s: one second more each second.
        seen.append((subscriber.is_slow(float(second), 1000.0), subscriber.is_losing))
    assert [second for second, (slow, _) in enumerate(seen) if slow] == list(range(2, 12))
    assert [second for second, (_, losing) in enumerate(seen) if losing] == [7, 8]
    assert subscriber.behind_ms == 1000
    held = 125_000 * 20
    assert [subscriber.is_slow(float(second), 1000.0 + 10 * second) for second in range(20, 28)] == [True] * 5 + [
        False
    ] * 3
    subscriber.muted = {"video": 28.0}
    assert not subscriber.is_slow(28.0, 1000.0), "who pauses need not read"

    newcomer = Subscriber(1, QueueLimits(), lambda _: None, held=lambda closely: 125_000 * 6)
    newcomer.joined = 30.0
    assert not newcomer.is_slow(31.0, 1000.0), "it was just given that"


def test_large_keyframe_of_a_still_picture_marks_no_player_as_losing() -> None:
    """By the stream's bitrate it is many seconds long; it is there before the next second is over."""
    held = 0
    subscriber = Subscriber(1, QueueLimits(), lambda _: None, held=lambda closely: held)
    seen = []
    for second in range(30):
        held = 150_000 if second % 10 == 5 else 500
        subscriber.is_slow(float(second), 70.0)
        seen.append(subscriber.is_losing)
    assert not any(seen)


def test_player_that_lost_frames_is_slow_for_thirty_seconds() -> None:
    """What was dropped leaves an empty queue: else nobody who looks once a second would see it."""
    subscriber, _ = player(QueueLimits(messages=4))
    feed(subscriber, KEY, INTER, INTER, INTER, INTER)
    assert (subscriber.pending_messages, subscriber.dropped_frames) == (0, 5)
    assert [subscriber.is_slow(at) for at in (1.0, 2.0, 30.9, 31.1, 32.0)] == [True, True, True, False, False]


def test_totals_count_what_was_taken() -> None:
    subscriber, _ = player(QueueLimits(messages=4))
    subscriber.begin([], 1.0, at_keyframe=False)
    feed(subscriber, HEADER, KEY, AUDIO, INTER)
    sent = len(b"".join(subscriber.take()))
    feed(subscriber, KEY, INTER, INTER, AUDIO, AUDIO, INTER, first=4)
    assert subscriber.totals(3.5) == {
        "bytes_in": 0,
        "bytes_out": sent,
        "video_frames": 2,
        "audio_frames": 1,
        "keyframes": 1,
        "dropped_frames": 4,
        "duration_ms": 2500,
    }
    assert sent == 11 + 10 + 10 + 10 + 4 * 12


def test_each_message_stream_has_its_own_bytes_and_its_players_share_them() -> None:
    shared = message(KEY, 0, size=130_000)
    subscribers = [Subscriber(number, QueueLimits(), lambda _: None) for number in (1, 1, 2, 3, 4, 5, 6)]
    offer(shared, subscribers)
    taken = [subscriber.take() for subscriber in subscribers]
    for number, data in enumerate(taken[1:], 1):
        (received,) = read_chunks(b"".join(data))
        assert (received.stream_id, received.type_id, received.payload) == (number, 9, shared.payload)
    assert taken[0][0] is taken[1][0]


STEPS = st.lists(
    st.tuples(st.sampled_from([KEY, INTER, INTER, INTER, AUDIO, AUDIO, DATA, HEADER]), st.integers(10, 400))
    | st.sampled_from(["take", "part"]),
    max_size=120,
)
LIMITS = st.builds(
    QueueLimits,
    messages=st.integers(4, 30),
    size_bytes=st.integers(800, 4000),
    seconds=st.floats(0.05, 2.0),
    slow_share=st.sampled_from([0.1, 0.5, 1.0]),
)


@settings(max_examples=100)
@given(STEPS, LIMITS, st.lists(st.floats(0, 0.3), min_size=120, max_size=120))
def test_queue_stays_bounded_in_order_and_counts_every_frame(
    steps: list[tuple[str, int] | str], limits: QueueLimits, pauses: list[float]
) -> None:
    subscriber, _ = player(limits)
    offered: list[tuple[str, int]] = []
    received: list[tuple[str, int]] = []
    now = 0.0
    for number, step in enumerate(steps):
        now += pauses[number]
        if isinstance(step, str):
            received += read(subscriber, None if step == "take" else 300)
        else:
            kind, size = step
            offered.append((kind, number))
            offer(message(kind, number, at=now, size=size, slot=number % 2), [subscriber])
        assert subscriber.pending_messages <= limits.messages
        # A single message may be larger than the bound when nothing else is queued.
        assert subscriber.pending_bytes <= limits.size_bytes
    received += read(subscriber)

    places = {item: place for place, item in enumerate(offered)}
    order = [places[item] for item in received]
    assert order == sorted(set(order)), "in order, and nothing twice"

    for slot in (0, 1):
        headers = [item for item in offered if item[0] == HEADER and item[1] % 2 == slot]
        assert headers[-1:] == [item for item in received if item[0] == HEADER and item[1] % 2 == slot][-1:]

    video = [item for item in offered if item[0] in (KEY, INTER)]
    passed = [item for item in received if item[0] in (KEY, INTER)]
    former = -1
    for item in passed:
        place = video.index(item)
        assert place == former + 1 or item[0] == KEY, "after a gap video goes on with a keyframe"
        former = place
    first_key = next((place for place, item in enumerate(video) if item[0] == KEY), len(video))
    frames = len(video) - first_key + sum(item[0] == AUDIO for item in offered)
    taken = len(passed) + sum(item[0] == AUDIO for item in received)
    assert subscriber.dropped_frames == frames - taken, "every frame is taken or counted as dropped"


def disposable(number: int) -> SharedMessage:
    payload = b"\x32" + f"disposable:{number}:0:".encode().ljust(20, b".")
    return SharedMessage("video", number * 10, payload, number * 0.01, is_frame=True)


def kept(subscriber: Subscriber) -> list[str]:
    """Which messages wait, by their payloads."""
    return [message.payload.decode().lstrip("2").rstrip(".") for message in subscriber.withdraw()]


class TestDisposableFrames:
    def test_disposable_frames_are_dropped_first_at_half_of_the_bounds(self) -> None:
        subscriber, _ = player(QueueLimits(messages=8))
        made = [message(KEY, 0), disposable(1), message(AUDIO, 2), disposable(3), message(INTER, 4)]
        for each in [*made, disposable(5), message(INTER, 6)]:
            offer(each, [subscriber])
        assert (subscriber.dropped_video, subscriber.dropped_audio, subscriber.sheds) == (3, 0, 0)
        assert kept(subscriber) == ["key:0:0:", "audio:2:0:", "inter:4:0:", "inter:6:0:"]

    def test_disposable_frames_pass_again_once_the_queue_was_empty(self) -> None:
        subscriber, _ = player(QueueLimits(messages=4))
        for each in [message(KEY, 0), message(INTER, 1), message(INTER, 2), disposable(3), message(KEY, 4)]:
            offer(each, [subscriber])
        assert subscriber.dropped_video == 1
        offer(disposable(5), [subscriber])
        assert subscriber.dropped_video == 2, "a keyframe changes nothing"
        subscriber.take()
        offer(disposable(6), [subscriber])
        assert subscriber.dropped_video == 2

    def test_fast_player_gets_all_disposable_frames(self) -> None:
        subscriber, _ = player(QueueLimits(messages=4))
        for number in range(40):
            offer(message(KEY, number) if number % 10 == 0 else disposable(number), [subscriber])
            if number % 2:
                subscriber.take()
        assert subscriber.dropped_frames == 0

    def test_a_recorder_loses_none_within_its_bounds(self) -> None:
        subscriber, _ = player(QueueLimits(messages=8, disposable_at=1.0))
        offer(message(KEY, 0), [subscriber])
        for number in range(1, 8):
            offer(disposable(number), [subscriber])
        assert subscriber.dropped_frames == 0


class TestTooSlow:
    def feed(self, subscriber: Subscriber, *, seconds: int, begin: int = 0, per_s: int = 10) -> None:
        """A keyframe each second."""
        for number in range(begin * per_s, (begin + seconds) * per_s):
            kind = KEY if number % per_s == 0 else INTER
            offer(message(kind, number, at=number / per_s), [subscriber])

    def test_player_that_stays_over_the_bounds_is_too_slow(self) -> None:
        subscriber, _ = player(QueueLimits(seconds=4.0, patience_s=10.0))
        self.feed(subscriber, seconds=14)
        assert subscriber.sheds >= 3
        assert not subscriber.is_too_slow(14.0)
        self.feed(subscriber, seconds=6, begin=14)
        assert subscriber.is_too_slow(20.0)

    def test_player_that_falls_behind_now_and_then_is_not_too_slow(self) -> None:
        subscriber, _ = player(QueueLimits(seconds=4.0, patience_s=10.0))
        for begin in range(0, 80, 20):
            self.feed(subscriber, seconds=8, begin=begin)
            subscriber.take()
            for second in range(begin + 8, begin + 20):
                self.feed(subscriber, seconds=1, begin=second)
                subscriber.take()
            assert not subscriber.is_too_slow(begin + 20)
        assert subscriber.sheds >= 4

    def test_jumping_timestamps_do_not_hide_a_too_slow_player(self) -> None:
        subscriber, _ = player(QueueLimits(seconds=4.0, patience_s=10.0))
        for number in range(200):
            stamp, is_key = 0xFFFFFFF0 if number % 2 else 0, number % 10 == 0
            offer(SharedMessage("video", stamp, b"v", number / 10, is_frame=True, is_keyframe=is_key), [subscriber])
        assert subscriber.is_too_slow(20.0)


def test_forgotten_frames_are_not_counted_as_dropped() -> None:
    subscriber, _ = player()
    feed(subscriber, HEADER, KEY, AUDIO, INTER, DATA)
    subscriber.forget({"video"})
    assert subscriber.dropped_frames == 0
    assert read(subscriber) == [(HEADER, 0), (AUDIO, 2), (DATA, 4)]
    assert subscriber.totals(1.0)["video_frames"] == 0
