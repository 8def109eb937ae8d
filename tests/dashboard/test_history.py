"""The history page: what it shows, who may start a run, its progress, and its files."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.html import escape

from analytics import services
from analytics.models import METRIC_VERSION, AnalyticsRun, Dimension, Grain, Partition, Rollup
from dashboard.history.periods import PagePeriod
from dashboard.history.views import FEW_STREAMS, UNTAKEN_AFTER
from ingest.models import AuditEntry, StatusEvent, Stream
from ingest.services import audit
from ingest.services.audit import Actor
from rtmpweb.celery import app as celery_app
from rtmpweb.celery import make_broker_folders
from tests.analytics.rollups import hours_ago, make_rollup
from tests.broker import waiting
from tests.dashboard.conftest import csv_rows, file_text, lacks, make_session, make_stream, text_of
from tests.dashboard.demo_data import make_report
from tests.tools import hide_java, require_tool

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("still")]

URL = "/analytics/"


def test_an_empty_history_says_what_to_do(analyst: Client, viewer: Client) -> None:
    require_tool("java")
    page = text_of(analyst, URL)
    assert lacks(page, "No history yet", 'id="run-now"') == []
    assert "No history yet" in text_of(viewer, URL)
    assert 'id="run-now"' not in text_of(viewer, URL)


@pytest.mark.both_forms
def test_the_latest_stream_is_shown_with_its_figures(viewer: Client, stream: Stream) -> None:
    Stream.objects.filter(pk=stream.pk).update(target_kbps=3000)
    make_stream("older")
    make_rollup(5, name="older")
    make_rollup(
        1,
        peak_at=hours_ago(1) + timedelta(minutes=41),
        targeted_ms=1000,
        below_ms=25,
        unplanned_ends=2,
        reconnects=2,
        recovery_ms=60_000,
    )
    page = text_of(viewer, URL)
    assert "History of live/cam-1" in page
    shown = ("0:59:00", "2,500", "2,000 to 3,000", "1,234", "2.500", "target 3,000", "1.00\u00a0%", ":41</span>")
    assert [each for each in shown if each not in page] == []
    assert page.count('class="h-good"') == 1
    assert escape("live/older") in page
    tiles = {
        tile["label"]: (tile["value"], tile["unit"], tile["comparison"]) for tile in viewer.get(URL).context["tiles"]
    }
    assert tiles == {
        "Uptime": ("96.7", "%", "no history the day before"),
        "Live time": ("59.0", "min", "none the day before"),
        "Median bitrate": ("2,500", "kbit/s", "none the day before"),
        "Below target": ("2.5", "% of time", "no history the day before"),
        "Drops": ("2", "", "none the day before"),
        "Mean time to recover": ("30", "s", "none the day before"),
        "Peak players": ("1,234", "", f"{hours_ago(1):%a %-d %b, %H}:41"),
    }


def test_the_period_before_is_compared_in_words(viewer: Client) -> None:
    make_rollup(1, unplanned_ends=3, reconnects=3, recovery_ms=60_000, targeted_ms=100, below_ms=20)
    make_rollup(
        26,
        live_ms=1_740_000,
        unplanned_ends=1,
        reconnects=1,
        recovery_ms=30_000,
        targeted_ms=100,
        below_ms=10,
        video_kbps_p50=2600.0,
    )
    tiles = {tile["label"]: tile["comparison"] for tile in viewer.get(URL).context["tiles"]}
    assert tiles["Uptime"] == "day before: 47.9\u00a0%"
    assert tiles["Live time"] == "30.0\u00a0min more"
    assert tiles["Median bitrate"] == "100 less"
    assert tiles["Below target"] == "day before: 10.0\u00a0%"
    assert tiles["Drops"] == "2 more"
    assert tiles["Mean time to recover"] == "10\u00a0s less"


@pytest.mark.stores
def test_the_median_of_a_period_is_that_of_all_its_samples(viewer: Client) -> None:
    make_rollup(1, values=[100.0] * 60, video_kbps_p50=100.0)
    make_rollup(2, values=[900.0] * 40, video_kbps_p50=900.0)
    assert viewer.get(URL).context["figures"].quantiles == pytest.approx((100, 100, 900), rel=0.01)
    Rollup.objects.filter(video_kbps_p50=100.0).update(grain=Grain.DAY)
    assert viewer.get(URL).context["figures"].video_kbps_p50 == 900.0


def test_hours_without_media_are_gaps_in_the_chart(viewer: Client) -> None:
    make_rollup(0)
    make_rollup(2, bad_ms=300_000)
    chart = viewer.get(URL).context["chart"]
    assert chart["p50"][-3:] == [2500.5, None, 2500.5]
    assert chart["p5"][-1] == 2000.0
    assert len(chart["p50"]) == 25
    assert chart["from"] == hours_ago(24).timestamp()
    assert chart["until"] == timezone.now().timestamp()
    health, uptime = viewer.get(URL).context["history"].strips
    assert [bar.level for bar in health.bars][-3:] == ["bad", "none", "good"]
    assert [bar.level for bar in uptime.bars][-3:] == ["warning", "none", "warning"]
    assert (health.counts["bad"], health.counts["none"]) == (1, 23)


@pytest.mark.parametrize(
    ("query", "starts"),
    [
        ("range=24h", 25),
        ("range=7d", 169),
        ("range=30d", 31),
        ("range=90d&grain=hour", 2161),
        ("range=24h&grain=day", 2),
        ("from={day}&to={day}", 24),
        ("from={day}&to={day}&grain=day", 1),
    ],
)
def test_history_chart_has_the_points_of_its_range_and_grain(viewer: Client, query: str, starts: int) -> None:
    make_rollup(0)
    make_rollup(0, grain=Grain.DAY)
    now = hours_ago()
    context = viewer.get(f"{URL}?{query.format(day=now.date())}").context
    chart = context["chart"]
    assert len(chart["p50"]) == starts
    step = chart["step"]
    assert chart["p50"][int((now.timestamp() - chart["from"]) // step)] == 2500.5


@pytest.mark.parametrize("query", ["stream=nothing", "stream=a/b&range=x&grain=y", "stream=%00/%00", "stream=/"])
def test_a_wrong_address_is_a_page_nevertheless(viewer: Client, query: str) -> None:
    make_rollup(0)
    assert viewer.get(f"{URL}?{query}").status_code == 200


@pytest.mark.parametrize(
    ("query", "fault", "days"),
    [
        ("from=2026-03-01", "Both days are needed", 1),
        ("from=2026-03-02&to=2026-03-01", "The last day is before the first", 1),
        ("from=9999-99-99&to=x", "Both days are needed", 1),
        ("from=2026-01-01&to=2026-06-30&grain=hour", "Shown by day", 181),
        ("from=2000-01-01&to=2026-06-30", "These are its last 800 days", 800),
    ],
)
def test_dates_that_cannot_be_shown_are_said_to_be(viewer: Client, query: str, fault: str, days: int) -> None:
    make_rollup(0)
    response = viewer.get(f"{URL}?{query}")
    assert fault in response.content.decode()
    assert response.context["period"].length_days == days


def test_periods_say_what_they_are() -> None:
    def words(first: str, last: str) -> tuple[str, str]:
        period = PagePeriod.of({"from": first, "to": last})
        return period.words, period.before_words

    assert words("2026-11-07", "2026-11-13") == ("7 to 13 Nov 2026", "week before")
    assert words("2026-11-07", "2026-11-07") == ("7 Nov 2026", "day before")
    assert words("2026-10-30", "2026-11-13") == ("30 Oct to 13 Nov 2026", "15 days before")
    assert words("2025-12-31", "2026-01-01") == ("31 Dec 2025 to 1 Jan 2026", "2 days before")


def test_the_ledger_says_how_many_recorded_hours_are_processed(viewer: Client) -> None:
    make_rollup(1)
    done = {"state": "done", "metric_version": METRIC_VERSION}
    Partition.objects.create(grain="hour", start=hours_ago(1), **done)
    Partition.objects.create(grain="hour", start=hours_ago(2), **done | {"metric_version": METRIC_VERSION - 1})
    Partition.objects.create(grain="hour", start=hours_ago(3), state="pending")
    Partition.objects.create(grain="hour", start=hours_ago(30), **done)
    Partition.objects.create(grain="day", start=hours_ago(1), **done)
    assert "1 of 3 hours computed" in text_of(viewer, URL)


def test_a_day_leads_to_its_hours_and_its_sessions(viewer: Client) -> None:
    make_rollup(0)
    row = make_rollup(0, grain=Grain.DAY)
    page = text_of(viewer, f"{URL}?range=7d")
    day = f"{row.start:%Y-%m-%d}"
    assert f"from={day}&amp;to={day}&amp;grain=hour" in page
    assert f"since={day}T00:00:00Z&amp;until={row.start + timedelta(days=1):%Y-%m-%d}T00:00:00Z" in page


def test_history_chart_marks_kicks_reconnects_and_changes(viewer: Client, stream: Stream) -> None:
    make_rollup(0)
    make_session(stream, age_s=3000, ended_ago_s=2000, end_reason="tcp_reset")
    again = make_session(stream, age_s=1959, ended_ago_s=1000, end_reason="kicked", stop_note="Wrong camera.")
    make_session(stream, age_s=600)
    make_session(make_stream("another"), age_s=1950, ended_ago_s=900, end_reason="kicked")
    at = timezone.now() - timedelta(seconds=1500)
    StatusEvent.objects.create(session=again, sequence=3, at=at, kind="config.changed", description="720p")
    StatusEvent.objects.create(session=again, sequence=4, at=at, kind="metadata", description="no mark")
    audit.record(Actor("mira", None, "192.0.2.20"), "key.rotate", "studio", stream=stream)
    audit.record(Actor("mira", None, "192.0.2.20"), "session.note", "not a mark", stream=stream)
    AuditEntry.objects.update(at=timezone.now() - timedelta(seconds=1))
    context = viewer.get(URL).context
    assert [(one.words, one.detail, one.is_mark) for one in context["happenings"]] == [
        ("Key rotated", "studio", True),
        ("Kicked", "Wrong camera.", True),
        ("Encoder settings changed", "720p", True),
        ("Reconnected after 41\u00a0s", "Previous session: connection reset.", False),
    ]
    assert [mark["is_line"] for mark in context["chart"]["marks"]] == [True, True, True, False]
    rows = json.loads(file_text(viewer.get("/analytics/rollups.json?part=events")))["items"]
    assert [row["kind"] for row in rows] == ["key.rotate", "kick", "config.changed", "reconnect"]


def test_broadcast_over_several_hours_is_listed_once_with_its_sums(viewer: Client) -> None:
    make_rollup(0)
    begin = hours_ago(26)
    value = begin.isoformat()
    kind = Dimension.BROADCAST
    make_rollup(26, dimension=kind, value=value, values=[100.0] * 60)
    make_rollup(3, dimension=kind, value=value, values=[900.0] * 20, reconnects=1, recovery_ms=60_000)
    make_rollup(3, dimension=kind, value=hours_ago(900).isoformat(), name="another")
    report = make_report(kind="broadcast", scope="live/cam-1", since=begin, until=hours_ago(3))
    (found,) = viewer.get(URL).context["broadcasts"]
    assert (found.begin, found.end) == (begin, begin + timedelta(hours=2, minutes=1))
    assert (found.figures.reconnects, found.report) == (1, report.pk)
    assert found.figures.video_kbps_p50 == pytest.approx(100, rel=0.01)
    (row,) = csv_rows(viewer.get("/analytics/rollups.csv?part=broadcasts"))
    assert (row["begin"], row["reconnects"]) == (value, "1")
    assert float(row["video_kbps_p50"]) == pytest.approx(100, rel=0.01)


def test_keyframe_intervals_and_refusals_are_counted(viewer: Client) -> None:
    make_rollup(0, gop_2=60, gop_6=40, accepted=3, refused=1, refusals={"key_unknown": 1})
    make_rollup(1, gop_2=60, gop_longer=40, refused=2, refusals={"key_unknown": 1, "busy": 1})
    context = viewer.get(URL).context
    counts = [("1 to 2 s", 120, 60.0, False), ("4 to 6 s", 40, 20.0, True), ("over 10 s", 40, 20.0, True)]
    assert [each for each in context["intervals"] if each[1]] == counts
    assert context["refusals"] == [("key_unknown", 2), ("busy", 1)]
    assert "50.0 % accepted" in text_of(viewer, URL)


def test_stream_choice_is_a_text_field_beyond_a_number_of_streams(viewer: Client) -> None:
    for number in range(FEW_STREAMS):
        make_stream(f"cam-{number}")
        make_rollup(1, name=f"cam-{number}")
    make_stream("never-live")
    page = text_of(viewer, URL)
    assert '<select name="stream"' in page
    assert "never-live" not in page
    make_stream("one-more")
    make_rollup(1, name="one-more")
    page = text_of(viewer, URL)
    assert '<select name="stream"' not in page
    assert 'list="streams"' in page


def test_a_deleted_stream_is_offered_as_such(viewer: Client) -> None:
    make_stream("cam-1")
    make_rollup(1)
    make_rollup(1, name="gone")
    make_rollup(name="gone", grain=Grain.DAY)
    page = text_of(viewer, f"{URL}?stream=live/gone")
    assert '<option value="live/gone" selected>live/gone (deleted)</option>' in page
    assert '<option value="live/cam-1">live/cam-1</option>' in page
    assert '<span class="chip plain">Deleted</span>' in page
    assert "(deleted)" in text_of(viewer, f"{URL}?stream=live/cam-1")


def test_a_range_ends_now_and_says_what_is_not_computed_yet(viewer: Client) -> None:
    now = timezone.now()
    make_rollup(1)
    done: dict[str, Any] = {"state": "done", "trigger": "schedule", "kind": "all", "ended_at": now}
    AnalyticsRun.objects.create(**done, started_at=now - timedelta(minutes=14))
    AnalyticsRun.objects.create(**done, started_at=now, since=hours_ago(3), until=hours_ago(2))
    AnalyticsRun.objects.create(**done | {"state": "failed"}, started_at=now)
    page = text_of(viewer, URL)
    assert f"{hours_ago(24):%-d %b, %H:%M} to now, {now:%-d %b %Y, %H:%M}" in page
    assert "the last 14\u00a0min 0\u00a0s follow with the next update" in page
    assert f"{now - timedelta(minutes=14):%H:%M}" in page.partition("data-computed")[2].partition("next update")[0]
    period = viewer.get(URL).context["period"]
    assert (period.until, period.before.until, period.before.since) == (now, hours_ago(24), hours_ago(48))
    assert "data-computed" not in text_of(viewer, f"{URL}?from=2026-11-01&to=2026-11-02")
    bars = viewer.get(URL).context["history"].strips[0].bars
    assert float(bars[-1].x[:-1]) + float(bars[-1].width[:-1]) <= 100


def test_the_worst_hours_have_the_largest_share_of_their_time_in_bad_health(viewer: Client) -> None:
    make_rollup(1, good_ms=3_600_000)
    make_rollup(2, good_ms=3_599_000, bad_ms=1000)
    make_rollup(3, good_ms=3_240_000, bad_ms=360_000)
    make_rollup(4, good_ms=1_800_000, warning_ms=1_800_000)
    make_rollup(5, samples=0, elapsed_ms=0, live_ms=0, good_ms=0, refused=2)  # Off air.

    def rows(query: str) -> list[int]:
        found = viewer.get(f"{URL}?{query}").context["history"].table()
        return [round((hours_ago() - row.start).total_seconds() / 3600) for row in found]

    assert rows("") == [1, 2, 3, 4]
    assert rows("order=worst") == [3, 4, 2, 1]
    page = text_of(viewer, f"{URL}?order=worst")
    assert lacks(page, "</svg>Bad 10.0\u00a0%</span>", "</svg>Warning 50.0\u00a0%</span>", "</svg>Good</span>") == []


def test_many_hours_of_one_look_are_one_bar(viewer: Client) -> None:
    make_rollup(0)
    make_rollup(100, bad_ms=300_000)
    health, _ = viewer.get(f"{URL}?range=90d&grain=hour").context["history"].strips
    assert [bar.level for bar in health.bars] == ["none", "bad", "none", "good"]


def test_a_page_asks_the_database_as_often_for_many_as_for_few(viewer: Client, stream: Stream) -> None:
    def asked(url: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            assert viewer.get(url).status_code == 200
        return len(queries)

    urls = (f"{URL}?range=90d&grain=hour", f"{URL}compare/?by=stream", f"{URL}compare/?by=key&pick=1")

    def furnish(numbers: range) -> None:
        for ago in numbers:
            make_rollup(ago, values=[1.0])
            make_rollup(name=f"cam-{ago}-more", grain=Grain.DAY, values=[1.0])
            make_rollup(grain=Grain.DAY, dimension=Dimension.KEY, value=str(ago + 1))
            make_rollup(ago, dimension=Dimension.BROADCAST, value=hours_ago(ago).isoformat())
            session = make_session(stream, age_s=600 + ago * 30, ended_ago_s=580 + ago * 30)
            StatusEvent.objects.create(session=session, sequence=1, kind="config.changed")

    furnish(range(2))
    for url in urls:
        asked(url)  # What is looked up once a process doesn't count.
    few = [asked(url) for url in urls]
    furnish(range(2, 20))
    assert [asked(url) for url in urls] == few


def test_a_name_is_never_markup(viewer: Client) -> None:
    name = '"><script>alert(1)</script>'
    make_stream(name)
    make_rollup(0, name=name)
    page = text_of(viewer, URL)
    assert "<script>alert" not in page
    assert escape(name) in page


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_forms
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
    page = text_of(analyst, URL)
    assert 'data-active="queued"' in page
    assert "disabled" in page.partition('id="run-now"')[2][:20]
    assert services.claim(run_id=run.pk)
    services.update_progress(run, stage="Computing hours", expected=4)
    services.advance(run, rows_read=3600, rows_written=3)
    part = text_of(analyst, "/analytics/progress")
    assert lacks(part, "Computing hours", "1 of 4 hours and days, 3,600 rows read, 3 written") == []
    assert '<progress value="1" max="4"' in part
    services.finish(run)
    assert "data-active" not in text_of(analyst, "/analytics/progress")
    assert "3,600 rows read, 3 rollups written" in text_of(analyst, URL)


def test_a_run_that_no_worker_takes_says_what_to_look_at(viewer: Client) -> None:
    require_tool("java")
    services.create_run(trigger=AnalyticsRun.Trigger.PAGE)
    assert "No worker has taken this" not in text_of(viewer, "/analytics/progress")
    AnalyticsRun.objects.update(requested_at=timezone.now() - UNTAKEN_AFTER * 2)
    assert "No worker has taken this" in text_of(viewer, "/analytics/progress")


def test_a_failed_run_is_shown_with_its_reason(viewer: Client) -> None:
    require_tool("java")
    run = services.create_run(trigger=AnalyticsRun.Trigger.SCHEDULE)
    services.fail(run, code=AnalyticsRun.ErrorCode.FAILED, error="SparkException: <b>no</b>")
    page = text_of(viewer, URL)
    assert lacks(page, "The last run failed", "SparkException: &lt;b&gt;no&lt;/b&gt;") == []


def test_history_without_java_says_what_to_install(
    analyst: Client, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    make_rollup(0)
    hide_java(monkeypatch)
    settings.REDIS_URL = ""
    page = text_of(analyst, URL)
    assert lacks(page, "Java is missing", "apt install openjdk-17-jre-headless", "2,500") == []
    # Where the worker may be on another machine, its own word counts.
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert "Java is missing" not in text_of(analyst, URL)
    run = services.create_run(trigger=AnalyticsRun.Trigger.SCHEDULE)
    services.fail(run, code=AnalyticsRun.ErrorCode.JAVA_MISSING, error="Analytics needs Java 17.")
    assert "Java is missing" in text_of(analyst, URL)
