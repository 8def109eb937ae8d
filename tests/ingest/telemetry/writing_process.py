"""A process that records numbered samples as fast as asked and says on stdout which it has handed over.

Arguments: the lake, the first sequence number, seconds between rotations.
"""

import sys
import time
from pathlib import Path

from ingest.telemetry import Rotation, TelemetryWriter
from tests.ingest.telemetry.records import NOON, sample

lake, first, rotate_s = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
writer = TelemetryWriter(lake, "node-a", rotation=Rotation(flush_s=0.05, age_s=rotate_s))
writer.start()
sequence = first
while True:
    # Every tenth belongs to the next hour, so that each spool becomes two files.
    writer.samples([sample(sequence, at_us=NOON + (sequence % 10 == 9) * 3_600_000_000)])
    sys.stdout.write(f"{sequence} {time.monotonic()}\n")
    sys.stdout.flush()
    sequence += 1
    time.sleep(0.002)
