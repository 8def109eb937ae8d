"""Compaction of closed hours, and what is removed when: on lakes as nodes write them, without Spark."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analytics import ledger, locks, tables
from analytics.lake import maintenance, quarantine
from analytics.lake.maintenance import RetentionDays, compact, compactable, remove_old
from analytics.ledger import HOUR, Hours
from analytics.models import Dimension, Grain, Partition, Rollup
from ingest.contracts import Sample
from ingest.telemetry.lake import SAMPLES, hour_folder, write_parquet
from ingest.telemetry.reading import read_session
from tests.analytics.lakes import note_days_done, note_done
from tests.analytics.rollups import make_rollup
from tests.ingest.telemetry.records import NOON, sample

pytestmark = pytest.mark.django_db

START = datetime.fromtimestamp(NOON / 1e6, UTC)
DAY = ledger.day_of(START)
LATER = START + 3 * HOUR
FOREVER = RetentionDays(samples=0, minutes=0, hours=0, days=0)
A_MONTH = RetentionDays(samples=30, minutes=0, hours=0, days=0)


def put(lake: Path, name: str, samples: Sequence[Sample], start: datetime = START) -> Path:
    """A file as a node's spool becomes one."""
    file = hour_folder(lake, "samples", start) / f"{name}.parquet"
    write_parquet(pa.Table.from_batches([SAMPLES.batch(samples)]), file)
    return file


def minutes_of(session: str, count: int, start_us: int = NOON) -> list[list[Sample]]:
    return [
        [sample(minute * 60 + n, session=session, at_us=start_us + (minute * 60 + n) * 1_000_000) for n in range(60)]
        for minute in range(count)
    ]


def put_minutes(lake: Path, count: int, node: str = "edge") -> None:
    for number, part in enumerate(minutes_of("one", count)):
        put(lake, f"{node}-20260329T120000-{number:06d}", part)


def files(lake: Path, start: datetime = START) -> list[str]:
    return sorted(path.name for path in hour_folder(lake, "samples", start).glob("*"))


def rows(lake: Path) -> list[dict[str, object]]:
    found = [
        row for name in files(lake) for row in pq.read_table(hour_folder(lake, "samples", START) / name).to_pylist()
    ]
    return sorted(found, key=lambda row: (str(row["session"]), int(str(row["sequence"]))))


def test_each_nodes_files_become_one_sorted_by_session(lake: Path) -> None:
    for number, (one, two) in enumerate(zip(minutes_of("one", 5), minutes_of("two", 5), strict=True)):
        put(lake, f"edge-1-20260329T120000-{number:06d}", [row for pair in zip(one, two, strict=True) for row in pair])
    put(lake, "edge-2-20260329T120000-000000", minutes_of("three", 1)[0])
    before = rows(lake)
    row = note_done(lake, START)
    note_days_done()
    assert list(compactable(lake, LATER)) == [START]
    assert compact(lake, START) == 4
    assert files(lake) == ["edge-1-20260329T120000-all.parquet", "edge-2-20260329T120000-000000.parquet"]
    assert rows(lake) == before
    merged = pq.read_table(hour_folder(lake, "samples", START) / files(lake)[0], columns=["session", "sequence"])
    assert merged.to_pylist() == sorted(merged.to_pylist(), key=lambda row: (row["session"], row["sequence"]))
    assert not Hours(lake).pending(), "it is the same as what was computed"
    assert not ledger.Days().pending()
    after = Partition.objects.get(pk=row.pk)
    assert (after.files, after.lock, after.compacted_at is not None) == (2, "", True)
    assert list(compactable(lake, LATER)) == []


def test_merging_sorts_a_bounded_number_of_rows_at_a_time(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "SORTED_ROWS", 120)
    for number, part in enumerate(reversed(minutes_of("one", 4))):
        put(lake, f"edge-20260329T120000-{number:06d}", part)
    note_done(lake, START)
    assert compact(lake, START) == 3
    (name,) = files(lake)
    merged = pq.read_table(hour_folder(lake, "samples", START) / name, columns=["sequence"])["sequence"].to_pylist()
    assert merged == [*range(120, 240), *range(120)]


