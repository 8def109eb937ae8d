"""One run: what the ledger shows to do, by Spark into the lake, then into the database.

Every step may be repeated, and a run may be killed at any point: Spark writes where nobody reads, an hour gets into the
lake and into the database only while its lock is held, and the ledger's note comes last. What one run could not do
stays in the ledger for the next.
"""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path

from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.db import DatabaseError, connection
from django.utils import timezone

from analytics import ledger, loading, locks, services
from analytics.lake import quarantine
from analytics.ledger import HOUR, Days, Hour, Hours, Work
from analytics.loading import load
from analytics.locks import Lock, LockLost
from analytics.models import AnalyticsRun, Grain, RunLine
from analytics.schemas import Computed
from analytics.services import SparkGone, Stopped, error_words, systemic
from analytics.wording import plural
from ingest.telemetry import request_flush

log = logging.getLogger(__name__)

ROWS_AT_ONCE = {Grain.HOUR: 20_000_000, Grain.DAY: 200_000}
"""How much one Spark job computes, in rows that it reads: what a JVM of 2 GB bears."""

AT_ONCE = {Grain.HOUR: 24, Grain.DAY: 16}
"""And how many hours or days: few enough that progress is seen."""

ALONE_AFTER = 2
"""What has failed or was lost so often is computed alone: it may be what kills the process."""

MOST_IN_A_ROW = 10
"""If so many hours fail one after the other, it is hardly theirs: the run ends."""

ErrorCode, Kind, Level = AnalyticsRun.ErrorCode, AnalyticsRun.Kind, RunLine.Level


def perform(run: AnalyticsRun, *, lake: Path) -> None:
    """Does a claimed run and brings its row to its end, `done` or `failed`; raises only what ends the process."""
    try:
        _perform(run, lake)
    except DatabaseError as error:
        log.error("Analytics run %d can't note how it ended, and is found to be lost: %s", run.pk, error_words(error))


def _perform(run: AnalyticsRun, lake: Path) -> None:
    try:
        work = _Run(run, lake)
        with work.heartbeat():
            failures = work.do()
    except Stopped as stop:
        services.fail(run, code=stop.code, error=str(stop))
    except LockLost as error:
        services.fail(run, code=ErrorCode.LOST, error=f"It stood still for too long. {error}")
    except SoftTimeLimitExceeded:
        services.fail(run, code=ErrorCode.TIME_LIMIT, error="The time limit passed. The next run goes on from here.")
    except Exception as error:
        known = systemic(error)
        if known is None:
            log.exception("Analytics run %d failed.", run.pk)
        services.fail(run, code=ErrorCode.FAILED, error=str(known or error_words(error)))
    except BaseException:
        services.fail(run, code=ErrorCode.LOST, error="It was stopped. The next run takes up what it left undone.")
        raise
    else:
        if failures:
            services.fail(run, code=ErrorCode.FAILED, error=_failure_text(failures))
        else:
            services.finish(run)
        if work.has_used_spark:
            from analytics import runner

            runner.keep_classes()  # After the run's end: nobody waits for it.


def _failure_text(failures: Sequence[str]) -> str:
    count = f"{len(failures)} hours and days" if len(failures) > 1 else "One hour or day"
    return f"{count} failed and will be tried again; all else is done. {failures[0]}"


