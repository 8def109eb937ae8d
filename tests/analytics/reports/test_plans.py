"""Plans: what is due when, what waits for its hours, and the schedule beside them; and what goes as it is old."""

import json
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from django.core.exceptions import ValidationError
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from analytics import tasks
from analytics import tasks as report_tasks
from analytics.models import AnalyticsRun, Dimension, Partition, Report, ReportDelivery, ReportPlan, Rollup
from analytics.reports import builder, plans, schedule
from ingest.models import Application, Session, Stream
from ingest.telemetry.lake import hour_folder, write_parquet
from tests.analytics.rollups import HOUR, HOUR_MS, MONDAY, make_live_hour, mark_done, save_rollup
from tests.broker import waiting
from tests.dashboard.demo_data import make_delivery, make_report
from tests.tools import hide_java

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_lake")]

Kind = ReportPlan.Kind
DAY = timedelta(days=1)
NOON = MONDAY + 12 * HOUR
TUESDAY = MONDAY + DAY


@pytest.fixture(autouse=True)
def elsewhere(settings: Any) -> None:
    """Spark runs on another machine: this needs no Java to ask for a run."""
    settings.SPARK_REMOTE = "sc://127.0.0.1:1"


def plan(kind: str = Kind.DAILY, **fields: Any) -> ReportPlan:
    values = {
        "name": f"{kind} {ReportPlan.objects.count()}",
        "kind": kind,
        "send_at": time(6),
        "counts_from": MONDAY - 30 * DAY,
    }
    return ReportPlan.objects.create(**{**values, **fields})


def recorded(lake: Path, start: datetime) -> None:
    """Something was recorded in the hour, and is not computed."""
    write_parquet(pa.table({"at_us": [1]}), hour_folder(lake, "samples", start) / "n-1.parquet")


def due_since(row: ReportPlan, now: datetime) -> list[str]:
    return [period.local_since.isoformat() for period, _ in plans.due(row, now)]


def test_a_report_is_due_on_the_day_after_by_the_clock_of_its_zone() -> None:
    row = plan(time_zone="America/New_York", counts_from=TUESDAY)
    at_six = datetime(2026, 11, 3, 11, tzinfo=UTC)
    assert due_since(row, at_six - timedelta(seconds=1)) == []
    assert due_since(row, at_six) == ["2026-11-02T00:00:00-05:00"]


def test_report_keeps_its_local_send_time_through_a_clock_change() -> None:
    row = plan(time_zone="Europe/Berlin", send_at=time(2, 30), counts_from=datetime(2026, 10, 24, 12, tzinfo=UTC))
    period, since = next(iter(plans.due(row, datetime(2026, 10, 25, 3, tzinfo=UTC))))
    assert since.isoformat() == "2026-10-25T02:30:00+02:00"  # The first of the two.
    assert period.local_since.date().isoformat() == "2026-10-24"
    assert len(period.starts) == 24


def test_reports_missed_during_downtime_are_made_for_the_last_week() -> None:
    row = plan()
    now = MONDAY + 20 * DAY + 7 * HOUR
    made = plans.make_due(row, now)
    assert [report.since for report in made] == [MONDAY + number * DAY for number in range(13, 20)]
    assert plans.make_due(row, now) == []
    assert Report.objects.count() == 7


def test_a_new_plan_makes_nothing_of_the_past_and_a_disabled_one_nothing_at_all() -> None:
    assert plans.make_due(plan(is_enabled=False), TUESDAY + 9 * HOUR) == []
    row = plan(counts_from=TUESDAY + 8 * HOUR)
    assert plans.make_due(row, TUESDAY + 9 * HOUR) == []
    assert len(plans.make_due(row, TUESDAY + DAY + 6 * HOUR)) == 1


@pytest.mark.parametrize("change", [{"app": "live"}, {"time_zone": "Europe/Berlin"}, {"kind": "weekly"}])
def test_a_plan_that_is_changed_makes_nothing_of_the_past(change: dict[str, Any]) -> None:
    now = timezone.now()
    row = plan(counts_from=now - 30 * DAY, is_enabled=False)
    row.save()
    assert row.counts_from == now - 30 * DAY
    for name, value in ({"is_enabled": True} | change).items():
        setattr(row, name, value)
        row.save()
        assert row.counts_from >= now
        assert plans.make_due(row, timezone.now()) == []
        row.counts_from = now - 30 * DAY
    row.send_at = time(7)
    row.save()
    assert row.counts_from == now - 30 * DAY


