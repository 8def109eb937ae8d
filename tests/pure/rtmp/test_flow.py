"""Acknowledgements that are due, and windows that close, open and are given up."""

from collections import deque
from dataclasses import dataclass

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ingest.rtmp import Message, events
from ingest.rtmp.flow import NEVER, AcknowledgementCounter, SendingWindow
from ingest.rtmp.handshake import HANDSHAKE_BYTES
from ingest.rtmp.messages import control
from ingest.rtmp.messages.control import BandwidthLimit
from tests.pure.rtmp.pair import ConnectionPair

HARD, SOFT, DYNAMIC = BandwidthLimit
WINDOW = 1000


def opened(announced: int = WINDOW, *, sent: int = 0) -> SendingWindow:
    """A window after the handshake."""
    window = SendingWindow()
    window.sent = sent
    window.announce(announced)
    return window


def heard(*, sent: int = 0) -> SendingWindow:
    """Of a peer that has acknowledged before."""
    window = opened()
    window.acknowledge(0)
    window.sent = sent
    return window


class TestAcknowledging:
    def test_acknowledgement_is_due_once_per_window(self) -> None:
        due = AcknowledgementCounter(100)
        assert [received for received in range(0, 500, 7) if due.is_due(received)] == [105, 210, 315, 420]

    def test_read_of_many_windows_makes_one_acknowledgement_due(self) -> None:
        due = AcknowledgementCounter(100)
        assert [due.is_due(received) for received in (1050, 1149, 1150)] == [True, False, True]


class TestLimit:
    def test_sending_is_unlimited_before_a_window_was_announced(self) -> None:
        window = SendingWindow()
        window.sent = 1 << 40
        assert window.may_send()

    def test_twice_the_announced_window_may_be_unacknowledged(self) -> None:
        window = heard()
        for window.sent, may in ((2000, True), (2001, False)):
            assert window.may_send() is may
        window.acknowledge(500)
        for window.sent, may in ((2001, True), (2500, True), (2501, False)):
            assert window.may_send() is may

    def test_room_is_the_number_of_bytes_that_closes_the_window(self) -> None:
        window = heard(sent=1500)
        assert window.room == 501
        window.sent += window.room
        assert not window.may_send()

    def test_hard_limit_allows_no_byte_more_than_the_window(self) -> None:
        window = heard()
        window.restrict(500, HARD)
        assert (window.is_strict, window.room) == (True, 500)
        window.sent += 499
        assert window.may_send()
        window.sent += 1
        assert not window.may_send()
        window.acknowledge(500)
        assert window.room == 500
        window.give_up()
        assert not window.is_strict

    def test_new_hard_limit_leaves_room_for_the_window_announcement(self) -> None:
        """Else the peer would never hear when it has to acknowledge."""
        window = heard(sent=1500)
        window.announce(window.restrict(500, HARD), 40)
        assert window.room == 40
        window.sent += window.room
        window.acknowledge(1540)
        assert window.room == 500

    @pytest.mark.parametrize(
        ("asked", "limit", "answers"),
        [
            ([(500, HARD)], 500, [500]),
            ([(9000, HARD)], 9000, [9000]),
            ([(WINDOW, HARD)], WINDOW, [0]),
            ([(500, HARD), (9000, HARD)], 9000, [500, 9000]),
            ([(500, SOFT)], 500, [500]),
            ([(2500, SOFT)], 2 * WINDOW, [0]),
            ([(500, SOFT), (700, SOFT)], 500, [500, 0]),
            ([(500, HARD), (400, SOFT)], 400, [500, 400]),
            ([(500, DYNAMIC)], 2 * WINDOW, [0]),
            ([(500, HARD), (700, DYNAMIC)], 700, [500, 700]),
            ([(500, HARD), (700, DYNAMIC), (600, DYNAMIC)], 600, [500, 700, 600]),
            ([(500, SOFT), (700, DYNAMIC)], 500, [500, 0]),
            ([(500, HARD), (400, SOFT), (700, DYNAMIC)], 400, [500, 400, 0]),
            ([(500, HARD), (800, SOFT), (700, DYNAMIC)], 500, [500, 0, 0]),
            ([(500, HARD), (0, HARD)], 500, [500, 0]),
            ([(500, 9)], 2 * WINDOW, [0]),
            ([(500, HARD), (700, 9)], 700, [500, 700]),
        ],
    )
    def test_bandwidth_limit_types_combine_as_specified(
        self, asked: list[tuple[int, int]], limit: int, answers: list[int]
    ) -> None:
        window = opened()
        found = []
        for size, kind in asked:
            found.append(window.restrict(size, kind))
            if found[-1]:
                window.announce(found[-1])
        assert (window.limit, found) == (limit, answers)

    def test_dynamic_limit_is_answered_if_no_window_was_announced(self) -> None:
        window = SendingWindow()
        assert window.restrict(500, DYNAMIC) == 500
        assert window.limit == 0

    def test_wider_bandwidth_opens_a_closed_window(self) -> None:
        window = heard(sent=5000)
        assert not window.may_send()
        window.restrict(6000, HARD)
        assert window.may_send()


