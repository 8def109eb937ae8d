# ruff: noqa: S608 (the SQL is the test's own)
"""From the lake to the database: equal to an independent computation, repeatable, and only what is new."""

import shutil
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark import SparkContext

from analytics import pipeline, runner, services
from analytics.loading import rollup_folder
from analytics.models import FIGURES, AnalyticsRun, Grain, Partition, Rollup
from ingest.models import Application, Stream
from tests.analytics.lakes import HOUR_US, broadcast, fill, two_hours
from tests.ingest.telemetry.records import NOON

pytestmark = [pytest.mark.spark, pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("jvm")]

EXACT = """
    count(*) samples, count(distinct session) sessions, sum(elapsed_ms) elapsed_ms,
        sum(elapsed_ms) filter (video_bytes + audio_bytes > 0) live_ms,
        sum(elapsed_ms) filter (health = 'good') good_ms, sum(elapsed_ms) filter (health = 'warning') warning_ms,
        sum(elapsed_ms) filter (health = 'bad') bad_ms,
        sum(video_bytes) video_bytes, sum(audio_bytes) audio_bytes, sum(data_bytes) data_bytes,
        sum(wire_bytes) wire_bytes, sum(out_bytes) out_bytes, sum(video_frames) video_frames,
        sum(audio_frames) audio_frames, sum(keyframes) keyframes, sum(ts_gap) ts_gaps, sum(ts_regress) ts_regressions,
        sum(missing_frames_est) missing_frames_est, sum(dropped_frames) dropped_frames,
        sum(players * elapsed_ms) player_ms, max(players) peak_players, max(keyframe_interval) keyframe_interval_max,
        sum(video_bytes) * 8 / sum(elapsed_ms) video_kbps_mean, sum(audio_bytes) * 8 / sum(elapsed_ms) audio_kbps_mean,
        sum(wire_bytes) * 8 / sum(elapsed_ms) wire_kbps_mean,
        min(video_kbps) video_kbps_min, max(video_kbps) video_kbps_max, min(audio_kbps) audio_kbps_min,
        max(audio_kbps) audio_kbps_max, min(wire_kbps) wire_kbps_min, max(wire_kbps) wire_kbps_max
"""


def run(lake: Path, kind: str = "all", **fields: Any) -> AnalyticsRun:
    asked = services.create_run(trigger=AnalyticsRun.Trigger.COMMAND, kind=kind, **fields)
    claimed = services.claim(run_id=asked.pk)
    assert claimed
    pipeline.perform(claimed, lake=lake)
    claimed.refresh_from_db()
    assert (claimed.state, claimed.error) == ("done", "")
    return claimed


def rows() -> list[dict[str, Any]]:
    return [
        {key: value for key, value in row.items() if key != "id"}
        for row in Rollup.objects.order_by("grain", "start", "app", "name").values()
    ]


def test_every_figure_equals_an_independent_computation(lake: Path) -> None:
    samples = two_hours(["demo", "camera"])
    fill(lake, samples)
    fill(lake, samples[500:900], node="node-b")  # Brought twice: by a copy, or a backfill.
    done = run(lake)
    assert (done.expected, done.done) == (3, 3)
    assert done.rows_read == len(samples) + 400 + 4
    assert done.rows_written == 6
    duck = duckdb.connect()
    # A copy equals its original in every column.
    duck.execute(f"create view once as select distinct * from read_parquet('{lake}/samples/v=1/*/*/*.parquet')")
    for grain, trunc in ((Grain.HOUR, "hour"), (Grain.DAY, "day")):
        period = f"date_trunc('{trunc}', make_timestamp(at_us))"
        relation = duck.execute(f"select {period} start, app, name, {EXACT} from once group by all")
        columns = [column[0] for column in relation.description]
        expected = [dict(zip(columns, values, strict=True)) for values in relation.fetchall()]
        assert len(expected) == Rollup.objects.filter(grain=grain).count() > 0
        for row in expected:
            identity = {"start": row["start"].replace(tzinfo=UTC), "app": row["app"], "name": row["name"]}
            rollup = Rollup.objects.get(grain=grain, **identity)
            found = {column: getattr(rollup, column) for column in columns[3:]}
            assert found == {column: row[column] for column in columns[3:]}
            for kind in ("video", "audio", "wire"):
                values = duck.execute(
                    f"select {kind}_kbps from once where {period} = ? and app = ? and name = ? order by 1",
                    [row["start"], row["app"], row["name"]],
                ).fetchall()
                for figure, rank in (("p5", 0.05), ("p50", 0.5), ("p95", 0.95)):
                    value = getattr(rollup, f"{kind}_kbps_{figure}")
                    below = sum(one < value for (one,) in values) / len(values)
                    at_most = sum(one <= value for (one,) in values) / len(values)
                    assert below - 0.02 <= rank <= at_most + 0.02, (kind, figure)
    parquet = f"read_parquet('{rollup_folder(lake, Grain.HOUR)}/*/*/*.parquet')"
    written = duck.execute(f"select app, name, {', '.join(FIGURES)} from {parquet} order by start_us, app, name")
    loaded = Rollup.objects.filter(grain=Grain.HOUR).order_by("start", "app", "name")
    assert written.fetchall() == list(loaded.values_list("app", "name", *FIGURES))


def test_a_second_run_finds_nothing_to_do_and_a_repeated_one_changes_nothing(lake: Path) -> None:
    fill(lake, two_hours(["demo"]))
    run(lake)
    before = rows()
    assert run(lake).expected == 0
    assert rows() == before
    Partition.objects.all().delete()  # As after a crash before the ledger was written.
    assert run(lake).done == 3
    assert [exact(row) for row in rows()] == [exact(row) for row in before]


