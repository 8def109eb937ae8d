"""`manage.py analytics check`, after real runs: it agrees with what is right, and names what is not."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from pytest_django.fixtures import Settings

from analytics import tables
from analytics.lake.maintenance import compact_closed
from analytics.models import Dimension, Grain, Rollup
from analytics.synthetic import generate
from tests.ingest.telemetry.records import NOON

pytestmark = [
    pytest.mark.spark,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("jvm"),
    pytest.mark.slow("Spark plans and computes"),
]

START = datetime.fromtimestamp(NOON / 1e6, UTC)
DAY = START.replace(hour=0)


def check(capsys: pytest.CaptureFixture[str], *, fails: bool = False) -> dict[str, Any]:
    capsys.readouterr()
    try:
        call_command("analytics", "check", "--json")
    except CommandError:
        assert fails
    else:
        assert not fails
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_it_agrees_with_what_is_right_and_names_what_is_not(
    lake: Path, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.LAKE_DIR = lake
    made = generate(lake, streams=3, start=START, hours=2, files_per_hour=4)
    call_command("analytics", "run", "--json")
    right = {"hours": 2, "days": 1, "samples": made.samples, "undone": 0, "differences": [], "incomplete": []}
    assert check(capsys) == right

    hours, files = compact_closed(lake, timezone.now())
    assert hours == 2
    assert files == 6
    assert check(capsys) == right

    generate(lake, streams=3, start=START.replace(hour=14), hours=1, files_per_hour=4)
    assert check(capsys) == right | {"undone": 1}, "what is new is no difference"

    played = Rollup.objects.filter(grain=Grain.HOUR, dimension=Dimension.STREAM, unique_players__gt=0)
    assert played.update(players_sketch=b"") > 0
    assert check(capsys) == right | {"undone": 1}, "of what an earlier version left no sketch of, nothing can be said"

    row = Rollup.objects.filter(grain=Grain.HOUR, start=START, dimension=Dimension.STREAM).first()
    assert row
    Rollup.objects.filter(pk=row.pk).update(video_bytes=row.video_bytes + 1)
    shutil.rmtree(tables.partition_folder(lake, tables.DAY, DAY))
    found = check(capsys, fails=True)["differences"]
    hour = f"hour {START:%Y-%m-%d %H:%M}: "
    wrong = f"video_bytes {row.video_bytes + 1:,} instead of {row.video_bytes:,}"
    assert f"{hour}{row.value} in the database: {wrong}" in found
    assert f"{hour}the rows by app do not add up to those by stream" in found
    assert f"day {DAY:%Y-%m-%d %H:%M}: {row.value} is missing in the day's Parquet" in found
    Rollup.objects.filter(pk=row.pk).delete()
    assert f"{hour}{row.value} is missing in the database" in check(capsys, fails=True)["differences"]


def test_hours_that_are_in_the_lake_alone_are_not_missing_in_the_database(
    lake: Path, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.LAKE_DIR, settings.HOURS_IN_DATABASE = lake, ["app", "node"]
    made = generate(lake, streams=3, start=START, hours=2, files_per_hour=2)
    call_command("analytics", "run", "--json")
    assert set(Rollup.objects.filter(grain=Grain.HOUR).values_list("dimension", flat=True)) == {"app", "node"}
    assert set(Rollup.objects.filter(grain=Grain.DAY).values_list("dimension", flat=True)) == set(Dimension.values)
    expected = {"hours": 2, "days": 1, "samples": made.samples, "undone": 0, "differences": [], "incomplete": []}
    assert check(capsys) == expected
    tables.figures_file(lake, tables.HOUR, START).unlink()
    found = check(capsys, fails=True)["differences"]
    assert any("is missing in the rollups' Parquet" in one for one in found)