class TestSequenceNumbers:
    def test_acknowledged_sequence_number_wraps_at_2_to_the_32(self) -> None:
        start = 3 * 2**32 - 500
        window = heard(sent=start)
        for number in range(0, start, 2**31 - 1):
            window.acknowledge(number % 2**32)
        window.acknowledge(start % 2**32)
        window.sent = start + 1400
        window.acknowledge((start + 1000) % 2**32)
        assert window.closes_at == start + 1000 + 2 * WINDOW

    @pytest.mark.parametrize(
        ("number", "counts"),
        [
            (3000, 3000),
            (5000, 5000),
            (5001, 5000),
            (5000 + HANDSHAKE_BYTES, 5000),
            (2**31 - 1, 5000),
            (1999, 2000),
            (0, 2000),
            (2**32 - 1, 2000),
            (2**31 + 2000, 2000),
        ],
    )
    def test_acknowledgement_is_clamped_to_the_bytes_acknowledged_and_sent(self, number: int, counts: int) -> None:
        window = heard(sent=5000)
        window.acknowledge(2000)
        window.acknowledge(number)
        assert window.closes_at == counts + 2 * WINDOW

    def test_acknowledgement_during_the_handshake_has_no_effect(self) -> None:
        window = SendingWindow()
        window.announce(WINDOW)
        window.acknowledge(77)
        assert window.closes_at == 2 * WINDOW


