"""A key's bitrate limit: what counts as over it, when it is told, and when it ends the session."""

from typing import Any

import pytest

from ingest.contracts import Issue
from ingest.live import SocketFigures
from ingest.live.health.measures import BitrateLimit, LimitSettings
from tests.ingest.live.payloads import START_WALL, Socket, make_stream, publisher, session

S = "\u00a0"


def limit(kbps: int | None = 1000, over_limit: str = "close") -> BitrateLimit:
    return BitrateLimit(publisher(max_kbps=kbps, over_limit=over_limit).limits, LimitSettings())


def first_breach(found: BitrateLimit, kbps: list[float]) -> tuple[int, str] | None:
    """The second (from 1) at which the session must end, fed one rate a second."""
    for second, rate in enumerate(kbps, 1):
        found.add(round(rate * 125), 1000, float(second))
        if breach := found.breach(float(second)):
            return second, breach
    return None


def test_twice_the_limit_ends_it_20_s_after_the_first_whole_window() -> None:
    breach = first_breach(limit(), [2000] * 60)
    assert breach == (30, "The mean of the last 10 s was 2000 kbit/s; the stream key's limit is 1000 kbit/s.")


@pytest.mark.parametrize(
    "kbps",
    [
        [1000.0] * 60,
        [1050.0] * 60,
        [900.0] * 20 + [20_000.0] * 3 + [900.0] * 40,
        [900.0] * 20 + [5000.0] * 9 + [900.0] * 40,
        ([500.0] * 7 + [2000.0] * 3) * 6,
    ],
    ids=["at it", "within the tolerance", "a high peak", "a long peak", "peaks of a variable bitrate"],
)
def test_what_ends_nothing(kbps: list[float]) -> None:
    assert first_breach(limit(), kbps) is None


def test_just_over_the_tolerance_ends_it() -> None:
    assert first_breach(limit(), [1051.0] * 60) is not None


def test_a_key_that_only_warns_and_one_without_a_limit() -> None:
    assert first_breach(limit(over_limit="warn"), [9000.0] * 60) is None
    assert first_breach(limit(None), [9000.0] * 60) is None


def test_a_late_tick_is_no_peak() -> None:
    found = limit()
    for second in range(10):
        found.add(125_000, 1000, float(second))
    found.add(5 * 125_000, 5000, 15.0)
    assert found.kbps == pytest.approx(1000)


# --- Through a stream ---


def issues_by_second(kbps: list[int], **limits: Any) -> list[list[Issue]]:
    stream, socket = make_stream(), Socket()
    who = publisher(expect_audio=False, expect_video=False, idle_timeout_s=1000.0, **limits)
    who.socket = socket
    stream.start(who, 0.0)
    found = []
    for second, rate in enumerate(kbps, 1):
        socket.figures = SocketFigures(socket.figures.bytes_received + rate * 125)
        stream.tick(float(second), START_WALL + second)
        found.append([issue for issue in session(stream).issues if issue["check"] == "bitrate_high"])
    return found


def test_the_operator_is_warned_and_the_warning_clears() -> None:
    found = issues_by_second([2000] * 30 + [500] * 60, max_kbps=1000)
    opened = next(second for second, issues in enumerate(found, 1) if issues)
    cleared = next(second for second, issues in enumerate(found, 1) if second > opened and not issues)
    assert 20 <= opened <= 22
    assert 55 <= cleared <= 61  # The mean is under it after 7 s; twice the hold after that.
    (issue,) = found[opened]
    assert issue["level"] == "bad"
    assert (issue["actual"], issue["expected"]) == (f"2,000{S}kbit/s (200{S}%)", f"1,000{S}kbit/s at most")
    assert issue["title"].startswith(f"The encoder sends 2,000{S}kbit/s, 1,000 at most by its key, for ")
    assert "raise the limit" in issue["advice"]


def test_a_peak_and_a_stream_without_a_limit_warn_of_nothing() -> None:
    assert not any(issues_by_second([800] * 15 + [2600] * 3 + [800] * 30, max_kbps=1000))
    assert not any(issues_by_second([90_000] * 40, max_kbps=None))
