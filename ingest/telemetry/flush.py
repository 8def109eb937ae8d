"""Asking every writer of a lake to turn its spool into Parquet now, so that a job sees what was recorded until then.

The request is the modification time of the file `.flush-request` in the lake; writers look at it each second. It needs
nothing but the shared folder, and so works for all nodes, whatever process or host they are in.
"""

import time
from pathlib import Path

from ingest.telemetry.spool import SUFFIX, Spool, spool_folder

REQUEST = ".flush-request"
POLL_S = 0.05


def request_time(lake: Path) -> int:
    """When the last request was made, in nanoseconds; 0: never."""
    try:
        return (lake / REQUEST).stat().st_mtime_ns
    except OSError:
        return 0


def request_flush(lake: Path, *, wait_s: float = 5.0) -> bool:
    """Asks, then waits until every spool that a living writer held at that time is converted. False: some were not.

    The spool of a writer that died is not waited for: a node's next start recovers it.
    """
    lake.mkdir(parents=True, exist_ok=True)
    held = {path for path in spool_folder(lake).glob(f"*{SUFFIX}") if not _abandoned(path)}
    (lake / REQUEST).touch()
    deadline = time.monotonic() + wait_s
    while held := {path for path in held if path.exists()}:
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_S)
    return True


def _abandoned(path: Path) -> bool:
    spool = Spool.claim(path)
    if spool is None:
        return False
    spool.release()
    return True