class TestGivingUp:
    def test_peer_that_never_acknowledged_is_not_held_back(self) -> None:
        window = opened(sent=2 * WINDOW + 1)
        assert window.may_send()
        assert not window.given_up
        assert window.closes_at == NEVER

    @pytest.mark.parametrize(("sent", "given_up"), [(2 * WINDOW, False), (2 * WINDOW + 1, True)])
    @pytest.mark.parametrize("says", ["acknowledgement", "bandwidth"])
    def test_peer_first_heard_beyond_the_window_is_given_up(self, says: str, sent: int, given_up: bool) -> None:
        window = opened(sent=sent)
        if says == "bandwidth":
            window.restrict(500, HARD)
        else:
            window.acknowledge(0)
        assert window.given_up is given_up
        window.sent += 1
        assert window.may_send() is given_up

    def test_may_send_changes_no_state(self) -> None:
        window = opened(sent=2 * WINDOW + 1)
        before = [getattr(window, name) for name in SendingWindow.__slots__]
        window.may_send()
        assert [getattr(window, name) for name in SendingWindow.__slots__] == before

    def test_impossible_sequence_number_counts_as_no_acknowledgement(self) -> None:
        window = opened(sent=2 * WINDOW + 1)
        window.acknowledge(2**32 - 5)
        assert window.may_send()

    def test_peer_that_set_the_bandwidth_is_held_back_before_acknowledging(self) -> None:
        window = opened()
        window.restrict(500, HARD)
        window.sent = 501
        assert not window.may_send()

    def test_answered_probe_counts_only_until_the_window_opens_again(self) -> None:
        window = heard(sent=2001)
        assert window.wants_probe
        window.probe(7)
        assert not window.wants_probe
        window.answered(6)
        assert (window.wants_probe, window.is_read) == (False, False)
        window.answered(7)
        assert (window.wants_probe, window.is_read, window.may_send()) == (True, False, False)
        window.acknowledge(2001)
        assert window.may_send()
        window.sent = 5000
        window.probe(8)
        window.answered(8)
        assert not window.is_read, "the one before was of another time that the window was closed"

    def test_peer_that_answers_two_probes_without_acknowledging_is_reading(self) -> None:
        window = heard(sent=2001)
        for timestamp in (7, 8):
            assert window.wants_probe
            window.probe(timestamp)
            window.answered(timestamp)
            window.answered(timestamp)
        assert (window.wants_probe, window.is_read, window.may_send()) == (False, True, False)

    def test_probe_answered_after_the_acknowledgement_does_not_count(self) -> None:
        window = heard(sent=2001)
        window.probe(7)
        window.acknowledge(2001)
        window.sent = 5000
        window.answered(7)
        assert (window.is_read, window.may_send()) == (False, False)

    def test_paused_peer_is_held_back_again_after_it_has_caught_up(self) -> None:
        window = heard(sent=2001)
        window.probe(7)
        window.give_up()
        window.sent = 9000
        window.answered(7)
        window.acknowledge(6999)
        assert (window.given_up, window.closes_at) == (True, NEVER)
        window.acknowledge(7000)
        assert (window.given_up, window.closes_at) == (False, 9000)
        window.sent = 9001
        window.probe(8)
        window.give_up()
        window.acknowledge(9001)
        assert window.given_up, "it was not paused: it answered no probe"

    def test_peer_that_answered_probes_without_acknowledging_stays_given_up(self) -> None:
        window = heard(sent=2001)
        for timestamp in (7, 8):
            window.probe(timestamp)
            window.answered(timestamp)
        window.give_up()
        window.answered(8)
        window.acknowledge(2001)
        assert window.given_up

    def test_given_up_window_stays_open_for_good(self) -> None:
        window = heard()
        window.give_up()
        window.restrict(1, HARD)
        window.announce(1)
        window.acknowledge(0)
        window.sent = 1 << 40
        assert window.may_send()


@dataclass
class Peer:
    """Reads what it is sent, and acknowledges by a rule of its own."""

    interval: int
    """Bytes between acknowledgements."""
    is_strict: bool = False
    """More than the interval."""
    offset: int = 0
    """Bytes that it counts beside: the handshake, say."""
    lost: int = 0
    """Bytes of each message that it forgets to count."""
    most: int = 1 << 30
    """Acknowledgements; then it stops."""
    answers: bool = True
    """Pings."""

    def __post_init__(self) -> None:
        self.counted = self.offset
        self.acknowledged = 0

    def read(self, size: int) -> int | None:
        self.counted += max(0, size - self.lost)
        over = self.counted - self.acknowledged
        if self.most <= 0 or over < self.interval or (over == self.interval and self.is_strict):
            return None
        self.most -= 1
        self.acknowledged = self.counted
        return self.counted % 2**32


def carry(window: SendingWindow, peer: Peer, sizes: list[int], behind: int) -> tuple[int, int]:
    """Send messages while the window is open; the peer reads up to `behind` messages late. What comes of it: the most
    that was ever unread, and how often the window was closed on a peer that had read all."""
    under_way: deque[int] = deque()
    unread = stalls = 0
    waiting = deque(sizes)
    while waiting:
        if window.may_send():
            under_way.append(waiting.popleft())
            window.sent += under_way[-1]
            unread = max(unread, sum(under_way))
        elif not under_way:  # Nothing will come by itself any more.
            stalls += 1
            for timestamp in (2 * stalls, 2 * stalls + 1):
                assert window.wants_probe
                window.probe(timestamp)
                if not peer.answers:
                    break
                window.answered(timestamp)
            assert window.is_read is peer.answers
            window.give_up()
        if len(under_way) > behind or not window.may_send():
            number = peer.read(under_way.popleft()) if under_way else None
            if number is not None:
                window.acknowledge(number)
    return unread, stalls


