"""A run from the lake to the pages: pending hours -> Spark -> rollup Parquet -> database -> ledger, then the days.

Every step may be repeated: Spark replaces the partitions it writes and no others, the load is an upsert, and the
ledger's row comes last.
"""

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from celery.exceptions import SoftTimeLimitExceeded
from django.db import DatabaseError, connection

from analytics import ledger, runner, services
from analytics.java import JavaMissing
from analytics.jobs.daily import daily
from analytics.jobs.hourly import hourly
from analytics.jobs.rollups import start_timestamp
from analytics.jobs.schemas import ROLLUPS, SAMPLES
from analytics.ledger import Work
from analytics.loading import load, rollup_folder
from analytics.models import AnalyticsRun, Grain
from ingest.telemetry import request_flush

log = logging.getLogger(__name__)

HOURS_AT_ONCE = 6
DAYS_AT_ONCE = 16
"""How much one Spark job computes: enough to keep it busy, few enough that progress is seen."""

ATTEMPTS = 2
"""A lost JVM costs one more attempt; what was noted in the ledger is not done again."""

HEARTBEAT_S = 5.0

ErrorCode, Kind = AnalyticsRun.ErrorCode, AnalyticsRun.Kind
Item = TypeVar("Item")


def perform(run: AnalyticsRun, *, lake: Path) -> None:
    """Does a claimed run and brings its row to its end, `done` or `failed`; raises only what ends the process."""
    try:
        with _heartbeat(run):
            _attempt(run, lake)
    except JavaMissing as error:
        services.fail(run, code=ErrorCode.JAVA_MISSING, error=str(error))
    except runner.SparkLost as error:
        services.fail(run, code=ErrorCode.LOST, error=str(error))
    except SoftTimeLimitExceeded:
        runner.discard()
        services.fail(run, code=ErrorCode.TIME_LIMIT, error="The time limit passed. The next run goes on from here.")
    except Exception as error:
        log.exception("Analytics run %d failed.", run.pk)
        summary = (str(error).strip() or "no description").splitlines()[0]
        services.fail(run, code=ErrorCode.FAILED, error=f"{type(error).__name__}: {summary[:500]}")
    except BaseException:
        services.fail(run, code=ErrorCode.LOST, error="It was stopped. The next run takes up what it left undone.")
        raise
    else:
        services.finish(run)


def _attempt(run: AnalyticsRun, lake: Path) -> None:
    for remaining in reversed(range(ATTEMPTS)):
        try:
            _compute(run, lake)
            break
        except runner.SparkLost:
            if not remaining:
                raise
            log.warning("Analytics run %d lost its Java process and starts another.", run.pk)


def _compute(run: AnalyticsRun, lake: Path) -> None:
    services.report(run, stage="Collecting what was recorded until now")
    if not request_flush(lake):
        log.warning("Not every node has flushed its telemetry; the next run takes what is missing.")
    wanted = run.since, run.until
    hours = ledger.pending_hours(lake, *wanted) if run.kind in {Kind.HOURLY, Kind.ALL} else []
    days = ledger.pending_days(*wanted) if run.kind in {Kind.DAILY, Kind.ALL} else []
    touched = {work.start.replace(hour=0) for work in hours} if run.kind == Kind.ALL else set()
    services.report(run, expected=run.done + len(hours) + len({work.start for work in days} | touched))
    if not hours and not days:
        return
    services.report(run, stage="Starting Spark")
    with runner.spark() as session:
        for chunk in _chunks(hours, HOURS_AT_ONCE):
            services.report(run, stage=f"Computing hours from {chunk[0].start:%Y-%m-%d %H:00}")
            _compute_hours(session, run, lake, chunk)
        if run.kind != Kind.HOURLY:
            for chunk in _chunks(ledger.pending_days(*wanted), DAYS_AT_ONCE):
                services.report(run, stage=f"Computing days from {chunk[0].start:%Y-%m-%d}")
                _compute_days(session, run, lake, chunk)


def _compute_hours(session: Any, run: AnalyticsRun, lake: Path, chunk: Sequence[Work]) -> None:
    files = [str(file) for work in chunk for file in work.files]
    rollups = hourly(session.read.schema(SAMPLES).parquet(*files))
    # A file in a folder that is not its own could otherwise replace another hour by a part of it.
    wanted = rollups.where(rollups.start_us.isin([int(work.start.timestamp()) * 1_000_000 for work in chunk]))
    dated = wanted.withColumns({"dt": start_timestamp("yyyy-MM-dd"), "hr": start_timestamp("HH")})
    dated.write.mode("overwrite").partitionBy("dt", "hr").parquet(str(rollup_folder(lake, Grain.HOUR)))
    for work in chunk:
        _load(run, lake, work, rows_read=work.rows())


def _compute_days(session: Any, run: AnalyticsRun, lake: Path, chunk: Sequence[Work]) -> None:
    hours = rollup_folder(lake, Grain.HOUR)
    folders = [str(hours / f"dt={work.start:%Y-%m-%d}") for work in chunk]
    rollups = daily(session.read.schema(ROLLUPS).option("basePath", str(hours)).parquet(*folders))
    dated = rollups.withColumn("dt", start_timestamp("yyyy-MM-dd"))
    dated.write.mode("overwrite").partitionBy("dt").parquet(str(rollup_folder(lake, Grain.DAY)))
    for work in chunk:
        files = (hours / f"dt={work.start:%Y-%m-%d}").glob("hr=*/*.parquet")
        _load(run, lake, work, rows_read=replace(work, files=tuple(files)).rows())


def _load(run: AnalyticsRun, lake: Path, work: Work, *, rows_read: int) -> None:
    rows_written = load(lake, work.grain, work.start)
    ledger.record(run, work, rows_read=rows_read, rows_written=rows_written)
    services.advance(run, rows_read=rows_read, rows_written=rows_written)


def _chunks(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for first in range(0, len(items), size):
        yield items[first : first + size]


@contextmanager
def _heartbeat(run: AnalyticsRun) -> Iterator[None]:
    """A sign of life in the run's row while Spark works, from a thread with a database connection of its own."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(HEARTBEAT_S):
            try:
                services.beat(run=run)
            except DatabaseError as error:
                log.warning("No sign of life of analytics run %d: %s", run.pk, error)
            finally:
                connection.close()

    thread = threading.Thread(target=beat, name="analytics-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