def exact(row: dict[str, Any]) -> dict[str, Any]:
    """A sketch is drawn by lot: a quantile comes again only within its error."""
    return {column: value for column, value in row.items() if not column.endswith(("_p5", "_p50", "_p95"))}


def test_late_samples_recompute_their_hour_and_their_day_only(lake: Path) -> None:
    fill(lake, list(broadcast("demo", "a", seconds=60)))
    fill(lake, list(broadcast("demo", "b", seconds=60, start_us=NOON + HOUR_US)))
    fill(lake, list(broadcast("demo", "c", seconds=60, start_us=NOON + 24 * HOUR_US)))
    run(lake)
    others = [row for row in rows() if row["start"] not in {hour_of(0), hour_of(12)}]
    late = list(broadcast("demo", "d", seconds=30)) + list(broadcast("late", "e", seconds=30))
    fill(lake, late)
    done = run(lake)
    assert done.done == 2
    assert done.rows_read == 60 + 60 + 3  # The hour's two files; the day's hours: two of demo, one of late.
    assert [row for row in rows() if row["start"] not in {hour_of(0), hour_of(12)}] == others
    hour = Rollup.objects.get(grain=Grain.HOUR, start=hour_of(12), name="demo")
    day = Rollup.objects.get(grain=Grain.DAY, start=hour_of(0), name="demo")
    assert (hour.samples, hour.sessions, day.samples, day.sessions) == (90, 2, 150, 3)
    assert Rollup.objects.filter(name="late").count() == 2


def hour_of(hour: int) -> datetime:
    return datetime(2026, 3, 29, hour, tzinfo=UTC)


def test_a_corrected_hour_loses_the_streams_that_it_no_longer_has(lake: Path) -> None:
    fill(lake, list(broadcast("demo", "a", seconds=30)))
    fill(lake, list(broadcast("mistake", "b", seconds=30)), node="node-b")
    run(lake)
    next(lake.rglob("node-b-*.parquet")).unlink()
    run(lake)
    assert set(Rollup.objects.values_list("grain", "name")) == {("hour", "demo"), ("day", "demo")}


def test_a_part_of_the_lake_may_be_asked_for(lake: Path) -> None:
    for hours in range(3):
        fill(lake, list(broadcast("demo", f"s{hours}", seconds=10, start_us=NOON + hours * HOUR_US)))
    done = run(lake, kind="hourly", since=hour_of(13), until=hour_of(14))
    assert done.done == 1
    assert list(Rollup.objects.values_list("grain", "start")) == [("hour", hour_of(13))]


def test_a_stream_that_was_deleted_keeps_its_history(lake: Path) -> None:
    application = Application.objects.create(name="live")
    kept = Stream.objects.create(pk=4, application=application, name="demo")
    fill(lake, [*broadcast("demo", "a", seconds=10), *broadcast("deleted", "b", seconds=10)])
    run(lake, kind="hourly")
    assert set(Rollup.objects.values_list("name", "stream")) == {("demo", kept.pk), ("deleted", None)}


def test_a_jvm_that_is_killed_costs_one_more_attempt(lake: Path, caplog: pytest.LogCaptureFixture) -> None:
    fill(lake, list(broadcast("demo", "a", seconds=10)))
    with runner.spark() as session:
        session.range(1).count()
    process = SparkContext._gateway.proc  # type: ignore[union-attr]

    def kill_while_it_writes() -> None:
        deadline = time.monotonic() + 60
        while not (lake / "rollups").exists() and time.monotonic() < deadline:
            time.sleep(0.001)
        process.kill()

    killer = threading.Thread(target=kill_while_it_writes)
    killer.start()
    done = run(lake, kind="hourly")
    killer.join()
    assert "lost its Java process" in caplog.text
    assert (done.expected, done.done) == (1, 1)
    assert Rollup.objects.get().samples == 10


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # PySpark leaves a pipe open.
def test_a_jvm_that_ends_as_it_starts_is_tried_twice_and_told_of(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fill(lake, list(broadcast("demo", "a", seconds=10)))
    runner.stop()
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text('#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "17.0.1"\' >&2 && exit 0\nexit 137\n')
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(java.parent.parent))
    claimed = services.claim(run_id=services.create_run(trigger=AnalyticsRun.Trigger.COMMAND).pk)
    assert claimed
    pipeline.perform(claimed, lake=lake)
    assert (claimed.state, claimed.error_code, claimed.error) == ("failed", "lost", runner.LOST_AT_START)
    assert caplog.text.count("lost its Java process") == 1


def test_an_unreadable_file_fails_the_run_and_leaves_what_was_there(lake: Path) -> None:
    fill(lake, list(broadcast("demo", "a", seconds=10)))
    run(lake)
    before = rows()
    file = next((lake / "samples").rglob("*.parquet"))
    shutil.copy(file, file.with_name("copy.parquet"))
    file.with_name("copy.parquet").write_bytes(b"PAR1 and nothing of the kind PAR1")
    asked = services.create_run(trigger=AnalyticsRun.Trigger.COMMAND)
    claimed = services.claim(run_id=asked.pk)
    assert claimed
    pipeline.perform(claimed, lake=lake)
    assert (claimed.state, claimed.error_code) == ("failed", "failed")
    assert claimed.error
    assert rows() == before
