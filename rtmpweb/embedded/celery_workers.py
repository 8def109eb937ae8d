"""The Celery workers of the embedded server, as programs that are its children."""

import os
import sys
from functools import partial
from pathlib import Path

from ingest.management.children import Program
from rtmpweb import broker

CELERY = ("-m", "celery", "--quiet", "-A", "rtmpweb", "worker")

QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat")
"""Nobody listens to what workers say to one another on one machine."""


REST_AFTER_S = 20
"""Longer than a run of the analytics waits for another to end (BUSY_RETRY_S): it is asked for again meanwhile."""


def celery_workers(project: Path, data: Path, queue: Path | None) -> list[Program]:
    """`default` runs the short tasks and the schedule in one process; `analytics` one Spark job at a time, behind
    everything else, each in a process of its own that ends with it. It is there only while there is work.

    `queue`: the broker's folder; None: the broker is elsewhere, and only a worker sees what waits there.
    """
    environment = {
        "PYTHONPATH": os.pathsep.join(filter(None, (str(project), os.environ.get("PYTHONPATH")))),
        "RTMPWEB_DATA_DIR": str(data),
        "RTMPWEB_LOG_LEVEL": os.environ.get("RTMPWEB_LOG_LEVEL") or "WARNING",
    }
    start = (sys.executable, *CELERY, *QUIET)
    rests = ("--rest-after", str(REST_AFTER_S)) if queue is not None else ()
    return [
        Program(
            "default",
            (*start, "-n", "default@%h", "-Q", "default", "-c", "1", "-P", "solo", "--schedule-thread"),
            environment=environment,
        ),
        Program(
            "analytics",
            (*start, "-n", "analytics@%h", "-Q", "analytics", "-c", "1", "--prefetch-multiplier", "1", *rests),
            nice=10,
            environment=environment,
            wanted=partial(broker.has_message, queue, "analytics") if queue is not None else None,
        ),
    ]
