"""From the lake to the database: repeatable, only what is new, and whatever goes wrong costs no more than itself."""

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.utils import timezone
from pyspark import SparkContext
from pytest_django.fixtures import Settings

from analytics import pipeline, runner, services
from analytics.models import AnalyticsRun, Dimension, Grain, Partition, Rollup
from analytics.tables import HOUR, PARTIALS, partition_folder
from ingest.contracts import Sample
from ingest.telemetry.lake import hour_folder
from tests.analytics.lakes import HOUR_US, broadcast, fill
from tests.ingest.telemetry.records import NOON, SAMPLE, sample

pytestmark = [
    pytest.mark.spark,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("jvm"),
]

computes_often = pytest.mark.slow("Spark plans and computes several times")

DAY = datetime(2026, 3, 29, tzinfo=UTC)
TRIGGER = AnalyticsRun.Trigger


def at(hour: int) -> datetime:
    return DAY + timedelta(hours=hour)


def put(lake: Path, hour: int, name: str = "demo", *, session: str = "", seconds: int = 20, begin_s: int = 0) -> None:
    """A session in an hour, `begin_s` after it begins."""
    start = NOON + (hour - 12) * HOUR_US + begin_s * 1_000_000
    fill(lake, list(broadcast(name, session or f"{name}-{hour}-{begin_s}", seconds=seconds, start_us=start)))


def attempt(lake: Path, kind: str = "all", trigger: TRIGGER = TRIGGER.COMMAND, **fields: Any) -> AnalyticsRun:
    """A run and how it ended."""
    claimed = services.claim(run_id=services.create_run(trigger=trigger, kind=kind, **fields).pk)
    assert claimed
    pipeline.perform(claimed, lake=lake)
    claimed.refresh_from_db()
    return claimed


def run(lake: Path, kind: str = "all", **fields: Any) -> AnalyticsRun:
    ended = attempt(lake, kind, **fields)
    assert ended.state == "done", ended.error
    assert not Partition.objects.exclude(lock="").exists()
    return ended


def rows() -> list[dict[str, Any]]:
    return [{**row} for row in Rollup.objects.order_by("grain", "start", "dimension", "app", "name", "value").values()]


def streams(grain: Grain) -> list[tuple[Any, ...]]:
    found = Rollup.objects.filter(dimension=Dimension.STREAM, grain=grain).order_by("start", "name")
    return list(found.values_list("start__hour", "name", "samples"))


def without_ids(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "id"} for row in found]


@computes_often
def test_a_second_run_finds_nothing_to_do_and_a_repeated_one_changes_nothing(lake: Path, settings: Settings) -> None:
    settings.LAKE_DIR = lake
    for hour in (11, 12):
        put(lake, hour)
    first = run(lake)
    assert (first.expected, first.done, first.rows_read > 40) == (3, 3, True)
    assert streams(Grain.HOUR) == [(11, "demo", 20), (12, "demo", 20)]
    assert streams(Grain.DAY) == [(0, "demo", 40)]
    before = rows()
    assert run(lake).expected == 0
    assert rows() == before
    Partition.objects.all().delete()  # As after a crash before the ledger was written.
    assert run(lake).done == 3
    assert rows() == before
    Rollup.objects.all().delete()
    shutil.rmtree(lake / "rollups")
    services.recompute(at(0), at(24))
    assert run(lake).done == 3
    assert without_ids(rows()) == without_ids(before)


