"""Reads back what was sampled of one session, or of one stream for a time: from the Parquet files and from the spools.

A session's totals come from there, too, where its node died before it told them: samples add up to them.

A spool holds what is not Parquet yet, commonly the last minute; it is read like a file, whichever node writes it. Work
goes hour by hour, the latest first: a record is in its own hour's folder, so what stands twice (in a spool and in the
file that it has just become) is found within the hour, and no more than an hour is held whole. Files of other nodes and
times are passed over by their names and times, and within the others the row groups by their statistics.

More samples than `points` are gathered into as many spans of one length (`ingest.telemetry.gathering`): with its
least, mean and greatest value a dip of one second stays visible in a day.

The functions block for `budget_s` at most, about: call them on a thread. None raises for what it finds: what can't be
read, or not in time, is said in `Series.problems`.
"""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs

from ingest.contracts import Totals
from ingest.telemetry.gathering import COLUMNS, IDENTITY, Gathering
from ingest.telemetry.lake import HOUR_US, file_prefix, hour_folder
from ingest.telemetry.schema import SAMPLES, fitting
from ingest.telemetry.series import Series
from ingest.telemetry.spool import SUFFIX, BadSpool, read_spool, spool_folder

POINTS = 600
MAX_POINTS = 20_000
BUDGET_S = 8.0
MAX_HOURS = 400 * 24

TURNS = threading.BoundedSemaphore(2)
"""So many read at once in a process, which may be a media node's: the others wait for their turn."""

CLOCKS_APART_US = 120_000_000
"""How far the file system's clock may be behind a node's, for a file to be passed over by its time."""

NAMED = 3
"""Of the files that can't be read, so many are named."""

DISK = pyarrow.fs.LocalFileSystem()
SCHEMA = pa.schema([field.with_nullable(True) for field in SAMPLES.schema])
"""Older files lack newer columns: null there."""


SUMMED = (
    *("video_bytes", "audio_bytes", "data_bytes", "out_bytes", "video_frames", "audio_frames", "keyframes"),
    *("dropped_frames", "elapsed_ms"),
)
"""What makes up a session's totals."""

FIRST = 1
"""A session's samples are numbered from here on."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    since_us: int
    until_us: int
    which: pc.Expression
    prefix: str = ""
    columns: tuple[str, ...] = COLUMNS

    @property
    def where(self) -> pc.Expression:
        at = pc.field("at_us")
        return self.which & (at >= self.since_us) & (at < self.until_us)


def read_session(
    lake: Path,
    session: str,
    since_us: int,
    until_us: int,
    *,
    node: str = "",
    points: int = POINTS,
    budget_s: float = BUDGET_S,
) -> Series:
    """A session's samples from `since_us` up to `until_us`, microseconds since the epoch. `node`: whose they are."""
    wanted = _Wanted(since_us, until_us, pc.field("session") == session, f"{file_prefix(node)}-" if node else "")
    return _read(lake, wanted, points, budget_s)


def read_stream(
    lake: Path, stream: int, since_us: int, until_us: int, *, points: int = POINTS, budget_s: float = BUDGET_S
) -> Series:
    """The samples of all sessions that published the stream (its row's id) from `since_us` up to `until_us`."""
    return _read(lake, _Wanted(since_us, until_us, pc.field("stream") == stream), points, budget_s)


@dataclass(frozen=True, slots=True)
class Sampled:
    """What a session's samples add up to, and the time of the last of them, seconds since the epoch."""

    totals: Totals
    last_at: float


def read_totals(
    lake: Path, session: str, since_us: int, until_us: int, *, node: str = "", budget_s: float = BUDGET_S
) -> Sampled | None:
    """Of one session, as `read_session`. None: it has no samples here, not all of them could be read, or the first ones
    are gone, as after retention.
    """
    prefix = f"{file_prefix(node)}-" if node else ""
    wanted = _Wanted(since_us, until_us, pc.field("session") == session, prefix, (*IDENTITY, *SUMMED))
    deadline = time.monotonic() + budget_s
    if not TURNS.acquire(timeout=budget_s):
        return None
    try:
        reader = _Reader(lake, wanted, deadline)
        sums, last_us, first = dict.fromkeys(SUMMED, 0), 0, FIRST
        for records in reader.hours():
            last_us = max(last_us, pc.max(records["at_us"]).as_py())
            first = pc.min(records["sequence"]).as_py()  # The earliest hour comes last.
            for name in SUMMED:
                sums[name] += pc.sum(records[name]).as_py() or 0
    finally:
        TURNS.release()
    if not last_us or first > FIRST or reader.problems():
        return None
    totals = Totals(
        bytes_in=sums["video_bytes"] + sums["audio_bytes"] + sums["data_bytes"],
        bytes_out=sums["out_bytes"],
        video_frames=sums["video_frames"],
        audio_frames=sums["audio_frames"],
        keyframes=sums["keyframes"],
        dropped_frames=sums["dropped_frames"],
        duration_ms=sums["elapsed_ms"],
    )
    return Sampled(totals, last_us / 1e6)


