"""/api/v1/rollups: of what its rows are, its filters, and the metrics that follow from the sums."""

from datetime import UTC, datetime

import pytest
from django.test import Client

from analytics.figures import DERIVED
from analytics.models import FIGURES, Dimension, Grain
from ingest.models import Stream
from ingest.services import keys
from tests.dashboard.rollups import make_rollup

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("still")]

URL = "/api/v1/rollups"


@pytest.mark.both_forms
def test_streams_are_listed_unasked(viewer: Client) -> None:
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
    assert Client().get(URL).status_code == 401


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
    assert found("by=key") == [("", "Without a key"), (str(key.key.pk), "Studio")]
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
    defined = {"live_h", "player_minutes", "player_hours", "delivered_gb"}
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
def test_what_can_not_be_asked_for_is_said(viewer: Client, query: str, problem: str) -> None:
    answer = viewer.get(f"{URL}?{query}")
    assert answer.status_code == 422
    (said,) = answer.json()["detail"]
    assert problem in said["msg"]
