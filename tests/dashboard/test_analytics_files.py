"""The history's files: every figure, oldest first."""

import csv
import io
import json

import pytest
from django.test import Client

from analytics.models import FIGURES
from tests.dashboard.conftest import file_text
from tests.dashboard.rollups import make_rollup

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("still")]


@pytest.mark.both_forms
def test_the_csv_holds_every_figure_oldest_first(viewer: Client) -> None:
    rollups = [make_rollup(2), make_rollup(1, audio_kbps_p50=128.25)]
    make_rollup(1, name="another")
    response = viewer.get("/analytics/rollups.csv?stream=live/cam-1")
    assert response["Content-Disposition"].startswith('attachment; filename="live-cam-1-hour-')
    rows = list(csv.DictReader(io.StringIO(file_text(response))))
    assert [row["start"] for row in rows] == [rollup.start.isoformat() for rollup in rollups]
    assert [row["audio_kbps_p50"] for row in rows] == ["", "128.25"]
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
