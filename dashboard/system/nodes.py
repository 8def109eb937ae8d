"""Media nodes and packagers: who runs, drains, is at the limit or missing, and what to say of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from django.conf import settings

from dashboard.system.observation import Observation
from dashboard.system.parts import (
    Part,
    Trouble,
    degraded,
    failing,
    in_order,
    since_first_seen,
    unknown,
    unknown_or_down,
)
from dashboard.system.probes import Rows
from ingest import command_line
from ingest.contracts import NodeFigures
from ingest.models import Node

NODE_LATE = timedelta(seconds=8)
"""A node says that it lives every 3 s."""

MISSING_NODE = timedelta(days=1)
"""How long one that vanished is missed, if it did not stop in order."""

DRAINING = " (draining)"
PACKAGERS = "packagers"


@dataclass(frozen=True, slots=True)
class Troubles:
    """What several that do the same suffer from while it works all the same. `{some}`: how many of how many, and the
    verb."""

    noun: str
    busy: Trouble
    drains: Trouble
    missing: Trouble
    cut_off: Trouble


TROUBLES = {
    "nodes": Troubles(
        "media nodes",
        busy=Trouble(
            "{some} at the limit",
            "Media may reach players late.",
            "Send new streams to another node, or drain this one.",
        ),
        drains=Trouble(
            "Every media node is draining",
            "Live streams go on for a while; nobody new can publish or play.",
            "Resume one on the page Nodes, or start another.",
        ),
        missing=Trouble(
            "{some} missing",
            "Its streams are free for the other nodes; encoders reconnect there.",
            "Check its log. If it is gone for good: Forget, on the page Nodes.",
        ),
        cut_off=Trouble(
            "{some} cut off from the database",
            "Live streams go on there; nobody new can publish or play.",
            "Restart nothing, or its streams end: check its log and its connection to the database.",
        ),
    ),
    PACKAGERS: Troubles(
        "packagers",
        busy=Trouble(
            "{some} at the limit",
            "What viewers by HLS watch may stall.",
            "Start another and lead viewers to both by stream, or put a cache before it.",
        ),
        drains=Trouble(
            "Every packager is draining",
            "Publishing and RTMP players go on; nobody new can watch by HLS.",
            "Resume one on the page Nodes, or start another.",
        ),
        missing=Trouble(
            "{some} missing",
            "Viewers by HLS who are led to it see nothing; those of the others go on.",
            "Check its log, and that viewers are led to the others. If it is gone for good: Forget, on the page Nodes.",
        ),
        cut_off=Trouble(
            "{some} cut off from the database",
            "Who watches there by HLS goes on; nobody new can.",
            "Check its log and its connection to the database.",
        ),
    ),
}
"""By the kind of part."""

NO_PACKAGER = f"None: `{command_line.short('runhls')}` serves viewers in browsers (HLS)."


def figures_of(kind: str, seen: Observation) -> list[NodeFigures] | None:
    """What those of this kind of part told within the last seconds; None: not to be had."""
    if seen.nodes is None:
        return None
    packagers = {node.name for node in _of(PACKAGERS, seen.rows)} if seen.rows is not None else set()
    return [figures for figures in seen.nodes if (figures["node"] in packagers) == (kind == PACKAGERS)]


def alive_nodes(kind: str, rows: Rows) -> list[Node]:
    return [node for node in _of(kind, rows) if node.stopped_at is None and rows.at - node.seen_at <= NODE_LATE]


def evaluate_packagers(seen: Observation, kind: str, former: Part | None) -> Part:
    """Where none runs that anybody could miss, there is nothing to tell of."""
    if seen.rows is not None:
        missed = _silent(kind, seen.rows) if settings.HLS_ADDRESS is not None else []
        if not missed and not alive_nodes(kind, seen.rows):
            return in_order(kind, None, NO_PACKAGER)
    return evaluate_nodes(seen, kind, former)


def evaluate_nodes(seen: Observation, kind: str, former: Part | None) -> Part:
    told = figures_of(kind, seen) or []
    states = {figures["node"]: DRAINING if figures.get("draining") else "" for figures in told}
    as_reported = in_order(
        kind, former.since if former else None, ", ".join(f"{name}{drains}" for name, drains in sorted(states.items()))
    )
    if seen.current is None:
        return as_reported if states else unknown_or_down(kind, former)
    rows, troubles = seen.current, TROUBLES[kind]
    running, silent = alive_nodes(kind, rows), _silent(kind, rows)
    if running and not silent:
        return _running(seen, kind, former, running, told)
    if seen.is_graced(former):
        return as_reported if states else unknown(kind)
    cut_off = [node for node in silent if node.name in states]
    late = [node for node in silent if node.name not in states]
    names = ", ".join(node.name for node in late or cut_off)
    if not running and not cut_off:
        since = max((node.stopped_at or node.seen_at for node in _of(kind, rows)), default=None)
        return failing(kind, since, detail=names)
    trouble, those = (troubles.missing, late) if late else (troubles.cut_off, cut_off)
    trouble = _of_some(trouble, troubles, len(those), len(running) + len(silent))
    return degraded(kind, min(node.seen_at for node in those), trouble, detail=_with_drains(names, running))


def _running(
    seen: Observation, kind: str, former: Part | None, running: list[Node], told: Sequence[NodeFigures]
) -> Part:
    troubles = TROUBLES[kind]
    busy = [
        (figures["node"], issue)
        for figures in told
        for issue in figures.get("issues", ())
        if issue["check"] == "node_cpu"
    ]
    if busy:
        since = datetime.fromtimestamp(min(issue["since"] for _, issue in busy), UTC)
        detail = ", ".join(f"{node}: {issue['actual']}" for node, issue in sorted(busy, key=lambda each: each[0]))
        trouble = _of_some(troubles.busy, troubles, len(busy), len(running))
        return degraded(kind, since, trouble, detail=_with_drains(detail, running))
    if all(node.state == Node.State.DRAINING for node in running):
        since_then = since_first_seen(troubles.drains, former, seen.now)
        return degraded(kind, since_then, troubles.drains, detail=_named(running))
    return in_order(kind, min(node.started_at for node in running), _named(running))


def _of(kind: str, rows: Rows) -> list[Node]:
    return [node for node in rows.nodes if (node.role == Node.Role.PACKAGER) == (kind == PACKAGERS)]


def _silent(kind: str, rows: Rows) -> list[Node]:
    """That did not stop in order, and are missed."""
    running = [node for node in _of(kind, rows) if node.stopped_at is None]
    return [node for node in running if NODE_LATE < rows.at - node.seen_at <= MISSING_NODE]


def _named(nodes: Iterable[Node]) -> str:
    return ", ".join(f"{node.name}{DRAINING if node.state == Node.State.DRAINING else ''}" for node in nodes)


def _with_drains(detail: str, running: Iterable[Node]) -> str:
    """And which of those that run take nothing new."""
    drains = _named(node for node in running if node.state == Node.State.DRAINING)
    return f"{detail}; {drains}" if drains else detail


def _of_some(trouble: Trouble, troubles: Troubles, count: int, of: int) -> Trouble:
    some = f"{count} of {of} {troubles.noun} {'is' if count == 1 else 'are'}"
    return replace(trouble, what=trouble.what.format(some=some))
