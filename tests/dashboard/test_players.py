"""Distinct players of a longer time, on pages, in reports and by the API: each once, however often they came."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from analytics import ledger, rollups
from analytics.models import METRIC_VERSION, Dimension, Grain, Partition, Rollup
from tests.analytics.packed import sketched
from tests.analytics.reports.rows import HOUR, done
from tests.dashboard.conftest import api_token
from tests.dashboard.rollups import make_rollup

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("reports_made_here")]

MONDAY = datetime(2026, 11, 2, tzinfo=UTC)
DAY = 24 * HOUR
ROLLUPS = "/api/v1/rollups?stream=live/cam-1&"


@pytest.fixture(autouse=True)
def lake(tmp_path: Path, settings: Any) -> None:
    settings.LAKE_DIR = tmp_path / "lake"


def watched(start: datetime, seen: Sequence[str], **fields: Any) -> Rollup:
    """An hour (or what the fields say) in which these began to play."""
    return make_rollup(start=start, **sketched(seen), **fields)


def hour(start: datetime, *seen: str) -> None:
    watched(start, seen)
    done(start)


def day(start: datetime, *seen: str) -> None:
    """Merged from its hours as they are."""
    watched(start, seen, grain=Grain.DAY)
    (pending,) = ledger.Days(start, start + DAY).pending()
    done(start, grain=Grain.DAY, fingerprint=pending.fingerprint())


def counted(client: Client, time: str, rows: str = ROLLUPS) -> int | None:
    found: int | None = client.get(f"{rows}{time}").json()["unique_players"]
    return found


@pytest.mark.both_forms
def test_who_came_again_is_counted_once(viewer: Client) -> None:
    hour(MONDAY, "ann", "bob")
    hour(MONDAY + HOUR, "bob", "cy")
    hour(MONDAY + 2 * HOUR)
    watched(MONDAY, ["dee"], name="cam-2")
    assert counted(viewer, "from=2026-11-02&to=2026-11-03") == 3
    assert counted(viewer, "from=2026-11-02T00:01&to=2026-11-03") == 2, "hours that begin in the time"
    assert counted(viewer, "from=2026-11-02T02:00&to=2026-11-03") == 0
    assert counted(viewer, "from=2026-11-03&to=2026-11-04") is None, "nothing is known of it"


def test_days_are_read_and_hours_beside_them(viewer: Client) -> None:
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
def test_of_a_time_without_bounds_it_is_not_told(viewer: Client, query: str) -> None:
    hour(MONDAY, "ann")
    assert counted(viewer, query) is None


def test_it_is_told_of_one_thing_that_players_are_known_of(viewer: Client) -> None:
    hour(MONDAY, "ann")
    watched(MONDAY, ["ann", "bob"], dimension=Dimension.APP, value="live")
    make_rollup(start=MONDAY, dimension=Dimension.KEY, value="1", unique_players=None)
    time = "from=2026-11-02&to=2026-11-03"
    assert counted(viewer, time, "/api/v1/rollups?by=app&value=live&") == 2
    assert counted(viewer, time, "/api/v1/rollups?value=live/cam-1&") == 1
    assert counted(viewer, time, "/api/v1/rollups?by=app&") is None
    assert counted(viewer, time, "/api/v1/rollups?") is None
    assert counted(viewer, time, "/api/v1/rollups?by=key&value=1&") is None


def test_of_too_many_sketches_it_is_not_told(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        hour(MONDAY + number * HOUR, "ann")
    monkeypatch.setattr(rollups, "MOST_SKETCHES", 3)
    assert counted(viewer, "from=2026-11-02&to=2026-11-03") == 1
    monkeypatch.setattr(rollups, "MOST_SKETCHES", 2)
    assert counted(viewer, "from=2026-11-02&to=2026-11-03") is None


def test_where_an_hour_has_players_but_no_sketch_it_is_not_told(viewer: Client) -> None:
    hour(MONDAY, "ann")
    make_rollup(start=MONDAY + HOUR, unique_players=4)
    assert counted(viewer, "from=2026-11-02&to=2026-11-03") is None


def test_the_page_has_them_beside_the_time_before(viewer: Client) -> None:
    hour(MONDAY - 7 * DAY, "ann")
    hour(MONDAY, "ann", "bob")
    hour(MONDAY + 3 * DAY, "bob", "cy")
    answer = viewer.get("/analytics/?stream=live/cam-1&grain=hour&from=2026-11-02&to=2026-11-08")
    further = {column.label: (now, then) for column, now, then in answer.context["further"]}
    assert further["Distinct players"] == ("3", "1")
    assert "standard deviation of 1.6\u00a0%" in answer.content.decode()


@pytest.mark.parametrize(("scope", "count"), [("", "5"), ("live", "4"), ("live/cam-1", "3")])
def test_a_week_s_report_has_them(client: Client, scope: str, count: str) -> None:
    for start, seen in ((MONDAY, ["ann", "bob"]), (MONDAY + 3 * DAY, ["bob", "cy"])):
        hour(start, *seen)
        watched(start, [*seen, "dee"], dimension=Dimension.APP, value="live")
        watched(start, ["eve"], dimension=Dimension.APP, value="cams", app="cams")
    wish = {"kind": "weekly", "from": "2026-11-02", "scope": scope}
    answer = client.post("/api/v1/reports", wish, content_type="application/json", headers=api_token("analyst"))
    document = answer.json()["document"]
    assert document["figures"]["unique_players"] == int(count)
    assert {tile["label"]: tile["value"] for tile in document["more"]}["Distinct players"] == count
    assert "1.6\u00a0%" in document["footnote"]
