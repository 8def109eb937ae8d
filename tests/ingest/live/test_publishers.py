"""Publishers of a live stream come and go; its players stay, and their time goes on."""

from dataclasses import replace

import pytest

from ingest.live import Busy, LiveSettings, NotPublishing, SocketFigures
from tests.ingest.live.payloads import (
    HEADERS,
    Player,
    inter,
    keyframe,
    make_stream,
    on_air,
    publisher,
    send_headers,
    sound,
)


def test_a_second_publisher_is_refused() -> None:
    stream = on_air()
    with pytest.raises(Busy):
        stream.start(publisher("session-2"), 1.0)


def test_only_the_session_that_publishes_can_stop() -> None:
    stream = on_air()
    with pytest.raises(NotPublishing):
        stream.stop("another", 1.0)
    stream.stop("session-1", 1.0)
    with pytest.raises(NotPublishing):
        stream.stop("session-1", 1.0)


def test_a_publisher_whose_last_figures_fail_is_gone_all_the_same() -> None:
    def fail() -> SocketFigures:
        if broken:
            raise RuntimeError("broken on purpose")
        return SocketFigures(0)

    broken = False
    stream = make_stream()
    stream.start(replace(publisher(), socket=fail), 0.0)
    broken = True
    with pytest.raises(RuntimeError):
        stream.stop(publisher().session_id, 1.0)
    stream.start(publisher(), 2.0)


def test_media_without_a_publisher_goes_nowhere() -> None:
    stream = make_stream()
    player = Player(stream)
    send_headers(stream)
    stream.video(0, keyframe(0), 0.0)
    assert player.payloads() == []


def test_after_a_publisher_nothing_of_it_is_given_to_new_players() -> None:
    stream = on_air()
    stream.video(0, keyframe(0), 0.0)
    stream.stop("session-1", 1.0)
    assert (stream.publication, dict(stream.media), stream.state) == (None, {}, "offline")
    assert Player(stream).payloads() == []


def test_players_stay_and_their_time_goes_on() -> None:
    stream = on_air()
    player = Player(stream)
    stream.video(50_000, keyframe(0), 10.0)
    stream.audio(50_020, sound(1), 10.02)
    stream.stop("session-1", 10.5)
    assert stream.state == "waiting"
    player.read()

    stream.start(publisher("session-2"), 13.0)
    send_headers(stream, 13.0)
    stream.audio(700, sound(2), 13.02)
    stream.video(690, inter(3), 13.03)
    stream.video(710, keyframe(4), 13.04)
    stream.audio(721, sound(5), 13.05)
    found = player.read()
    assert [message.payload for message in found] == [*HEADERS, sound(2), keyframe(4), sound(5)]
    # The last frame came at 10.02 as 50,020, the next one 3 s later.
    assert [message.timestamp for message in found[3:]] == [53_020, 53_030, 53_041]
    assert found[0].timestamp == 0
    assert all(50_020 <= message.timestamp <= 53_020 for message in found[1:3])


def test_a_later_player_shares_the_shifted_time() -> None:
    stream = on_air()
    Player(stream)
    stream.video(1000, keyframe(0), 1.0)
    stream.stop("session-1", 1.5)
    stream.start(publisher("session-2"), 2.0)
    stream.video(0, keyframe(1), 2.0)
    assert [message.timestamp for message in Player(stream).read()] == [2000]


def test_a_long_absence_becomes_a_bounded_gap() -> None:
    stream = on_air(LiveSettings(absence_s=60.0))
    player = Player(stream)
    stream.video(1000, keyframe(0), 1.0)
    stream.stop("session-1", 2.0)
    player.read()
    stream.start(publisher("session-2"), 5000.0)
    stream.video(0, keyframe(1), 5000.0)
    assert [message.timestamp for message in player.read()] == [61_000]


def test_time_never_goes_back_before_the_change_of_publishers() -> None:
    stream = on_air()
    player = Player(stream)
    stream.video(10, keyframe(0), 0.0)
    stream.stop("session-1", 0.1)
    player.read()
    stream.start(publisher("session-2"), 0.1)
    stream.audio(3000, sound(1), 0.1)
    stream.video(0, keyframe(2), 0.1)
    stream.video(3033, inter(3), 0.2)
    assert [message.timestamp for message in player.read()] == [110, 110, 143]


@pytest.mark.parametrize("waits", [False, True])
def test_where_nobody_has_a_timeline_timestamps_are_relayed_as_they_are(waits: bool) -> None:
    stream = on_air()
    stream.video(9000, keyframe(0), 1.0)
    stream.stop("session-1", 2.0)
    player = Player(stream) if waits else None
    stream.start(publisher("session-2"), 3.0)
    stream.video(123, keyframe(1), 3.0)
    assert [message.timestamp for message in (player or Player(stream)).read()] == [123]


def test_headers_before_the_first_keyframe_do_not_carry_the_former_publishers_time() -> None:
    stream = on_air()
    stream.video(3_600_000, keyframe(1), 1.0)
    stream.stop(publisher().session_id, 2.0)
    stream.start(publisher(), 3.0)
    send_headers(stream, 3.0)
    player = Player(stream, 3.5)
    stream.video(40, keyframe(2), 4.0)
    assert [(message.timestamp, message.payload) for message in player.read()] == [
        *((0, header) for header in HEADERS),
        (40, keyframe(2)),
    ]
