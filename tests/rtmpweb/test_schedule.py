"""The schedule that beat keeps: on days when clocks change, edited while it runs, killed, and twice."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError, connection
from django.test import Client
from django.utils import timezone
from django_celery_beat.models import CrontabSchedule, PeriodicTask, PeriodicTasks

from analytics.reports.schedule import put_periodic_task
from rtmpweb.celery import app as celery_app
from rtmpweb.celery import make_broker_folders
from rtmpweb.schedule import Schedule
from tests.broker import waiting

pytestmark = pytest.mark.django_db(transaction=True)

NAME, QUEUE = "a report", "schedule-tests"
STEP = timedelta(minutes=10)


class Clock:
    """What time it is for the schedule, the tables and the crontabs."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(timezone, "now", clock)
    return clock


@pytest.fixture(autouse=True)
def nothing_else() -> Iterator[None]:
    PeriodicTask.objects.all().delete()
    make_broker_folders(celery_app)
    yield
    with celery_app.connection_for_write() as opened:
        channel: Any = opened.default_channel
        channel.queue_purge(QUEUE)


def beat() -> Schedule:
    celery_app.loader.import_default_modules()
    return Schedule(app=celery_app)


def daily(clock: Clock, at: str, zone: str, since: str) -> None:
    """An entry that is made at `since`."""
    clock.now = datetime.fromisoformat(since)
    hour, minute = at.split(":")
    put_periodic_task(NAME, {"hour": hour, "minute": minute, "timezone": zone}, task="analytics.tasks.scheduled_run")
    PeriodicTask.objects.filter(name=NAME).update(queue=QUEUE)


def runs() -> int:
    return int(PeriodicTask.objects.get(name=NAME).total_run_count)


def work(beats: list[Schedule]) -> None:
    """Until none of them has anything left to do now."""
    for schedule in beats:
        while not schedule.tick():
            pass


def fired(clock: Clock, until: str, *beats: Schedule, step: timedelta = STEP) -> list[str]:
    """When the entry's task was sent, in UTC, while time goes on."""
    found = []
    while clock.now < datetime.fromisoformat(until):
        before, queued = runs(), waiting(QUEUE)
        work(list(beats))
        found += [f"{clock.now:%m-%d %H:%M}"] * (runs() - before)
        assert waiting(QUEUE) - queued == runs() - before
        clock.now += step
    return found


@pytest.mark.parametrize(
    ("zone", "since", "until", "expected"),
    [
        ("Europe/Berlin", "2026-03-28", "2026-03-31", ["03-28 01:30", "03-29 01:30", "03-30 00:30"]),
        ("Europe/Berlin", "2026-10-24", "2026-10-27", ["10-24 00:30", "10-25 00:30", "10-26 01:30"]),
        ("America/New_York", "2026-03-07", "2026-03-10", ["03-07 07:30", "03-08 07:30", "03-09 06:30"]),
        ("America/New_York", "2026-10-31", "2026-11-03", ["10-31 06:30", "11-01 07:30", "11-02 07:30"]),
        ("Australia/Lord_Howe", "2026-10-02", "2026-10-05", ["10-02 16:00", "10-03 15:30", "10-04 15:30"]),
        ("Australia/Lord_Howe", "2026-04-03", "2026-04-06", ["04-03 15:30", "04-04 16:00", "04-05 16:00"]),
    ],
)
def test_a_daily_job_goes_once_on_each_day(
    clock: Clock, zone: str, since: str, until: str, expected: list[str]
) -> None:
    daily(clock, "2:30", zone, f"{since}T00:00Z")
    assert fired(clock, f"{until}T00:00Z", beat(), step=timedelta(minutes=30)) == expected


def test_an_hourly_job_goes_on_each_real_hour(clock: Clock) -> None:
    daily(clock, "*:10", "Europe/Berlin", "2026-10-24T22:00Z")
    assert fired(clock, "2026-10-25T05:00Z", beat()) == [
        *("10-24 22:10", "10-24 23:10", "10-25 00:10", "10-25 01:10"),
        *("10-25 02:10", "10-25 03:10", "10-25 04:10"),
    ]


def test_missed_job_runs_once_when_beat_starts(clock: Clock) -> None:
    """However late it is: not at another hour of the next day."""
    daily(clock, "2:30", "UTC", "2026-05-01T00:00Z")
    assert fired(clock, "2026-05-01T03:00Z", beat()) == ["05-01 02:30"]
    clock.now = datetime(2026, 5, 4, 9, tzinfo=UTC)
    assert fired(clock, "2026-05-05T12:00Z", beat()) == ["05-04 09:00", "05-05 02:30"]


