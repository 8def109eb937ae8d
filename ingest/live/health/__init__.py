"""Health checks: what is measured, one table of what is wrong from where on, and the engine that evaluates by it.

`docs/health.md` explains each check to operators.
"""

from ingest.live.health.checks import CHECKS, STANDS_STILL
from ingest.live.health.engine import WARM_UP_S, Check, HealthEngine, with_rules
from ingest.live.health.measures import Figures, Target
from ingest.live.health.node_checks import NODE_CHECKS

__all__ = [
    "CHECKS",
    "NODE_CHECKS",
    "STANDS_STILL",
    "WARM_UP_S",
    "Check",
    "Figures",
    "HealthEngine",
    "Target",
    "with_rules",
]
