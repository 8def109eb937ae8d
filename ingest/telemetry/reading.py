"""Reads back what was sampled of one session, or of one stream for a time: from the Parquet files and from the spools.

A session's totals come from there, too, where its node died before it told them: samples add up to them.

A spool holds what is not Parquet yet, commonly the last minute; it is read like a file, whichever node writes it. Work
goes hour by hour, the latest first: a record is in its own hour's folder, so what stands twice (in a spool and in the
file that it has just become) is found within the hour, and no more than an hour is held whole. Files of other nodes and
times are passed over by their names and times, and within the others the row groups by their statistics.

More samples than `points` are gathered into as many spans of one length. A gauge's span has the least, the mean and the
greatest of its values, so that a dip of one second stays visible in a day; a counter's the sum; health is the worst.

The functions block for `budget_s` at most, about: call them on a thread. None raises for what it finds: what can't be
read, or not in time, is said in `Series.problems`."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs

from ingest.contracts import Health, Totals
from ingest.telemetry.lake import HOUR_US, SAMPLES, file_prefix, fitting, hour_folder
from ingest.telemetry.series import COUNTERS, GAUGES, MAX_GAPS, Series, SeriesTotals
from ingest.telemetry.spool import SUFFIX, BadSpool, read_spool, spool_folder

IDENTITY = ("session", "sequence", "at_us")
COLUMNS = (*IDENTITY, *GAUGES, *COUNTERS, "health")

HEALTHS: tuple[Health, ...] = ("none", "good", "warning", "bad")
"""From the least that is said of a stream to the worst: a span's is the greatest."""

GAP_US = 2_600_000
"""A longer time without media is time off air, as in the live charts."""


