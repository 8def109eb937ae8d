"""Rollups by the API and as files: what the rows are of, filters, metrics that follow from the sums; distinct players
of a longer time, each counted once; and streams, keys, encoders, applications and nodes beside each other."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from datasketches import hll_sketch
from django.test import Client

from analytics import ledger, rollups
from analytics.figures import DERIVED
from analytics.metrics import SKETCH_BITS
from analytics.models import FIGURES, METRIC_VERSION, Dimension, Grain, Partition, Rollup
from dashboard.history.comparison import MAX_CHOSEN, PAGE_ROWS
from ingest.models import Stream
from ingest.services import keys
from tests.analytics.rollups import HOUR, hours_ago, make_rollup, mark_done
from tests.dashboard.conftest import api_token, csv_rows, file_text, lacks, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("still", "lake", "reports_made_here")]

URL = "/api/v1/rollups"


@pytest.mark.stores
def test_rollups_api_lists_streams_by_default(viewer: Client) -> None:
    first, second = make_rollup(2), make_rollup(1)
    make_rollup(1, name="another")
    make_rollup(0, grain=Grain.DAY)
    make_rollup(0, dimension=Dimension.NODE, value="n1")
    assert viewer.get(URL).json()["count"] == 3
    found = viewer.get(f"{URL}?stream=live/cam-1").json()
    assert found["count"] == 2
    assert [datetime.fromisoformat(item["start"]) for item in found["items"]] == [second.start, first.start]
    item = found["items"][0]
    assert (item["app"], item["name"], item["grain"], item["health"]) == ("live", "cam-1", "hour", "good")
    assert {name: item[name] for name in FIGURES} == {name: getattr(second, name) for name in FIGURES}
    assert (item["player_minutes"], item["delivered_gb"]) == (1500.0, 2.5)
    since = second.start.astimezone(UTC).strftime("%Y-%m-%dT%H:%M")
    assert viewer.get(f"{URL}?stream=live/cam-1&from={since}").json()["count"] == 1
    assert viewer.get(f"{URL}?stream=live/cam-1&to={since}").json()["count"] == 1
    assert viewer.get(f"{URL}?grain=day").json()["count"] == 1
    assert viewer.get(f"{URL}?grain=week").status_code == 422
    assert viewer.get(f"{URL}?by=viewer").status_code == 422


def test_other_dimensions_are_asked_for_by_name(viewer: Client, stream: Stream) -> None:
    key = keys.create(stream=stream, label="Studio")
    make_rollup()
    for dimension, value in (
        (Dimension.KEY, str(key.key.pk)),
        (Dimension.KEY, ""),
        (Dimension.APP, "live"),
        (Dimension.ENCODER, "OBS 30"),
        (Dimension.NODE, "n1"),
        (Dimension.BROADCAST, "2026-11-22T10:00:00+00:00"),
    ):
        make_rollup(dimension=dimension, value=value)

    def found(query: str) -> list[tuple[str, str]]:
        items = viewer.get(f"{URL}?{query}").json()["items"]
        return [(item["value"], item["label"]) for item in items]

    assert found("by=stream") == [("live/cam-1", "live/cam-1")]
    assert found("by=key") == [("", "No key"), (str(key.key.pk), "Studio")]
    assert found(f"by=key&value={key.key.pk}") == [(str(key.key.pk), "Studio")]
    assert found("by=app") == [("live", "live")]
    assert found("by=encoder&value=OBS%2030") == [("OBS 30", "OBS 30")]
    assert found("by=encoder&value=obs") == []
    assert found("by=node") == [("n1", "n1")]
    assert found("by=broadcast&stream=live/cam-1")[0][0] == "2026-11-22T10:00:00+00:00"
    assert found("by=key&stream=live/another") == []
    assert key.secret not in viewer.get(f"{URL}?by=key").content.decode()


def test_metrics_follow_from_the_sums_and_are_null_where_they_are_not_defined(viewer: Client) -> None:
    make_rollup(reconnects=2, recovery_ms=60_000, unplanned_ends=1, accepted=3, refused=1, targeted_ms=100, below_ms=30)
    make_rollup(1, live_ms=0, elapsed_ms=0, good_ms=0, video_frames=0, missing_frames_est=0, samples=0, player_ms=0)
    item, empty = viewer.get(URL).json()["items"]
    assert item["uptime_percent"] == pytest.approx(100 * 3_540_000 / 3_660_000)
    assert (item["mttr_s"], item["success_percent"], item["below_percent"]) == (30.0, 75.0, 30.0)
    assert item["missing_percent"] == 1.0
    undefined = {name for name in DERIVED if empty[name] is None}
    defined = {"live_h", "lost_min", "player_minutes", "player_hours", "viewer_minutes", "viewer_hours", "delivered_gb"}
    assert undefined == set(DERIVED) - defined


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("from=2026-11-14&to=2026-11-01", "`to` has to be later than `from`."),
        ("from=2026-11-14&to=2026-11-14", "`to` has to be later than `from`."),
        ("to=9999-12-31T23:59-12:00", "after the year 9999"),
        ("from=0001-01-01T00:00%2B14:00", "before the year 1"),
        ("from=yesterday", "valid datetime"),
        ("stream=live", "application/name"),
        ("stream=/cam-1", "application/name"),
        ("by=viewer", "'node' or 'broadcast'"),
        ("limit=1001", "less than or equal to 1000"),
    ],
)
def test_rollups_api_refuses_invalid_queries_with_a_reason(viewer: Client, query: str, problem: str) -> None:
    answer = viewer.get(f"{URL}?{query}")
    assert answer.status_code == 422
    (said,) = answer.json()["detail"]
    assert problem in said["msg"]


@pytest.mark.stores
def test_the_csv_holds_every_figure_oldest_first(viewer: Client) -> None:
    rollups = [make_rollup(2), make_rollup(1, audio_kbps_p50=128.253906, audio_kbps_max=128.253906)]
    make_rollup(1, name="another")
    response = viewer.get("/analytics/rollups.csv?stream=live/cam-1")
    assert response["Content-Disposition"].startswith('attachment; filename="live-cam-1-hour-')
    rows = csv_rows(response)
    assert [row["start"] for row in rows] == [rollup.start.isoformat() for rollup in rollups]
    assert [row["audio_kbps_p50"] for row in rows] == ["", "128.3"], "it is within 1 %"
    assert rows[1]["audio_kbps_max"] == "128.253906"
    assert {name: rows[0][name] for name in FIGURES} == {
        name: "" if value in (None, {}) else str(value) for name in FIGURES for value in [getattr(rollups[0], name)]
    }
    assert (rows[0]["live_h"], rows[0]["delivered_gb"], rows[0]["mtbf_h"]) == (str(3540 / 3600), "2.5", "")
    items = json.loads(file_text(viewer.get("/analytics/rollups.json?stream=live/cam-1")))["items"]
    assert [item["health_percent"] for item in items] == [100.0, 100.0]
    assert items[0].keys() == rows[0].keys()


@pytest.mark.parametrize(
    "file",
    ["rollups.csv?stream=live/cam-1", "rollups.csv?stream=live/cam-1&part=broadcasts", "compare/export.csv?range=24h"],
)
def test_percentiles_have_one_decimal_in_each_file(viewer: Client, file: str) -> None:
    ranked: dict[str, Any] = {
        "video_kbps_p5": 1980.123456,
        "video_kbps_p50": 2500.987654,
        "video_kbps_p95": 3000.049999,
    }
    make_rollup(**ranked)
    make_rollup(dimension=Dimension.BROADCAST, value="2026-11-22T10:00:00+00:00", **ranked)
    (row,) = csv_rows(viewer.get(f"/analytics/{file}"))
    assert [row[name] for name in ranked] == ["1980.1", "2501.0", "3000.0"]


MONDAY = datetime(2026, 11, 2, tzinfo=UTC)
DAY = 24 * HOUR
ROLLUPS = "/api/v1/rollups?stream=live/cam-1&"


def player_fields(players: Iterable[str]) -> dict[str, Any]:
    """Return the fields of a rollup that had these players."""
    sketch = hll_sketch(SKETCH_BITS)
    for player in players:
        sketch.update(player)
    return {"unique_players": round(sketch.get_estimate()), "players_sketch": sketch.serialize_compact()}


def watched(start: datetime, seen: Sequence[str], **fields: Any) -> Rollup:
    """An hour (or what the fields say) in which these began to play."""
    return make_rollup(start=start, **player_fields(seen), **fields)


def hour(start: datetime, *seen: str) -> None:
    watched(start, seen)
    mark_done(start)


def day(start: datetime, *seen: str) -> None:
    """Merged from its hours as they are."""
    watched(start, seen, grain=Grain.DAY)
    (pending,) = ledger.Days(start, start + DAY).pending()
    mark_done(start, grain=Grain.DAY, fingerprint=pending.fingerprint())


def counted(client: Client, time: str, rows: str = ROLLUPS) -> int | None:
    found: int | None = client.get(f"{rows}{time}").json()["unique_players"]
    return found


@pytest.mark.both_forms
def test_returning_player_is_counted_once_over_several_hours(viewer: Client) -> None:
    hour(MONDAY, "ann", "bob")
    hour(MONDAY + HOUR, "bob", "cy")
    hour(MONDAY + 2 * HOUR)
    watched(MONDAY, ["dee"], name="cam-2")
    assert counted(viewer, "from=2026-11-02&to=2026-11-03") == 3
    assert counted(viewer, "from=2026-11-02T00:01&to=2026-11-03") == 2, "hours that begin in the time"
    assert counted(viewer, "from=2026-11-02T02:00&to=2026-11-03") == 0
    assert counted(viewer, "from=2026-11-03&to=2026-11-04") is None, "nothing is known of it"


def test_unique_players_combine_whole_days_with_remaining_hours(viewer: Client) -> None:
    """The days have, for this test, players that their hours do not have: by them is seen what was read."""
    for number in range(4):
        hour(MONDAY + number * DAY, f"hour {number}")
        day(MONDAY + number * DAY, "regular", f"day {number}")
    hour(MONDAY + 2 * DAY + HOUR, "late")  # The third day is yet to be made anew.
    Partition.objects.filter(grain=Grain.DAY, start=MONDAY + 3 * DAY).update(metric_version=METRIC_VERSION - 1)
    assert counted(viewer, "from=2026-11-02&to=2026-11-04") == len(["regular", "day 0", "day 1"])
    assert counted(viewer, "from=2026-11-02T00:00&to=2026-11-03T01:00") == len(["regular", "day 0", "hour 1"])
    assert counted(viewer, "from=2026-11-01T20:00&to=2026-11-02T20:00") == len(["hour 0"])
    assert counted(viewer, "from=2026-11-04&to=2026-11-06") == len(["hour 2", "late", "hour 3"])
    assert counted(viewer, "from=2026-11-02&to=2026-11-06") == 6
    Rollup.objects.filter(grain=Grain.HOUR).delete()
    assert counted(viewer, "from=2026-11-02&to=2026-11-04") == 3, "hours are not kept for as long"


@pytest.mark.parametrize(
    "query",
    [
        "from=2026-11-02",
        "to=2026-11-03",
        "from=2020-01-01&to=2026-11-03",
        "from=9999-12-31T10:00&to=9999-12-31T23:30",
        "from=0001-01-01&to=0001-01-02&grain=day",
    ],
)
def test_unique_players_of_an_unbounded_time_are_null(viewer: Client, query: str) -> None:
    hour(MONDAY, "ann")
    assert counted(viewer, query) is None


def test_unique_players_are_given_only_for_a_single_stream_or_application(viewer: Client) -> None:
    hour(MONDAY, "ann")
    watched(MONDAY, ["ann", "bob"], dimension=Dimension.APP, value="live")
    make_rollup(start=MONDAY, dimension=Dimension.KEY, value="1", unique_players=None)
    time = "from=2026-11-02&to=2026-11-03"
    assert counted(viewer, time, "/api/v1/rollups?by=app&value=live&") == 2
    assert counted(viewer, time, "/api/v1/rollups?value=live/cam-1&") == 1
    assert counted(viewer, time, "/api/v1/rollups?by=app&") is None
    assert counted(viewer, time, "/api/v1/rollups?") is None
    assert counted(viewer, time, "/api/v1/rollups?by=key&value=1&") is None


def test_unique_players_of_too_many_sketches_are_null(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        hour(MONDAY + number * HOUR, "ann")
    monkeypatch.setattr(rollups, "MOST_SKETCHES", 3)
    assert counted(viewer, "from=2026-11-02&to=2026-11-03") == 1
    monkeypatch.setattr(rollups, "MOST_SKETCHES", 2)
    assert counted(viewer, "from=2026-11-02&to=2026-11-03") is None


def test_unique_players_are_null_if_an_hour_lacks_its_sketch(viewer: Client) -> None:
    hour(MONDAY, "ann")
    make_rollup(start=MONDAY + HOUR, unique_players=4)
    assert counted(viewer, "from=2026-11-02&to=2026-11-03") is None


def test_history_page_shows_unique_players_and_those_of_the_period_before(viewer: Client) -> None:
    hour(MONDAY - 7 * DAY, "ann")
    hour(MONDAY, "ann", "bob")
    hour(MONDAY + 3 * DAY, "bob", "cy")
    answer = viewer.get("/analytics/?stream=live/cam-1&grain=hour&from=2026-11-02&to=2026-11-08")
    further = {column.shown.label: (now, then) for column, now, then in answer.context["further"]}
    assert further["Unique players"] == ("3", "1")
    assert "standard deviation of 1.6\u00a0%" in answer.content.decode()


@pytest.mark.parametrize(("scope", "count"), [("", "5"), ("live", "4"), ("live/cam-1", "3")])
def test_weekly_report_has_unique_players(client: Client, scope: str, count: str) -> None:
    for start, seen in ((MONDAY, ["ann", "bob"]), (MONDAY + 3 * DAY, ["bob", "cy"])):
        hour(start, *seen)
        watched(start, [*seen, "dee"], dimension=Dimension.APP, value="live")
        watched(start, ["eve"], dimension=Dimension.APP, value="cams", app="cams")
    wish = {"kind": "weekly", "from": "2026-11-02", "scope": scope}
    answer = client.post("/api/v1/reports", wish, content_type="application/json", headers=api_token("analyst"))
    document = answer.json()["document"]
    assert document["figures"]["unique_players"] == int(count)
    assert {tile["label"]: tile["value"] for tile in document["more"]}["Unique players"] == count
    assert "1.6\u00a0%" in document["footnote"]


COMPARED = "/analytics/compare/"


def whole_day(name: str = "cam-1", days_ago: int = 0, **fields: Any) -> None:
    make_rollup(24 * days_ago, name, Grain.DAY, **fields)


def labels(client: Client, query: str = "") -> list[str]:
    return [line.label for line in client.get(f"{COMPARED}?{query}").context["comparison"].shown]


@pytest.mark.parametrize(
    ("streams", "words"),
    [(0, "Nothing to compare in this period"), (1, "<h2>1 stream</h2>"), (2, "<h2>2 streams</h2>")],
)
def test_the_heading_counts_what_is_compared(viewer: Client, streams: int, words: str) -> None:
    for number in range(streams):
        whole_day(f"cam-{number}")
    assert words in text_of(viewer, COMPARED)


def test_comparison_sums_daily_rollups_of_the_period(viewer: Client) -> None:
    whole_day(days_ago=0, values=[100.0] * 60, reconnects=1, recovery_ms=10_000, unplanned_ends=2, peak_players=5)
    whole_day(days_ago=1, values=[900.0] * 40, live_ms=60_000, player_ms=7_200_000, bad_ms=3_540_000)
    whole_day(days_ago=8, live_ms=999)
    make_rollup(0, live_ms=999)
    comparison = viewer.get(COMPARED).context["comparison"]
    (line,) = comparison.shown
    figures = line.figures
    assert (line.label, figures.live_ms, figures.peak_players) == ("live/cam-1", 3_600_000, 1234)
    assert (figures.reconnects_per_hour, figures.mttr_s, figures.mtbf_h) == (1.0, 10.0, 0.5)
    assert figures.quantiles == pytest.approx((100, 100, 900), rel=0.01)
    assert figures.health_percent == pytest.approx(100 * 2 / 3)
    assert (figures.average_players, figures.player_hours) == (27.0, 27.0)


def test_the_worst_come_first_by_the_share_of_their_time(viewer: Client) -> None:
    whole_day("second", good_ms=80_000_000, bad_ms=1000, warning_ms=0)
    whole_day("quarter", good_ms=75_000, bad_ms=25_000)
    whole_day("warned", good_ms=1000, warning_ms=999_000)
    whole_day("fine")
    assert labels(viewer) == ["live/quarter", "live/warned", "live/second", "live/fine"]
    assert labels(viewer, "sort=health")[0] == "live/fine"
    page = text_of(viewer, COMPARED)
    assert 'aria-sort="descending"><a href="?by=stream&amp;range=7d&amp;sort=health">Health' in page
    assert "</svg>Bad 25.0\u00a0%</span>" in page


def test_the_last_day_is_summed_by_hour(viewer: Client) -> None:
    make_rollup(0, live_ms=1)
    make_rollup(23, live_ms=2)
    make_rollup(24, live_ms=4)
    make_rollup(25, live_ms=16)
    whole_day(live_ms=8)
    (line,) = viewer.get(f"{COMPARED}?range=24h").context["comparison"].shown
    assert line.figures.live_ms == 7  # 24 whole hours, and what is going on.


@pytest.mark.both_forms
def test_comparison_sorts_by_any_column_with_missing_values_last(viewer: Client) -> None:
    whole_day("short", live_ms=1, targeted_ms=100, below_ms=50)
    whole_day("long", live_ms=3, targeted_ms=100, below_ms=10)
    whole_day("middle", live_ms=2)
    assert labels(viewer) == ["live/long", "live/middle", "live/short"]
    assert labels(viewer, "sort=live_h") == ["live/short", "live/middle", "live/long"]
    assert labels(viewer, "sort=-below_percent") == ["live/short", "live/long", "live/middle"]
    assert labels(viewer, "sort=below_percent") == ["live/long", "live/short", "live/middle"]
    heads = {head.name: head for head in viewer.get(f"{COMPARED}?sort=below_percent").context["comparison"].heads}
    assert (heads["below_percent"].order, heads["live_h"].order) == ("ascending", "")
    assert "sort=-below_percent" in heads["below_percent"].address
    assert "sort=health_percent" in heads["health_percent"].address


def test_keys_have_their_labels_and_never_a_secret(viewer: Client, stream: Stream) -> None:
    labelled, plain = keys.create(stream=stream, label="Studio"), keys.create(stream=stream)
    for value in (str(labelled.key.pk), str(plain.key.pk), "", "987654"):
        whole_day(dimension=Dimension.KEY, value=value)
    whole_day("another", dimension=Dimension.KEY, value="")
    response = viewer.get(f"{COMPARED}?by=key")
    lines = [(line.label, line.stream) for line in response.context["comparison"].shown]
    of_cam = ("Key 987654", f"Key {plain.key.pk}", "Studio", "No key")
    assert sorted(lines) == sorted([*((label, "live/cam-1") for label in of_cam), ("No key", "live/another")])
    page = response.content.decode()
    for made in (labelled, plain):
        assert made.secret not in page
        assert made.key.prefix not in page


@pytest.mark.parametrize(
    ("by", "value", "shown"),
    [("app", "live", "live"), ("encoder", "OBS 30", "OBS 30"), ("encoder", "", "Unknown"), ("node", "n1", "n1")],
)
def test_comparison_dimension_is_chosen_by_the_query(viewer: Client, by: str, value: str, shown: str) -> None:
    whole_day()
    whole_day(dimension=Dimension(by), value=value)
    assert labels(viewer, f"by={by}") == [shown]
    assert labels(viewer, "by=broadcast") == ["live/cam-1"]


def test_pages_are_bounded_and_keep_the_choice(viewer: Client) -> None:
    for number in range(PAGE_ROWS + 1):
        whole_day(f"cam-{number:03}", live_ms=number)
    assert len(labels(viewer)) == PAGE_ROWS
    assert labels(viewer, "page=2") == ["live/cam-000"]
    assert labels(viewer, "page=99") == ["live/cam-000"]
    assert len(labels(viewer, "page=x")) == PAGE_ROWS
    page = viewer.get(f"{COMPARED}?by=stream&pick=live/cam-000").content.decode()
    assert lacks(page, "pick=live%2Fcam-000&amp;page=2", '<input type="hidden" name="pick" value="live/cam-000">') == []


def test_chosen_rows_are_drawn_in_one_comparison_chart(viewer: Client) -> None:
    for number in range(MAX_CHOSEN + 1):
        whole_day(f"cam-{number}", live_ms=100 - number)
    make_rollup(0, "cam-1", video_kbps_p50=500.0)
    make_rollup(1, "cam-1", video_kbps_p50=400.0)
    picks = "&".join(f"pick=live/cam-{number}" for number in (1, 0, 2, 3, 4, 5))
    response = viewer.get(f"{COMPARED}?{picks}")
    chart = response.context["chart"]
    assert [line["label"] for line in chart["lines"]] == [f"live/cam-{number}" for number in range(MAX_CHOSEN)]
    index = int((hours_ago().timestamp() - chart["from"]) // 3600)
    assert chart["lines"][1]["values"][index - 1 : index + 1] == ([400.0, 500.0] if index else [500.0])
    assert "pick=live%2Fcam-1&" not in chart["lines"][1]["without"]
    gone = viewer.get(f"{COMPARED}?pick=live/gone&pick=live/cam-1").content.decode()
    assert "1 of the selected has no data in this period" in gone
    assert viewer.get(f"{COMPARED}?range=30d&pick=live/cam-1").context["chart"]["step"] == 86_400


@pytest.mark.parametrize("query", ["by=x&sort=y&page=-1&range=z", "pick=%00", "from=1&to=2", "by=broadcast"])
def test_a_wrong_address_is_a_page_nevertheless(viewer: Client, query: str) -> None:
    whole_day()
    assert viewer.get(f"{COMPARED}?{query}").status_code == 200


def test_comparison_export_has_the_rows_of_all_pages(viewer: Client) -> None:
    for number in range(PAGE_ROWS + 1):
        whole_day(f"cam-{number:03}", live_ms=number, values=[float(number)] * 10)
    answer = viewer.get(f"{COMPARED}export.csv?sort=live_h")
    rows = csv_rows(answer)
    assert [row["value"] for row in rows] == [f"live/cam-{number:03}" for number in range(PAGE_ROWS + 1)]
    assert (rows[50]["live_ms"], rows[50]["delivered_gb"], rows[0]["reconnects_per_hour"]) == ("50", "2.5", "")
    items = json.loads(file_text(viewer.get(f"{COMPARED}export.json?sort=live_h")))["items"]
    assert items[0].keys() == rows[0].keys()
    assert items[50]["video_kbps_p50"] == 2500.5
