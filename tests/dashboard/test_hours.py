"""Hours that are in the lake alone are shown, listed and summed as those in the database are; hours that lack something
are told of, wherever history is read."""

import html
import json
import random
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from analytics import periods, schemas, services
from analytics.completeness import Completeness
from analytics.histograms import PACKED
from analytics.jobs.computing import ROWS_TOGETHER
from analytics.loading import load
from analytics.models import FIGURES, METRIC_VERSION, Dimension, Grain, Partition, Report, Rollup
from analytics.reports.builder import build_document
from analytics.rollups import MOST_HOURS
from analytics.scopes import Scope
from analytics.tables import HOUR, RENAMED, figures_file
from ingest import command_line
from ingest.telemetry.writer import EARLIEST
from tests.analytics.rollups import hours_ago, make_live_hour, make_rollup, mark_done
from tests.dashboard.conftest import api_token, file_text
from tests.dashboard.test_zones import at_home

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("still", "lake", "reports_made_here")]

HOURS = 30
BEGUN = "2026-03-29T12:00:00Z"

BY_SIZE = ["app", "encoder", "node"]
"""The value of RTMPWEB_HOURS_IN_DATABASE where streams are many."""


def move_to_lake(lake: Path, since: datetime = EARLIEST, until: datetime | None = None) -> None:
    """Write hours of the database to the lake, as a run does. Of the rows, those stay which the settings name."""
    rows = Rollup.objects.filter(grain=Grain.HOUR, start__gte=since, start__lt=until or hours_ago(-1))
    schema = schemas.arrow(schemas.ROLLUPS)
    for start, found in groupby(rows.order_by("start", "dimension", "app", "name", "value"), key=lambda row: row.start):
        cells = list(map(lake_row, found))
        file = figures_file(lake, HOUR, start)
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(cells, schema), file, row_group_size=ROWS_TOGETHER)
        done = {"state": "done", "metric_version": METRIC_VERSION, "rows_written": len(cells), "fingerprint": "f"}
        Partition.objects.update_or_create(grain=Grain.HOUR, start=start, defaults=done)
        load(lake, Grain.HOUR, start, lambda: True)


def lake_row(row: Rollup) -> dict[str, Any]:
    found = {name: getattr(row, name) for name in ("start", "dimension", "app", "name", "value", *FIGURES)}
    for name, column in RENAMED.items():
        at = found.pop(name)
        found[column] = None if at is None else int(at.timestamp()) * 1_000_000
    found |= {name: sorted(found[name].items()) for name in ("refusals", "end_reasons")}
    histogram = np.frombuffer(bytes(row.video_histogram), PACKED)
    found["video_histogram"] = [{"bucket": int(bucket), "count": int(count)} for bucket, count in histogram]
    return found | {"stream": row.stream_id, "audio_histogram": [], "wire_histogram": [], "players_sketch": None}


@pytest.fixture
def history(lake: Path) -> None:
    """Two streams for 30 hours, each with figures of its own in each of them, and what else these count for."""
    chance = random.Random(7)
    for ago in range(HOURS):
        for name in ("cam-1", "cam-2"):
            samples = [round(chance.uniform(1000, 9000), 1) for _ in range(20)]
            own: dict[str, Any] = {
                "values": samples,
                "live_ms": chance.randrange(3_600_000),
                "starts": 1,
                "refused": ago % 3,
                "refusals": {"busy": ago % 3} if ago % 3 else {},
                "ends": 1,
                "end_reasons": {"completed": 1},
                "peak_players": chance.randrange(50),
                "peak_at": hours_ago(ago) + timedelta(minutes=7),
            }
            make_rollup(ago, name, **own)
            make_rollup(ago, name, dimension=Dimension.KEY, value="", **own)
            begun = f"{hours_ago(ago - (ago - 1) % 4 + 3):%Y-%m-%dT%H:%M:%SZ}"
            make_rollup(ago, name, dimension=Dimension.BROADCAST, value=begun, **own)
        make_rollup(ago, dimension=Dimension.APP, value="live", **own)
        make_rollup(ago, dimension=Dimension.NODE, value="n1", **own)


def unescaped(page: Any) -> str:
    return html.unescape(page.content.decode())


def pages(viewer: Client) -> dict[str, Any]:
    """Return what the pages show of hours."""
    found: dict[str, Any] = {}
    for path in ("live/cam-1", "live/none"):
        page = viewer.get(f"/analytics/?stream={path}&range=24h").context
        found[path] = [
            page["history"].figures,
            page["history"].former,
            page["history"].chart(),
            page["history"].strips,
            [(row.start, row.figures) for row in page["history"].table()],
            page.get("tiles"),
            page.get("broadcasts"),
        ]
    for by in ("stream", "key", "app", "node"):
        page = viewer.get(f"/analytics/compare/?by={by}&range=24h&pick=live/cam-1&sort=reconnects_per_hour").context
        found[f"compared by {by}"] = [page["comparison"].cells, page["comparison"].shown, page["chart"]]
    return found


