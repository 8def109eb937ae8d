"""Streams, keys, encoders, applications and nodes beside each other: sums, order, pages, the chart, the files."""

import csv
import io
import json
from typing import Any

import pytest
from django.test import Client

from analytics.models import Dimension, Grain
from dashboard.history.comparison import MOST_CHOSEN, PAGE_ROWS
from ingest.models import Stream
from ingest.services import keys
from tests.dashboard.conftest import file_text
from tests.dashboard.rollups import hour, make_rollup

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("still")]

URL = "/analytics/compare/"


def day(name: str = "cam-1", days_ago: int = 0, **fields: Any) -> None:
    make_rollup(24 * days_ago, name, Grain.DAY, **fields)


def labels(client: Client, query: str = "") -> list[str]:
    return [line.label for line in client.get(f"{URL}?{query}").context["comparison"].shown]


def test_without_rollups_the_page_says_what_to_do(viewer: Client) -> None:
    response = viewer.get(f"{URL}?by=key")
    assert response.status_code == 200
    assert "Nothing to compare in this time" in response.content.decode()


@pytest.mark.parametrize(("streams", "words"), [(1, "1 stream"), (2, "2 streams")])
def test_the_heading_counts_what_is_compared(viewer: Client, streams: int, words: str) -> None:
    for number in range(streams):
        day(f"cam-{number}")
    assert f"<h2>{words}</h2>" in viewer.get(URL).content.decode()


def test_days_are_summed(viewer: Client) -> None:
    day(days_ago=0, values=[100.0] * 60, reconnects=1, recovery_ms=10_000, unplanned_ends=2, peak_players=5)
    day(days_ago=1, values=[900.0] * 40, live_ms=60_000, player_ms=7_200_000, bad_ms=3_540_000)
    day(days_ago=7, live_ms=999)
    make_rollup(0, live_ms=999)
    comparison = viewer.get(URL).context["comparison"]
    (line,) = comparison.shown
    figures = line.figures
    assert (line.label, figures.live_ms, figures.peak_players) == ("live/cam-1", 3_600_000, 1234)
    assert (figures.reconnects_per_hour, figures.mttr_s, figures.mtbf_h) == (1.0, 10.0, 0.5)
    assert figures.quantiles == pytest.approx((100, 100, 900), rel=0.01)
    assert figures.health_percent == pytest.approx(100 * 2 / 3)
    assert (figures.average_players, figures.player_hours) == (27.0, 27.0)


def test_the_last_day_is_summed_by_hour(viewer: Client) -> None:
    make_rollup(0, live_ms=1)
    make_rollup(23, live_ms=2)
    make_rollup(24, live_ms=4)
    day(live_ms=8)
    (line,) = viewer.get(f"{URL}?range=24h").context["comparison"].shown
    assert line.figures.live_ms == 3


@pytest.mark.both_forms
def test_it_is_sorted_by_any_column_and_what_has_no_value_comes_last(viewer: Client) -> None:
    day("short", live_ms=1, targeted_ms=100, below_ms=50)
    day("long", live_ms=3, targeted_ms=100, below_ms=10)
    day("middle", live_ms=2)
    assert labels(viewer) == ["live/long", "live/middle", "live/short"]
    assert labels(viewer, "sort=live_h") == ["live/short", "live/middle", "live/long"]
    assert labels(viewer, "sort=-below_percent") == ["live/short", "live/long", "live/middle"]
    assert labels(viewer, "sort=below_percent") == ["live/long", "live/short", "live/middle"]
    heads = {head.column.name: head for head in viewer.get(f"{URL}?sort=below_percent").context["comparison"].heads}
    assert (heads["below_percent"].order, heads["live_h"].order) == ("ascending", "")
    assert "sort=-below_percent" in heads["below_percent"].address
    assert "sort=health_percent" in heads["health_percent"].address


