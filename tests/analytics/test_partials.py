"""What the scan makes of files: the same whichever way their samples are labelled, ordered, doubled and cut."""

import random
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from analytics import schemas
from analytics.histograms import buckets as buckets_of
from analytics.jobs import partials
from analytics.jobs.computing import update_partials
from analytics.jobs.minutes import LABELS, MINUTE_US, buckets, minutes, single
from analytics.jobs.partials import Made, Task, make
from analytics.metrics import BITRATES
from analytics.schemas import HourInput, LakeFile
from ingest.contracts import Sample
from ingest.telemetry import lake
from tests.ingest.telemetry.records import NOON, sample

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


def table_of(samples: list[Sample]) -> pa.Table:
    rows = lake.SAMPLES.batch(samples) if samples else lake.SAMPLES.schema.empty_table()
    return schemas.cast(pa.table(rows), schemas.SAMPLES)


def encoded(rows: pa.Table) -> pa.Table:
    kinds = schemas.encoded(schemas.SAMPLES)
    return pa.table(
        [
            rows[each.name].dictionary_encode() if pa.types.is_dictionary(each.type) else rows[each.name]
            for each in kinds
        ],
        schema=kinds,
    )


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
    return _file(root, path)


def _file(lake: Path, path: Path) -> LakeFile:
    return str(path.relative_to(lake)), path.stat().st_size, path.stat().st_mtime_ns


def task_of(lake: Path, files: list[LakeFile], merge: list[str]) -> Task:
    return {"lake": str(lake), "folder": str(lake / "partials"), "hour_us": NOON, "files": files, "merge": merge}


def names(lake: Path) -> list[str]:
    return sorted(folder.name for folder in partials.there(lake / "partials"))


def session_of(session: str, seconds: range) -> list[Sample]:
    return [sample(number, session=session, at_us=NOON + number * SECOND_US) for number in seconds]


def samples_in(lake: Path, name: str) -> dict[str, int]:
    rows = partials.read_part(lake / "partials" / name / "minutes.parquet")
    return {
        row["session"]: row["samples_sum"]
        for row in rows.group_by("session").aggregate([("samples", "sum")]).to_pylist()
    }


def test_files_of_older_versions_are_read_with_newer_ones(lake: Path) -> None:
    old = put(
        lake, "old.parquet", session_of("old", range(5)), without=("encoder", "health", "target_kbps", "out_bytes")
    )
    new = put(lake, "new.parquet", session_of("new", range(3)))
    assert make(task_of(lake, [old, new], []))["rows"] == 8
    (name,) = names(lake)
    found = {
        row["session"]: row for row in partials.read_part(lake / "partials" / name / "minutes.parquet").to_pylist()
    }
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
def test_a_file_that_is_damaged_since_its_partial_was_made_is_told_and_the_rest_computed(
    lake: Path, beside: list[Sample]
) -> None:
    """Partials that have the same samples are merged, for which their files are read once more."""
    one = put(lake, "one.parquet", [*session_of("a", range(10)), *session_of("b", range(5))])
    broken = put(lake, "two.parquet", [*session_of("a", range(5, 20)), *session_of("c", range(5))])
    more = [put(lake, "three.parquet", beside)] if beside else []
    make(task_of(lake, [one], []))
    make(task_of(lake, [broken, *more], []))
    former = names(lake)
    path = lake / broken[0]
    path.write_bytes(b"\0" * path.stat().st_size)

    made: Made = make(task_of(lake, [], former))

    assert list(made["damaged"]) == [broken[0]]
    (merged,) = set(names(lake)) - set(former)
    assert samples_in(lake, merged) == {"a": 10, "b": 5} | ({"d": 5} if beside else {})
    manifest = partials.read_manifest(lake / "partials" / merged)
    assert manifest["files"] == sorted(map(list, [one, *more]))
    assert manifest["rows"] == made["rows"] == 15 + len(beside)


def test_the_hour_is_told_of_what_was_found_damaged_as_its_partials_merged(lake: Path) -> None:
    """So little is scanned by this process, without a session of Spark."""
    start = datetime.fromtimestamp(NOON / 1e6, UTC).replace(minute=0, second=0, microsecond=0)
    broken = put(lake, "one.parquet", session_of("a", range(10)))
    update_partials(cast(SparkSession, None), lake, [HourInput(start, (broken,))])
    path = lake / broken[0]
    path.write_bytes(b"\0" * path.stat().st_size)
    other = put(lake, "two.parquet", session_of("a", range(5, 20)))
    (scanned,) = update_partials(cast(SparkSession, None), lake, [HourInput(start, (broken, other))]).values()
    assert list(scanned.damaged) == [broken[0]]
    assert scanned.rows == 15