@pytest.mark.both_forms
def test_a_report_waits_for_its_hours_asks_for_a_run_and_says_when_it_went_without(lake: Path) -> None:
    row = plan(counts_from=NOON, recipients="ops@example.org")
    make_live_hour("live/a", MONDAY)
    mark_done(MONDAY)
    recorded(lake, MONDAY + HOUR)
    due = TUESDAY + 6 * HOUR
    assert plans.make_due(row, due) == []
    assert AnalyticsRun.objects.get().trigger == AnalyticsRun.Trigger.SCHEDULE
    assert plans.make_due(row, due + 5 * HOUR) == []
    (report,) = plans.make_due(row, due + 6 * HOUR)
    assert (report.hours_done, report.hours_expected, report.is_complete) == (1, 2, False)
    assert report.document["notes"][0].startswith("1 of 2 hours was not computed yet when this was made")
    assert report.document["completeness"] == {"expected": 2, "done": 1}


def test_report_is_made_as_soon_as_its_hours_are_computed(lake: Path) -> None:
    row = plan(counts_from=NOON)
    recorded(lake, MONDAY)
    assert plans.make_due(row, TUESDAY + 6 * HOUR) == []
    # The hour's files go with retention; that it was computed stays known.
    for file in lake.rglob("*.parquet"):
        file.unlink()
    mark_done(MONDAY)
    (report,) = plans.make_due(row, TUESDAY + 6 * HOUR + timedelta(minutes=5))
    assert report.is_complete


@pytest.mark.stores
def test_report_made_twice_is_one_report_with_one_delivery_per_address() -> None:
    row = plan(counts_from=NOON, recipients="a@example.org\nb@example.org\n\na@example.org")
    (period, _) = next(iter(plans.due(row, TUESDAY + 6 * HOUR)))
    first, again = (builder.make(period, plans.scope_of(row), plan=row) for _ in range(2))
    assert first == again
    assert sorted(first.deliveries.values_list("address", flat=True)) == ["a@example.org", "b@example.org"]


def test_plan_of_an_application_or_stream_covers_only_its_streams() -> None:
    app = Application.objects.create(name="live")
    stream = Stream.objects.create(application=app, name="a")
    for path in ("live/a", "live/b", "cams/a"):
        make_live_hour(path, MONDAY)
    made = [plan(counts_from=NOON, **of) for of in ({}, {"app": "live"}, {"stream": stream})]
    reports = [plans.make_due(row, TUESDAY + 6 * HOUR)[0] for row in made]
    assert [report.scope for report in reports] == ["", "live", "live/a"]
    assert [[row["stream"] for row in report.document["streams"]] for report in reports] == [
        ["cams/a", "live/a", "live/b"],
        ["live/a", "live/b"],
        ["live/a"],
    ]


