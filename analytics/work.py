"""What computing an hour takes and tells: between the ledger, which knows no Spark, and the jobs.

`compute_hours(session, lake, hours, out)` and `compute_days(session, lake, days, out)` of analytics.jobs.computing read
the lake and write below `out`, an empty folder of the run's own: `out/rollups/TABLE/v=/dt=/hr=`. From there
analytics.publishing brings it into the lake while the partition's lock is held, so that a run that stood still cannot
overwrite what another has made since.
"""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path


@dataclass(frozen=True, slots=True)
class HourInput:
    """An hour (UTC) to compute, and the lake's files that it is made from."""

    start: datetime
    samples: tuple[Path, ...]
    events: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Computed:
    """What came of an hour or a day."""

    rows_read: int
    rows_written: int  # Of its rollups.
    tail: str = ""  # Of an hour: digest (sha256, hex) of what the next hour begins with, "" of nothing; of a day "".