class _Run:
    def __init__(self, run: AnalyticsRun, lake: Path) -> None:
        self.run = run
        self.lake = lake
        self.lock: Lock | None = None
        self.run_is_over = False
        self.failures: list[str] = []
        self.in_a_row = 0
        # Somebody who asks for a run does not mean to wait for the pause after a failure.
        self.now = timezone.now() if run.trigger == AnalyticsRun.Trigger.SCHEDULE else None
        self.has_used_spark = False

    @contextmanager
    def heartbeat(self) -> Iterator[None]:
        """A sign of life in the rows of the run and of what it has locked, by a thread with a connection of its own."""
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(settings.RUN_BEAT_S):
                try:
                    self.run_is_over = not services.heartbeat(run=self.run)
                    if lock := self.lock:
                        lock.renew()
                except DatabaseError as error:
                    log.warning("No sign of life of analytics run %d: %s", self.run.pk, error)
                finally:
                    connection.close()

        thread = threading.Thread(target=beat, name="analytics-heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def do(self) -> list[str]:
        """Does what there is to do; what failed of it, in words."""
        services.update_progress(self.run, stage="Collecting what was recorded until now")
        if not request_flush(self.lake):
            self.warn("Not every node has flushed its telemetry; the next run takes what is missing.")
        loading.clear(self.lake)
        self._set_aside()
        if self.run.kind != Kind.DAILY:
            self._hours()
        if self.run.kind != Kind.HOURLY:
            self._each(ledger.Days(self.run.since, self.run.until))
        return self.failures

    def _set_aside(self) -> None:
        if hours := quarantine.set_aside_undated(self.lake, timezone.now()):
            self.warn(
                f"{hours} hours of before 2020 or of more than a day ahead were set aside (quarantine/undated in the "
                "lake): the clock of a node was wrong."
            )
        if late := quarantine.set_aside_late(self.lake):
            self.warn(
                f"{late:,} records came for hours whose samples have been removed as old, and count for nothing "
                "(quarantine/late in the lake)."
            )

    def warn(self, text: str) -> None:
        services.log_line(self.run, text, Level.WARNING)

    def _hours(self) -> None:
        hours = ledger.Hours(self.lake, self.run.since, self.run.until)
        later = 0
        if self.run.kind == Kind.ALL:
            touched = {ledger.day_of(hour.start) for hour in hours.pending(self.now)}
            if self.now:
                touched -= ledger.resting(touched, self.now)
            later = len(touched | {day.start for day in ledger.Days(self.run.since, self.run.until).pending(self.now)})
        self._each(hours, later)

    def _each(self, works: Hours | Days, later: int = 0) -> None:
        """Does what is pending, oldest first, each once. `later`: how much more the run is to do after it."""
        grain = works.grain
        known = [work.start for work in works.pending()]
        if gone := ledger.drop_gone(grain, known, self.run.since, self.run.until):
            self.warn(f"{gone} {plural(gone, grain)} can't be computed: nothing is left of that in the lake.")
        ledger.note_pending(grain, known)
        seen: set[datetime] = set()
        while pending := [work for work in works.pending(self.now) if work.start not in seen]:
            self.run.refresh_from_db(fields=["done"])
            services.update_progress(self.run, expected=self.run.done + len(self.failures) + len(pending) + later)
            chunk = _chunk(grain, pending)
            seen.update(work.start for work in chunk)
            self._locked(works, chunk)

    def _locked(self, works: Hours | Days, chunk: Sequence[Work]) -> None:
        """Computes of the chunk what nobody else computes."""
        if self.run_is_over:
            raise Stopped(ErrorCode.LOST, "It stood still for so long that it was taken for lost.")
        lock = locks.take(self.run, works.grain, [work.start for work in chunk])
        if len(lock.starts) < len(chunk):
            others = len(chunk) - len(lock.starts)
            self.warn(f"Left to the run that is at it now: {others} {plural(others, works.grain)}.")
        self.lock = lock
        begun = True
        try:
            # As they are now that nobody changes their files.
            there = [work for start in lock.starts if (work := works.find(start))]
            for part in _contiguous(works.grain, there):
                self._compute(works, lock, part)
        except Stopped:
            begun = False
            raise
        finally:
            self.lock = None
            lock.release(begun=begun)

    def _compute(self, works: Hours | Days, lock: Lock, chunk: Sequence[Work]) -> None:
        """Brings hours or days to the lake and the database, and notes it. If that fails, each half is tried."""
        grain, first = lock.grain, chunk[0].start
        tail = ledger.tail_before(first) if grain == Grain.HOUR else ""
        services.update_progress(self.run, stage=f"Computing {grain}s from {first:%Y-%m-%d %H:00}")
        began = time.monotonic()
        try:
            with loading.work_folder(self.lake, lock) as out:
                computed = self._spark(grain, chunk, out)
                services.update_progress(self.run, stage=f"Loading {grain}s from {first:%Y-%m-%d %H:00}")
                for work in chunk:
                    tail = self._bring(lock, work, computed[work.start], tail, out)
        except (Stopped, LockLost, SoftTimeLimitExceeded):
            raise
        except SparkGone as error:
            for work in chunk:
                lock.failed(work.start, str(error))
            raise Stopped(ErrorCode.LOST, str(error)) from error
        except Exception as error:
            if stop := systemic(error):
                raise stop from error
            left = [work for work in chunk if lock.holds(work.start)]
            if not left:
                raise
            if len(left) == 1:
                self._failed(lock, left[0], error)
                return
            self.warn(
                f"{len(left)} {grain}s from {first:%Y-%m-%d %H:%M} failed together; each half is tried. "
                f"{error_words(error)}"
            )
            for half in (left[: len(left) // 2], left[len(left) // 2 :]):
                self._compute(works, lock, half)
        else:
            self.in_a_row = 0
            rows = sum(one.rows_read for one in computed.values())
            times = f"{first:%Y-%m-%d %H:%M}"
            if len(chunk) > 1:
                times += f" to {chunk[-1].start:%Y-%m-%d %H:%M}"
            took = time.monotonic() - began
            services.log_line(
                self.run, f"{len(chunk)} {plural(len(chunk), grain)}, {times}: {rows:,} rows read, {took:.1f} s."
            )

    def _spark(self, grain: Grain, chunk: Sequence[Work], out: Path) -> dict[datetime, Computed]:
        from analytics import spark  # Loads Spark, which a run that finds nothing to do goes without.

        self.has_used_spark = True
        return spark.compute_with_spark(self.lake, grain, chunk, out, warn=self.warn)

    def _bring(self, lock: Lock, work: Work, computed: Computed, tail: str, out: Path) -> str:
        """Its tail."""
        damaged = 0
        if isinstance(work, Hour):
            self._set_aside_damaged(work, computed)
            work = work.without(computed.damaged)
            damaged = quarantine.damaged_files(self.lake, work.start)
        fingerprint = work.fingerprint(tail)
        loading.publish(self.lake, out, lock, work.start)
        load(self.lake, lock.grain, work.start, partial(lock.holds, work.start))
        lock.done(work.start, computed, fingerprint=fingerprint, files=work.file_count, damaged_files=damaged)
        services.advance(self.run, rows_read=computed.rows_read, rows_written=computed.rows_written)
        return computed.tail

    def _set_aside_damaged(self, hour: Hour, computed: Computed) -> None:
        for path, why in computed.damaged.items():
            quarantine.set_aside(self.lake, path, quarantine.DAMAGED)
            self.warn(
                f"The hour {hour.start:%Y-%m-%d %H:%M} is incomplete: {path} can't be read and was set aside "
                f"(quarantine/damaged in the lake). {why}"
            )

    def _failed(self, lock: Lock, work: Work, error: Exception) -> None:
        retry_at = lock.failed(work.start, error_words(error))
        name = f"{lock.grain} {work.start:%Y-%m-%d %H:%M}"
        log.warning("Analytics run %d: %s", self.run.pk, name, exc_info=error)
        self.failures.append(f"The {name}: {error_words(error)}")
        services.log_line(
            self.run,
            f"The {name} failed, and will be tried again at {retry_at:%H:%M:%S}. {error_words(error)}",
            Level.ERROR,
        )
        self.in_a_row += 1
        if self.in_a_row >= MOST_IN_A_ROW:
            raise Stopped(
                ErrorCode.FAILED, f"{self.in_a_row} hours or days failed one after the other. {error_words(error)}"
            )


def _chunk(grain: Grain, pending: Sequence[Work]) -> list[Work]:
    """What one Spark job computes: the first, and as many as there is room for."""
    chunk = [pending[0]]
    rows = pending[0].rows()
    for work in pending[1 : AT_ONCE[grain]]:
        rows += work.rows()
        gap = grain == Grain.HOUR and work.start != chunk[-1].start + HOUR
        alone = max(work.attempts, chunk[0].attempts) >= ALONE_AFTER
        if gap or alone or rows > ROWS_AT_ONCE[grain]:
            break
        chunk.append(work)
    return chunk


def _contiguous(grain: Grain, works: Sequence[Work]) -> Iterator[list[Work]]:
    """Hours without gaps between them: each begins with the tail of the one before."""
    part: list[Work] = []
    for work in works:
        if part and grain == Grain.HOUR and work.start != part[-1].start + HOUR:
            yield part
            part = []
        part.append(work)
    if part:
        yield part