def test_late_file_is_compacted_only_after_its_hour_was_recomputed(lake: Path) -> None:
    put_minutes(lake, 2)
    note_done(lake, START)
    compact(lake, START)
    put(lake, "edge-20260329T120000-000002", minutes_of("one", 3)[2])
    assert [hour.start for hour in Hours(lake).pending()] == [START]
    assert compact(lake, START) == 0, "first it has to be computed"
    note_done(lake, START)
    assert compact(lake, START) == 1
    assert [row["sequence"] for row in rows(lake)] == list(range(180))


def test_files_of_an_earlier_version_get_the_newer_columns(lake: Path) -> None:
    first, second = minutes_of("one", 2)
    put(lake, "edge-20260329T120000-000001", second)
    old = pa.Table.from_batches([SAMPLES.batch(first)]).drop_columns(["encoder", "target_kbps", "viewers"])
    write_parquet(old, hour_folder(lake, "samples", START) / "edge-20260329T120000-000000.parquet")
    note_done(lake, START)
    assert compact(lake, START) == 1
    assert [row["encoder"] for row in rows(lake)] == [None] * 60 + [second[0].encoder] * 60
    assert [row["viewers"] for row in rows(lake)] == [0] * 60 + [second[0].viewers] * 60


def test_session_reads_the_same_after_compaction(lake: Path) -> None:
    put_minutes(lake, 3, "node-a")
    until = NOON + 600_000_000
    before = read_session(lake, "one", NOON, until, node="node-a")
    note_done(lake, START)
    compact(lake, START)
    after = read_session(lake, "one", NOON, until, node="node-a")
    assert (after.at, after.values, after.totals) == (before.at, before.values, before.totals)
    assert (before.files, after.files) == (3, 1)


@pytest.mark.both_forms
def test_locked_hour_is_not_compacted(lake: Path) -> None:
    put_minutes(lake, 2)
    note_done(lake, START)
    lock = locks.hold(START)
    assert lock
    assert compact(lake, START) == 0
    lock.give_back()
    assert compact(lake, START) == 1


def test_a_file_that_cannot_be_read_leaves_everything_as_it_was(lake: Path) -> None:
    put(lake, "edge-20260329T120000-000000", minutes_of("one", 1)[0])
    (hour_folder(lake, "samples", START) / "edge-20260329T120000-000001.parquet").write_bytes(b"PAR1 nonsense")
    note_done(lake, START)
    before = files(lake)
    with pytest.raises(pa.ArrowException):
        compact(lake, START)
    assert files(lake) == before
    assert locks.hold(START), "it was given back"


def test_an_hour_that_may_still_grow_is_left_alone(lake: Path) -> None:
    put_minutes(lake, 2)
    note_done(lake, START)
    assert list(compactable(lake, START + 2 * HOUR - timedelta(seconds=1))) == []
    assert list(compactable(lake, START + 2 * HOUR)) == [START]


@pytest.mark.both_forms
def test_samples_go_by_whole_days_when_they_are_done(lake: Path) -> None:
    for hour in (0, 12, 24):
        put(lake, "edge-1-0", [sample(0)], DAY + hour * HOUR)
    note_done(lake, DAY)
    assert remove_old(lake, A_MONTH, DAY + timedelta(days=31)).sample_hours == 0, "its day is not done"
    note_days_done()
    assert remove_old(lake, A_MONTH, DAY + timedelta(days=31)).sample_hours == 0, "an hour of it is not computed"
    note_done(lake, DAY + 12 * HOUR)
    note_done(lake, DAY + 24 * HOUR)
    note_days_done()
    assert remove_old(lake, A_MONTH, DAY + timedelta(days=31, hours=-1)).sample_hours == 0, "its day is not over"
    assert remove_old(lake, A_MONTH, DAY + timedelta(days=31)).sample_hours == 2
    assert (files(lake, DAY), files(lake, DAY + 12 * HOUR)) == ([], [])
    assert files(lake, DAY + 24 * HOUR) == ["edge-1-0.parquet"]
    assert remove_old(lake, FOREVER, DAY + timedelta(days=9999)).sample_hours == 0


