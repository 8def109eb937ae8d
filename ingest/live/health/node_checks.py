"""The table of checks of a node, by the figures that it tells each second."""

from operator import ge, lt
from typing import Final

from ingest.contracts import NodeFigures
from ingest.live.health.engine import NBSP, Check, over, percent, span, times, under, whole


def _files_share(figures: NodeFigures) -> float | None:
    """Open files, in percent of those that the process may have open."""
    process = figures.get("process")
    if process is None or process["open_files"] is None or not process["most_files"]:
        return None
    return 100 * process["open_files"] / process["most_files"]


def _files(figures: NodeFigures) -> str:
    process = figures.get("process")
    if process is None:
        return ""
    return f"{whole(process['open_files'] or 0)} of {whole(process['most_files'] or 0)} files"


def _relays_failing(figures: NodeFigures) -> int | None:
    relays = figures.get("relays")
    return None if relays is None else sum(relay["state"] == "failing" for relay in relays)


def _why_failing(figures: NodeFigures) -> str:
    """Of the first of them."""
    return next((relay["failure"] for relay in figures.get("relays", []) if relay["failure"]), "")


NODE_CHECKS: Final[tuple[Check[NodeFigures], ...]] = (
    Check(
        code="node_cpu",
        warning=90,
        hold_s=10,
        unit="%",
        measure=lambda figures: figures["cpu_percent"],
        actual=lambda figures, passed: f"{passed.value:.0f}{NBSP}% of one core",
        title=lambda figures, passed: (
            f"CPU {passed.value:.0f}{NBSP}% of one core{over(passed.value, passed.limit, '%')} "
            f"for {span(passed.lasted_s)}."
        ),
        advice="Players may get media late: send new streams to another node, or drain this one.",
    ),
    Check(
        code="disk_free",
        warning=10,
        bad=3,
        hold_s=10,
        unit="%",
        passes=lt,
        measure=lambda figures: figures["disk_free_percent"],
        actual=lambda figures, passed: f"{passed.value:.1f}{NBSP}% free",
        title=lambda figures, passed: (
            f"Disk space {passed.value:.1f}{NBSP}% free{under(passed.value, passed.limit, '%', 1)}."
        ),
        advice="Free space on it: recordings and telemetry stop when it is full.",
    ),
    Check(
        code="node_files",
        warning=80,
        bad=95,
        unit="%",
        warms_up=False,
        measure=_files_share,
        actual=lambda figures, passed: f"{_files(figures)} ({percent(passed.value)})",
        title=lambda figures, passed: (
            f"{_files(figures)} open, {percent(passed.value)}{over(passed.value, passed.limit, '%')}."
        ),
        advice=(
            "At the limit nobody can connect and nothing is recorded: raise the process's limit of open files "
            "(ulimit -n; LimitNOFILE= of systemd), or lower RTMPWEB_MAX_CONNECTIONS."
        ),
    ),
    Check(
        code="disk_hangs",
        warning=5,
        bad=30,
        unit="s",
        measure=lambda figures: figures.get("disk_hangs_s"),
        actual=lambda figures, passed: f"no answer for {span(passed.value)}",
        title=lambda figures, passed: (
            f"The data folder's disk has not answered for {span(passed.value)}"
            f"{over(int(passed.value), passed.limit, 's')}."
        ),
        advice="Check the disk and its mount. Live streams go on; what is to be written waits in memory.",
    ),
    Check(
        code="caches_full",
        warning=1,
        unit="a minute",
        passes=ge,
        measure=lambda figures: figures.get("caches_dropped"),
        actual=lambda figures, passed: f"{times(round(passed.value))} in the last minute",
        expected=lambda figures, passed: (
            "never" if passed.limit <= 1 else f"fewer than {passed.limit:g} times a minute"
        ),
        title=lambda figures, passed: (
            f"Player cache full: a stream's pictures were dropped {times(round(passed.value))} in the last minute."
        ),
        advice=(
            "Players that join the largest streams wait for their next keyframe: raise RTMPWEB_CACHE_MIB, if the node "
            f"has the memory, or set the encoders' keyframe interval to 2{NBSP}s."
        ),
    ),
    Check(
        code="relays_failing",
        warning=1,
        hold_s=3,
        unit="streams",
        passes=ge,
        warms_up=False,
        measure=_relays_failing,
        actual=lambda figures, passed: f"{passed.value:.0f} out of reach",
        expected=lambda figures, passed: "none",
        title=lambda figures, passed: (
            f"{passed.value:.0f} streams of other nodes can't be fetched. {_why_failing(figures)}"
            if passed.value > 1
            else f"A stream of another node can't be fetched. {_why_failing(figures)}"
        ),
        advice=(
            "Check that the address leads to that node and is open to this one: RTMPWEB_NODE_URL there, firewalls "
            "between. A node that died is replaced by the one where its encoders come back."
        ),
    ),
)