def test_without_java_no_run_is_asked_for_and_after_one_that_failed_not_at_once(
    lake: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = plan(counts_from=NOON)
    recorded(lake, MONDAY)
    due = TUESDAY + 6 * HOUR
    with monkeypatch.context() as without:
        hide_java(without)
        settings.SPARK_REMOTE = ""
        assert plans.make_due(row, due) == []
    assert AnalyticsRun.objects.count() == 0
    settings.SPARK_REMOTE = "sc://127.0.0.1:1"
    failed = dict.fromkeys(("started_at", "ended_at", "requested_at"), timezone.now())
    for _ in range(3):
        AnalyticsRun.objects.create(trigger="schedule", state="failed", metric_version=2, **failed)
    plans.make_due(row, due)
    assert AnalyticsRun.objects.count() == 3
    AnalyticsRun.objects.update(ended_at=timezone.now() - HOUR)
    plans.make_due(row, due)
    assert AnalyticsRun.objects.count() == 4


# --- Broadcasts ---


def session(start: datetime, end: datetime | None, name: str = "a", **fields: Any) -> Session:
    values = {"kind": "publish", "app": "live", "name": name, "address": "192.0.2.1", "end_reason": "client_unpublish"}
    return Session.objects.create(started_at=start, ended_at=end, **{**values, **fields})


def counted(start: datetime, begin: datetime, name: str = "a", **figures: Any) -> None:
    values = {"elapsed_ms": HOUR_MS // 2, "live_ms": HOUR_MS // 2, "good_ms": HOUR_MS // 2, "starts": 1} | figures
    value = f"{begin:%Y-%m-%dT%H:%M:%SZ}"
    save_rollup(f"live/{name}", start, kbps=[6000.0] * 9, dimension=Dimension.BROADCAST, value=value, **values)


@pytest.mark.both_forms
def test_a_broadcast_is_reported_once_it_has_ended_for_good(lake: Path) -> None:
    row = plan(Kind.BROADCAST, counts_from=MONDAY, app="live")
    begin = MONDAY + 20 * HOUR
    session(begin - DAY, begin - DAY + HOUR)
    counted(begin - DAY, begin - DAY)
    session(begin, begin + timedelta(minutes=40))
    session(begin + timedelta(minutes=43), begin + timedelta(minutes=90), end_reason="tcp_reset")
    session(begin, begin + timedelta(minutes=50), name="test", is_test=True)
    end = begin + timedelta(minutes=90)
    assert plans.make_due(row, end + timedelta(minutes=4)) == []  # It may come back.
    assert AnalyticsRun.objects.count() == 0
    assert plans.make_due(row, end + timedelta(minutes=6)) == []  # None of its hours is computed.
    assert AnalyticsRun.objects.count() == 1
    counted(begin, begin + timedelta(seconds=1), broadcasts=1)
    counted(begin + HOUR, begin + timedelta(seconds=1), reconnects=1, starts=1, recovery_ms=180_000)
    mark_done(begin, processed_at=begin + HOUR + timedelta(minutes=3))
    mark_done(begin + HOUR, processed_at=end)  # Its last minute may not be in it.
    assert plans.make_due(row, end + timedelta(minutes=6)) == []
    Partition.objects.filter(start=begin + HOUR).update(processed_at=end + timedelta(minutes=3))
    (report,) = plans.make_due(row, end + timedelta(minutes=7))
    assert (report.scope, report.since, report.until) == ("live/a", begin + timedelta(seconds=1), end)
    document = report.document
    assert document["title"] == "Broadcast report"
    assert document["period"]["words"] == "2 November 2026, 20:00 to 21:30"
    assert document["figures"]["live_h"] == 1.0
    assert document["figures"]["reconnects"] == 1
    assert document["former"]["live_h"] == 0.5
    assert [tile["comparison"] for tile in document["tiles"]][:1] == ["0.5\xa0h more"]
    assert plans.make_due(row, end + HOUR) == []
    assert Report.objects.count() == 1


def test_a_broadcast_that_goes_on_is_not_reported(lake: Path) -> None:
    row = plan(Kind.BROADCAST, counts_from=MONDAY)
    session(MONDAY, MONDAY + HOUR)
    session(MONDAY + HOUR + timedelta(minutes=2), None, end_reason="")
    counted(MONDAY, MONDAY)
    mark_done(MONDAY, 2)
    assert plans.make_due(row, MONDAY + 2 * HOUR) == []


def test_half_of_a_broadcast_is_not_reported_and_never_one_twice(lake: Path) -> None:
    row = plan(Kind.BROADCAST, counts_from=MONDAY)
    begin, end = MONDAY + timedelta(minutes=20), MONDAY + timedelta(minutes=100)
    session(begin, end)
    counted(MONDAY + HOUR, MONDAY + HOUR)  # Of the first hour nothing is known: its row has no tail.
    mark_done(MONDAY + HOUR, processed_at=end + timedelta(minutes=3))
    assert plans.make_due(row, end + HOUR) == []
    (report,) = plans.make_due(row, end + 6 * HOUR)
    assert report.since == MONDAY + HOUR
    Rollup.objects.filter(dimension=Dimension.BROADCAST).delete()
    counted(MONDAY, begin)
    counted(MONDAY + HOUR, begin)
    mark_done(MONDAY, processed_at=end + 7 * HOUR)
    assert plans.make_due(row, end + 7 * HOUR) == []


@pytest.mark.both_forms
def test_broadcasts_that_are_reported_cost_no_more_look_ups(lake: Path, django_assert_num_queries: Any) -> None:
    row = plan(Kind.BROADCAST, counts_from=MONDAY)
    for name in "abcdef":
        session(MONDAY, MONDAY + HOUR, name)
        counted(MONDAY, MONDAY, name)
    mark_done(MONDAY, 2, processed_at=MONDAY + 3 * HOUR)
    assert len(plans.make_due(row, MONDAY + 3 * HOUR)) == 6
    with django_assert_num_queries(2):
        assert plans.make_due(row, MONDAY + 4 * HOUR) == []


def test_two_broadcasts_of_a_day_are_two_reports(lake: Path) -> None:
    row = plan(Kind.BROADCAST, counts_from=MONDAY)
    for number in range(2):
        begin = MONDAY + number * 3 * HOUR
        session(begin, begin + HOUR)
        counted(begin, begin)
        mark_done(begin, 2, processed_at=begin + 2 * HOUR)
    made = plans.make_due(row, MONDAY + 6 * HOUR)
    assert sorted(report.since for report in made) == [MONDAY, MONDAY + 3 * HOUR]


# --- The schedule ---


@pytest.mark.parametrize(
    ("kind", "days"), [(Kind.DAILY, ("*", "*")), (Kind.WEEKLY, ("1", "*")), (Kind.MONTHLY, ("*", "1"))]
)
def test_a_plan_has_its_entry_in_the_schedule(kind: str, days: tuple[str, str]) -> None:
    row = plan(kind, time_zone="Europe/Berlin", send_at="06:45")
    found = PeriodicTask.objects.get(name=schedule.entry_name(row))
    assert (found.task, json.loads(found.args)) == ("analytics.reports.tasks.make_due", [row.pk])
    assert (found.crontab.hour, found.crontab.minute, str(found.crontab.timezone)) == ("6", "45", "Europe/Berlin")
    assert (found.crontab.day_of_week, found.crontab.day_of_month) == days
    row.is_enabled = False
    row.save()
    found.refresh_from_db()
    assert not found.enabled
    row.kind = Kind.BROADCAST
    row.save()
    assert not PeriodicTask.objects.filter(name=found.name).exists()


def test_a_deleted_plan_takes_its_entry_along_and_leaves_its_reports() -> None:
    row = plan(counts_from=NOON)
    plans.make_due(row, TUESDAY + 6 * HOUR)
    name = schedule.entry_name(row)
    row.delete()
    assert not PeriodicTask.objects.filter(name=name).exists()
    assert Report.objects.get().plan is None


def test_every_few_minutes_what_is_due_is_looked_for() -> None:
    row = PeriodicTask.objects.get(task="analytics.reports.tasks.due_reports")
    assert row.queue == "default"
    assert row.interval is not None
    assert (row.interval.every, row.interval.period) == (300, "seconds")


@pytest.mark.both_forms
def test_a_plan_whose_report_fails_keeps_no_other_from_its_own() -> None:
    broken, fine = plan(name="broken", time_zone="UTC"), plan(name="fine")
    ReportPlan.objects.filter(pk=broken.pk).update(time_zone="Mars/Olympus")
    before = waiting("analytics")
    report_tasks.due_reports()
    assert waiting("analytics") == before + 1
    for row in (broken, fine):
        report_tasks.make_due(row.pk)
    assert set(Report.objects.values_list("plan__name", flat=True)) == {"fine"}
    assert fine.reports.count() == 7
    with pytest.raises(ValidationError):
        plan(time_zone="Mars/Olympus")


# --- What is old ---


def made(days_ago: float, now: datetime) -> Report:
    report = make_report(made_at=now - days_ago * DAY)
    make_delivery(report, "ops@example.org", state="done", ended_at=report.made_at)
    return report


def left() -> set[int]:
    return set(Report.objects.values_list("pk", flat=True))


@pytest.mark.both_forms
def test_reports_go_after_the_days_that_are_set(lake: Path, settings: Any) -> None:
    now = timezone.now()
    old, older, young = (made(days, now) for days in (31, 300, 29))
    tasks.keep_lake()
    assert left() == {old.pk, older.pk, young.pk}, "400 days are the default"
    settings.KEEP_REPORTS_DAYS = 0
    made(5000, now)
    tasks.keep_lake()
    assert len(left()) == 4
    settings.KEEP_REPORTS_DAYS = 30
    with CaptureQueriesContext(connection) as queries:
        tasks.keep_lake()
    assert left() == {young.pk}
    assert [row.report for row in ReportDelivery.objects.all()] == [young]
    assert not any('"document"' in query["sql"] for query in queries), "it may be long, and is not looked at"


@pytest.mark.stores
def test_planned_report_deleted_by_retention_is_not_made_again(lake: Path, settings: Any) -> None:
    settings.KEEP_REPORTS_DAYS = 1
    now = timezone.now()
    plan = ReportPlan.objects.create(
        name="Each day", kind="daily", time_zone="UTC", send_at=time(0), counts_from=now - 30 * DAY
    )
    assert len(plans.make_due(plan, now)) == 7
    for report in Report.objects.all():
        Report.objects.filter(pk=report.pk).update(made_at=report.until)
    tasks.keep_lake()
    assert plans.make_due(plan, now) == []
    Report.objects.update(made_at=now - 9 * DAY)
    tasks.keep_lake()
    assert left() == set()