def answers(viewer: Client) -> dict[str, Any]:
    """Return what the files and the API have of hours."""
    found: dict[str, Any] = {}
    for query in (
        "by=stream",
        "by=stream&stream=live/cam-2",
        "by=stream&stream=live/none",
        "by=broadcast&stream=live/cam-1&limit=5&offset=7",
        "by=key&limit=7&offset=20",
        f"by=stream&value=live/cam-1&from={hours_ago(20):%Y-%m-%dT%H:%M}&to={hours_ago(3):%Y-%m-%dT%H:%M}",
    ):
        found[query] = viewer.get(f"/api/v1/rollups?{query}").json()
    for part in ("", "&part=broadcasts"):
        answer = viewer.get(f"/analytics/rollups.csv?stream=live/cam-1&range=24h{part}")
        found[f"file{part}"] = file_text(answer)
    found["compared, as a file"] = json.loads(
        file_text(viewer.get("/analytics/compare/export.json?by=stream&range=24h"))
    )
    return found


def keep_in_lake_alone(lake: Path, settings: Settings) -> None:
    """Leave no hour of a stream in the database."""
    settings.HOURS_IN_DATABASE = BY_SIZE
    move_to_lake(lake)
    settings.HOURS_IN_DATABASE = list(Dimension.values)
    assert {row.dimension for row in Rollup.objects.all()} == {"app", "node"}


def report(scope: str, lake: Path) -> Any:
    day = periods.containing(periods.Kind.DAILY, hours_ago(24).date(), periods.zone_of("UTC"))
    return build_document(
        day, Scope.of(scope), former=None, completeness=Completeness(24, 24, []), now=hours_ago(0), lake=lake
    )


@pytest.mark.both_forms
@pytest.mark.usefixtures("history")
@pytest.mark.parametrize("shown", [pages, answers])
def test_history_is_the_same_with_its_later_hours_in_the_lake_alone(
    viewer: Client, lake: Path, settings: Settings, shown: Callable[[Client], dict[str, Any]]
) -> None:
    before = shown(viewer)
    assert viewer.get("/analytics/?stream=live/cam-1&range=24h").context["history"].figures.samples == 25 * 20
    settings.HOURS_IN_DATABASE = BY_SIZE
    move_to_lake(lake, since=hours_ago(11))
    assert not Rollup.objects.filter(dimension=Dimension.STREAM, start__gte=hours_ago(11)).exists()
    assert Rollup.objects.filter(dimension=Dimension.STREAM).count() == 2 * (HOURS - 12)
    assert shown(viewer) == before


@pytest.mark.both_forms
@pytest.mark.usefixtures("history")
@pytest.mark.parametrize("shown", [pages, answers])
def test_history_is_the_same_with_all_hours_in_the_lake_alone(
    viewer: Client, lake: Path, settings: Settings, shown: Callable[[Client], dict[str, Any]]
) -> None:
    before = shown(viewer)
    keep_in_lake_alone(lake, settings)
    for name, found in shown(viewer).items():
        assert found == before[name], name


@pytest.mark.both_forms
@pytest.mark.usefixtures("history")
@pytest.mark.parametrize("scope", ["", "live", "live/cam-1"])
def test_report_is_the_same_with_all_hours_in_the_lake_alone(lake: Path, settings: Settings, scope: str) -> None:
    before = report(scope, lake)
    keep_in_lake_alone(lake, settings)
    assert report(scope, lake) == before


@pytest.mark.usefixtures("history")
def test_unreadable_lake_hours_are_reported_on_pages_files_and_api(
    viewer: Client, lake: Path, settings: Settings, tmp_path: Path
) -> None:
    settings.HOURS_IN_DATABASE = BY_SIZE
    make_rollup(24, grain=Grain.DAY)
    move_to_lake(lake)
    figures_file(lake, HOUR, hours_ago(2)).write_bytes(b"no Parquet")
    page = viewer.get("/analytics/?stream=live/cam-1&range=24h")
    assert "One hour of streams is kept in the lake, where this process can't read" in unescaped(page)
    assert page.context["history"].figures.samples == 24 * 20
    figures_file(lake, HOUR, hours_ago(26)).unlink()
    page = viewer.get("/analytics/?stream=live/cam-2&range=24h&grain=hour")
    assert page.context["history"].lacking_before.startswith("One hour of streams")
    settings.LAKE_DIR = tmp_path / "another"
    text = unescaped(viewer.get("/analytics/?stream=live/cam-1&range=24h"))
    lacking = "25 hours of streams are kept in the lake, where this process can't read: their figures are missing here."
    assert lacking in text
    assert "Not readable here" in text
    assert "Off air" not in text
    assert lacking in unescaped(viewer.get("/analytics/compare/?range=24h"))
    for url in ("/analytics/rollups.csv?stream=live/cam-1&range=24h", "/analytics/compare/export.json?range=24h"):
        answer = viewer.get(url)
        assert (answer.status_code, answer.content.decode()) == (503, lacking)
    assert viewer.get("/analytics/rollups.csv?stream=live/cam-1&part=events").status_code == 200
    answer = viewer.get("/api/v1/rollups?stream=live/cam-1")
    assert (answer.status_code, answer.json()["detail"]) == (503, lacking.replace("25", str(HOURS)))
    assert viewer.get("/api/v1/rollups?by=app").status_code == 200, "what is in the database is as it was"
    assert viewer.get("/api/v1/rollups?grain=day").json()["count"] == 1
    assert any("hours of streams are kept in the lake" in note for note in report("live", lake)["notes"])


