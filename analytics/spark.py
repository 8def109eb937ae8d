"""Has Spark compute hours or days, starts a lost JVM once more, and warms Spark up on made-up telemetry.

To be imported only where there is work for it: it loads Spark, Arrow and numpy."""

import logging
import shutil
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from celery.exceptions import SoftTimeLimitExceeded

from analytics import runner, synthetic
from analytics.java import JavaMissing
from analytics.jobs.computing import compute_days, compute_hours
from analytics.ledger import Hour, Work, scan
from analytics.models import AnalyticsRun, Grain
from analytics.schemas import Computed
from analytics.services import SparkGone, Stopped

ATTEMPTS = 2
"""A lost JVM costs one more attempt."""


def compute_with_spark(
    lake: Path, grain: Grain, works: Sequence[Work], out: Path, *, warn: Callable[[str], None]
) -> dict[datetime, Computed]:
    """What came of each, written below `out`. Raises Stopped, SparkGone, and whatever is wrong with these hours."""
    for remaining in reversed(range(ATTEMPTS)):
        try:
            with runner.spark() as session:
                if grain == Grain.DAY:
                    return compute_days(session, lake, [day.start for day in works], out)
                return compute_hours(session, lake, [hour for hour in works if isinstance(hour, Hour)], out)
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


log = logging.getLogger(__name__)

WARM_UP_HOUR = datetime(2026, 1, 1, 12, tzinfo=UTC)
WARM_UP_WORLD = synthetic.World(always_on=1.0)


def warm_up_spark() -> None:
    """Unless it is. What goes wrong here goes wrong again, and is told, where it is in somebody's way."""
    if runner.is_warm():
        return
    folder = Path(tempfile.mkdtemp(prefix="rtmpweb-warming-"))
    try:
        lake, out = folder / "lake", folder / "out"
        synthetic.generate(lake, streams=1, start=WARM_UP_HOUR, hours=1, world=WARM_UP_WORLD)
        with runner.spark() as session:
            compute_hours(session, lake, list(scan(lake).values()), out)
            compute_days(session, out, [WARM_UP_HOUR.replace(hour=0)], out)
        runner.keep_classes()
    except (JavaMissing, runner.SparkLost, OSError) as error:
        log.info("Spark was not warmed up: %s", error)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
