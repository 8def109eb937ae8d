"""The history page: what it shows, who may start a run, its progress, the CSV and the API."""

import csv
import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import escape
from pytest_django.fixtures import Settings

from analytics import services
from analytics.models import FIGURES, AnalyticsRun, Grain, Rollup
from dashboard.views.analytics import UNTAKEN_AFTER
from ingest.models import Stream
from rtmpweb.celery import app as celery_app
from rtmpweb.celery import make_broker_folders
from tests.broker import waiting
from tests.dashboard.conftest import client_of, make_user
from tests.tools import require_tool

pytestmark = pytest.mark.django_db

URL = "/analytics/"


def make_rollup(hours_ago: int, name: str = "cam-1", grain: Grain = Grain.HOUR, **fields: Any) -> Rollup:
    start = timezone.now().replace(minute=0, second=0, microsecond=0) - timedelta(hours=hours_ago)
    if grain == Grain.DAY:
        start = start.replace(hour=0)
    whole = {name: 0 for name in FIGURES if "kbps" not in name and name != "keyframe_interval_max"}
    figures = whole | {
        "samples": 3600,
        "sessions": 2,
        "elapsed_ms": 3_600_000,
        "live_ms": 3_540_000,
        "good_ms": 3_540_000,
        "video_bytes": 1_125_000_000,
        "out_bytes": 2_500_000_000,
        "video_frames": 99,
        "missing_frames_est": 1,
        "player_ms": 90_000_000,
        "peak_players": 1234,
        "keyframe_interval_max": 4.25,
        "video_kbps_p5": 2000.0,
        "video_kbps_p50": 2500.5,
        "video_kbps_p95": 3000.0,
        "video_kbps_mean": 2500.0,
    }
    return Rollup.objects.create(
        grain=grain, start=start, app="live", name=name, metric_version=1, **(figures | fields)
    )


def text(client: Client, url: str = URL) -> str:
    response = client.get(url)
    assert response.status_code == 200
    return response.content.decode()


@pytest.fixture
def analyst() -> Client:
    return client_of(make_user("analyst", name="ana"))


def test_an_empty_history_says_what_to_do(analyst: Client, viewer: Client) -> None:
    require_tool("java")
    page = text(analyst)
    assert "No history yet" in page
    assert 'id="run-now"' in page
    assert "No history yet" in text(viewer)
    assert 'id="run-now"' not in text(viewer)


def test_the_latest_stream_is_shown_with_its_figures(viewer: Client, stream: Stream) -> None:
    Stream.objects.filter(pk=stream.pk).update(target_kbps=3000)
    make_rollup(5, name="older")
    make_rollup(1)
    page = text(viewer)
    assert "History of live/cam-1" in page
    for shown in ("0:59:00", "2,500", "2,000 to 3,000", "1,234", "1,500.0", "2.500", "3,000 expected", "1.00 <small>%"):
        assert shown in page
    assert page.count('class="h-') == 24
    assert page.count('class="h-good"') == 1
    assert escape("live/older") in page


def test_hours_without_media_are_gaps_in_the_chart(viewer: Client) -> None:
    make_rollup(0)
    make_rollup(2, bad_ms=60_000)
    chart = viewer.get(URL).context["chart"]
    assert chart["p50"][-3:] == [2500.5, None, 2500.5]
    assert chart["p5"][-1] == 2000.0
    assert len(chart["p50"]) == 24
    assert chart["from"] + 24 * chart["step"] > timezone.now().timestamp() >= chart["from"] + 23 * chart["step"]
    assert [bar.health for bar in viewer.get(URL).context["bars"]][-3:] == ["bad", "none", "good"]


@pytest.mark.parametrize(
    ("query", "starts"),
    [
        ("range=24h", 24),
        ("range=7d", 168),
        ("range=30d", 30),
        ("range=90d&grain=hour", 2160),
        ("range=24h&grain=day", 1),
    ],
)
def test_ranges_and_grains(viewer: Client, query: str, starts: int) -> None:
    make_rollup(0)
    make_rollup(0, grain=Grain.DAY)
    context = viewer.get(f"{URL}?{query}").context
    assert len(context["chart"]["p50"]) == starts
    assert context["chart"]["p50"][-1] == 2500.5


@pytest.mark.parametrize("query", ["stream=nothing", "stream=a/b&range=x&grain=y", "stream=%00/%00", "stream=/"])
def test_a_wrong_address_is_a_page_nevertheless(viewer: Client, query: str) -> None:
    make_rollup(0)
    assert viewer.get(f"{URL}?{query}").status_code == 200


def test_a_name_is_never_markup(viewer: Client) -> None:
    name = '"><script>alert(1)</script>'
    make_rollup(0, name=name)
    page = text(viewer)
    assert "<script>alert" not in page
    assert escape(name) in page