def test_late_file_of_a_removed_hour_is_quarantined_and_counted(lake: Path) -> None:
    put(lake, "edge-1-0", [sample(0)])
    note_done(lake, START)
    note_days_done()
    now = START + timedelta(days=40)
    remove_old(lake, A_MONTH, now)
    put(lake, "edge-1-1", [sample(1)])
    assert Hours(lake).pending() == []
    remove_old(lake, A_MONTH, now)
    assert files(lake) == []
    assert Partition.objects.get(grain=Grain.HOUR).late_rows == 1, "it is told"
    aside = hour_folder(lake / "quarantine" / "late", "samples", START)
    assert [file.name for file in aside.iterdir()] == ["edge-1-1.parquet"], "and kept"


def set_aside(lake: Path, why: str, start: datetime, name: str, when: datetime) -> None:
    file = put(lake, name, [sample(0)], start).relative_to(lake)
    quarantine.set_aside(lake, file.as_posix(), why)
    os.utime(lake / "quarantine" / why / file, (when.timestamp(), when.timestamp()))


def test_quarantined_files_are_removed_after_the_retention_of_samples(lake: Path) -> None:
    now = START + timedelta(days=40)
    old, new = now - timedelta(days=31), now - timedelta(days=29)
    for why in (quarantine.DAMAGED, quarantine.LATE, quarantine.UNDATED):
        for name, when in (("old", old), ("new", new)):
            set_aside(lake, why, START - HOUR, name, when)
    set_aside(lake, quarantine.DAMAGED, START, "damaged", old)
    whole = put(lake, "whole", [sample(1)])
    assert remove_old(lake, FOREVER, now).set_aside == 0
    assert remove_old(lake, A_MONTH, now).set_aside == 3
    left = sorted(file.stem for file in (lake / "quarantine").rglob("*.parquet"))
    assert left == ["damaged", "new", "new", "new"], "the lake still has the damaged one's hour, which counts it"
    assert remove_old(lake, A_MONTH, now + timedelta(days=2)).set_aside == 3
    whole.unlink()
    assert remove_old(lake, A_MONTH, now).set_aside == 1, "what is left of the hour is an empty folder"
    assert list((lake / "quarantine").iterdir()) == []


def test_quarantine_age_counts_from_the_move_and_not_from_the_file_time(lake: Path) -> None:
    file = put(lake, "late", [sample(0)])
    os.utime(file, (0, 0))
    quarantine.set_aside(lake, file.relative_to(lake).as_posix(), quarantine.LATE)
    day_ago = datetime.now(UTC) - timedelta(days=1)
    assert quarantine.remove_old(lake, day_ago) == 0
    assert quarantine.remove_old(lake, day_ago + timedelta(days=2)) == 1


def folder(lake: Path, table: str, start: datetime) -> Path:
    made = tables.partition_folder(lake, table, start)
    made.mkdir(parents=True)
    (made / "part-0.parquet").write_bytes(b"x")
    return made


@pytest.mark.both_forms
def test_hours_go_with_their_day_and_minutes_before_them(lake: Path) -> None:
    put(lake, "edge-1-0", [sample(0)])
    note_done(lake, START)
    minutes, sessions, hour, day = (
        folder(lake, table, START) for table in (tables.PARTIALS, tables.SESSION_HOURS, tables.HOUR, tables.DAY)
    )
    make_rollup(start=START)
    make_rollup(start=DAY, grain=Grain.DAY)
    make_rollup(start=START, dimension=Dimension.APP, value="live")
    kept = RetentionDays(samples=30, minutes=90, hours=400, days=0)

    def after(days: int) -> list[bool]:
        remove_old(lake, kept, DAY + timedelta(days=days))
        return [path.exists() for path in (minutes, sessions, hour, day)]

    assert after(91) == [False, True, True, True]
    assert files(lake) == ["edge-1-0.parquet"]
    assert after(401) == [False, True, True, True], "the day is not done"
    note_days_done()
    assert after(401) == [False, False, False, True]
    assert list(Rollup.objects.values_list("grain", flat=True)) == [Grain.DAY]
    assert not Partition.objects.filter(grain=Grain.HOUR).exists()
    assert ledger.Days().pending() == [], "the day stays as it is"
    put(lake, "edge-1-9", [sample(9)])
    note_done(lake, START)
    assert ledger.Days().pending() == [], "also when something comes for one of its hours"
    Partition.objects.filter(grain=Grain.HOUR).delete()
    kept = RetentionDays(samples=30, minutes=90, hours=400, days=500)
    assert after(501) == [False, False, False, False]
    assert not Rollup.objects.exists()
