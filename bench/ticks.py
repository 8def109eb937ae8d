"""What the event loop does once a second for 300 live streams, as a case of the table (`bench.micro.tick`)."""

import re
import subprocess
import sys

from bench.measure import Figures
from bench.peers import Start

STREAMS = 300
LINE = re.compile(r"streams, cold: .*?each: (?P<parts>.*)")
APART = "telemetry"
"""What has a thread of its own."""


def measure(start: Start, seconds: float) -> Figures:
    """A `Measure` without a server."""
    command = [sys.executable, "-m", "bench.micro.tick", str(STREAMS)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = LINE.search(done.stdout)
    assert found is not None, done.stdout
    parts = {name: float(spent) for name, spent in (part.split(" ") for part in found["parts"].split(", "))}
    return {"tick_ms": sum(us for name, us in parts.items() if name != APART) * STREAMS / 1e3, "other_cores": 0.0}