def test_the_archive_of_classes_is_made_once_the_run_has_ended(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes some seconds, in which the figures are there."""
    states: list[str] = []
    monkeypatch.setattr(runner, "keep_classes", lambda: states.append(AnalyticsRun.objects.get().state))
    put(lake, 12)
    run(lake)
    run(lake)  # Which finds nothing to do, and starts no Java.
    assert states == [AnalyticsRun.State.DONE]


@computes_often
def test_late_samples_recompute_their_hour_and_their_day_only(lake: Path) -> None:
    for hour in (22, 23, 24):
        put(lake, hour)
    run(lake)
    others = [row for row in rows() if row["start"] not in {at(0), at(22)}]
    put(lake, 22, "late")
    assert run(lake).done == 2
    assert [row for row in rows() if row["start"] not in {at(0), at(22)}] == others
    assert streams(Grain.DAY)[:2] == [(0, "demo", 40), (0, "late", 20)]


@computes_often
def test_changed_end_of_an_hour_recomputes_the_next_hour_in_the_same_run(lake: Path) -> None:
    """What is live as an hour ends belongs to a broadcast that may go on in the next."""
    put(lake, 12, session="a")
    put(lake, 13, session="b", begin_s=60)
    run(lake)

    def reconnects() -> list[int]:
        found = Rollup.objects.filter(grain=Grain.HOUR, dimension=Dimension.STREAM).order_by("start")
        return list(found.values_list("reconnects", flat=True))

    assert reconnects() == [0, 0]
    put(lake, 12, session="c", begin_s=3570)
    done = run(lake)
    assert (done.expected, done.done) == (3, 3)
    assert reconnects() == [0, 1]


def test_a_corrected_hour_loses_the_streams_that_it_no_longer_has(lake: Path) -> None:
    put(lake, 12)
    fill(lake, list(broadcast("mistake", "b", seconds=20)), node="node-b")
    run(lake)
    next(lake.rglob("node-b-*.parquet")).unlink()
    run(lake)
    assert streams(Grain.HOUR) == [(12, "demo", 20)]
    assert streams(Grain.DAY) == [(0, "demo", 20)]


@contextmanager
def killed_while_it_computes(lake: Path, *, times: int = 1) -> Iterator[None]:
    """Kills Spark's JVM as soon as it writes, so many times."""
    ended = threading.Event()

    def kill() -> None:
        for _ in range(times):
            while not ended.is_set() and not list(lake.glob("rollups/.work/*/rollups")):
                time.sleep(0.001)
            if process := getattr(SparkContext._gateway, "proc", None):
                process.kill()
                process.wait()
            while not ended.is_set() and list(lake.glob("rollups/.work/*")):
                time.sleep(0.001)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield
    finally:
        ended.set()
        killer.join()


@pytest.mark.matrix
def test_a_jvm_that_is_killed_costs_one_more_attempt(lake: Path, ends_java: None) -> None:
    put(lake, 12)
    with runner.spark() as session:
        session.range(1).count()
    with killed_while_it_computes(lake):
        done = run(lake, kind="hourly")
    assert (done.expected, done.done) == (1, 1)
    assert [line.text for line in done.lines.filter(level="warning")] == [
        "It lost its Java process and starts another. Spark's Java process was lost."
    ]
    assert streams(Grain.HOUR) == [(12, "demo", 20)]


@pytest.mark.matrix
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # PySpark leaves a pipe open.
def test_jvm_dying_at_start_is_tried_twice_and_fails_the_run(
    lake: Path, tmp_path: Path, ends_java: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(lake, 12)
    runner.stop()
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text('#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "17.0.1"\' >&2 && exit 0\nexit 137\n')
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(java.parent.parent))
    ended = attempt(lake)
    assert (ended.state, ended.error_code, ended.error) == ("failed", "lost", runner.LOST_AT_START)
    assert ended.lines.filter(level="warning").count() == 1
    failed = Partition.objects.get()
    assert (failed.state, failed.attempts, failed.error) == ("failed", 1, runner.LOST_AT_START)


@computes_often
def test_an_hour_that_fails_stops_no_other_and_waits(lake: Path) -> None:
    for hour in (11, 12, 13, 14):
        put(lake, hour)
    run(lake)
    before = rows()
    blocked = partition_folder(lake, PARTIALS, at(12))
    shutil.rmtree(blocked)
    blocked.write_text("no folder")
    put(lake, 12, "late")
    put(lake, 14, "late")
    ended = attempt(lake, trigger=TRIGGER.SCHEDULE)
    assert (ended.state, ended.error_code) == ("failed", "failed")
    assert "The hour 2026-03-29 12:00" in ended.error
    assert str(blocked) in ended.error
    assert [row for row in rows() if row["start"] < at(14) and row["grain"] == Grain.HOUR] == [
        row for row in before if row["start"] < at(14) and row["grain"] == Grain.HOUR
    ]
    assert streams(Grain.HOUR)[-1] == (14, "late", 20)
    assert streams(Grain.DAY)[-1] == (0, "late", 20)
    row = Partition.objects.get(grain=Grain.HOUR, start=at(12))
    assert (row.state, row.attempts) == ("failed", 1)
    assert str(blocked) in row.error
    assert row.retry_at
    assert row.retry_at > timezone.now()
    assert str(blocked) in ended.lines.filter(level="error")[0].text
    waited = attempt(lake, trigger=TRIGGER.SCHEDULE)
    assert (waited.state, waited.expected) == ("done", 0)
    blocked.unlink()
    services.clear_failures(Partition.objects.all())
    assert attempt(lake, trigger=TRIGGER.SCHEDULE).state == "done"
    assert not Partition.objects.exclude(state="done").exists()
    assert (12, "late", 20) in streams(Grain.HOUR)


def test_a_damaged_file_is_set_aside_and_the_rest_of_its_hour_computed(lake: Path) -> None:
    put(lake, 12)
    broken = hour_folder(lake, "samples", at(12)) / "broken.parquet"
    broken.write_bytes(b"PAR1 and nothing of the kind PAR1")
    put(lake, 13)
    whole = next(hour_folder(lake, "samples", at(13)).glob("*.parquet"))
    cut = whole.with_name("cut.parquet")
    cut.write_bytes(whole.read_bytes()[:-700])
    ended = run(lake, kind="hourly")
    assert [row[:3] for row in streams(Grain.HOUR)] == [(12, "demo", 20), (13, "demo", 20)]
    aside = lake / "quarantine" / "damaged"
    assert {file.name for file in aside.rglob("*.parquet")} == {"broken.parquet", "cut.parquet"}
    hours = Partition.objects.filter(grain=Grain.HOUR).order_by("start")
    assert list(hours.values_list("state", "damaged_files")) == [("done", 1), ("done", 1)]
    told = [line.text for line in ended.lines.filter(level="warning")]
    assert [("incomplete" in text, name in text) for text, name in zip(told, ("broken", "cut"), strict=True)] == [
        (True, True),
        (True, True),
    ]
    assert run(lake, kind="hourly").expected == 0, "it is done"


def test_late_sample_at_broadcast_begin_recomputes_only_its_hour_and_day(lake: Path) -> None:
    """And its day, whatever hours the broadcast went on for; the broadcast keeps its name."""
    every_us = 240 * 1_000_000
    count = 5 * HOUR_US // every_us
    samples = [sample(2 + n, session="long", at_us=NOON + 60_000_000 + n * every_us) for n in range(count)]
    fill(lake, samples)
    assert run(lake).done == 6
    of_broadcast = Rollup.objects.filter(dimension=Dimension.BROADCAST).order_by("grain", "start")
    before = list(of_broadcast.values_list("grain", "start", "value"))
    assert len({value for _, _, value in before}) == 1
    fill(lake, [sample(1, session="long", at_us=NOON + 30_000_000)])
    late = run(lake)
    assert (late.expected, late.done) == (2, 2), "the hour and the day"
    assert list(of_broadcast.values_list("grain", "start", "value")) == before
    assert sum(of_broadcast.filter(grain=Grain.HOUR).values_list("samples", flat=True)) == count + 1
    assert of_broadcast.get(grain=Grain.DAY).starts == 1


def test_an_hour_that_comes_before_others_takes_their_broadcasts_name(lake: Path) -> None:
    every_us = 240 * 1_000_000
    samples = [
        sample(1 + n, session="long", at_us=NOON + 60_000_000 + n * every_us) for n in range(2 * HOUR_US // every_us)
    ]
    first = [one for one in samples if one.at_us < NOON + HOUR_US]
    fill(lake, samples[len(first) :])
    run(lake)
    (name,) = set(Rollup.objects.filter(dimension=Dimension.BROADCAST).values_list("value", flat=True))
    fill(lake, first)
    run(lake)
    assert set(Rollup.objects.filter(dimension=Dimension.BROADCAST).values_list("value", flat=True)) == {name}


def test_a_session_with_two_labels_is_one_and_each_has_its_own_bitrates(lake: Path) -> None:
    """Its encoder is known better after a while; its key is made anew."""

    def nine(first: int, session: str, kbps: float, **labels: Any) -> list[Sample]:
        of_session: dict[str, Any] = {"session": session, "name": session, "video_kbps": kbps, **labels}
        return [sample(n, at_us=NOON + n * 1_000_000, **of_session) for n in range(first, first + 9)]

    fill(lake, nine(1, "a", 1000.0, encoder="FMLE") + nine(10, "a", 3000.0, encoder="obs"))
    fill(lake, nine(1, "b", 1000.0, key=7) + nine(10, "b", 3000.0, key=8))
    run(lake)
    for grain in Grain:
        found = {
            (row.dimension, row.name, row.value): (row.sessions, row.samples, row.video_kbps_p50)
            for row in Rollup.objects.filter(grain=grain, dimension__in=("stream", "encoder", "key"))
        }
        assert found == {
            ("stream", "a", "live/a"): (1, 18, 1000.0),
            ("key", "a", ""): (1, 18, 1000.0),
            ("encoder", "", "FMLE"): (1, 9, 1000.0),
            ("encoder", "", "obs"): (1, 9, 3000.0),
            ("stream", "b", "live/b"): (1, 18, 1000.0),
            ("key", "b", "7"): (1, 9, 1000.0),
            ("key", "b", "8"): (1, 9, 3000.0),
            ("encoder", "", SAMPLE.encoder): (1, 18, 1000.0),
        }


def test_only_what_is_new_is_read(lake: Path) -> None:
    put(lake, 12, seconds=30)
    run(lake)
    put(lake, 12, "second", seconds=7, begin_s=40)
    late = run(lake, kind="hourly")
    assert late.rows_read == 7
    assert streams(Grain.HOUR) == [(12, "demo", 30), (12, "second", 7)]
    file = next(hour_folder(lake, "samples", at(12)).glob("*.parquet"))
    file.write_bytes(file.read_bytes())
    assert run(lake, kind="hourly").done == 1, "a file that is written anew with the same size is seen"


def test_a_copy_that_comes_later_counts_for_nothing(lake: Path) -> None:
    put(lake, 12, seconds=30)
    run(lake)
    before = without_ids(rows())
    file = next(hour_folder(lake, "samples", at(12)).glob("*.parquet"))
    shutil.copy(file, file.with_name("copy.parquet"))
    put(lake, 12, "second", seconds=7, begin_s=40)
    run(lake)
    assert streams(Grain.HOUR) == [(12, "demo", 30), (12, "second", 7)]
    before, after = ([row for row in found if row["name"] == "demo"] for found in (before, without_ids(rows())))
    assert [row for row in after if row["grain"] == Grain.HOUR] == [row for row in before if row["grain"] == Grain.HOUR]


def test_hours_that_can_not_be_are_set_aside(lake: Path) -> None:
    put(lake, 12)
    for year in (1970, 2099):
        folder = lake / "samples" / "v=1" / f"dt={year}-01-02" / "hr=03"
        shutil.copytree(hour_folder(lake, "samples", at(12)), folder)
    Partition.objects.create(grain=Grain.HOUR, start=datetime(2099, 1, 2, 3, tzinfo=UTC), state="done")
    ended = run(lake)
    assert [row[:3] for row in streams(Grain.HOUR)] == [(12, "demo", 20)]
    assert "2 hours of before 2020" in ended.lines.filter(level="warning")[0].text
    assert len(list((lake / "quarantine" / "undated").rglob("*.parquet"))) == 2
    assert not Partition.objects.filter(start__year=2099).exists()
    assert not run(lake).lines.filter(level="warning").exists()


def test_hour_locked_by_another_run_is_left_to_that_run(lake: Path) -> None:
    for hour in (11, 12, 13):
        put(lake, hour)
    later = timezone.now() + timedelta(hours=1)
    held = Partition.objects.create(grain=Grain.HOUR, start=at(12), state="running", lock="another", locked_until=later)
    done = attempt(lake, kind="hourly")
    assert (done.state, done.done) == ("done", 2)
    assert [row[0] for row in streams(Grain.HOUR)] == [11, 13]
    held.refresh_from_db()
    assert (held.state, held.lock) == ("running", "another")
    Partition.objects.filter(pk=held.pk).update(locked_until=timezone.now())
    run(lake, kind="hourly")
    assert [row[0] for row in streams(Grain.HOUR)] == [11, 12, 13]


def test_the_time_limit_keeps_what_is_done(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Celery raises it in the middle of whatever goes on."""
    for hour in (11, 13):
        put(lake, hour)
    advance = services.advance

    def too_long(run: AnalyticsRun, **rows: int) -> None:
        advance(run, **rows)
        raise SoftTimeLimitExceeded

    with monkeypatch.context() as patch:
        patch.setattr(services, "advance", too_long)
        ended = attempt(lake)
    assert (ended.state, ended.error_code, ended.done) == ("failed", "time_limit", 1)
    hours = Partition.objects.filter(grain=Grain.HOUR).order_by("start")
    assert list(hours.values_list("state", "lock")) == [("done", ""), ("pending", "")]
    services.resume_pending()
    assert services.active_run(), "the rest is asked for at once"
    AnalyticsRun.objects.filter(state="queued").delete()
    assert run(lake).done == 2
    assert not list(partition_folder(lake, HOUR, at(11)).glob(".*[!c][!r][!c]")), "nothing but files and checksums"
    assert not list(lake.glob("rollups/.work/*"))
