"""What is done each hour: closed hours are compacted, and what is old is removed."""

import logging
import time
from datetime import datetime
from pathlib import Path

import pyarrow as pa
from django.conf import settings

from analytics.keeping.compaction import compact, compactable
from analytics.keeping.retention import Gone, Kept, remove_old
from analytics.locks import LockLost

log = logging.getLogger(__name__)

RUN_S = 600.0
"""What is left after so long is for the next time."""


def keep(lake: Path, now: datetime) -> None:
    """Both, and says what it did."""
    hours, files = compact_closed(lake, now)
    gone = remove_as_set(lake, now)
    log.info(
        "Made %d files of the lake less in %d hours; removed the samples of %d hours, %d files that had been set "
        "aside, the minutes of %d days, the hours of %d days and %d days, and %d rows of the database.",
        files,
        hours,
        gone.sample_hours,
        gone.set_aside,
        gone.minute_days,
        gone.hour_days,
        gone.days,
        gone.rows,
    )


def compact_closed(lake: Path, now: datetime, *, run_s: float = RUN_S) -> tuple[int, int]:
    """How many hours were compacted, and how many files are less. An hour that can't be read is left as it is."""
    ends, hours, files = time.monotonic() + run_s, 0, 0
    for start in compactable(lake, now):
        if time.monotonic() > ends:
            break
        try:
            less = compact(lake, start)
        except (OSError, pa.ArrowException, LockLost) as error:
            log.error("The hour %s can't be compacted: %s", f"{start:%Y-%m-%d %H:%M}", error)
            continue
        hours, files = hours + bool(less), files + less
    return hours, files


def remove_as_set(lake: Path, now: datetime) -> Gone:
    kept = Kept(
        settings.KEEP_SAMPLES_DAYS, settings.KEEP_MINUTES_DAYS, settings.KEEP_HOURS_DAYS, settings.KEEP_DAYS_DAYS
    )
    return remove_old(lake, kept, now)