@pytest.mark.django_db(transaction=True)
def test_run_now_queues_a_run_and_the_page_shows_its_progress(analyst: Client) -> None:
    require_tool("java")
    make_broker_folders(celery_app)
    before = waiting("analytics")
    make_rollup(0)
    response = analyst.post("/analytics/run", {"query": "stream=live%2Fcam-1&range=7d"})
    assert response.status_code == 302
    assert response["Location"] == "/analytics/?stream=live%2Fcam-1&range=7d"
    run = AnalyticsRun.objects.get()
    assert (run.state, run.trigger) == ("queued", "page")
    assert run.requested_by is not None
    assert run.requested_by.get_username() == "ana"
    assert waiting("analytics") == before + 1
    page = text(analyst)
    assert 'data-active="queued"' in page
    assert "disabled" in page.partition('id="run-now"')[2][:20]
    assert services.claim(run_id=run.pk)
    services.report(run, stage="Computing hours", expected=4)
    services.advance(run, rows_read=3600, rows_written=3)
    part = text(analyst, "/analytics/progress")
    assert "Computing hours" in part
    assert "1 of 4 hours and days, 3,600 rows read, 3 written" in part
    assert '<progress value="1" max="4"' in part
    services.finish(run)
    assert "data-active" not in text(analyst, "/analytics/progress")
    assert "3,600 rows read, 3 rollups written" in text(analyst)


def test_a_run_that_no_worker_takes_says_what_to_look_at(viewer: Client) -> None:
    require_tool("java")
    services.create_run(trigger=AnalyticsRun.Trigger.PAGE)
    assert "No worker has taken this" not in text(viewer, "/analytics/progress")
    AnalyticsRun.objects.update(requested_at=timezone.now() - UNTAKEN_AFTER * 2)
    assert "No worker has taken this" in text(viewer, "/analytics/progress")


def test_a_failed_run_is_shown_with_its_reason(viewer: Client) -> None:
    require_tool("java")
    run = services.create_run(trigger=AnalyticsRun.Trigger.SCHEDULE)
    services.fail(run, code=AnalyticsRun.ErrorCode.FAILED, error="SparkException: <b>no</b>")
    page = text(viewer)
    assert "The last run failed" in page
    assert "SparkException: &lt;b&gt;no&lt;/b&gt;" in page


def test_without_java_the_page_says_what_to_install(
    analyst: Client, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    make_rollup(0)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    settings.REDIS_URL = ""
    page = text(analyst)
    assert "Java is missing" in page
    assert "apt install openjdk-17-jre-headless" in page
    assert "2,500" in page
    # Where the worker may be on another machine, its own word counts.
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert "Java is missing" not in text(analyst)
    run = services.create_run(trigger=AnalyticsRun.Trigger.SCHEDULE)
    services.fail(run, code=AnalyticsRun.ErrorCode.JAVA_MISSING, error="Analytics needs Java 17.")
    assert "Java is missing" in text(analyst)


@pytest.mark.parametrize("role", ["viewer", "operator", "key manager", None])
def test_only_analysts_and_admins_start_runs(role: str | None) -> None:
    client = client_of(make_user(*([role] if role else []), name="nobody"))
    assert client.post("/analytics/run").status_code == 403
    assert not AnalyticsRun.objects.exists()


@pytest.mark.parametrize("path", ["", "progress", "rollups.csv"])
def test_a_login_is_needed(path: str) -> None:
    response = Client().get(URL + path)
    assert response.status_code == 302
    assert response["Location"].startswith("/login/")


def test_the_csv_holds_every_figure_oldest_first(viewer: Client) -> None:
    rollups = [make_rollup(2), make_rollup(1, audio_kbps_p50=128.25)]
    make_rollup(1, name="another")
    response = viewer.get("/analytics/rollups.csv?stream=live/cam-1")
    assert response["Content-Disposition"].startswith('attachment; filename="live-cam-1-hour-')
    rows = list(csv.DictReader(io.StringIO(b"".join(response).decode())))
    assert [row["start"] for row in rows] == [rollup.start.isoformat() for rollup in rollups]
    assert [row["audio_kbps_p50"] for row in rows] == ["", "128.25"]
    assert {name: rows[0][name] for name in FIGURES} == {
        name: "" if value is None else str(value) for name in FIGURES for value in [getattr(rollups[0], name)]
    }


def test_a_spreadsheet_does_not_take_a_name_for_a_formula(viewer: Client) -> None:
    make_rollup(0, name="=1+1")
    response = viewer.get("/analytics/rollups.csv?stream=live/%3D1%2B1")
    (row,) = csv.DictReader(io.StringIO(b"".join(response).decode()))
    assert row["name"] == "'=1+1"


def test_the_api_lists_rollups(viewer: Client) -> None:
    first, second = make_rollup(2), make_rollup(1)
    make_rollup(1, name="another")
    make_rollup(0, grain=Grain.DAY)
    assert viewer.get("/api/v1/rollups").json()["count"] == 3
    found = viewer.get("/api/v1/rollups?stream=live/cam-1").json()
    assert found["count"] == 2
    assert [datetime.fromisoformat(item["start"]) for item in found["items"]] == [second.start, first.start]
    item = found["items"][0]
    assert (item["app"], item["name"], item["grain"], item["health"]) == ("live", "cam-1", "hour", "good")
    assert {name: item[name] for name in FIGURES} == {name: getattr(second, name) for name in FIGURES}
    assert (item["player_minutes"], item["delivered_gb"]) == (1500.0, 2.5)
    since = second.start.astimezone(UTC).strftime("%Y-%m-%dT%H:%M")
    assert viewer.get(f"/api/v1/rollups?stream=live/cam-1&from={since}").json()["count"] == 1
    assert viewer.get(f"/api/v1/rollups?stream=live/cam-1&to={since}").json()["count"] == 1
    assert viewer.get("/api/v1/rollups?grain=day").json()["count"] == 1
    assert viewer.get("/api/v1/rollups?grain=week").status_code == 422
    assert Client().get("/api/v1/rollups").status_code == 401
