"""The transforms without Spark: what the scan makes of files, and sessions' hours and broadcasts, told row by row."""

import random
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from analytics import schemas
from analytics.histograms import buckets as buckets_of
from analytics.jobs import partials
from analytics.jobs.computing import update_partials
from analytics.jobs.minutes import LABELS, MINUTE_US, buckets, minutes, single
from analytics.jobs.partials import Made, Task, make
from analytics.jobs.sessions import GAP_US, session_hours
from analytics.metrics import BITRATES
from analytics.schemas import HourInput, LakeFile
from ingest.contracts import Sample
from ingest.telemetry import lake
from tests.analytics.lakes import HOUR_US, table_of
from tests.ingest.telemetry.records import NOON, sample


def test_the_jobs_read_what_the_nodes_write() -> None:
    for table, columns in ((lake.SAMPLES, schemas.SAMPLES), (lake.EVENTS, schemas.EVENTS)):
        written = {field.name: field.type for field in table.schema}
        read = {field.name: field.type for field in schemas.arrow(columns)}
        assert read == {name: written[name] for name in read}
        nullable = {field.name for field in table.schema if field.nullable and field.name in columns}
        assert nullable <= set(schemas.UNKNOWN), "what may be unknown is told from nothing"
    assert set(schemas.EVENTS) == set(lake.EVENTS.schema.names), "a copy of an event equals it in every column"


SECOND_US = 1_000_000

labels = st.fixed_dictionaries(
    {
        "session": st.sampled_from("ab"),
        "name": st.sampled_from(["one", "two"]),
        "key": st.sampled_from([None, 0, 7]),
        "encoder": st.sampled_from([None, "", "obs"]),
        "target_kbps": st.sampled_from([None, 100, 5000]),
        "keyframe_interval": st.sampled_from([None, 0.5, 2.0, 12.0]),
        "video_kbps": st.sampled_from([0.0, 0.0004, 2000.0, 2001.0, 9e9]),
        "health": st.sampled_from(["good", "bad", "none"]),
        "second": st.integers(0, 200),
    }
)


def samples_of(drawn: list[dict[str, Any]]) -> list[Sample]:
    return [
        sample(number, at_us=NOON + one["second"] * SECOND_US, **{name: one[name] for name in one if name != "second"})
        for number, one in enumerate(drawn)
    ]


def encoded(rows: pa.Table) -> pa.Table:
    kinds = schemas.encoded(schemas.SAMPLES)
    columns = {each.name: rows[each.name] for each in kinds}
    texts = {each.name: rows[each.name].dictionary_encode() for each in kinds if pa.types.is_dictionary(each.type)}
    return pa.table(columns | texts, schema=kinds)


@given(st.lists(labels, max_size=40), st.booleans())
def test_samples_are_grouped_by_all_of_their_labels(drawn: list[dict[str, Any]], are_encoded: bool) -> None:
    samples = samples_of(drawn)
    rows = table_of(samples)
    s = single(encoded(rows) if are_encoded else rows)

    expected: dict[Any, list[Sample]] = {}
    for one in samples:
        minute_us = one.at_us - one.at_us % MINUTE_US
        expected.setdefault((minute_us, *(getattr(one, name) for name in LABELS)), []).append(one)
    found = minutes(s).to_pylist()
    assert len(found) == len(expected)
    for row in found:
        group = expected[tuple(row[name] for name in ("minute_us", *LABELS))]
        intervals = [one.keyframe_interval for one in group if one.keyframe_interval is not None]
        assert row["samples"] == len(group)
        assert row["keyframe_interval_max"] == max(intervals, default=None)
        assert row["good_ms"] == sum(one.elapsed_ms for one in group if one.health == "good")
        assert row["targeted_ms"] == sum(one.elapsed_ms for one in group if one.target_kbps is not None)
        assert row["video_kbps_min"] == min(one.video_kbps for one in group)
        assert row["last_sequence"] == max(one.sequence for one in group)

    counts: Counter[Any] = Counter()
    for kind in BITRATES:
        for one, bucket in zip(samples, buckets_of(rows[f"{kind}_kbps"].to_numpy()).tolist(), strict=True):
            counts[(*(getattr(one, name) for name in LABELS), kind, bucket)] += 1
    told = {
        tuple(row[name] for name in (*LABELS, "kind", "bucket")): row["count"] for row in buckets(s, NOON).to_pylist()
    }
    assert told == counts


