"""How often something may happen in a second."""

from ingest.rate_limit import TokenBucket

RATE, BURST_S = 2000, 5.0


def passed(*looks: tuple[float, int]) -> list[bool]:
    """For each (time, what came since the look before)."""
    allowance = TokenBucket(RATE, RATE * BURST_S)
    total, found = 0, []
    for now, count in looks:
        total += count
        found.append(allowance.is_passed(total, now))
    return found


def test_the_rate_may_last() -> None:
    assert not any(passed(*[(second / 4, RATE // 4) for second in range(1, 400)]))


def test_more_is_passed_after_a_while() -> None:
    found = passed(*[(second, RATE * 2) for second in range(1, 10)])
    assert found == [False] * 5 + [True] * 4


def test_some_seconds_may_come_at_once() -> None:
    assert passed((0.0, RATE * 5)) == [False]
    assert passed((0.0, RATE * 5 + 1)) == [True]


def test_a_pause_of_ours_is_no_fault_of_the_peers() -> None:
    """All of these eight seconds is seen at one look."""
    assert passed((8.0, 8 * RATE)) == [False]


def test_a_silence_earns_nothing() -> None:
    silence = [(second / 4, 0) for second in range(1, 400)]
    assert passed(*silence, (100.0, RATE * 6))[-1]


def test_turns() -> None:
    """Three at once, then two a second; who was silent may come at once again."""
    turns = TokenBucket(2, 3)
    assert [turns.wait_s(10.0) for _ in range(5)] == [0, 0, 0, 0.5, 1.0]
    assert not turns.take(11.0)
    assert turns.wait_s(11.5) == 0
    assert turns.wait_s(11.5) == 0.5
    assert [turns.take(60.0) for _ in range(5)] == [True] * 3 + [False] * 2
    assert turns.take(60.5), "those that were refused don't count"
