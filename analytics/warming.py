"""Has Spark do its work once on made-up telemetry, so that the first run that somebody waits for finds it warm."""

import logging
import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from analytics import runner, synthetic
from analytics.java import JavaMissing
from analytics.jobs.computing import compute_days, compute_hours
from analytics.ledger import scan

log = logging.getLogger(__name__)

HOUR = datetime(2026, 1, 1, 12, tzinfo=UTC)
ALWAYS = synthetic.World(always_on=1.0)


def warm() -> None:
    """Unless it is. What goes wrong here goes wrong again, and is told, where it is in somebody's way."""
    if runner.is_warm():
        return
    folder = Path(tempfile.mkdtemp(prefix="rtmpweb-warming-"))
    try:
        lake, out = folder / "lake", folder / "out"
        synthetic.generate(lake, streams=1, start=HOUR, hours=1, world=ALWAYS)
        with runner.spark() as session:
            compute_hours(session, lake, [hour.input for hour in scan(lake).values()], out)
            compute_days(session, out, [HOUR.replace(hour=0)], out)
        runner.keep_classes()
    except (JavaMissing, runner.SparkLost, OSError) as error:
        log.info("Spark was not warmed up: %s", error)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
