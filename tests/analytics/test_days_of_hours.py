"""Days are made from the tables of their hours alone: whatever becomes of samples and events, before or meanwhile."""

import json
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from pyspark.sql import DataFrameReader

from analytics.lake.maintenance import RetentionDays, compact_closed, remove_old
from analytics.models import AnalyticsRun, Dimension, Grain, Partition, Rollup
from ingest.telemetry.lake import hour_folder
from tests.analytics.lakes import HOUR_US, fill
from tests.analytics.test_pipeline import at, put, run
from tests.ingest.telemetry.records import NOON, event

pytestmark = [
    pytest.mark.spark,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("jvm", "own_lake"),
    pytest.mark.matrix,
]


def watched(lake: Path, hour: int, players: Iterable[int]) -> None:
    """These begin to play the stream in an hour."""
    start_us = NOON + (hour - 12) * HOUR_US
    who = {player: {"session": f"{hour}-{player}", "address_hash": f"{player:04x}"} for player in players}
    begun = [event(1, at_us=start_us + n * 1_000_000, session_kind="play", **each) for n, each in who.items()]
    fill(lake, events=begun)


def of_day() -> Rollup:
    return Rollup.objects.get(grain=Grain.DAY, dimension=Dimension.STREAM, value="live/demo")


def hour_row(hour: int) -> Partition:
    return Partition.objects.get(grain=Grain.HOUR, start=at(hour))


def seal(lake: Path, hour: int) -> None:
    """As an earlier version left single hours of a day, whose samples it had removed."""
    Partition.objects.filter(pk=hour_row(hour).pk).update(sealed_at=timezone.now())
    for table in ("samples", "events"):
        shutil.rmtree(hour_folder(lake, table, at(hour)))


def differences(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What `analytics check` finds."""
    capsys.readouterr()
    with suppress(CommandError):
        call_command("analytics", "check", "--json")
    found: list[str] = json.loads(capsys.readouterr().out)["differences"]
    return found


def test_a_late_record_takes_no_players_from_a_day_of_which_some_hours_are_sealed(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for hour, players in ((11, range(69)), (12, range(69, 124))):
        put(lake, hour)
        watched(lake, hour, players)
    run(lake)
    assert of_day().unique_players == 124
    seal(lake, 11)
    watched(lake, 12, [124])
    late = run(lake)
    assert late.done == 2, "the hour and the day"
    assert of_day().unique_players == 125
    assert differences(capsys) == []

    watched(lake, 11, [125, 126])
    told = run(lake)
    (warning,) = told.lines.filter(level="warning")
    assert warning.text.startswith("2 records came for hours whose samples have been removed as old")
    assert told.done == 0
    assert (of_day().unique_players, hour_row(11).late_rows) == (125, 2)
    assert differences(capsys) == []

    Rollup.objects.filter(pk=of_day().pk).update(unique_players=56)
    wrong = "live/demo in the day's row: unique_players 56 instead of 125"
    assert differences(capsys) == [f"day {at(0):%Y-%m-%d %H:%M}: {wrong}"]


def once_a_day_is_read(monkeypatch: pytest.MonkeyPatch, deed: Callable[[], None]) -> None:
    """Does it whenever Spark has been told of files that a day is made from, and has not read them yet."""
    parquet = DataFrameReader.parquet

    def told(reader: DataFrameReader, *paths: str, **options: Any) -> Any:
        frame = parquet(reader, *paths, **options)
        if AnalyticsRun.objects.filter(state="running", stage__startswith="Computing days").exists():
            deed()
        return frame

    monkeypatch.setattr(DataFrameReader, "parquet", told)


def test_a_day_is_made_while_its_files_are_compacted_and_removed(
    lake: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for hour in (11, 12):
        put(lake, hour)
        for part in range(3):
            watched(lake, hour, range(5 * part, 5 * part + 5))
    done: list[tuple[int, ...]] = []

    def keep() -> None:
        hours, files = compact_closed(lake, timezone.now())
        gone = remove_old(lake, RetentionDays(samples=1, minutes=1, hours=1, days=0), timezone.now())
        done.append((hours, files, gone.sample_hours, gone.minute_days, gone.hour_days))

    once_a_day_is_read(monkeypatch, keep)
    ended = run(lake)
    assert (ended.expected, ended.done) == (3, 3)
    assert not ended.lines.filter(level="warning").exists()
    assert done[0] == (2, 4, 0, 1, 0), "of three files of events there is one; hours wait for their day"
    assert (of_day().unique_players, of_day().samples) == (15, 40)
    assert differences(capsys) == []
