"""The pages of the Spark jobs: runs with their progress and errors, the ledger of hours, retry and computing anew."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from analytics.models import METRIC_VERSION, AnalyticsRun, Grain, Partition, RunLine
from dashboard.models import Heartbeat
from dashboard.system.parts import RUN_ADVICE
from ingest.models import AuditEntry
from rtmpweb.celery import app as celery_app
from rtmpweb.celery import make_broker_folders
from tests.broker import waiting
from tests.dashboard.conftest import lacks, make_user, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("still")]

URL = "/jobs/"


def make_run(**fields: Any) -> AnalyticsRun:
    now = timezone.now()
    whole: dict[str, Any] = {
        "state": "done",
        "trigger": "schedule",
        "started_at": now - timedelta(seconds=75),
        "ended_at": now,
        "expected": 3,
        "done": 3,
        "rows_read": 10_800,
    }
    return AnalyticsRun.objects.create(**(whole | fields))


def make_hour(hours_ago: int, grain: Grain = Grain.HOUR, **fields: Any) -> Partition:
    start = timezone.now().replace(minute=0, second=0, microsecond=0) - timedelta(hours=hours_ago)
    start = start.replace(hour=0) if grain == Grain.DAY else start
    whole: dict[str, Any] = {"state": "done", "metric_version": METRIC_VERSION, "files": 2}
    return Partition.objects.create(grain=grain, start=start, **(whole | fields))


def test_before_the_first_run_the_page_says_what_comes(viewer: Client, analyst: Client) -> None:
    page = text_of(viewer, URL)
    assert lacks(page, "No job has run yet", "manage.py analytics run", "No analytics worker is running") == []
    assert "Update now" not in page
    assert 'id="run-now"' in text_of(analyst, URL)


def test_runs_are_shown_newest_first_with_progress_and_by_whom(viewer: Client) -> None:
    ana = make_user("analyst", name="ana-lytica")
    make_run(requested_at=timezone.now() - timedelta(hours=1))
    stage: dict[str, Any] = {"stage": "Computing hours from 2026-11-14 20:00", "done": 1, "ended_at": None}
    going = make_run(state="running", trigger="page", requested_by=ana, heartbeat_at=timezone.now(), **stage)
    page = text_of(viewer, URL)
    assert page.index(f'data-run="{going.pk}"') < page.index('data-state="done"')
    for words in ("ana-lytica", "Computing hours from 2026-11-14 20:00", '<progress value="1" max="3"', "1 of 3"):
        assert words in page


def test_a_failed_run_says_why_and_what_to_do(viewer: Client) -> None:
    make_run(state="failed", error_code="time_limit", error="The time limit passed.")
    page = text_of(viewer, URL)
    assert lacks(page, "The time limit passed.", "Give Spark more cores") == []
    assert set(RUN_ADVICE) == set(AnalyticsRun.ErrorCode.values), "every error has its advice"


@pytest.mark.both_forms
def test_job_runs_are_filtered_and_paged(viewer: Client) -> None:
    for _ in range(30):
        make_run()
    failed = make_run(state="failed", trigger="command", error_code="lost")
    assert len(viewer.get(f"{URL}?page=2").context["page"].object_list) == 6
    for query in ("state=failed", "trigger=command", "state=failed&trigger=command&days=30"):
        assert [run.pk for run in viewer.get(f"{URL}?{query}").context["page"]] == [failed.pk]
    assert "No matching runs" in text_of(viewer, f"{URL}?state=queued")
    assert viewer.get(f"{URL}?state=x&trigger=%00&days=9&page=z").status_code == 200


@pytest.mark.both_forms
def test_the_ledger_says_how_each_hour_stands(viewer: Client) -> None:
    make_hour(0, state="running")
    make_hour(1)
    make_hour(2, metric_version=METRIC_VERSION - 1)
    make_hour(3, state="failed", error="No space left on device", attempts=4, retry_at=timezone.now())
    make_hour(4, state="pending")
    days = viewer.get(URL).context["days"]
    hours = [hour for day in reversed(days) for hour in day.hours]
    assert [hour.state for hour in hours[-6:]] == ["none", "todo", "failed", "todo", "done", "running"]
    assert len(days) == 7
    assert len(viewer.get(f"{URL}?days=30").context["days"]) == 30
    assert hours[-1].start <= timezone.now() < hours[-1].start + timedelta(hours=1)
    page = text_of(viewer, URL)
    assert "1 failed" in days[0].words + days[1].words
    assert lacks(page, "No space left on device", "Next try at") == []
    assert page.count('class="l-') == len(hours) + 5


def test_the_table_has_what_was_done_in_the_range(viewer: Client) -> None:
    near, far = make_hour(5, rows_read=7_654_321), make_hour(24 * 8)
    assert [part.pk for part in viewer.get(URL).context["partitions"]] == [near.pk]
    assert {part.pk for part in viewer.get(f"{URL}?days=30").context["partitions"]} == {near.pk, far.pk}
    assert "7,654,321" in text_of(viewer, URL)


def test_jobs_page_shows_spark_location_reported_by_workers(viewer: Client) -> None:
    def tell(name: str, **detail: str) -> None:
        now = timezone.now()
        fields = {"kind": "worker_analytics", "started_at": now, "seen_at": now, "detail": detail}
        Heartbeat.objects.update_or_create(name=name, defaults=fields)

    tell("analytics@one", spark="on the cluster spark://master:7077", java_home="/opt/jdk-21")
    page = text_of(viewer, URL)
    assert lacks(page, "on the cluster spark://master:7077", "/opt/jdk-21", "analytics@one") == []
    assert "No analytics worker is running" not in page
    tell("analytics@two", spark="on its worker's machine", java="Analytics needs Java 17 or newer.")
    assert "Analytics needs Java 17 or newer." in text_of(viewer, URL)


def test_a_run_has_its_log_and_what_it_computed(viewer: Client) -> None:
    run = make_run(state="failed", error_code="failed", error="OSError: no space", since=timezone.now())
    RunLine.objects.create(run=run, text="Begins on host-1, process 12.")
    RunLine.objects.create(run=run, level="error", text="<b>OSError</b>: no space")
    mine, other = make_hour(1, run=run), make_hour(2, run=make_run())
    page = text_of(viewer, f"{URL}{run.pk}/")
    assert page.index("Begins on host-1, process 12.") < page.index("&lt;b&gt;OSError&lt;/b&gt;: no space")
    assert f'data-partition="{mine.pk}"' in page
    assert f'data-partition="{other.pk}"' not in page
    assert lacks(page, "Read its log", "OSError: no space", "1\u00a0min 15", "Error:") == []
    assert "Retry" not in page
    assert viewer.get(f"{URL}{run.pk + 100}/").status_code == 404


def test_a_long_log_is_cut_at_its_beginning(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dashboard.jobs.MOST_LINES", 2)
    run = make_run()
    for number in range(4):
        RunLine.objects.create(run=run, text=f"line {number}")
    page = text_of(viewer, f"{URL}{run.pk}/")
    assert "The last 2 lines" in page
    assert "line 1" not in page
    assert page.index("line 2") < page.index("line 3")


@pytest.fixture
def broker(transactional_db: None) -> None:
    make_broker_folders(celery_app)


def test_run_now_leads_to_the_run(broker: None, analyst: Client) -> None:
    answer = analyst.post("/analytics/run", {"back": "jobs"})
    assert answer["Location"] == f"{URL}{AnalyticsRun.objects.get().pk}/"


def test_a_failed_run_is_retried(broker: None, analyst: Client) -> None:
    before = waiting("analytics")
    run = make_run(state="failed", kind="hourly", error_code="failed")
    part = make_hour(1, state="failed", run=run, attempts=5, retry_at=timezone.now() + timedelta(hours=1))
    answer = analyst.post(f"{URL}{run.pk}/retry")
    asked = AnalyticsRun.objects.get(state="queued")
    assert answer["Location"] == f"{URL}{asked.pk}/"
    assert (asked.kind, asked.requested_by and asked.requested_by.username) == ("hourly", "ana")
    part.refresh_from_db()
    assert (part.state, part.retry_at) == ("pending", None)
    assert waiting("analytics") == before + 1
    entry = AuditEntry.objects.get(action="analytics.retry")
    assert (entry.target, entry.detail) == (f"run {run.pk}", {"asked": f"run {asked.pk}"})


def test_all_that_failed_is_retried(broker: None, analyst: Client) -> None:
    make_hour(1, state="failed")
    make_hour(0, Grain.DAY, state="failed")
    assert "Retry now" in text_of(analyst, URL)
    assert analyst.post(f"{URL}retry").status_code == 302
    assert set(Partition.objects.values_list("state", flat=True)) == {"pending"}
    assert AuditEntry.objects.get(action="analytics.retry").target == "2 failed hours and days"


@pytest.mark.parametrize(
    ("since", "until", "said"),
    [
        ("", "", "This field is required."),
        ("2026-11-14T20:00", "2026-11-14T20:00", "end after it begins"),
        ("2026-11-14T20:30", "2026-11-14T22:00", "Give a full hour"),
        ("2026-01-01T00:00", "2026-11-14T00:00", "At most 31 days"),
        ("2026-11-14T20:00", "2026-11-14T22:00", "Nothing to recompute"),
        ("yesterday", "today", "Enter a valid date"),
    ],
)
def test_invalid_recompute_range_is_refused_with_a_reason(analyst: Client, since: str, until: str, said: str) -> None:
    answer = analyst.post(f"{URL}recompute", {"since": since, "until": until})
    assert answer.status_code == 422
    page = answer.content.decode()
    assert said in page
    assert "data-open" in page
    assert not AnalyticsRun.objects.exists()
    assert not AuditEntry.objects.exists()


def test_recompute_of_a_range_queues_a_run_and_is_audited(
    broker: None, analyst: Client, settings: Any, tmp_path: Any
) -> None:
    settings.LAKE_DIR = tmp_path
    part = make_hour(5)
    day = make_hour(5, Grain.DAY)
    folder = tmp_path / "samples/v=1" / f"dt={part.start:%Y-%m-%d}" / f"hr={part.start:%H}"
    folder.mkdir(parents=True)
    (folder / "n1-1-1.parquet").write_bytes(b"PAR1")
    span = {"since": f"{part.start:%Y-%m-%dT%H:%M}", "until": f"{part.start + timedelta(hours=1):%Y-%m-%dT%H:%M}"}
    answer = analyst.post(f"{URL}recompute", span, follow=True)
    assert answer.status_code == 200
    assert "being recomputed" in answer.content.decode()
    for row in (part, day):
        row.refresh_from_db()
    assert part.state == "pending"
    assert AnalyticsRun.objects.get().state == "queued"
    entry = AuditEntry.objects.get(action="analytics.recompute")
    assert f"{part.start:%Y-%m-%d %H:%M} to " in entry.target