@given(st.lists(labels, min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_copies_are_left_out_whatever_the_labels(drawn: list[dict[str, Any]], chance: random.Random) -> None:
    samples = samples_of(drawn)
    doubled = samples + chance.sample(samples, chance.randrange(len(samples) + 1))
    chance.shuffle(doubled)
    once, twice = (
        minutes(single(rows(of))) for rows, of in ((table_of, samples), (lambda of: encoded(table_of(of)), doubled))
    )
    by = [(name, "ascending") for name in once.column_names]
    assert twice.sort_by(by).equals(once.sort_by(by))


def put(root: Path, name: str, samples: list[Sample], *, without: tuple[str, ...] = ()) -> LakeFile:
    path = root / "samples" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = pa.table(lake.SAMPLES.batch(samples))
    pq.write_table(rows.drop_columns(list(without)), path)
    return str(path.relative_to(root)), path.stat().st_size, path.stat().st_mtime_ns


def task_of(lake: Path, files: list[LakeFile], merge: list[str]) -> Task:
    return {"lake": str(lake), "folder": str(lake / "partials"), "hour_us": NOON, "files": files, "merge": merge}


def names(lake: Path) -> list[str]:
    return sorted(folder.name for folder in partials.there(lake / "partials"))


def session_of(session: str, seconds: range) -> list[Sample]:
    return [sample(number, session=session, at_us=NOON + number * SECOND_US) for number in seconds]


def damage(lake: Path, file: LakeFile) -> None:
    name, size, _ = file
    (lake / name).write_bytes(b"\0" * size)


def samples_in(lake: Path, name: str) -> dict[str, int]:
    rows = partials.read_part(lake / "partials" / name / "minutes.parquet")
    sums = rows.group_by("session").aggregate([("samples", "sum")]).to_pylist()
    return {row["session"]: row["samples_sum"] for row in sums}


def test_files_of_older_versions_are_read_with_newer_ones(lake: Path) -> None:
    missing = ("encoder", "health", "target_kbps", "out_bytes")
    old = put(lake, "old.parquet", session_of("old", range(5)), without=missing)
    new = put(lake, "new.parquet", session_of("new", range(3)))
    assert make(task_of(lake, [old, new], []))["rows"] == 8
    (name,) = names(lake)
    rows = partials.read_part(lake / "partials" / name / "minutes.parquet").to_pylist()
    found = {row["session"]: row for row in rows}
    assert [found["old"][name] for name in ("encoder", "good_ms", "targeted_ms", "out_bytes")] == [None, 0, 0, 0]
    assert found["new"]["encoder"] == sample(0).encoder
    assert found["new"]["good_ms"] == 3000


def test_samples_of_other_hours_are_strays(lake: Path) -> None:
    file = put(lake, "one.parquet", [*session_of("a", range(4)), *session_of("a", range(3600, 3603))])
    assert make(task_of(lake, [file], []))["rows"] == 7
    (name,) = names(lake)
    assert partials.read_manifest(lake / "partials" / name)["strays"] == 3
    assert samples_in(lake, name) == {"a": 4}


@pytest.mark.parametrize("beside", [[], session_of("d", range(5))])
def test_merge_of_partials_leaves_out_a_damaged_file_and_reports_it(lake: Path, beside: list[Sample]) -> None:
    """Partials that have the same samples are merged, for which their files are read once more."""
    one = put(lake, "one.parquet", [*session_of("a", range(10)), *session_of("b", range(5))])
    broken = put(lake, "two.parquet", [*session_of("a", range(5, 20)), *session_of("c", range(5))])
    more = [put(lake, "three.parquet", beside)] if beside else []
    make(task_of(lake, [one], []))
    make(task_of(lake, [broken, *more], []))
    former = names(lake)
    damage(lake, broken)

    made: Made = make(task_of(lake, [], former))

    assert list(made["damaged"]) == [broken[0]]
    (merged,) = set(names(lake)) - set(former)
    assert samples_in(lake, merged) == {"a": 10, "b": 5} | ({"d": 5} if beside else {})
    manifest = partials.read_manifest(lake / "partials" / merged)
    assert manifest["files"] == sorted(map(list, [one, *more]))
    assert manifest["rows"] == made["rows"] == 15 + len(beside)


def test_hour_reports_a_file_found_damaged_while_merging_its_partials(lake: Path) -> None:
    """So little is scanned by this process, without a session of Spark."""
    start = datetime.fromtimestamp(NOON / 1e6, UTC).replace(minute=0, second=0, microsecond=0)
    broken = put(lake, "one.parquet", session_of("a", range(10)))
    update_partials(cast(SparkSession, None), lake, [HourInput(start, (broken,))])
    damage(lake, broken)
    other = put(lake, "two.parquet", session_of("a", range(5, 20)))
    (scanned,) = update_partials(cast(SparkSession, None), lake, [HourInput(start, (broken, other))]).values()
    assert list(scanned.damaged) == [broken[0]]
    assert scanned.rows == 15


FIRST_US = 490_000 * HOUR_US
PATHS = [("live", "main"), ("live", "side"), ("side", "main")]
NONE_OF = {schemas.TEXT: "", schemas.WHOLE: 0, schemas.REAL: 0.0}

Row = dict[str, Any]
StreamPath = tuple[str, str]


def table(rows: list[Row], columns: schemas.Columns) -> pa.Table:
    missing = {name: NONE_OF[kind] for name, kind in columns.items()}
    return pa.Table.from_pylist([missing | row for row in rows], schemas.arrow(columns))


@st.composite
def sessions(draw: st.DrawFn) -> list[Row]:
    rows = []
    for number in range(draw(st.integers(0, 12))):
        app, name = draw(st.sampled_from(PATHS))
        start_us = FIRST_US + draw(st.integers(0, 1)) * HOUR_US
        first_us = start_us + draw(st.integers(0, 12)) * 150_000_000  # Half a gap.
        rows.append(
            {
                "start_us": start_us,
                "session": f"s{number}",
                "app": app,
                "name": name,
                "stream": PATHS.index((app, name)),
                "key": draw(st.sampled_from([None, 3])),
                "encoder": draw(st.sampled_from([None, "OBS"])),
                "first_us": first_us,
                "last_us": first_us + draw(st.integers(0, 6)) * 150_000_000,
                "first_sequence": draw(st.integers(1, 2)),
                "samples": draw(st.integers(1, 100)),
            }
        )
    return rows


@st.composite
def tails(draw: st.DrawFn) -> dict[StreamPath, tuple[int, int]]:
    """Of streams, when the last sample of the hour before was, and when its broadcast began."""
    ended = st.integers(0, 3).map(lambda gaps: FIRST_US - gaps * GAP_US // 2)
    began = st.integers(1, 9).map(lambda hours: FIRST_US - hours * HOUR_US)
    return draw(st.dictionaries(st.sampled_from(PATHS), st.tuples(ended, began)))


def told(rows: list[Row], tail: Mapping[StreamPath, tuple[int, int]], named: Mapping[str, int]) -> dict[str, Row]:
    """{session: its broadcast and how it began}, one row after another."""
    found: dict[str, Row] = {}
    order = sorted(rows, key=lambda row: (row["app"], row["name"], row["start_us"], row["first_us"], row["session"]))
    for path, own in groupby(order, key=lambda row: (row["app"], row["name"])):
        reached, begun = tail.get(path, (None, None))
        stretches: list[tuple[int | None, list[Row]]] = []
        for row in own:
            gap_us = None if reached is None else row["first_us"] - reached
            goes_on = gap_us is not None and gap_us <= GAP_US
            if not goes_on or not stretches:
                stretches.append((begun if goes_on else None, []))
            stretches[-1][1].append(row)
            reached = row["last_us"] if row is stretches[0][1][0] else max(reached or 0, row["last_us"])
            begins = row["first_sequence"] == 1
            found[row["session"]] = {
                "starts": int(begins),
                "broadcasts": int(begins and not goes_on),
                "reconnects": int(begins and goes_on),
                "recovery_ms": max(gap_us or 0, 0) // 1000 if begins and goes_on else 0,
                "samples": row["samples"],
            }
        for before, stretch in stretches:
            names = [named.get(row["session"]) for row in stretch]
            for place, row in enumerate(stretch):
                former = [name for name in names[: place + 1] if name is not None][-1:]
                later = [name for name in names[place:] if name is not None][:1]
                known = [*former, *([before] if before is not None else []), *later, stretch[0]["first_us"]]
                found[row["session"]]["broadcast_us"] = known[0]
    return found


@settings(max_examples=150)
@given(rows=sessions(), tail=tails(), draw=st.data())
def test_session_hours_classify_starts_broadcasts_and_reconnects(
    rows: list[Row], tail: dict[StreamPath, tuple[int, int]], draw: st.DataObject
) -> None:
    named = draw.draw(st.dictionaries(st.sampled_from([row["session"] for row in rows] or ["-"]), st.integers(1, 9)))
    before = [
        {"app": app, "name": name, "last_us": last_us, "broadcast_us": began_us}
        for (app, name), (last_us, began_us) in tail.items()
    ]
    given_before = [
        {"start_us": row["start_us"], "session": row["session"], "broadcast_us": named[row["session"]]}
        for row in rows
        if row["session"] in named
    ]
    parts = [row | {"samples": samples} for row in rows for samples in (row["samples"] - 1, 1)]
    given_rows = ((parts, schemas.SESSIONS), (before, schemas.TAIL), (given_before, schemas.GIVEN))
    made = session_hours(*(table(*each) for each in given_rows))
    expected = told(rows, tail, named)
    columns = ["broadcast_us", "starts", "broadcasts", "reconnects", "recovery_ms", "samples"]
    assert made.num_rows == len(rows)
    assert {row["session"]: {name: row[name] for name in columns} for row in made.to_pylist()} == expected
    labels = ["session", "start_us", "stream", "key", "encoder"]
    assert sorted(map(repr, made.select(labels).to_pylist())) == sorted(
        repr({name: row[name] for name in labels}) for row in rows
    )
