"""Who is banned for guessing, from when and until when; and that no flood makes the guard grow without end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.services.bans import WINDOW_S, Guard, KnownBan

NOW = 1_800_000_000.0
PEER = "192.0.2.7"


def guard(guesses: int = 3, ban_s: float = 600.0, most: int = 100) -> Guard:
    return Guard(guesses=guesses, ban_s=ban_s, most=most)


def known(address: str = PEER, *, at: float = NOW, until: float = NOW + 600, lifted: bool = False) -> KnownBan:
    return KnownBan(address, at, until, lifted)


def test_different_wrong_secrets_ban() -> None:
    found = guard()
    assert [found.wrong(PEER, f"key-{number}", NOW) for number in range(3)] == [0, 0, 3]
    assert found.banned_until(PEER, NOW) == NOW + 600
    assert found.banned_until("192.0.2.8", NOW) is None
    assert found.banned_until(PEER, NOW + 600) is None


def test_one_wrong_key_all_day_bans_nobody() -> None:
    found = guard()
    assert not any(found.wrong(PEER, "key-1", NOW + second) for second in range(0, 86_400, 10))
    assert found.sizes == (1, 1, 0)


def test_old_guesses_are_forgotten() -> None:
    found = guard()
    assert not any(found.wrong(PEER, f"key-{number}", NOW + number * WINDOW_S / 2) for number in range(50))


def test_a_secret_counts_from_when_it_was_last_tried() -> None:
    found = guard()
    for second in (0, WINDOW_S - 1):
        found.wrong(PEER, "key-1", NOW + second)
    found.wrong(PEER, "key-2", NOW + WINDOW_S + 1)
    assert found.wrong(PEER, "key-3", NOW + WINDOW_S + 2) == 3


def test_a_network_of_ipv6_counts_as_one() -> None:
    found = guard()
    counts = [found.wrong(f"2001:db8:1:2::{number}", f"key-{number}", NOW) for number in range(3)]
    assert counts == [0, 0, 3]
    assert found.banned_until("2001:db8:1:2:ffff::1", NOW) is not None
    assert found.banned_until("2001:db8:1:3::1", NOW) is None


def test_a_ban_begins_the_count_anew() -> None:
    found = guard()
    for number in range(3):
        found.wrong(PEER, f"key-{number}", NOW)
    assert found.wrong(PEER, "late answer to one that was asked before", NOW) == 0
    assert [found.wrong(PEER, f"key-{number}", NOW + 601) for number in range(3)] == [0, 0, 3]


def test_without_bans_nothing_is_counted() -> None:
    found = guard(ban_s=0)
    assert not any(found.wrong(PEER, f"key-{number}", NOW) for number in range(50))
    assert found.sizes == (0, 0, 0)


@pytest.mark.parametrize("address", ["", "unix:", "not an address"])
def test_who_has_no_address_is_neither_counted_nor_banned(address: str) -> None:
    found = guard(guesses=1)
    assert found.wrong(address, "key-1", NOW) == 0
    assert found.banned_until(address, NOW) is None


# --- With the database ---


def test_bans_of_other_nodes_hold_here() -> None:
    found = guard()
    found.settle([known()], NOW)
    assert found.banned_until(PEER, NOW) == NOW + 600
    found.settle([], NOW)
    assert found.banned_until(PEER, NOW) is None


def test_an_own_ban_holds_while_its_row_waits() -> None:
    found = guard()
    for number in range(3):
        found.wrong(PEER, f"key-{number}", NOW)
    found.settle([], NOW + 1)
    found.settle([known(at=NOW - 500, lifted=True)], NOW + 2)  # An older one says nothing of it.
    assert found.banned_until(PEER, NOW + 2) == NOW + 600


@pytest.mark.parametrize("seen_first", [True, False])
def test_a_lifted_ban_is_over(seen_first: bool) -> None:
    found = guard()
    for number in range(3):
        found.wrong(PEER, f"key-{number}", NOW)
    if seen_first:
        found.settle([known()], NOW + 1)
    found.settle([known(lifted=True)], NOW + 2)
    assert found.banned_until(PEER, NOW + 2) is None


def test_of_several_bans_the_longest_counts() -> None:
    found = guard()
    found.settle([known(until=NOW + 10), known(until=NOW + 500), known(until=NOW + 900, lifted=True)], NOW)
    assert found.banned_until(PEER, NOW) == NOW + 500


# --- Bounds ---


@given(
    tries=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 40), st.floats(0, 400, allow_nan=False)), max_size=300),
    most=st.integers(1, 20),
    guesses=st.integers(1, 5),
)
def test_it_never_holds_more_than_it_may(tries: list[tuple[int, int, float]], most: int, guesses: int) -> None:
    found = guard(guesses, most=most)
    now = NOW
    for peer, secret, passed in tries:
        now += passed
        found.wrong(f"198.51.100.{peer}", f"key-{secret}", now)
        addresses, hashes, bans = found.sizes
        assert addresses <= most
        assert hashes <= addresses * (guesses - 1)
        assert bans <= most
        if passed > 300:
            found.settle([], now)


@given(tries=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6), st.floats(0, 300)), max_size=120))
def test_who_is_banned_tried_enough_within_the_window(tries: list[tuple[int, int, float]]) -> None:
    found = guard(4)
    seen: dict[str, dict[int, float]] = {}
    now = NOW
    for peer, secret, passed in tries:
        now += passed
        address = f"198.51.100.{peer}"
        if found.banned_until(address, now) is not None:
            continue
        mine = seen.setdefault(address, {})
        mine[secret] = now
        recent = {each for each, last in mine.items() if last > now - WINDOW_S}
        assert found.wrong(address, f"key-{secret}", now) == (len(recent) if len(recent) >= 4 else 0)
        if len(recent) >= 4:
            del seen[address]