def note_hours(count: int, **fields: Any) -> None:
    Partition.objects.bulk_create(
        Partition(grain=Grain.HOUR, start=hours_ago(number), state="done", metric_version=METRIC_VERSION, **fields)
        for number in range(count)
    )


def test_rollups_over_too_many_lake_hours_are_refused_or_shown_by_day(viewer: Client, lake: Path) -> None:
    note_hours(MOST_HOURS + 1, lake_only="stream,key")
    make_rollup(24, grain=Grain.DAY)
    answer = viewer.get("/api/v1/rollups")
    assert answer.status_code == 422
    assert f"from {MOST_HOURS} at most: give `from` and `to`" in answer.json()["detail"]
    since = f"{hours_ago(MOST_HOURS - 1):%Y-%m-%dT%H:%M}"
    few = viewer.get(f"/api/v1/rollups?from={since}").json()
    assert (few["items"], few["count"]) == ([], 0)
    assert viewer.get("/api/v1/rollups?by=node").status_code == 200
    page = viewer.get("/analytics/?stream=live/cam-1&range=30d&grain=hour")
    assert page.context["period"].grain == Grain.DAY
    assert "Shown by day: hours of streams are kept in the lake, of which a page reads 14 days" in unescaped(page)
    assert viewer.get("/analytics/?stream=live/cam-1&range=7d&grain=hour").context["period"].grain == Grain.HOUR


def test_stream_with_only_daily_rollups_is_offered(viewer: Client, stream: Any, lake: Path) -> None:
    make_rollup(24, stream.name, grain=Grain.DAY)
    page = viewer.get("/analytics/")
    assert page.context["history"].path == f"live/{stream.name}"
    assert [each.path for each in page.context["streams"]] == [f"live/{stream.name}"]
    assert services.active_run() is None
    assert Scope.asked(f"live/{stream.name}")


def test_old_hours_are_read_as_they_were_computed(viewer: Client, lake: Path, settings: Settings) -> None:
    make_rollup(1, video_bytes=5)
    settings.HOURS_IN_DATABASE = BY_SIZE
    move_to_lake(lake)
    file = figures_file(lake, HOUR, hours_ago(1))
    former = figures_file(lake, HOUR, hours_ago(1), METRIC_VERSION - 1)
    former.parent.mkdir(parents=True)
    file.rename(former)
    Partition.objects.update(metric_version=METRIC_VERSION - 1)
    (item,) = viewer.get("/api/v1/rollups").json()["items"]
    assert (item["video_bytes"], item["metric_version"]) == (5, METRIC_VERSION - 1)


AN_HOUR = timedelta(hours=1)
NOON = datetime(2026, 11, 4, 12, tzinfo=UTC)
TIME = "from=2026-11-02&to=2026-11-08"
PAGE, COMPARED = f"/analytics/?stream=live/cam-1&grain=hour&{TIME}", f"/analytics/compare/?{TIME}"
LACKING = re.compile(r'<span class="lacking" data-lacking="(\w+)" title="([^"]*)">(.*?)</span>')


def told(client: Client, page: str) -> dict[str, str]:
    """What the page says, by what it is about; times without their elements."""
    content = client.get(page).content.decode()
    return {what: html.unescape(re.sub("<[^>]+>", "", words)) for what, _, words in LACKING.findall(content)}


def lacking() -> None:
    make_rollup(start=NOON)
    mark_done(NOON)
    mark_done(NOON + AN_HOUR, 2, damaged_files=2)
    mark_done(NOON + 3 * AN_HOUR, 5, late_rows=300)
    mark_done(NOON + 8 * AN_HOUR, strays=1)
    mark_done(NOON + 200 * AN_HOUR, damaged_files=7)  # Of another time.


