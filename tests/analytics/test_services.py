"""Runs as rows: asked for, claimed once, one at a time, lost, unsent; and the schedule."""

import shutil
from datetime import timedelta
from importlib import import_module
from pathlib import Path

import pytest
from django.apps import apps
from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from analytics import pipeline, services
from analytics.models import HEARTBEAT_LOST, AnalyticsRun
from rtmpweb.celery import app as celery_app
from rtmpweb.celery import make_broker_folders
from tests.broker import waiting

pytestmark = pytest.mark.django_db(transaction=True)

PAGE = AnalyticsRun.Trigger.PAGE


@pytest.fixture(autouse=True)
def broker() -> None:
    """The embedded broker's folders, in the tests' data folder."""
    make_broker_folders(celery_app)


def queued() -> int:
    return waiting("analytics")


def test_asking_queues_one_run_and_a_second_asker_gets_the_same() -> None:
    user = User.objects.create_user("ana")
    before = queued()
    run = services.start_run(trigger=PAGE, user=user)
    assert (run.state, run.requested_by) == ("queued", user)
    assert services.start_run(trigger=AnalyticsRun.Trigger.SCHEDULE) == run
    assert queued() == before + 1
    assert services.claim(run_id=run.pk) == run
    assert services.start_run(trigger=PAGE) == run
    assert services.active_run() == run


def test_a_request_that_no_worker_took_is_sent_again_when_asked_again() -> None:
    run = services.start_run(trigger=PAGE)
    AnalyticsRun.objects.update(requested_at=timezone.now() - services.RESEND_AFTER * 2)
    before = queued()
    assert services.start_run(trigger=PAGE) == run
    assert queued() == before + 1


def test_one_run_at_a_time_and_each_is_claimed_once() -> None:
    first, second = (services.create_run(trigger=PAGE) for _ in range(2))
    assert services.claim(run_id=first.pk)
    assert services.claim(run_id=first.pk) is None
    with pytest.raises(services.Busy):
        services.claim(run_id=second.pk)
    services.finish(first)
    assert services.claim(run_id=second.pk) == second


def test_a_run_whose_process_was_lost_ends_and_the_next_may_begin() -> None:
    lost, following = (services.create_run(trigger=PAGE) for _ in range(2))
    assert services.claim(run_id=lost.pk)
    AnalyticsRun.objects.filter(pk=lost.pk).update(heartbeat_at=timezone.now() - HEARTBEAT_LOST - timedelta(seconds=1))
    assert services.claim(run_id=following.pk) == following
    lost.refresh_from_db()
    assert (lost.state, lost.error_code) == ("failed", "lost")
    assert lost.ended_at


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


def test_what_a_queue_has_lost_is_sent_again_each_minute() -> None:
    schedule = import_module("analytics.migrations.0003_take_up")
    schedule.remove(apps, None)
    schedule.create(apps, None)
    task = PeriodicTask.objects.get(name=schedule.NAME)
    assert (task.queue, task.interval.every, task.interval.period) == ("default", 60, "seconds")
    celery_app.loader.import_default_modules()
    take_up = celery_app.tasks[task.task].run
    take_up()
    assert not AnalyticsRun.objects.exists()

    run = services.start_run(trigger=PAGE)
    before = queued()
    take_up()
    assert queued() == before, "it may be taken yet"
    AnalyticsRun.objects.update(requested_at=timezone.now() - services.RESEND_AFTER * 2)
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
        AnalyticsRun.objects.filter(pk=run.pk).update(heartbeat_at=timezone.now() - HEARTBEAT_LOST * 2)
        services.take_up()
        assert AnalyticsRun.objects.get(pk=run.pk).error_code == "lost"
        assert AnalyticsRun.objects.filter(state="queued").exists() == repeated


def test_a_run_that_says_why_it_failed_is_not_repeated() -> None:
    run = services.start_run(trigger=PAGE)
    services.fail(run, code=AnalyticsRun.ErrorCode.LOST, error="Spark's Java process ended.")
    services.take_up()
    assert not AnalyticsRun.objects.filter(state="queued").exists()


def test_a_commands_run_is_left_to_the_command() -> None:
    services.create_run(trigger=AnalyticsRun.Trigger.COMMAND)
    AnalyticsRun.objects.update(requested_at=timezone.now() - services.RESEND_AFTER * 2)
    before = queued()
    services.take_up()
    assert queued() == before


def test_an_empty_lake_is_done_without_spark(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", "")
    run = services.claim(run_id=services.create_run(trigger=PAGE).pk)
    assert run
    pipeline.perform(run, lake=lake)
    assert (run.state, run.done, run.expected, run.rows_read) == ("done", 0, 0, 0)


def test_the_migration_schedules_an_hourly_run_once() -> None:
    celery_app.loader.import_default_modules()  # As a worker does: what beat sends must be a task it knows.
    PeriodicTask.objects.all().delete()
    schedule = import_module("analytics.migrations.0002_schedule")
    for _ in range(2):
        schedule.create(apps, None)
    task = PeriodicTask.objects.get()
    assert (task.crontab.minute, task.crontab.hour, str(task.crontab.timezone)) == ("5", "*", "UTC")
    assert (task.enabled, task.queue) == (True, "analytics")
    before = queued()
    celery_app.tasks[task.task].run()
    assert AnalyticsRun.objects.get().trigger == "schedule"
    assert queued() == before + 1
    schedule.remove(apps, None)
    assert not PeriodicTask.objects.exists()
