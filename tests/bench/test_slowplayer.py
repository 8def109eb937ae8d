"""What a player gets that can't keep up: the promise of docs/operations.md, and what it is measured against."""

from math import isnan

import pytest

from bench.slowplayer import AS_IT_IS, WAYS, Broadcast, simulate, table
from ingest.live import Subscriber

SECONDS = 90.0


@pytest.mark.parametrize("share", [0.6, 0.4])
def test_it_gets_thinner_pictures_steadily(share: float) -> None:
    found = simulate(AS_IT_IS, share, SECONDS, Broadcast(gop_s=2.0))
    assert found.pictures > 30 * share * 0.65
    assert found.longest_hole_s <= 2.5
    assert found.delay_s < 5
    assert found.lost_sounds == 0
    assert isnan(found.ended_s)
    assert found.slow_looks == 1, "at each look"


def test_whole_bounds_leave_holes_as_long_as_they_are() -> None:
    before = simulate(WAYS[0], 0.6, SECONDS, Broadcast(gop_s=2.0))
    assert before.longest_hole_s > 7
    assert before.slow_looks == 1


def test_who_has_room_for_hardly_more_than_sound_is_ended() -> None:
    assert simulate(AS_IT_IS, 0.04, SECONDS, Broadcast()).ended_s < 40


def test_who_keeps_up_gets_everything() -> None:
    found = simulate(AS_IT_IS, 1.5, SECONDS, Broadcast(has_spares=True))
    assert found.pictures == pytest.approx(30, rel=0.01)
    assert (found.slow_looks, found.sheds) == (0, 0)


def test_the_table_has_a_row_for_each_way() -> None:
    found = [(way, simulate(way, 0.6, 40.0, Broadcast())) for way in WAYS]
    lines = table(found).splitlines()
    assert len(lines) == 2 + len(WAYS)
    assert {line.count("|") for line in lines} == {8}
    assert all(issubclass(way.queue, Subscriber) for way in WAYS)