@pytest.mark.parametrize("page", [PAGE, COMPARED])
def test_pages_list_incomplete_hours_in_the_users_time_zone(viewer: Client, page: str) -> None:
    lacking()
    assert told(at_home(viewer, "Europe/Berlin"), page) == {
        "damaged_files": "2 hours are incomplete: 4 files could not be read: 4 Nov 2026, 14:00; 4 Nov 2026, 15:00",
        "late_rows": "1,500 records came too late to count, after their hour's samples had been removed as old: "
        "4 Nov 2026, 16:00; 4 Nov 2026, 17:00; 4 Nov 2026, 18:00 and 2 more",
        "strays": "1 record lay among those of another hour, and did not count: 4 Nov 2026, 21:00",
    }
    advice = {what: title for what, title, _ in LACKING.findall(viewer.get(page).content.decode())}
    assert advice["damaged_files"].startswith("Of all streams. The files are in quarantine/damaged in the lake.")


@pytest.mark.parametrize("page", [PAGE, COMPARED])
def test_pages_of_complete_hours_show_no_incomplete_note(viewer: Client, page: str) -> None:
    make_rollup(start=NOON)
    mark_done(NOON, 3)
    mark_done(NOON + 200 * AN_HOUR, damaged_files=1)
    assert told(viewer, page) == {}


def test_stream_without_rows_in_a_damaged_hour_shows_the_incomplete_note(viewer: Client) -> None:
    make_rollup(start=NOON, name="cam-2")
    mark_done(NOON, damaged_files=1)
    assert told(viewer, PAGE) == {"damaged_files": "1 hour is incomplete: 1 file could not be read: 4 Nov 2026, 12:00"}


@pytest.mark.both_forms
def test_api_lists_incomplete_hours(viewer: Client) -> None:
    lacking()

    def found(query: str) -> list[dict[str, Any]]:
        answer = viewer.get(f"/api/v1/rollups?{query}").json()
        assert answer["incomplete"]["count"] == len(answer["incomplete"]["items"])
        items: list[dict[str, Any]] = answer["incomplete"]["items"]
        return items

    strays, late = found("from=2026-11-04T19:00&to=2026-11-04T21:00")
    assert strays == {"start": "2026-11-04T20:00:00Z", "damaged_files": 0, "late_rows": 0, "strays": 1}
    assert (late["start"], late["late_rows"]) == ("2026-11-04T19:00:00Z", 300)
    assert len(found("stream=live/cam-1")) == 9
    assert len(found("grain=day&from=2026-11-04&to=2026-11-04T00:01")) == 8, "all hours of the day"
    assert found("grain=day&from=2026-11-04T00:01&to=2026-11-05") == [], "no day begins in this time"
    assert found("to=2026-11-04T13:00") == []


@pytest.mark.parametrize("scope", ["", "live", "live/cam-1"])
def test_reports_list_incomplete_hours_in_their_time_zone(client: Client, viewer: Client, scope: str) -> None:
    make_live_hour("live/cam-1", NOON)
    mark_done(NOON, damaged_files=1, late_rows=20)
    document = made(client, scope)
    damaged, late = document["completeness"]["lacking"]
    assert damaged == {
        "what": "damaged_files",
        "count": 1,
        "hours": 1,
        "first": ["2026-11-04T12:00:00+00:00"],
        "words": "1 hour is incomplete: 1 file could not be read: 4 Nov 2026, 13:00.",
    }
    assert (late["what"], late["count"]) == ("late_rows", 20)
    command = command_line.short("analytics check")
    assert document["notes"] == [
        f"{damaged['words']} {late['words']} This is of all streams: {command} says what to do."
    ]
    page = viewer.get(f"/reports/{Report.objects.get().pk}/").content.decode()
    assert damaged["words"] in page


def test_reports_of_complete_hours_have_no_incomplete_note(client: Client) -> None:
    make_live_hour("live/cam-1", NOON)
    mark_done(NOON)
    document = made(client, "")
    assert document["completeness"] == {"expected": 1, "done": 1}
    assert document["notes"] == []


def test_report_with_all_files_damaged_says_publishing_is_not_known(client: Client) -> None:
    mark_done(NOON, damaged_files=3)
    document = made(client, "")
    assert (
        document["lede"]
        == "Whether anything was published in this day is not known: some of its files could not be read."
    )
    (note,) = document["notes"]
    assert note.startswith("1 hour is incomplete: 3 files could not be read: 4 Nov 2026, 13:00.")


def made(client: Client, scope: str) -> dict[str, Any]:
    """The document of a day's report that a script has had made."""
    wish = {"kind": "daily", "from": "2026-11-04", "time_zone": "Europe/Berlin", "scope": scope}
    answer = client.post("/api/v1/reports", wish, content_type="application/json", headers=api_token("analyst"))
    assert answer.status_code == 201, answer.content
    document: dict[str, Any] = answer.json()["document"]
    return document
