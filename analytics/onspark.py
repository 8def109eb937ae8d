"""Has Spark compute hours or days, and starts a lost JVM once more. To be imported only where there is work for it."""

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from celery.exceptions import SoftTimeLimitExceeded

from analytics import runner
from analytics.java import JavaMissing
from analytics.jobs.computing import compute_days, compute_hours
from analytics.ledger import Hour, Work
from analytics.models import AnalyticsRun, Grain
from analytics.stopping import SparkGone, Stopped
from analytics.work import Computed

ATTEMPTS = 2
"""A lost JVM costs one more attempt."""


def compute(
    lake: Path, grain: Grain, works: Sequence[Work], out: Path, *, warn: Callable[[str], None]
) -> dict[datetime, Computed]:
    """What came of each, written below `out`. Raises Stopped, SparkGone, and whatever is wrong with these hours."""
    for remaining in reversed(range(ATTEMPTS)):
        try:
            with runner.spark() as session:
                if grain == Grain.DAY:
                    return compute_days(session, lake, [day.start for day in works], out)
                return compute_hours(session, lake, [hour.input for hour in works if isinstance(hour, Hour)], out)
        except JavaMissing as error:
            raise Stopped(AnalyticsRun.ErrorCode.JAVA_MISSING, str(error)) from None
        except SoftTimeLimitExceeded:
            runner.discard()
            raise
        except runner.SparkLost as error:
            if not remaining:
                raise SparkGone(str(error)) from error
            warn(f"It lost its Java process and starts another. {error}")
    raise AssertionError("not reached")
