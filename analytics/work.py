"""What computing an hour takes and tells: between the ledger, which knows no Spark, and the jobs.

The jobs read the lake and write below `out`, an empty folder of the run's own: one file
`out/rollups/TABLE/v=/dt=/hr=/figures.parquet` for each table and hour. From there analytics.publishing brings it
into the lake while the partition's lock is held, so that a run that stood still cannot overwrite what another has made
since.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

LakeFile = tuple[str, int, int]
"""A file of samples or events: its path below the lake, its size (bytes), the time of its last change (ns)."""


@dataclass(frozen=True, slots=True)
class HourInput:
    """An hour (UTC) to compute, and the lake's files that it is made from."""

    start: datetime
    files: tuple[LakeFile, ...] = ()

    def without(self, paths: Collection[str]) -> "HourInput":
        return replace(self, files=tuple(file for file in self.files if file[0] not in paths))


@dataclass(frozen=True, slots=True)
class Computed:
    """What came of an hour or a day.

    `rows`: that it is made from; `rows_read`: those that had to be read for it. `strays`: samples and events of other
    hours in its files, which count for none. `damaged`: {file that can't be read, below the lake: why}.
    """

    rows: int
    rows_read: int
    rows_written: int  # Of its rollups.
    tail: str = ""  # Of an hour: digest (sha256, hex) of what the next hour begins with, "" of nothing; of a day "".
    strays: int = 0
    damaged: Mapping[str, str] = field(default_factory=dict)
