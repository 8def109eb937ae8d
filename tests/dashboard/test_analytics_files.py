"""The history's files: every figure, oldest first."""

import csv
import io
import json
from typing import Any

import pytest
from django.test import Client

from analytics.models import FIGURES, Dimension
from tests.dashboard.conftest import file_text
from tests.dashboard.rollups import make_rollup

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("still")]


@pytest.mark.both_forms
def test_the_csv_holds_every_figure_oldest_first(viewer: Client) -> None:
    rollups = [make_rollup(2), make_rollup(1, audio_kbps_p50=128.253906, audio_kbps_max=128.253906)]
    make_rollup(1, name="another")
    response = viewer.get("/analytics/rollups.csv?stream=live/cam-1")
    assert response["Content-Disposition"].startswith('attachment; filename="live-cam-1-hour-')
    rows = list(csv.DictReader(io.StringIO(file_text(response))))
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


def test_a_spreadsheet_does_not_take_a_name_for_a_formula(viewer: Client) -> None:
    make_rollup(0, name="=1+1")
    response = viewer.get("/analytics/rollups.csv?stream=live/%3D1%2B1")
    (row,) = csv.DictReader(io.StringIO(file_text(response)))
    assert row["name"] == "'=1+1"


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
    (row,) = csv.DictReader(io.StringIO(file_text(viewer.get(f"/analytics/{file}"))))
    assert [row[name] for name in ranked] == ["1980.1", "2501.0", "3000.0"]
