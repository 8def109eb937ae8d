"""Days, weeks and months by the clocks of a time zone, through their changes."""

from datetime import UTC, date, datetime, timedelta

import pytest

from analytics import periods
from analytics.models import ReportPlan
from analytics.periods import PeriodProblem

Kind = ReportPlan.Kind
HOUR = timedelta(hours=1)


def hours_of(kind: str, day: date, zone: str) -> int:
    period = periods.containing(kind, day, periods.zone_of(zone))
    assert not period.is_widened
    assert len(period.starts) == (period.until - period.since) / HOUR
    return len(period.starts)


@pytest.mark.parametrize(
    ("day", "zone", "hours"),
    [
        (date(2026, 11, 7), "UTC", 24),
        (date(2026, 3, 29), "Europe/Berlin", 23),
        (date(2026, 10, 25), "Europe/Berlin", 25),
        (date(2026, 3, 8), "America/New_York", 23),
        (date(2026, 11, 1), "America/New_York", 25),
        (date(2026, 4, 24), "Africa/Cairo", 23),  # Its clocks leave midnight out: the day begins at 01:00.
        (date(2026, 10, 29), "Africa/Cairo", 25),  # It ends at midnight, after 23:00 came twice.
        (date(2011, 12, 31), "Pacific/Apia", 24),  # The day before was left out.
    ],
)
def test_days_are_as_long_as_clocks_make_them(day: date, zone: str, hours: int) -> None:
    assert hours_of(Kind.DAILY, day, zone) == hours


def test_weeks_and_months_hold_the_changes_of_clocks() -> None:
    assert hours_of(Kind.WEEKLY, date(2026, 3, 29), "Europe/Berlin") == 7 * 24 - 1
    assert hours_of(Kind.WEEKLY, date(2026, 10, 19), "Europe/Berlin") == 7 * 24 + 1
    assert hours_of(Kind.MONTHLY, date(2026, 10, 25), "Europe/Berlin") == 31 * 24 + 1
    assert hours_of(Kind.MONTHLY, date(2028, 2, 1), "UTC") == 29 * 24


@pytest.mark.parametrize(
    ("kind", "zone", "count"),
    [
        (Kind.DAILY, "Europe/Berlin", 400),
        (Kind.DAILY, "America/New_York", 400),
        (Kind.WEEKLY, "America/New_York", 60),
        (Kind.MONTHLY, "America/New_York", 30),
    ],
)
def test_former_period_ends_where_the_period_begins(kind: str, zone: str, count: int) -> None:
    now = datetime(2027, 1, 10, 3, tzinfo=UTC)
    period = periods.last_ended(kind, now, periods.zone_of(zone))
    assert period.until <= now
    for _ in range(count):
        former = period.before
        assert former.until == period.since
        assert (former.kind, former.is_regular, former.has_whole_days) == (kind, True, True)
        period = former


def test_weeks_go_from_monday_to_sunday() -> None:
    week = periods.containing(Kind.WEEKLY, date(2026, 11, 8), periods.zone_of("Asia/Tokyo"))
    assert (week.local_since.isoformat(), week.local_until.isoformat()) == (
        "2026-11-02T00:00:00+09:00",
        "2026-11-09T00:00:00+09:00",
    )
    assert [day.isoformat() for day in week.days][::6] == ["2026-11-02", "2026-11-08"]


def test_a_zone_off_by_half_an_hour_is_widened_to_whole_hours() -> None:
    day = periods.containing(Kind.DAILY, date(2026, 11, 7), periods.zone_of("Asia/Kolkata"))
    assert day.since == datetime(2026, 11, 6, 18, 30, tzinfo=UTC)
    assert day.is_widened
    assert (day.first_hour, day.end_hour) == (
        datetime(2026, 11, 6, 18, tzinfo=UTC),
        datetime(2026, 11, 7, 19, tzinfo=UTC),
    )
    assert len(day.starts) == 25


@pytest.mark.parametrize(
    ("kind", "first", "last", "words"),
    [
        (Kind.DAILY, (2026, 11, 7), (2026, 11, 8), "Saturday, 7 November 2026"),
        (Kind.WEEKLY, (2026, 11, 2), (2026, 11, 9), "2 to 8 November 2026"),
        (Kind.WEEKLY, (2026, 11, 30), (2026, 12, 7), "30 November to 6 December 2026"),
        (Kind.WEEKLY, (2026, 12, 28), (2027, 1, 4), "28 December 2026 to 3 January 2027"),
        (Kind.MONTHLY, (2026, 11, 1), (2026, 12, 1), "November 2026"),
        (Kind.BROADCAST, (2026, 11, 7, 20), (2026, 11, 7, 22, 13), "7 November 2026, 20:00 to 22:13"),
        (Kind.BROADCAST, (2026, 11, 7, 20), (2026, 11, 8, 1), "7 November 2026, 20:00 to 8 November 2026, 01:00"),
    ],
)
def test_period_words_name_its_dates(kind: str, first: tuple[int, ...], last: tuple[int, ...], words: str) -> None:
    zone = periods.zone_of("Europe/Berlin")
    since, until = (datetime(*time, tzinfo=zone) for time in (first, last))  # type: ignore[misc, arg-type]
    assert periods.exact(kind, since, until, zone).words == words


def test_custom_period_is_compared_with_an_equally_long_one_before() -> None:
    zone = periods.zone_of("Europe/Berlin")
    days = periods.exact(
        Kind.DAILY, datetime(2026, 10, 25, tzinfo=zone), datetime(2026, 10, 28, tzinfo=zone), zone
    )  # 73 hours
    assert not days.is_regular
    assert days.before.local_since.isoformat() == "2026-10-22T00:00:00+02:00"
    hours = periods.exact(Kind.DAILY, days.since, days.since + 5 * HOUR, zone)
    assert hours.before.since == days.since - 5 * HOUR
    assert hours.before_words == "period before"


def test_invalid_period_or_time_zone_is_refused() -> None:
    zone = periods.zone_of("UTC")
    now = datetime(2026, 11, 7, tzinfo=UTC)
    for name in ("Europe/Nowhere", "", "../etc/passwd", "Europe", "\0", "x" * 500):
        with pytest.raises(PeriodProblem, match="time zone"):
            periods.zone_of(name)
    for until in (now, now - HOUR, now + timedelta(days=401)):
        with pytest.raises(PeriodProblem, match="within 400 days"):
            periods.exact(Kind.DAILY, now, until, zone)
    with pytest.raises(PeriodProblem, match="begin and its end"):
        periods.containing(Kind.BROADCAST, date(2026, 11, 7), zone)
