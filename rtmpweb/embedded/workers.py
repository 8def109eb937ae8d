"""The Celery workers that the embedded server keeps running."""

import os
import sys
from pathlib import Path

from rtmpweb.embedded.children import Program

CELERY = ("-m", "celery", "--quiet", "--skip-checks", "-A", "rtmpweb", "worker")
"""The server, which starts them, has made Django's checks: they load the whole project, pages and API too."""

QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat")
"""Nobody listens to what workers say to one another on one machine."""


def programs(project: Path, data: Path) -> list[Program]:
    """`default` runs the short tasks and the schedule; `analytics` one Spark job at a time, behind everything else."""
    environment = {
        "PYTHONPATH": os.pathsep.join(filter(None, (str(project), os.environ.get("PYTHONPATH")))),
        "RTMPWEB_DATA_DIR": str(data),
        "RTMPWEB_LOG_LEVEL": os.environ.get("RTMPWEB_LOG_LEVEL") or "WARNING",
    }
    start = (sys.executable, *CELERY, *QUIET)
    return [
        Program(
            "default",
            (*start, "-n", "default@%h", "-Q", "default", "-c", "1", "--beat"),
            environment=environment,
        ),
        Program(
            "analytics",
            (*start, "-n", "analytics@%h", "-Q", "analytics", "-c", "1", "--prefetch-multiplier", "1"),
            nice=10,
            environment=environment,
        ),
    ]