def _read(lake: Path, wanted: _Wanted, points: int, budget_s: float) -> Series:
    wanted = replace(wanted, until_us=min(wanted.until_us, int((time.time() + 3600) * 1_000_000)))
    deadline = time.monotonic() + budget_s
    if not TURNS.acquire(timeout=budget_s):
        return Series(problems=["Too many read what was measured at once. Load the page again in a few seconds."])
    try:
        return _gather(lake, wanted, points, deadline)
    finally:
        TURNS.release()


def _gather(lake: Path, wanted: _Wanted, points: int, deadline: float) -> Series:
    gathering = Gathering(wanted.since_us, wanted.until_us, min(points, MAX_POINTS))
    reader = _Reader(lake, wanted, deadline)
    for records in reader.hours():
        gathering.take(records)
    series = gathering.series()
    series.files = reader.files
    series.problems = reader.problems()
    return series


class _Reader:
    """Goes through the lake once."""

    def __init__(self, lake: Path, wanted: _Wanted, deadline: float) -> None:
        self._lake = lake
        self._wanted = wanted
        self._deadline = deadline
        self._unread: list[str] = []
        self._stopped_at: datetime | None = None
        self.files = 0

    def hours(self) -> Iterator[pa.Table]:
        """Each hour's samples that are wanted, once each and by their time; the latest hour first."""
        spooled = self._spooled()  # First: a spool that is gone by then is among the files that are listed after it.
        for hour in _hours(self._wanted):
            begin = int(hour.timestamp()) * 1_000_000
            at = spooled["at_us"]
            parts = [spooled.filter(pc.and_(pc.greater_equal(at, begin), pc.less(at, begin + HOUR_US)))]
            for file in self._candidates(hour_folder(self._lake, SAMPLES.name, hour)):
                if time.monotonic() > self._deadline:
                    self._stopped_at = hour
                    break
                parts += self._file(file)
            records = pa.concat_tables(parts)
            if records.num_rows:
                yield _once(records)
            if self._stopped_at:
                return

    def problems(self) -> list[str]:
        found = []
        if self._unread:
            names = ", ".join(self._unread[:NAMED]) + (", …" if len(self._unread) > NAMED else "")
            found.append(f"{len(self._unread)} files of the lake can't be read; what they hold is missing: {names}.")
        if self._stopped_at:
            end = f"{self._stopped_at + timedelta(hours=1):%Y-%m-%d %H:%M}"
            found.append(f"Reading took too long and was stopped: what was before {end} UTC is missing, or part of it.")
        return found

    def _spooled(self) -> pa.Table:
        columns = self._wanted.columns
        tables = [SCHEMA.empty_table().select(columns)]
        for path in sorted(spool_folder(self._lake).glob(f"{SAMPLES.name}.{self._wanted.prefix}*{SUFFIX}")):
            try:
                _, batches = read_spool(path)
                self.files += 1
                tables += [fitting(batch, SCHEMA).filter(self._wanted.where).select(columns) for batch in batches]
            except FileNotFoundError:
                continue
            except (BadSpool, OSError, pa.ArrowException):
                self._unread.append(path.name)
        return pa.concat_tables(tables)

    def _candidates(self, folder: Path) -> list[Path]:
        """The hour's files that may hold what is wanted, the newest first."""
        wanted, found = self._wanted, []
        for path in folder.glob(f"{wanted.prefix}*.parquet"):
            try:
                written = path.stat().st_mtime_ns // 1000
            except OSError:  # Retention has just removed it.
                continue
            if written >= wanted.since_us - CLOCKS_APART_US:
                found.append(path)
        return sorted(found, key=lambda path: path.name, reverse=True)

    def _file(self, path: Path) -> list[pa.Table]:
        import pyarrow.dataset as ds  # Loaded only where it is used: 20 MB.

        try:
            self.files += 1
            fragment = ds.ParquetFileFormat().make_fragment(str(path), DISK)
            columns = list(self._wanted.columns)
            scanner = ds.Scanner.from_fragment(
                fragment, schema=SCHEMA, columns=columns, filter=self._wanted.where, use_threads=False
            )
            return [scanner.to_table()]
        except FileNotFoundError:
            return []
        except (OSError, pa.ArrowException):
            self._unread.append(path.name)
            return []


def _hours(wanted: _Wanted) -> Iterator[datetime]:
    """The hours (UTC) that the time touches, the latest first."""
    first, last = (us // HOUR_US for us in (max(0, wanted.since_us), max(0, wanted.until_us - 1)))
    for hour in range(last, max(first, last - MAX_HOURS) - 1, -1):
        yield datetime.fromtimestamp(hour * 3600, UTC)


def _once(records: pa.Table) -> pa.Table:
    """Without what stands twice, by time."""
    rows = records.select(IDENTITY[:2]).append_column("row", pa.array(range(records.num_rows)))
    first = rows.group_by(list(IDENTITY[:2]), use_threads=False).aggregate([("row", "min")])["row_min"]
    return records.take(first).sort_by("at_us")
