"""Runs as rows: asked for, claimed once, one at a time, lost, unsent; and the schedule."""

import shutil
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone
from django_celery_beat.models import PeriodicTask
from pytest_django.fixtures import Settings

from analytics import ledger, locks, pipeline, services
from analytics.models import AnalyticsRun, Grain, Partition, RunLine
from rtmpweb.celery import app as celery_app
from rtmpweb.celery import make_broker_folders
from tests.analytics.lakes import HOUR_US, broadcast, fill
from tests.broker import waiting
from tests.ingest.telemetry.records import NOON
from tests.tools import hide_java

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.stores]

PAGE = AnalyticsRun.Trigger.PAGE

LOST = timedelta(seconds=settings.RUN_LOST_S + 1)
SCHEDULE = "analytics.migrations.0002_schedule"
UNTAKEN = timedelta(seconds=settings.RUN_RESENT_S + 1)


@pytest.fixture(autouse=True)
def broker() -> None:
    """The embedded broker's folders, in the tests' data folder."""
    make_broker_folders(celery_app)


def queued() -> int:
    return waiting("analytics")


def test_asking_queues_one_run_and_a_second_asker_gets_the_same() -> None:
    user = User.objects.create_user("ana")
    before = queued()
    run = services.start_run(trigger=PAGE, requested_by=user)
    assert (run.state, run.requested_by) == ("queued", user)
    assert services.start_run(trigger=AnalyticsRun.Trigger.SCHEDULE) == run
    assert queued() == before + 1
    assert services.claim(run_id=run.pk) == run
    assert services.start_run(trigger=PAGE) == run
    assert services.active_run() == run


def test_a_request_that_no_worker_took_is_sent_again_when_asked_again() -> None:
    run = services.start_run(trigger=PAGE)
    AnalyticsRun.objects.update(requested_at=timezone.now() - UNTAKEN)
    before = queued()
    assert services.start_run(trigger=PAGE) == run
    assert queued() == before + 1


def test_only_one_run_is_active_and_each_is_claimed_once() -> None:
    first, second = (services.create_run(trigger=PAGE) for _ in range(2))
    assert services.claim(run_id=first.pk)
    assert services.claim(run_id=first.pk) is None
    with pytest.raises(services.Busy):
        services.claim(run_id=second.pk)
    services.finish(first)
    assert services.claim(run_id=second.pk) == second


def test_a_queue_out_of_reach_fails_the_run_and_says_so() -> None:
    if settings.REDIS_URL:
        pytest.skip("of the embedded broker; with Redis away: tests/production/outages/test_jobs.py")
    folder = settings.BROKER_DIR / "queue"
    shutil.rmtree(folder)
    folder.write_text("a file where the folder should be")
    try:
        run = services.start_run(trigger=PAGE)
    finally:
        folder.unlink()
        folder.mkdir()
    assert (run.state, run.error_code) == ("failed", "queue")


def test_scheduled_take_up_requeues_runs_that_the_queue_has_lost() -> None:
    import_module(SCHEDULE).schedule_tasks(apps, None)
    task = PeriodicTask.objects.get(task="analytics.tasks.take_up")
    assert (task.queue, task.interval.every, task.interval.period) == ("default", 60, "seconds")
    celery_app.loader.import_default_modules()
    take_up = celery_app.tasks[task.task].run
    take_up()
    assert not AnalyticsRun.objects.exists()

    run = services.start_run(trigger=PAGE)
    before = queued()
    take_up()
    assert queued() == before, "it may be taken yet"
    AnalyticsRun.objects.update(requested_at=timezone.now() - UNTAKEN)
    take_up()
    assert queued() == before + 1

    services.fail(run, code=AnalyticsRun.ErrorCode.QUEUE, error=services.UNSENT)
    take_up()
    repeated = AnalyticsRun.objects.get(state="queued")
    assert (repeated.kind, repeated.trigger) == (run.kind, "schedule")
    assert queued() == before + 2


def test_a_run_whose_process_was_lost_is_repeated_once() -> None:
    """Not for ever: what killed one may kill the next."""
    for repeated in (True, False):
        (run,) = AnalyticsRun.objects.filter(state="queued") or [services.start_run(trigger=PAGE)]
        services.claim(run_id=run.pk)
        AnalyticsRun.objects.filter(pk=run.pk).update(heartbeat_at=timezone.now() - LOST * 2)
        services.resume_pending()
        run.refresh_from_db()
        assert (run.state, run.error_code, run.ended_at is not None) == ("failed", "lost", True)
        assert AnalyticsRun.objects.filter(state="queued").exists() == repeated