def test_keys_have_their_labels_and_never_a_secret(viewer: Client, stream: Stream) -> None:
    labelled, plain = keys.create(stream=stream, label="Studio"), keys.create(stream=stream)
    for value in (str(labelled.key.pk), str(plain.key.pk), "", "987654"):
        day(dimension=Dimension.KEY, value=value)
    day("another", dimension=Dimension.KEY, value="")
    response = viewer.get(f"{URL}?by=key")
    lines = [(line.label, line.stream) for line in response.context["comparison"].shown]
    assert sorted(lines) == sorted(
        [
            ("Key 987654", "live/cam-1"),
            (f"Key {plain.key.pk}", "live/cam-1"),
            ("Studio", "live/cam-1"),
            ("Without a key", "live/another"),
            ("Without a key", "live/cam-1"),
        ]
    )
    page = response.content.decode()
    for made in (labelled, plain):
        assert made.secret not in page
        assert made.key.prefix not in page


@pytest.mark.parametrize(
    ("by", "value", "shown"),
    [("app", "live", "live"), ("encoder", "OBS 30", "OBS 30"), ("encoder", "", "Not known"), ("node", "n1", "n1")],
)
def test_what_is_compared_is_chosen(viewer: Client, by: str, value: str, shown: str) -> None:
    day()
    day(dimension=Dimension(by), value=value)
    assert labels(viewer, f"by={by}") == [shown]
    assert labels(viewer, "by=broadcast") == ["live/cam-1"]


def test_pages_are_bounded_and_keep_the_choice(viewer: Client) -> None:
    for number in range(PAGE_ROWS + 1):
        day(f"cam-{number:03}", live_ms=number)
    assert len(labels(viewer)) == PAGE_ROWS
    assert labels(viewer, "page=2") == ["live/cam-000"]
    assert labels(viewer, "page=99") == ["live/cam-000"]
    assert len(labels(viewer, "page=x")) == PAGE_ROWS
    page = viewer.get(f"{URL}?by=stream&pick=live/cam-000").content.decode()
    assert "pick=live%2Fcam-000&amp;page=2" in page
    assert '<input type="hidden" name="pick" value="live/cam-000">' in page


def test_the_chosen_are_in_one_chart(viewer: Client) -> None:
    for number in range(MOST_CHOSEN + 1):
        day(f"cam-{number}", live_ms=100 - number)
    make_rollup(0, "cam-1", video_kbps_p50=500.0)
    make_rollup(1, "cam-1", video_kbps_p50=400.0)
    picks = "&".join(f"pick=live/cam-{number}" for number in (1, 0, 2, 3, 4, 5))
    response = viewer.get(f"{URL}?{picks}")
    chart = response.context["chart"]
    assert [line["label"] for line in chart["lines"]] == [f"live/cam-{number}" for number in range(MOST_CHOSEN)]
    index = int((hour().timestamp() - chart["from"]) // 3600)
    assert chart["lines"][1]["values"][index - 1 : index + 1] == ([400.0, 500.0] if index else [500.0])
    assert "pick=live%2Fcam-1&" not in chart["lines"][1]["without"]
    gone = viewer.get(f"{URL}?pick=live/gone&pick=live/cam-1").content.decode()
    assert "1 of the chosen has nothing in this time" in gone
    assert viewer.get(f"{URL}?range=30d&pick=live/cam-1").context["chart"]["step"] == 86_400


@pytest.mark.parametrize("query", ["by=x&sort=y&page=-1&range=z", "pick=%00", "from=1&to=2", "by=broadcast"])
def test_a_wrong_address_is_a_page_nevertheless(viewer: Client, query: str) -> None:
    day()
    assert viewer.get(f"{URL}?{query}").status_code == 200


def test_all_of_it_can_be_taken_away(viewer: Client) -> None:
    for number in range(PAGE_ROWS + 1):
        day(f"cam-{number:03}", live_ms=number, values=[float(number)] * 10)
    answer = viewer.get(f"{URL}export.csv?sort=live_h")
    rows = list(csv.DictReader(io.StringIO(file_text(answer))))
    assert [row["value"] for row in rows] == [f"live/cam-{number:03}" for number in range(PAGE_ROWS + 1)]
    assert (rows[50]["live_ms"], rows[50]["delivered_gb"], rows[0]["reconnects_per_hour"]) == ("50", "2.5", "")
    items = json.loads(file_text(viewer.get(f"{URL}export.json?sort=live_h")))["items"]
    assert items[0].keys() == rows[0].keys()
    assert items[50]["video_kbps_p50"] == 2500.5
