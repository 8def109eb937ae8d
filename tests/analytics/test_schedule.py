"""Entries of beat's schedule that follow rows of ours, and their times where clocks change."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery.schedules import crontab
from django.core.exceptions import ValidationError
from django_celery_beat.models import CrontabSchedule, PeriodicTask, PeriodicTasks
from hypothesis import given
from hypothesis import strategies as st

from analytics.reports.schedule import put_periodic_task, remove_periodic_task
from rtmpweb.schedule import CrontabFields, next_time

NAME = "Report: the weekly one"
TASK: dict[str, Any] = {"task": "analytics.tasks.scheduled_run", "args": "[7]"}
AT = {"minute": "30", "hour": "6"}


@pytest.fixture
def no_other_entries(db: None) -> None:
    PeriodicTask.objects.all().delete()
    CrontabSchedule.objects.all().delete()


@pytest.mark.both_forms
def test_an_entry_is_made_once_and_brought_up_to_date(no_other_entries: None) -> None:
    put_periodic_task(NAME, AT | {"day_of_week": "1", "timezone": "Europe/Berlin"}, **TASK)
    entry = PeriodicTask.objects.get()
    assert (entry.name, entry.task, entry.args, entry.enabled) == (NAME, TASK["task"], "[7]", True)
    assert str(entry.crontab) == "30 6 * * 1 (m/h/dM/MY/d) Europe/Berlin"

    put_periodic_task(NAME, AT | {"day_of_week": "1", "timezone": "Australia/Lord_Howe"}, **TASK, enabled=False)
    entry = PeriodicTask.objects.get()
    assert (entry.enabled, str(entry.crontab.timezone)) == (False, "Australia/Lord_Howe")
    assert CrontabSchedule.objects.count() == 1, "the former one has gone"


@pytest.mark.both_forms
def test_unchanged_periodic_task_entry_is_not_written_again(no_other_entries: None) -> None:
    put_periodic_task(NAME, AT | {"timezone": "America/New_York"}, **TASK)
    changed, entry = PeriodicTasks.last_change(), PeriodicTask.objects.get()
    put_periodic_task(NAME, AT | {"timezone": "America/New_York"}, **TASK)
    assert PeriodicTasks.last_change() == changed, "beat need not read its schedule again"
    assert PeriodicTask.objects.get().date_changed == entry.date_changed


@pytest.mark.stores
def test_entries_of_the_same_time_share_a_crontab_which_goes_with_the_last(no_other_entries: None) -> None:
    put_periodic_task(NAME, AT, **TASK)
    put_periodic_task("another", AT, **TASK)
    assert CrontabSchedule.objects.count() == 1
    remove_periodic_task(NAME)
    remove_periodic_task(NAME)
    assert list(PeriodicTask.objects.values_list("name", flat=True)) == ["another"]
    remove_periodic_task("another")
    assert not CrontabSchedule.objects.exists()


@pytest.mark.parametrize("wrong", [{"minute": "60"}, {"day_of_month": "x"}, {"timezone": "Europe/Atlantis"}])
def test_periodic_task_entry_with_an_invalid_time_is_refused(no_other_entries: None, wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        put_periodic_task(NAME, AT | wrong, **TASK)
    assert not PeriodicTask.objects.exists()


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
        (BERLIN, "forward", "3", "30", "03:30+0200"),
        (BERLIN, "back", "3", "30", "03:30+0100"),
        (NEW_YORK, "back", "1", "30", "01:30-0400"),
        (LORD_HOWE, "forward", "2", "15", "02:45+1100"),
        (LORD_HOWE, "back", "1", "45", "01:45+1100"),
    ],
)
def test_a_time_of_day_comes_once_on_the_day_that_clocks_change(
    zone: str, change: str, hour: str, minute: str, expected: str
) -> None:
    """Half past two is one of those of beat, in tests/rtmpweb/test_schedule.py."""
    at = CHANGES[zone, change].astimezone(ZoneInfo(zone))
    day = at.replace(hour=0, minute=0)
    (found,) = times(made(zone, minute, hour), day, day.replace(hour=23))
    assert f"{found.astimezone(ZoneInfo(zone)):%H:%M%z}" == expected


@pytest.mark.parametrize(("zone", "change"), CHANGES)
def test_every_hour_goes_each_hour_that_passes_and_every_quarter_never_pauses(zone: str, change: str) -> None:
    at = CHANGES[zone, change]
    around = at - timedelta(hours=6), at + timedelta(hours=6)
    quarters = times(made(zone, "*/15", "*"), *around)
    assert {later - sooner for sooner, later in pairwise(quarters)} == {timedelta(minutes=15)}
    found = times(made(zone, "5", "*"), *around)
    waits = {later - sooner for sooner, later in pairwise(found)}
    if zone == LORD_HOWE:  # Five past by the clock again, after half an hour.
        assert waits == {timedelta(hours=1), timedelta(minutes=30)}
        assert len(found) == 13
    else:
        assert waits == {timedelta(hours=1)}
        assert len(found) == 12
    assert {time.astimezone(ZoneInfo(zone)).minute for time in found[:5] + found[-5:]} == {5}


def test_weekday_month_and_leap_day_times_are_found() -> None:
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
