"""Fills a lake hour by hour, as its nodes would have filled it."""

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from analytics.synthetic import noise
from analytics.synthetic.audience import HOUR_US, Audience, Plays
from analytics.synthetic.channels import NODE, USUAL, World, channels
from analytics.synthetic.events import hour_of_events
from analytics.synthetic.plan import SECOND_US, Session, sessions
from analytics.synthetic.samples import ENCODED, SECONDS, Sheet, minute_of_samples, node_name
from analytics.synthetic.writing import ParquetFile
from ingest.telemetry.lake import hour_folder, table_folder, write_parquet
from ingest.telemetry.schema import EVENTS, SAMPLES, TABLES
from ingest.telemetry.spool import SUFFIX, spool_folder

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
    told: Callable[[datetime, int], None] | None = None,
) -> Generated:
    """Writes so many hours (UTC) of samples and events into the lake, from the hour of `start` on.

    An hour comes out the same whichever others are made with it, in place of the same made before; only `streams`,
    `seed` and `world` change it. `files_per_hour`: of each node; 60 as nodes write them, a divisor of 60. `told` gets
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
        written = _Samples(lake, active, hour, files_per_hour, world, seed).write(playing)
        samples += written
        for node, records in hour_of_events(active, cast, playing, hour, world, seed).items():
            write_parquet(records, hour_folder(lake, EVENTS.name, _moment(hour)) / _file_name(node, hour, 1))
            events += records.num_rows
        if told is not None:
            told(_moment(hour), written)
    return Generated(samples, events, len(seen))


def holds_other_data(lake: Path) -> bool:
    """Whether the lake has files that `generate` did not write: a node's."""
    files = (file for table in TABLES for file in table_folder(lake, table.name).glob("*/*/[!._]*.parquet"))
    return any(spool_folder(lake).glob(f"*{SUFFIX}")) or any(not file.name.startswith(f"{NODE}-") for file in files)


class _Samples:
    """An hour's sample files: minute after minute, parted by node."""

    def __init__(
        self, lake: Path, active: list[Session], hour: int, files_per_hour: int, world: World, seed: int
    ) -> None:
        self._folder = hour_folder(lake, SAMPLES.name, _moment(hour))
        self._active = active
        self._hour = hour
        self._files = files_per_hour
        self._world = world
        self._seed = seed

    def write(self, playing: Plays) -> int:
        """How many samples there are."""
        sheet = Sheet.of(self._active)
        rows = 0
        for number in range(self._files):
            width = MINUTES // self._files
            minutes = range(self._hour * MINUTES + number * width, self._hour * MINUTES + (number + 1) * width)
            with ExitStack() as stack:
                files = [
                    stack.enter_context(ParquetFile(self._folder / self._name(node, number + 1), ENCODED))
                    for node in range(self._world.nodes)
                ]
                for minute in minutes:
                    for file, records in zip(files, self._minute(sheet, minute, playing), strict=False):
                        file.write(records)
            rows += sum(file.rows for file in files)
            for node, file in enumerate(files):
                if file.rows and self._comes_twice(node, number):
                    shutil.copyfile(
                        self._folder / self._name(node, number + 1),
                        self._folder / self._name(node, TWICE_FROM + number),
                    )
        return rows

    def _name(self, node: int, number: int) -> str:
        return _file_name(node_name(node), self._hour, number)

    def _comes_twice(self, node: int, number: int) -> bool:
        return bool(noise.uniform(self._seed, 14, self._hour, node, number)[0] < self._world.twice)

    def _minute(self, sheet: Sheet, minute: int, playing: Plays) -> list[pa.Table]:
        """Each node's samples of the minute."""
        if not len(sheet):
            return []
        players = _players(playing, minute, sheet)
        return minute_of_samples(self._active, sheet, minute, players, self._world.nodes, self._seed)


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
    """The sessions that have a moment within the hour."""
    return [session for session in plan if session.begin_us < (hour + 1) * HOUR_US and session.end_us > hour * HOUR_US]


def _moment(hour: int) -> datetime:
    return datetime.fromtimestamp(hour * 3600, UTC)


def _file_name(node: str, hour: int, number: int) -> str:
    """As a node's writer that was started with the hour would name it."""
    return f"{node}-{_moment(hour):%Y%m%dT%H%M%S%f}-{number:06d}.parquet"