def test_queue_failures_do_not_count_as_failures_of_a_run() -> None:
    """An outage of the queue, and then a process that is lost: its run is repeated as any other is."""
    for _ in range(3):
        services.fail(services.create_run(trigger=PAGE), code=AnalyticsRun.ErrorCode.QUEUE, error=services.UNSENT)
    services.resume_pending()
    run = AnalyticsRun.objects.get(state="queued")
    services.claim(run_id=run.pk)
    AnalyticsRun.objects.filter(pk=run.pk).update(heartbeat_at=timezone.now() - LOST * 2)
    assert is_asked_for()


def test_hours_locked_by_a_lost_run_are_free_for_the_next_run_at_once() -> None:
    ledger.note_pending(Grain.HOUR, [HOUR])
    run = services.start_run(trigger=PAGE)
    services.claim(run_id=run.pk)
    assert locks.take(run, Grain.HOUR, [HOUR]).starts == [HOUR]
    following = services.create_run(trigger=PAGE)
    with pytest.raises(services.Busy):
        services.claim(run_id=following.pk)
    assert locks.take(following, Grain.HOUR, [HOUR]).starts == []
    AnalyticsRun.objects.filter(pk=run.pk).update(heartbeat_at=timezone.now() - LOST)
    assert services.claim(run_id=following.pk) == following
    assert locks.take(following, Grain.HOUR, [HOUR]).starts == [HOUR]


def test_a_run_that_says_why_it_failed_is_not_repeated() -> None:
    services.fail(
        services.start_run(trigger=PAGE), code=AnalyticsRun.ErrorCode.LOST, error="Spark's Java process ended."
    )
    assert not is_asked_for()


def test_a_commands_run_is_left_to_the_command_unless_that_was_killed() -> None:
    services.create_run(trigger=AnalyticsRun.Trigger.COMMAND)
    AnalyticsRun.objects.update(requested_at=timezone.now() - UNTAKEN)
    before = queued()
    services.resume_pending()
    assert queued() == before
    AnalyticsRun.objects.update(requested_at=timezone.now() - services.COMMAND_WAITS * 2)
    services.resume_pending()
    assert queued() == before + 1
    assert sorted(AnalyticsRun.objects.values_list("trigger", "state")) == [
        ("command", "failed"),
        ("schedule", "queued"),
    ]


HOUR = datetime(2026, 3, 29, 12, tzinfo=UTC)


def undone(**fields: Any) -> Partition:
    return Partition.objects.create(grain=Grain.HOUR, start=HOUR, **fields)


def is_asked_for() -> bool:
    """Whether the next look at the ledger asks for a run."""
    services.resume_pending()
    return AnalyticsRun.objects.filter(state="queued").exists()


@pytest.mark.parametrize(
    ("state", "retry_in_s", "locked_for_s", "asked"),
    [
        ("done", None, None, False),
        ("pending", None, None, True),
        ("failed", 30, None, False),
        ("failed", -1, None, True),
        ("running", None, 30, False),
        ("running", None, -1, True),
    ],
)
def test_the_ledger_asks_for_a_run_while_it_shows_work_that_nobody_does(
    state: str, retry_in_s: int | None, locked_for_s: int | None, asked: bool
) -> None:
    now = timezone.now()
    retry_at = now + timedelta(seconds=retry_in_s) if retry_in_s else None
    locked_until = now + timedelta(seconds=locked_for_s) if locked_for_s else None
    lock = "somebody" if locked_for_s else ""
    undone(state=state, attempts=1, retry_at=retry_at, lock=lock, locked_until=locked_until)
    assert is_asked_for() == asked


def test_runs_that_get_nothing_done_are_asked_for_less_and_less_often() -> None:
    undone()
    for failures, pause_min in enumerate([0, 0, 1, 2, 4, 8, 16, 32, 60, 60]):
        pause = timedelta(minutes=pause_min)
        if pause:
            AnalyticsRun.objects.update(ended_at=timezone.now() - pause + timedelta(seconds=20))
            assert not is_asked_for(), failures
        AnalyticsRun.objects.update(ended_at=timezone.now() - pause)
        assert is_asked_for(), failures
        services.fail(AnalyticsRun.objects.get(state="queued"), code=AnalyticsRun.ErrorCode.FAILED, error="No luck")
    run = services.start_run(trigger=PAGE)
    AnalyticsRun.objects.filter(pk=run.pk).update(done=1)
    services.fail(run, code=AnalyticsRun.ErrorCode.TIME_LIMIT, error="The time limit passed")
    assert is_asked_for(), "what gets on goes on at once"


