"""Telemetry that looks like a real day's, for tests, benchmarks and trying things out: `manage.py analytics generate`.

    generate(lake, streams=1000, start=datetime(2026, 3, 2, tzinfo=UTC), hours=24)

The same seed gives the same rows. Streams by day and night, encoders of several kinds that restart and reconnect, bad
uplinks, players that come and go; samples and events agree with each other. A lake is filled hour by hour, as its nodes
would have filled it."""

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from analytics.synthetic import publishers
from analytics.synthetic.events import HOUR_US, Audience, Plays, hour_of_events
from analytics.synthetic.publishers import NODE, SECOND_US, USUAL, Session, World, channels, node_name, sessions
from analytics.synthetic.samples import ENCODED, SECONDS, Minute, Sheet
from ingest.telemetry.lake import EVENTS, SAMPLES, TABLES, hour_folder, table_folder, write_parquet
from ingest.telemetry.spool import SUFFIX, spool_folder

__all__ = ["SEED", "Generated", "World", "generate", "holds_other_data"]

ROWS = 400_000
"""Of a row group, at least, unless a file ends: what waits in memory."""


class ParquetFile:
    """Written beside its place and moved there when it is whole. Raises OSError."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._partial = path.with_name(f".{path.name}.tmp")
        # Without Arrow's own schema, which would have readers make dictionaries of texts.
        self._writer = pq.ParquetWriter(self._partial, schema, compression="zstd", store_schema=False)
        self._waiting: list[pa.Table] = []
        self.rows = 0

    def write(self, records: pa.Table) -> None:
        self._waiting.append(records)
        self.rows += records.num_rows
        if sum(table.num_rows for table in self._waiting) >= ROWS:
            self._flush()

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            records = pa.concat_tables(waiting)
            self._writer.write_table(records, row_group_size=max(1, records.num_rows))

    def __enter__(self) -> "ParquetFile":
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            self._flush()
        self._writer.close()
        if kind is None and self.rows:
            self._partial.rename(self._path)
        else:
            self._partial.unlink(missing_ok=True)


SEED = 7
MINUTES = 60
TWICE_FROM = 500_000
"""Numbers of the files whose rows are in another file as well."""


@dataclass(frozen=True, slots=True)
class Generated:
    """What was written. Rows that are in two files count once; sessions are those of publishers."""

    samples: int
    events: int
    sessions: int


def generate(
    lake: Path,
    *,
    streams: int,
    start: datetime,
    hours: int,
    seed: int = SEED,
    files_per_hour: int = 1,
    world: World = USUAL,
    report: Callable[[datetime, int], None] | None = None,
) -> Generated:
    """Writes so many hours (UTC) of samples and events into the lake, from the hour of `start` on.

    An hour comes out the same whichever others are made with it, in place of the same made before; only `streams`,
    `seed` and `world` change it. `files_per_hour`: of each node; 60 as nodes write them, a divisor of 60. `report` gets
    each hour that is done, and its samples. Raises ValueError for impossible counts, OSError.
    """
    if streams < 1 or hours < 1 or files_per_hour < 1 or MINUTES % files_per_hour:
        raise ValueError("There have to be streams and hours, and a number of files that divides 60.")
    first = int(start.timestamp()) // 3600
    cast = channels(streams, seed, world)
    plan = sessions(cast, seed, world, (first - 4) * HOUR_US, (first + hours) * HOUR_US)

    @lru_cache(maxsize=2)
    def on_air(hour: int) -> NDArray[np.bool_]:
        air = np.zeros((streams, 3600), np.bool_)
        for session in _within(plan, hour):
            begin, end = (us // SECOND_US - hour * 3600 for us in (session.begin_us, session.end_us))
            air[session.channel.number, max(0, begin) : max(0, end)] = True
        return air

    audience = Audience(cast, seed, on_air)
    samples = events = 0
    seen: set[str] = set()
    for hour in range(first, first + hours):
        playing = audience.present(hour)
        active = _within(plan, hour)
        seen.update(session.id for session in active)
        written = _write_samples(lake, active, playing, hour, files_per_hour, world, seed)
        samples += written
        for node, records in hour_of_events(active, cast, playing, hour, world, seed).items():
            write_parquet(records, hour_folder(lake, EVENTS.name, _moment(hour)) / _file_name(node, hour, 1))
            events += records.num_rows
        if report is not None:
            report(_moment(hour), written)
    return Generated(samples, events, len(seen))


def holds_other_data(lake: Path) -> bool:
    """Whether the lake has files that `generate` did not write: a node's."""
    files = (file for table in TABLES for file in table_folder(lake, table.name).glob("*/*/[!._]*.parquet"))
    return any(spool_folder(lake).glob(f"*{SUFFIX}")) or any(not file.name.startswith(f"{NODE}-") for file in files)


def _write_samples(
    lake: Path, active: list[Session], playing: Plays, hour: int, files_per_hour: int, world: World, seed: int
) -> int:
    """An hour's sample files: minute after minute, parted by node; how many samples."""
    folder, sheet, width = hour_folder(lake, SAMPLES.name, _moment(hour)), Sheet.of(active), MINUTES // files_per_hour
    by_hls = playing.only(playing.by_hls)
    rows = 0
    for number in range(files_per_hour if active else 0):
        first = hour * MINUTES + number * width
        names = [_file_name(node_name(node), hour, number + 1) for node in range(world.nodes)]
        with ExitStack() as stack:
            files = [stack.enter_context(ParquetFile(folder / name, ENCODED)) for name in names]
            for minute in range(first, first + width):
                players, viewers = (_players(those, minute, sheet) for those in (playing, by_hls))
                made = Minute(active, sheet, minute, players, viewers, world.nodes, seed).tables()
                for file, records in zip(files, made, strict=True):
                    file.write(records)
        rows += sum(file.rows for file in files)
        for node, (file, name) in enumerate(zip(files, names, strict=True)):
            if file.rows and publishers.uniform(seed, 14, hour, node, number)[0] < world.twice:
                shutil.copyfile(folder / name, folder / _file_name(node_name(node), hour, TWICE_FROM + number))
    return rows


def _players(playing: Plays, minute: int, sheet: Sheet) -> NDArray[np.int32]:
    """(60, sessions): how many play each session's stream at the end of each second of the minute."""
    first = minute * SECONDS
    begin, end = (np.clip(us // SECOND_US - first, 0, SECONDS) for us in (playing.begin_us, playing.end_us))
    count = int(max(sheet.number.max(), playing.number.max(initial=0))) + 1
    steps = np.zeros((SECONDS + 1, count), np.int32)
    np.add.at(steps, (begin, playing.number), 1)
    np.add.at(steps, (end, playing.number), -1)
    return np.cumsum(steps[:SECONDS], axis=0, dtype=np.int32)[:, sheet.number]


def _within(plan: list[Session], hour: int) -> list[Session]:
    return [session for session in plan if session.begin_us < (hour + 1) * HOUR_US and session.end_us > hour * HOUR_US]


def _moment(hour: int) -> datetime:
    return datetime.fromtimestamp(hour * 3600, UTC)


def _file_name(node: str, hour: int, number: int) -> str:
    """As a node's writer that was started with the hour would name it."""
    return f"{node}-{_moment(hour):%Y%m%dT%H%M%S%f}-{number:06d}.parquet"
