"""Telemetry that looks like a real day's, for tests, benchmarks and trying things out: `manage.py analytics generate`.

    generate(lake, streams=1000, start=datetime(2026, 3, 2, tzinfo=UTC), hours=24)

The same seed gives the same rows. Streams by day and night, encoders of several kinds that restart and reconnect, bad
uplinks, players that come and go; samples and events agree with each other.
"""

from analytics.synthetic.channels import World
from analytics.synthetic.generating import SEED, Generated, generate, holds_other_data

__all__ = ["SEED", "Generated", "World", "generate", "holds_other_data"]
