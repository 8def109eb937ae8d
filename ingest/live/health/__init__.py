"""Health checks: what is measured, one table of what is wrong from where on, and the engine that judges by it.

`docs/health.md` explains each check to operators.
"""

from ingest.live.health.checks import CHECK_CODES, CHECKS
from ingest.live.health.engine import WARM_UP_S, Check, HealthEngine, with_rules
from ingest.live.health.measures import Figures, Target
from ingest.live.health.node_checks import NODE_CHECK_CODES, NODE_CHECKS

CHECK_NAMES = {check.code: check.name for check in CHECKS} | {check.code: check.name for check in NODE_CHECKS}
"""Of all checks, as people call what they look for: of what has cleared the sentence is no longer true."""

__all__ = [
    "CHECKS",
    "CHECK_CODES",
    "CHECK_NAMES",
    "NODE_CHECKS",
    "NODE_CHECK_CODES",
    "WARM_UP_S",
    "Check",
    "Figures",
    "HealthEngine",
    "Target",
    "with_rules",
]
