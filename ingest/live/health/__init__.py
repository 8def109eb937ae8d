"""Health checks: what is measured, one table of what is wrong from where on, and the engine that judges by it.

`docs/health.md` explains each check to operators.
"""

from ingest.live.health.check import Check, ruled
from ingest.live.health.checks import CHECK_CODES, CHECKS
from ingest.live.health.engine import WARM_UP_S, HealthEngine
from ingest.live.health.figures import Figures
from ingest.live.health.node import NODE_CHECK_CODES, NODE_CHECKS
from ingest.live.health.target import Target

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
    "ruled",
]
