"""Times of crontabs where clocks change: by an hour, by half an hour, forward and back."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery.schedules import crontab
from hypothesis import given
from hypothesis import strategies as st

from rtmpweb.schedule import CrontabFields, next_time

BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"

CHANGES = {
    # UTC: when clocks change.
    (BERLIN, "forward"): datetime(2026, 3, 29, 1, tzinfo=UTC),
    (BERLIN, "back"): datetime(2026, 10, 25, 1, tzinfo=UTC),
    (NEW_YORK, "forward"): datetime(2026, 3, 8, 7, tzinfo=UTC),
    (NEW_YORK, "back"): datetime(2026, 11, 1, 6, tzinfo=UTC),
    (LORD_HOWE, "forward"): datetime(2026, 10, 3, 15, 30, tzinfo=UTC),
    (LORD_HOWE, "back"): datetime(2026, 4, 4, 15, tzinfo=UTC),
}


def made(zone: str, minute: str, hour: str, **fields: str) -> Any:
    found: Any = crontab(minute, hour, **fields)
    found.tz = ZoneInfo(zone)
    return found


def times(what: CrontabFields, since: datetime, until: datetime) -> list[datetime]:
    """In UTC."""
    found, at = [], since
    while (at := next_time(what, at) or until) < until:
        found.append(at)
    return found


@pytest.mark.parametrize(
    ("zone", "change", "hour", "minute", "expected"),
    [
        (BERLIN, "forward", "2", "30", "03:30+0200"),  # There is none: as much later as clocks skip.
        (BERLIN, "forward", "3", "30", "03:30+0200"),
        (BERLIN, "back", "2", "30", "02:30+0200"),  # There are two: the first.
        (BERLIN, "back", "3", "30", "03:30+0100"),
        (NEW_YORK, "forward", "2", "30", "03:30-0400"),
        (NEW_YORK, "back", "1", "30", "01:30-0400"),
        (NEW_YORK, "back", "2", "30", "02:30-0500"),
        (LORD_HOWE, "forward", "2", "15", "02:45+1100"),
        (LORD_HOWE, "forward", "2", "30", "02:30+1100"),
        (LORD_HOWE, "back", "1", "45", "01:45+1100"),
        (LORD_HOWE, "back", "2", "30", "02:30+1030"),
    ],
)
def test_a_time_of_day_comes_once_on_the_day_that_clocks_change(
    zone: str, change: str, hour: str, minute: str, expected: str
) -> None:
    at = CHANGES[zone, change].astimezone(ZoneInfo(zone))
    day = at.replace(hour=0, minute=0)
    (found,) = times(made(zone, minute, hour), day, day.replace(hour=23))
    assert f"{found.astimezone(ZoneInfo(zone)):%H:%M%z}" == expected


@pytest.mark.parametrize(("zone", "change"), CHANGES)
def test_every_hour_goes_each_hour_that_passes(zone: str, change: str) -> None:
    at = CHANGES[zone, change]
    found = times(made(zone, "5", "*"), at - timedelta(hours=6), at + timedelta(hours=6))
    waits = {later - sooner for sooner, later in pairwise(found)}
    if zone == LORD_HOWE:  # Five past by the clock again, after half an hour.
        assert waits == {timedelta(hours=1), timedelta(minutes=30)}
        assert len(found) == 13
    else:
        assert waits == {timedelta(hours=1)}
        assert len(found) == 12
    assert {time.astimezone(ZoneInfo(zone)).minute for time in found[:5] + found[-5:]} == {5}


@pytest.mark.parametrize(("zone", "change"), CHANGES)
def test_every_quarter_of_an_hour_never_pauses(zone: str, change: str) -> None:
    at = CHANGES[zone, change]
    found = times(made(zone, "*/15", "*"), at - timedelta(hours=6), at + timedelta(hours=6))
    assert {later - sooner for sooner, later in pairwise(found)} == {timedelta(minutes=15)}


def test_weekdays_months_and_leap_days() -> None:
    since = datetime(2026, 1, 1, tzinfo=UTC)
    monday = next_time(made(NEW_YORK, "0", "6", day_of_week="1"), since)
    assert monday == datetime(2026, 1, 5, 11, tzinfo=UTC)
    month = next_time(made("Asia/Kathmandu", "0", "0", day_of_month="1"), since)
    assert month == datetime(2026, 1, 31, 18, 15, tzinfo=UTC)
    leap = next_time(made("UTC", "0", "0", day_of_month="29", month_of_year="2", day_of_week="sun"), since)
    assert leap == datetime(2032, 2, 29, tzinfo=UTC)
    only_mondays = times(made(BERLIN, "0", "*", day_of_week="mon"), since, since + timedelta(days=7))
    assert len(only_mondays) == 24


@given(
    st.sampled_from([BERLIN, NEW_YORK, LORD_HOWE, "America/St_Johns", "Africa/Casablanca", "UTC"]),
    st.integers(0, 59),
    st.integers(0, 23),
    st.integers(0, 4 * 365 * 24),
)
def test_a_daily_time_comes_each_day(zone: str, minute: int, hour: int, since: int) -> None:
    what, after = made(zone, str(minute), str(hour)), datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=since)
    first = next_time(what, after)
    second = next_time(what, first) if first else None
    assert first is not None
    assert second is not None
    assert after < first <= after + timedelta(hours=26)
    assert timedelta(hours=22) <= second - first <= timedelta(hours=26)