def test_run_that_failed_for_missing_java_is_not_requested_again() -> None:
    undone()
    services.fail(services.start_run(trigger=PAGE), code=AnalyticsRun.ErrorCode.JAVA_MISSING, error="Install it")
    assert not is_asked_for()


def test_clearing_failures_of_a_run_affects_only_its_own_partitions() -> None:
    failed = services.create_run(trigger=PAGE, kind="hourly", since=HOUR)
    later = timezone.now() + timedelta(hours=1)
    partition = undone(state="failed", attempts=5, retry_at=later, run=failed)
    other = Partition.objects.create(grain=Grain.DAY, start=HOUR, state="failed", attempts=3, retry_at=later)
    assert services.same_work(failed) == {"kind": "hourly", "since": HOUR, "until": None}
    assert services.clear_failures(failed.partitions.all()) == 1
    partition.refresh_from_db()
    other.refresh_from_db()
    assert (partition.state, partition.attempts, partition.retry_at) == ("pending", 0, None)
    assert other.state == "failed"


def test_recompute_makes_only_hours_still_in_the_lake_pending(lake: Path, settings: Settings) -> None:
    settings.LAKE_DIR = lake
    for hour in (11, 12, 13):
        fill(lake, list(broadcast("demo", "a", seconds=2, start_us=NOON + (hour - 12) * HOUR_US)))
    for hour in range(8, 14):
        Partition.objects.create(grain=Grain.HOUR, start=HOUR.replace(hour=hour), state="done")
    Partition.objects.create(grain=Grain.DAY, start=HOUR.replace(hour=0), state="done")
    assert services.recompute(HOUR.replace(hour=9), HOUR.replace(hour=13)) == 3
    pending = Partition.objects.filter(state="pending").order_by("grain", "start")
    assert [(one.grain, one.start.hour) for one in pending] == [("day", 0), ("hour", 11), ("hour", 12)]
    assert is_asked_for()


def test_run_lines_record_its_requester_warnings_and_errors() -> None:
    run = services.create_run(trigger=PAGE, requested_by=User.objects.create_user("ana"))
    claimed = services.claim(run_id=run.pk)
    assert claimed
    services.log_line(claimed, "Something\x00 odd " + "!" * 2000, RunLine.Level.WARNING)
    services.fail(claimed, code=AnalyticsRun.ErrorCode.FAILED, error="It broke")
    first, second, third = run.lines.all()
    assert "asked for by ana (page)" in first.text
    assert (second.level, second.text[:15], len(second.text)) == ("warning", "Something\ufffd odd ", 1000)
    assert (third.level, third.text) == ("error", "It broke")


def test_old_runs_go_with_their_lines_and_the_ledger_stays() -> None:
    now = timezone.now()
    for days in (89, 91):
        run = services.create_run(trigger=PAGE)
        services.log_line(run, "It works")
        AnalyticsRun.objects.filter(pk=run.pk).update(state="done", ended_at=now - timedelta(days=days))
    partition = undone(state="done", run=run)
    assert services.prune_runs(now=now) == 2
    assert (AnalyticsRun.objects.count(), RunLine.objects.count()) == (1, 1)
    partition.refresh_from_db()
    assert partition.run is None


def test_an_empty_lake_is_done_without_spark(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hide_java(monkeypatch)
    run = services.claim(run_id=services.create_run(trigger=PAGE).pk)
    assert run
    pipeline.perform(run, lake=lake)
    assert (run.state, run.done, run.expected, run.rows_read) == ("done", 0, 0, 0)


def test_the_migration_schedules_an_hourly_run_once() -> None:
    celery_app.loader.import_default_modules()  # As a worker does: what beat sends must be a task it knows.
    PeriodicTask.objects.all().delete()
    for _ in range(2):
        import_module(SCHEDULE).schedule_tasks(apps, None)
    task = PeriodicTask.objects.get(task="analytics.tasks.scheduled_run")
    assert (task.crontab.minute, task.crontab.hour, str(task.crontab.timezone)) == ("5", "*", "UTC")
    assert (task.enabled, task.queue) == (True, "analytics")
    before = queued()
    celery_app.tasks[task.task].run()
    assert AnalyticsRun.objects.get().trigger == "schedule"
    assert queued() == before + 1