@pytest.mark.both_forms
def test_beat_that_is_killed_repeats_nothing(clock: Clock) -> None:
    """It has not told the table anything as it ended."""
    daily(clock, "2:30", "UTC", "2026-05-01T00:00Z")
    first = beat()
    assert fired(clock, "2026-05-01T02:40Z", first) == ["05-01 02:30"]
    assert fired(clock, "2026-05-01T04:00Z", beat()) == []


@pytest.mark.stores
def test_a_second_beat_sends_nothing_twice(clock: Clock) -> None:
    daily(clock, "*:10", "UTC", "2026-05-01T00:00Z")
    first, second = beat(), beat()
    hours = [f"05-01 {hour:02}:10" for hour in range(6)]
    assert fired(clock, "2026-05-01T03:00Z", first, second) == hours[:3]
    assert fired(clock, "2026-05-01T06:00Z", second) == hours[3:], "and goes on alone"


def edit_its_crontab(admin: Client) -> None:
    entry = PeriodicTask.objects.get(name=NAME)
    form = {"minute": "30", "hour": "1", "day_of_week": "*", "day_of_month": "*", "month_of_year": "*"}
    used = {"periodictask_set-TOTAL_FORMS": "1", "periodictask_set-INITIAL_FORMS": "1"}
    used |= {"periodictask_set-0-id": str(entry.pk), "periodictask_set-0-crontab": str(entry.crontab_id)}
    url = f"/admin/django_celery_beat/crontabschedule/{entry.crontab_id}/change/"
    assert admin.post(url, {**form, **used, "timezone": "UTC"}).status_code == 302


def give_it_another(admin: Client) -> None:
    entry = PeriodicTask.objects.get(name=NAME)
    other = CrontabSchedule.objects.create(minute="30", hour="1", timezone="UTC")
    form = {"name": NAME, "regtask": entry.task, "crontab": other.pk, "enabled": "on", "args": "[]", "kwargs": "{}"}
    url = f"/admin/django_celery_beat/periodictask/{entry.pk}/change/"
    assert admin.post(url, {**form, "headers": "{}", "queue": QUEUE}).status_code == 302


@pytest.mark.both_forms
@pytest.mark.parametrize("edit", [edit_its_crontab, give_it_another])
def test_an_edit_in_the_admin_counts_at_once_and_from_then_on(
    clock: Clock, client: Client, admin_user: User, edit: Callable[[Client], None]
) -> None:
    """From 02:30 to 01:30, which was two hours ago: that is tomorrow's."""
    daily(clock, "2:30", "UTC", "2026-05-01T00:00Z")
    running = beat()
    assert fired(clock, "2026-05-01T03:30Z", running) == ["05-01 02:30"]
    client.force_login(admin_user)
    edit(client)
    assert fired(clock, "2026-05-02T03:00Z", running) == ["05-02 01:30"]


@pytest.mark.parametrize("is_first", [True, False])
def test_an_entry_that_is_made_while_beat_runs_goes(clock: Clock, is_first: bool) -> None:
    """Also the first edit that the table ever sees, right after beat has started."""
    PeriodicTasks.objects.all().delete()
    if not is_first:
        PeriodicTasks.update_changed()
    running = beat()
    clock.now += timedelta(seconds=1)
    daily(clock, "2:30", "UTC", "2026-05-01T00:00Z")
    assert fired(clock, "2026-05-01T03:00Z", running) == ["05-01 02:30"]


def test_disabled_entry_is_not_sent_nor_made_up_for_when_enabled(clock: Clock) -> None:
    daily(clock, "2:30", "UTC", "2026-05-01T00:00Z")
    running = beat()
    work([running])
    PeriodicTask.objects.filter(name=NAME).update(enabled=False)  # Not told of, as in the moment before beat looks.
    assert fired(clock, "2026-05-01T03:00Z", running) == []
    PeriodicTask.objects.get(name=NAME).save()
    clock.now = datetime(2026, 5, 7, 12, tzinfo=UTC)
    entry = PeriodicTask.objects.get(name=NAME)
    entry.enabled = True
    entry.save()
    assert fired(clock, "2026-05-08T03:00Z", running) == ["05-08 02:30"], "what passed meanwhile was not wanted"


@pytest.mark.both_forms
@pytest.mark.parametrize("refused", ["", "UPDATE"])
def test_without_the_database_beat_waits_and_sends_then(clock: Clock, refused: str) -> None:
    daily(clock, "2:30", "UTC", "2026-05-01T00:00Z")
    running = beat()
    assert fired(clock, "2026-05-01T02:30Z", running) == []

    def away(execute: Callable[..., Any], sql: str, *arguments: Any) -> Any:
        if sql.startswith(refused):
            raise OperationalError("away")
        return execute(sql, *arguments)

    with connection.execute_wrapper(away):
        clock.now += timedelta(minutes=1)
        assert running.tick() > 0
        assert running.tick() > 0
    assert fired(clock, "2026-05-01T04:00Z", running) == ["05-01 02:31"]