SIZES = st.lists(st.integers(1, 3 * WINDOW), min_size=1, max_size=60)
BEHIND = st.integers(0, 60)


@given(
    st.builds(
        Peer,
        interval=st.sampled_from([1, WINDOW // 10, WINDOW // 2, WINDOW, WINDOW, 2 * WINDOW, 3 * WINDOW, 10 * WINDOW]),
        is_strict=st.booleans(),
        offset=st.sampled_from([0, HANDSHAKE_BYTES, 2**32 - 1, 2**31, -500]),
        lost=st.integers(0, 400),
        most=st.sampled_from([0, 1, 3, 1 << 30]),
        answers=st.booleans(),
    ),
    SIZES,
    BEHIND,
    st.sampled_from([(), (WINDOW // 2, HARD), (WINDOW, HARD), (1, SOFT), (1, HARD)]),
)
def test_no_peer_that_reads_is_ever_stuck(
    peer: Peer, sizes: list[int], behind: int, bandwidth: tuple[int, BandwidthLimit] | tuple[()]
) -> None:
    window = opened()
    if bandwidth:
        window.announce(window.restrict(*bandwidth) or WINDOW)
    assert carry(window, peer, sizes, behind)[1] <= 1


@given(
    st.sampled_from([1, WINDOW // 10, WINDOW // 2, WINDOW]),
    st.booleans(),
    st.booleans(),
    SIZES,
    BEHIND,
    st.integers(0, 2**33),
)
def test_a_peer_that_keeps_to_the_rules_is_held_and_never_given_up(
    interval: int, is_strict: bool, sets_bandwidth: bool, sizes: list[int], behind: int, start: int
) -> None:
    """FFmpeg, librtmp, GStreamer and the specification's own rule. A hard window that is never overrun is no place for
    peers that acknowledge only what is more than a window."""
    assume(not (sets_bandwidth and is_strict and interval == WINDOW))
    window = heard()
    peer = Peer(interval, is_strict)
    for step in range(0, start, 2**31 - 1):
        window.sent = peer.counted = peer.acknowledged = min(step + 2**31 - 1, start)
        window.acknowledge(window.sent % 2**32)
    if sets_bandwidth:
        window.restrict(WINDOW, HARD)
    unread, stalls = carry(window, peer, sizes, behind)
    assert (stalls, window.given_up) == (0, False)
    assert unread <= window.limit + max(sizes)


class TestConnections:
    """What both ends of a connection count."""

    def test_the_handshake_does_not_count(self, unconnected: ConnectionPair) -> None:
        assert (unconnected.server.window.sent, unconnected.client.window.sent) == (0, 0)
        unconnected.connected()
        assert unconnected.server.window.sent == len(unconnected.to_client) - HANDSHAKE_BYTES

    def test_the_client_is_held_to_the_servers_bandwidth(self) -> None:
        pair = ConnectionPair(window_bytes=5000)
        stream_id = pair.publishing()
        pair.server.send_message(control.set_peer_bandwidth(2000, HARD))
        pair.run()
        pair.client.send_video(stream_id, 0, bytes(3000))
        data = pair.client.data_to_send()
        assert len(data) > 3000
        assert not pair.client.window.may_send()
        pair.server.receive_data(data)
        pair.client.receive_data(pair.server.data_to_send())
        assert pair.client.window.may_send()

    def test_a_limit_type_may_be_missing(self, pair: ConnectionPair) -> None:
        pair.client.send_message(Message(6, 0, 0, bytes.fromhex("00001000")))
        pair.run()
        assert pair.server.window.limit == 5_000_000

    def test_control_messages_are_counted_by_what_they_cost(self, publisher: ConnectionPair) -> None:
        before = publisher.server.control_messages
        for _ in range(3):
            publisher.client.send_ping(1)
        publisher.client.call("anything", "x" * 640)
        publisher.client.send_video(1, 0, bytes(500))
        publisher.client.send_data(1, 0, "onTextData", "x" * 500)
        assert len(publisher.take_server(events.VideoReceived)) == 1
        assert publisher.server.control_messages == before + 3 + 1 + 10
