"""A process that records numbered samples, and says on stdout which it has handed over, how far they are spooled, how
many times that was, and how long one waited for it at most.

Arguments: the lake, the first sequence number, seconds between rotations.
"""

import os
import sys
import time
from pathlib import Path

import pyarrow as pa

from ingest.telemetry import Rotation, TelemetryWriter
from ingest.telemetry.spool import Spool
from tests.ingest.telemetry.records import NOON, sample
from tests.rtmpweb.processes import waited_s

spooled: list[int] = []
"""How many samples each time."""
handed: list[float] = []
"""When, of each sample."""
longest = 0.0
append = Spool.append


def clock() -> float:
    """Stands still while this process waits for a processor."""
    return time.monotonic() - waited_s(os.getpid())


def note(spool: Spool, batch: pa.RecordBatch) -> None:
    global longest
    append(spool, batch)
    longest = max(longest, clock() - handed[sum(spooled)])
    spooled.append(batch.num_rows)


Spool.append = note  # type: ignore[assignment, method-assign]
lake, first, rotate_s = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
writer = TelemetryWriter(lake, "node-a", rotation=Rotation(flush_s=0.05, age_s=rotate_s))
writer.start()
sequence = first
while True:
    handed.append(clock())
    # Every tenth belongs to the next hour, so that each spool becomes two files.
    writer.samples([sample(sequence, at_us=NOON + (sequence % 10 == 9) * 3_600_000_000)])
    sys.stdout.write(f"{sequence} {sum(spooled)} {len(spooled)} {longest}\n")
    sys.stdout.flush()
    sequence += 1
    time.sleep(0.002)
