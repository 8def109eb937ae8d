"""The transforms on small frames."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from analytics.jobs.daily import daily
from analytics.jobs.hourly import hourly
from analytics.jobs.schemas import ROLLUPS, SAMPLES
from ingest.contracts import Sample
from ingest.telemetry import schema
from tests.analytics.lakes import HOUR_US
from tests.ingest.telemetry.records import NOON, sample

pytestmark = pytest.mark.spark


def frame_of(spark: SparkSession, samples: Sequence[Sample]) -> DataFrame:
    table = pa.Table.from_pylist([asdict(one) for one in samples], schema.SAMPLES.schema)
    return spark.createDataFrame(table, SAMPLES)


def rollups(spark: SparkSession, *samples: Sample) -> list[Row]:
    frame = hourly(frame_of(spark, samples))
    assert frame.schema.fieldNames() == ROLLUPS.fieldNames()
    assert [field.dataType for field in frame.schema] == [field.dataType for field in ROLLUPS]
    return sorted(frame.collect(), key=lambda row: (row.start_us, row.app, row.name))


def figures(row: Row, **expected: Any) -> None:
    assert {name: row[name] for name in expected} == expected


def test_an_hour_is_summed_for_each_stream(spark: SparkSession) -> None:
    first, second = rollups(
        spark,
        sample(0, name="a", stream=4, video_bytes=0, audio_bytes=0, video_kbps=0.0, elapsed_ms=500, health="bad"),
        sample(1, name="a", stream=4, video_kbps=2000.0, players=5, ts_gap=1, missing_frames_est=3),
        sample(2, name="a", stream=4, video_kbps=4000.0, players=1, ts_regress=2, dropped_frames=7, health="warning"),
        sample(0, name="a", stream=4, session="another", keyframe_interval=8.5, health="none"),
        sample(0, name="b", stream=5, session="third", keyframe_interval=None),
    )
    figures(
        first,
        start_us=NOON,
        app="live",
        name="a",
        stream=4,
        samples=4,
        sessions=2,
        elapsed_ms=3500,
        live_ms=3000,
        good_ms=1000,
        warning_ms=1000,
        bad_ms=500,
        video_bytes=750_000,
        audio_bytes=48_000,
        out_bytes=2_000_000,
        video_frames=120,
        keyframes=4,
        ts_gaps=1,
        ts_regressions=2,
        missing_frames_est=3,
        dropped_frames=7,
        player_ms=2 * 500 + 5000 + 1000 + 2000,
        peak_players=5,
        keyframe_interval_max=8.5,
        video_kbps_mean=8 * 750_000 / 3500,
        video_kbps_min=0.0,
        video_kbps_p50=2000.0,
        video_kbps_max=4000.0,
    )
    figures(second, name="b", stream=5, samples=1, sessions=1, keyframe_interval_max=None, video_kbps_p5=2000.0)


def test_a_sample_that_comes_twice_counts_once(spark: SparkSession) -> None:
    (row,) = rollups(spark, sample(0), sample(1), sample(0), sample(0, session="another"))
    figures(row, samples=3, sessions=2, elapsed_ms=3000, player_ms=6000)


def test_an_hour_begins_with_its_first_microsecond(spark: SparkSession) -> None:
    before, after = rollups(spark, sample(0, at_us=NOON - 1), sample(1, at_us=NOON), sample(2, at_us=NOON + 1))
    figures(before, start_us=NOON - HOUR_US, samples=1)
    figures(after, start_us=NOON, samples=2)


def test_a_group_without_elapsed_time_has_no_mean(spark: SparkSession) -> None:
    (row,) = rollups(spark, sample(0, elapsed_ms=0))
    figures(row, video_kbps_mean=None, elapsed_ms=0)


def test_no_samples_make_no_rollups(spark: SparkSession) -> None:
    assert rollups(spark) == []


def test_a_day_is_merged_from_its_hours(spark: SparkSession) -> None:
    midnight = NOON - 12 * HOUR_US
    # A session across an hour is one session of the day; 100 values lie under the sketch's size, so ranks are exact.
    samples = [sample(n, at_us=NOON - 50_000_000 + n * 1_000_000, video_kbps=float(n)) for n in range(100)]
    samples.append(sample(0, session="another", at_us=midnight, video_kbps=500.0, players=40))
    samples.append(sample(1, session="another", at_us=midnight - 1, video_kbps=900.0))
    frame = daily(hourly(frame_of(spark, samples)))
    assert frame.schema.fieldNames() == ROLLUPS.fieldNames()
    before, day = sorted(frame.collect(), key=lambda row: row.start_us)
    figures(before, start_us=midnight - 24 * HOUR_US, samples=1, sessions=1)
    figures(
        day,
        start_us=midnight,
        samples=101,
        sessions=2,
        elapsed_ms=101_000,
        video_kbps_min=0.0,
        video_kbps_p50=50.0,
        video_kbps_max=500.0,
        peak_players=40,
    )
