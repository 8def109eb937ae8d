"""Rollups of the lake become the database's rows: all of them, once, and only while the work is one's own."""

import struct
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django.fixtures import Settings

from analytics.jobs import schemas
from analytics.loading import BATCH, load
from analytics.locks import LockLost
from analytics.models import FIGURES, METRIC_VERSION, Dimension, Grain, Partition, Rollup
from analytics.tables import FIGURES as FIGURES_FILE
from analytics.tables import HOUR, partition_folder
from ingest.models import Application, Stream
from tests.dashboard.conftest import client_of, make_user
from tests.dashboard.rollups import USUAL, make_rollup

pytestmark = [pytest.mark.django_db, pytest.mark.both_forms]

START = datetime(2026, 3, 29, 12, tzinfo=UTC)
START_US = int(START.timestamp()) * 1_000_000
COUNTS = pa.map_(pa.string(), pa.int64())


def row(name: str, **figures: Any) -> dict[str, Any]:
    zero: dict[str, Any] = dict.fromkeys(FIGURES, 0)
    zero |= {"start_us": START_US, "dimension": "stream", "app": "live", "name": name, "value": f"live/{name}"}
    zero |= {
        "stream": None,
        "video_histogram": [],
        "players_sketch": None,
        "peak_at_us": None,
        "refusals": [],
        "end_reasons": [],
    }
    return zero | figures


def write(lake: Path, *rows: dict[str, Any]) -> None:
    folder = partition_folder(lake, HOUR, START)
    folder.mkdir(parents=True, exist_ok=True)
    kinds = dict.fromkeys(("refusals", "end_reasons"), COUNTS) | {
        "video_histogram": schemas.arrow(schemas.ROLLUPS).field("video_histogram").type,
        "players_sketch": pa.binary(),
    }
    texts = {name: pa.string() for name, value in rows[0].items() if isinstance(value, str)}
    schema = pa.schema([(name, (kinds | texts).get(name, pa.int64())) for name in rows[0]])
    pq.write_table(pa.Table.from_pylist(list(rows), schema), folder / FIGURES_FILE)


def test_a_row_is_brought_as_it_is(tmp_path: Path) -> None:
    stream = Stream.objects.create(application=Application.objects.create(name="live"), name="demo")
    figures: dict[str, Any] = {
        "live_ms": 5,
        "refusals": [("busy", 2)],
        "peak_players": 3,
        "peak_at_us": START_US + 60_000_000,
    }
    write(
        tmp_path,
        row(
            "demo",
            stream=stream.pk,
            video_histogram=[{"bucket": -1, "count": 2}, {"bucket": 40, "count": 70_000}],
            players_sketch=b"\x01\x00",
            **figures,
        ),
        row("gone", stream=stream.pk + 1),
    )
    assert load(tmp_path, Grain.HOUR, START, lambda: True) == 2
    demo, gone = Rollup.objects.order_by("name")
    assert (demo.start, demo.value, demo.stream, demo.live_ms) == (START, "live/demo", stream, 5)
    assert (demo.refusals, demo.end_reasons, demo.metric_version) == ({"busy": 2}, {}, METRIC_VERSION)
    assert (demo.peak_at, gone.peak_at) == (START.replace(minute=1), None)
    assert bytes(demo.video_histogram) == struct.pack("<hIhI", -1, 2, 40, 70_000)
    assert bytes(demo.players_sketch) == b"\x01\x00"
    assert gone.stream is None, "a stream that was deleted keeps its history"


def test_a_stream_is_deleted_without_its_rollups_being_written_to() -> None:
    stream = Stream.objects.create(application=Application.objects.create(name="live"), name="demo")
    for hours_ago in range(3):
        make_rollup(hours_ago, "demo", stream=stream)
    with CaptureQueriesContext(connection) as queries:
        stream.delete()
    assert not any("analytics_rollup" in query["sql"] for query in queries)
    connection.check_constraints()
    viewer = client_of(make_user("viewer"))
    history = viewer.get("/analytics/?stream=live/demo&range=24h")
    assert history.context["history"].figures.samples == 3 * USUAL["samples"]
    assert viewer.get("/api/v1/rollups?stream=live/demo&grain=hour").json()["count"] == 3


def test_it_may_be_repeated_and_takes_away_what_is_no_longer_there(tmp_path: Path) -> None:
    names = [f"s{number}" for number in range(BATCH + 1)]
    write(tmp_path, *(row(name) for name in names))
    assert load(tmp_path, Grain.HOUR, START, lambda: True) == len(names)
    Rollup.objects.filter(name="s1").update(grain=Grain.DAY)  # Another grain's are left alone.
    write(tmp_path, row("s0", live_ms=7))
    assert load(tmp_path, Grain.HOUR, START, lambda: True) == 1
    assert set(Rollup.objects.values_list("grain", "name", "live_ms")) == {("hour", "s0", 7), ("day", "s1", 0)}


def test_hours_of_some_dimensions_stay_in_the_lake(tmp_path: Path, settings: Settings) -> None:
    partition = Partition.objects.create(grain=Grain.HOUR, start=START)

    def loaded(*dimensions: str) -> tuple[set[str], str]:
        settings.HOURS_IN_DATABASE = list(dimensions)
        count = load(tmp_path, Grain.HOUR, START, lambda: True)
        partition.refresh_from_db()
        found = set(Rollup.objects.values_list("dimension", flat=True))
        assert count == len(found)
        return found, partition.lake_only

    write(tmp_path, *(row("demo", dimension=str(dimension)) for dimension in Dimension))
    assert loaded(*Dimension.values) == (set(Dimension.values), "")
    assert loaded("app", "node") == ({"app", "node"}, "stream,key,encoder,broadcast"), "and leave the database"
    with pytest.raises(LockLost):
        load(tmp_path, Grain.HOUR, START, lambda: False)
    assert loaded("stream", "app")[0] == {"stream", "app"}, "or come back to it"
    make_rollup(start=START, grain=Grain.DAY, dimension=Dimension.KEY)
    loaded_day = load(tmp_path, Grain.DAY, START.replace(hour=0), lambda: True)
    assert (loaded_day, partition.lake_only) == (0, "key,encoder,node,broadcast"), "a day has no such note"


def test_nothing_is_changed_once_another_has_taken_it_up(tmp_path: Path) -> None:
    write(tmp_path, row("demo"))
    with pytest.raises(LockLost):
        load(tmp_path, Grain.HOUR, START, lambda: False)
    assert not Rollup.objects.exists()
