"""The table of checks of a node, by the figures that it tells each second."""

from math import inf
from operator import lt
from typing import Final

from ingest.contracts import NodeFigures
from ingest.live.health.check import Check
from ingest.live.health.words import NBSP, span

NODE_CHECKS: Final[tuple[Check[NodeFigures], ...]] = (
    Check(
        code="node_cpu",
        name="Processor busy",
        warning=90,
        bad=inf,
        hold_s=10,
        unit="%",
        measure=lambda figures: figures["cpu_percent"],
        actual=lambda figures, passed: f"{passed.value:.0f}{NBSP}% of a processor",
        title=lambda figures, passed: (
            f"The node uses {passed.value:.0f}{NBSP}% of a processor, {passed.limit:g} at most, "
            f"for {span(passed.lasted_s)}."
        ),
        advice="Media may come late to players: send new streams to another node, or drain this one.",
    ),
    Check(
        code="disk_free",
        name="Disk full",
        warning=10,
        bad=3,
        hold_s=10,
        unit="%",
        passes=lt,
        measure=lambda figures: figures["disk_free_percent"],
        actual=lambda figures, passed: f"{passed.value:.1f}{NBSP}% free",
        title=lambda figures, passed: f"{passed.value:.1f}{NBSP}% of the disk is free, {passed.limit:g} at least.",
        advice="Free space on it: recordings and telemetry stop when it is full.",
    ),
)

NODE_CHECK_CODES: Final = tuple(check.code for check in NODE_CHECKS)