class Gathering:
    """Takes tables of COLUMNS, each without duplicates, the latest hour first, and makes a Series of them."""

    def __init__(self, since_us: int, until_us: int, points: int) -> None:
        self._since = since_us
        self._points = max(1, points)
        self._width = max(1_000_000, -(-(until_us - since_us) // self._points))
        self._whole: list[pa.Table] = []
        self._spans: list[pa.Table] = []
        self._rates: list[pa.ChunkedArray] = []
        self._gaps: list[tuple[int, int]] = []
        self._first_media: int | None = None
        self.totals = SeriesTotals()
        self._bytes = 0

    def take(self, records: pa.Table) -> None:
        """An hour's samples, sorted by time."""
        ranks = pc.index_in(records["health"], pa.array(HEALTHS))
        records = records.set_column(records.column_names.index("health"), "health", ranks)
        self._count(records)
        self._find_gaps(records)
        if self._spans:
            self._spans.append(self._gathered(records))
            return
        self._whole.append(records)
        if self.totals.samples > self._points:
            self._spans = [self._gathered(table) for table in self._whole]
            self._whole = []

    def series(self) -> Series:
        series = Series(totals=self._finished(), gaps=[(a / 1e6, b / 1e6) for a, b in self._longest_gaps()])
        if self._spans:
            _fill(series, self._merged())
            series.step_s = self._width / 1e6
        elif self._whole:
            _fill(series, _as_spans(pa.concat_tables(reversed(self._whole))))
        return series

    def _count(self, records: pa.Table) -> None:
        totals, elapsed = self.totals, records["elapsed_ms"]
        totals.samples += records.num_rows
        totals.measured_s += (pc.sum(elapsed).as_py() or 0) / 1000
        totals.missing_frames += pc.sum(records["missing_frames_est"]).as_py() or 0
        totals.most_players = max(totals.most_players, pc.max(records["players"]).as_py() or 0)
        totals.most_viewers = max(totals.most_viewers, pc.max(records["viewers"]).as_py() or 0)
        for name, rank in (("warning_s", HEALTHS.index("warning")), ("bad_s", HEALTHS.index("bad"))):
            spent = pc.sum(elapsed.filter(pc.equal(records["health"], rank))).as_py() or 0
            setattr(totals, name, getattr(totals, name) + spent / 1000)
        self._bytes += sum(pc.sum(records[name]).as_py() or 0 for name in ("video_bytes", "audio_bytes"))
        self._rates.append(pc.add(records["video_kbps"], records["audio_kbps"]).cast(pa.float32()))

    def _finished(self) -> SeriesTotals:
        totals = self.totals
        if totals.measured_s:
            totals.mean_kbps = self._bytes * 8 / 1000 / totals.measured_s
            rates = pa.chunked_array([chunk for rate in self._rates for chunk in rate.chunks])
            totals.p95_kbps = pc.quantile(rates, q=0.95)[0].as_py()
        return totals

    def _find_gaps(self, records: pa.Table) -> None:
        """Between samples with media that are further apart than GAP_US; a sample tells of the second before it."""
        has_media = pc.greater(pc.add(records["video_bytes"], records["audio_bytes"]), 0)
        times = records["at_us"].filter(has_media).combine_chunks()
        if not len(times):
            return
        if self._first_media is not None:
            times = pa.concat_arrays([times, pa.array([self._first_media])])
        gaps = pc.subtract(times[1:], times[:-1])
        for index in pc.indices_nonzero(pc.greater(gaps, GAP_US)).to_pylist():
            self._gaps.append((times[index].as_py(), times[index + 1].as_py()))
        self._gaps = self._longest_gaps()
        self._first_media = times[0].as_py()

    def _longest_gaps(self) -> list[tuple[int, int]]:
        longest = sorted(self._gaps, key=lambda gap: gap[0] - gap[1])[:MAX_GAPS]
        return sorted(longest)

    def _gathered(self, records: pa.Table) -> pa.Table:
        span = pc.divide(pc.subtract(records["at_us"], self._since), self._width)
        return _group(_as_spans(records).append_column("span", span))

    def _merged(self) -> pa.Table:
        return _group(pa.concat_tables(self._spans)).sort_by("at_us")


def _as_spans(records: pa.Table) -> pa.Table:
    """Each sample as a span of its own: the columns that `_group` merges."""
    columns: dict[str, Any] = {"at_us": records["at_us"], "health": records["health"]}
    for name in GAUGES:
        value = records[name].cast(pa.float64())
        known = pc.is_valid(value).cast(pa.int64())
        columns |= {f"{name}.low": value, f"{name}.high": value, f"{name}.sum": value, f"{name}.n": known}
    columns |= {name: records[name] for name in COUNTERS}
    return pa.table(columns)


MERGED = {
    "at_us": "min",
    "health": "max",
    **{f"{name}.{part}": how for name in GAUGES for part, how in (("low", "min"), ("high", "max"))},
    **{f"{name}.{part}": "sum" for name in GAUGES for part in ("sum", "n")},
    **dict.fromkeys(COUNTERS, "sum"),
}


def _group(spans: pa.Table) -> pa.Table:
    merged = spans.group_by("span", use_threads=False).aggregate(list(MERGED.items()))
    return merged.select(["span", *(f"{name}_{how}" for name, how in MERGED.items())]).rename_columns(["span", *MERGED])


def _fill(series: Series, spans: pa.Table) -> None:
    series.at = pc.divide(spans["at_us"].cast(pa.float64()), 1e6).to_pylist()
    series.health = [HEALTHS[rank or 0] for rank in spans["health"].to_pylist()]
    for name in GAUGES:
        known = spans[f"{name}.n"]
        count = pc.if_else(pc.greater(known, 0), known, None)  # Nothing known: null, not a division by 0.
        series.values[name] = pc.divide(spans[f"{name}.sum"], count.cast(pa.float64())).to_pylist()
        series.low[name] = spans[f"{name}.low"].to_pylist()
        series.high[name] = spans[f"{name}.high"].to_pylist()
    for name in COUNTERS:
        series.values[name] = spans[name].to_pylist()


POINTS = 600
MAX_POINTS = 20_000
BUDGET_S = 8.0
MAX_HOURS = 400 * 24

TURNS = threading.BoundedSemaphore(2)
"""So many read at once in a process, which may be a media node's: the others wait for their turn."""

MAX_CLOCK_LAG_US = 120_000_000
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
        gathering = Gathering(wanted.since_us, wanted.until_us, min(points, MAX_POINTS))
        reader = _Reader(lake, wanted, deadline)
        for records in reader.hours():
            gathering.take(records)
        series = gathering.series()
    finally:
        TURNS.release()
    series.files = reader.files
    series.problems = reader.problems()
    return series


class _Reader:
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
        texts = []
        if self._unread:
            names = ", ".join(self._unread[:NAMED]) + (", …" if len(self._unread) > NAMED else "")
            texts.append(f"Files of the lake can't be read: {len(self._unread)}. What they hold is missing: {names}.")
        if self._stopped_at:
            end = f"{self._stopped_at + timedelta(hours=1):%Y-%m-%d %H:%M}"
            texts.append(f"Reading took too long and was stopped: what was before {end} UTC is missing, or part of it.")
        return texts

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
            if written >= wanted.since_us - MAX_CLOCK_LAG_US:
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
