"""Makes parts of what the probes found: who is late, since when, and what to say of it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from django.conf import settings

from analytics.models import AnalyticsRun
from dashboard.models import Heartbeat
from dashboard.system.parts import Part, State, Trouble, degraded, failing, in_order, run_advice, unknown
from dashboard.system.probes import Rows
from ingest.contracts import NodeFigures
from ingest.disk import OLD_S
from ingest.models import Node

NODE_LATE = timedelta(seconds=8)
"""A node says that it lives every 3 s."""

MISSING_WORKER = timedelta(minutes=10)
MISSING_NODE = timedelta(days=1)
"""How long one of several that vanished is missed, if it did not stop in order."""

DISK_LOW_PERCENT = 5.0
DRAINING = " (draining)"
MEDIA_MARK = " (media)"
"""What `Node.address` has after those of the media listener."""
THIS_PROCESS = "this web process"

# What a part suffers from that works all the same. `{some}`: how many of how many, and the verb.
BUSY = Trouble(
    "{some} at the limit",
    "Media may reach players late.",
    "Send new streams to another node, or drain this one.",
)
DRAINS = Trouble(
    "Every media node is draining",
    "Live streams go on for a while; nobody new can publish or play.",
    "Resume one on the page Nodes, or start another.",
)
MISSING = Trouble(
    "{some} missing",
    "Its streams are free for the other nodes; encoders reconnect there.",
    "Check its log. If it is gone for good: Forget, on the page Nodes.",
)
CUT_OFF = Trouble(
    "{some} cut off from the database",
    "Live streams go on there; nobody new can publish or play.",
    "Restart nothing, or its streams end: check its log and its connection to the database.",
)
NO_JAVA = Trouble("Java is missing", "No history is computed; everything else works without it.")
UNRECORDED = Trouble(
    "Recordings can't be written",
    "Live streams go on; their recordings are lost meanwhile.",
    "Free some space in RTMPWEB_RECORDINGS, and check that it is writable.",
)
DISK_HANGS = Trouble(
    "A data folder's disk does not answer",
    "Live streams go on; recordings and telemetry wait in memory.",
    "Check the disk and its mount.",
)
DISK_LOW = Trouble(
    "A data folder's disk is nearly full",
    "When it is full, telemetry waits in memory.",
    "Free space on it, or move RTMPWEB_DATA_DIR or RTMPWEB_LAKE.",
)


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at everything. `rows` are the last that were read; `grace_until`: before it nobody is late."""

    now: datetime
    database: Part
    redis: Part | None
    rows: Rows | None
    nodes: Sequence[NodeFigures] | None
    """What nodes told within the last seconds; None: not to be had."""
    grace_until: datetime
    disk_free_percent: float | None
    """Of this process's own data folder."""
    disk_hangs: bool
    """That disk does not answer."""

    @property
    def current(self) -> Rows | None:
        """What the database tells now."""
        return self.rows if self.database.state == State.OK else None

    def is_graced(self, former: Part | None) -> bool:
        """Whether who is silent may yet be heard; what was down stays so until it is."""
        return self.now < self.grace_until and not (former is not None and former.state == State.DOWN)


def evaluate(seen: Observation, former: dict[str, Part]) -> list[Part]:
    """All parts. `former`: the last evaluation, by kind, for what the database or Redis does not tell now."""
    probed = [part for part in (seen.database, seen.redis) if part is not None]
    return [*probed, *(_evaluated(seen, kind, former.get(kind)) for kind in EVALUATIONS)]


def _evaluated(seen: Observation, kind: str, former: Part | None) -> Part:
    """A part that has been in its state for a while keeps its time, unless it tells one itself."""
    part = EVALUATIONS[kind](seen, kind, former)
    if part.since is None and former is not None and former.state == part.state and former.what == part.what:
        return replace(part, since=former.since)
    return part


def _unknown_or_down(kind: str, former: Part | None) -> Part:
    """The database doesn't tell: what was down still is, as far as anybody knows."""
    return former if former is not None and former.state == State.DOWN else unknown(kind)


def _processes(seen: Observation, kind: str, former: Part | None) -> Part:
    if seen.current is None:
        return _unknown_or_down(kind, former)
    at, limit = seen.current.at, timedelta(seconds=settings.PROCESS_LATE_S)
    rows = [row for row in seen.current.heartbeats if row.kind == kind]
    running = [row for row in rows if row.stopped_at is None]
    alive = [row for row in running if at - row.seen_at <= limit]
    late = [row for row in running if limit < at - row.seen_at <= limit + MISSING_WORKER]
    if alive and late:
        missing = Trouble(
            f"{len(late)} of {len(late) + len(alive)} processes {'is' if len(late) == 1 else 'are'} missing",
            "The others do the work.",
        )
        return degraded(kind, max(row.seen_at for row in late), missing, detail=", ".join(row.name for row in late))
    names = ", ".join(row.name for row in alive or rows)
    if alive:
        return in_order(kind, min(row.started_at for row in alive), names)
    if seen.is_graced(former):
        return unknown(kind)
    return failing(kind, max((row.stopped_at or row.seen_at for row in rows), default=None), detail=names)


def _named(nodes: Iterable[Node]) -> str:
    return ", ".join(f"{node.name}{DRAINING if node.state == Node.State.DRAINING else ''}" for node in nodes)


def _with_drains(detail: str, alive: Iterable[Node]) -> str:
    """And which of those that run take nothing new."""
    drains = _named(node for node in alive if node.state == Node.State.DRAINING)
    return f"{detail}; {drains}" if drains else detail


def _nodes(seen: Observation, kind: str, former: Part | None) -> Part:
    states = {figures["node"]: DRAINING if figures.get("draining") else "" for figures in seen.nodes or ()}
    as_reported = in_order(
        kind, former.since if former else None, ", ".join(f"{name}{drains}" for name, drains in sorted(states.items()))
    )
    if seen.current is None:
        return as_reported if states else _unknown_or_down(kind, former)
    rows = seen.current
    # With packagers alone nobody can publish.
    alive = [node for node in _alive(rows) if node.role != Node.Role.PACKAGER]
    silent = [
        node for node in rows.nodes if node.stopped_at is None and NODE_LATE < rows.at - node.seen_at <= MISSING_NODE
    ]
    if alive and not silent:
        return _nodes_alive(seen, kind, former, alive)
    if seen.is_graced(former):
        return as_reported if states else unknown(kind)
    cut_off = [node for node in silent if node.name in states]
    late = [node for node in silent if node.name not in states]
    names = ", ".join(node.name for node in late or cut_off)
    if not alive and not cut_off:
        return failing(kind, max((node.stopped_at or node.seen_at for node in rows.nodes), default=None), detail=names)
    trouble, those = (MISSING, late) if late else (CUT_OFF, cut_off)
    trouble = _of_some(trouble, len(those), len(alive) + len(silent))
    return degraded(kind, min(node.seen_at for node in those), trouble, detail=_with_drains(names, alive))


def _nodes_alive(seen: Observation, kind: str, former: Part | None, alive: list[Node]) -> Part:
    busy = [
        (figures["node"], issue)
        for figures in seen.nodes or ()
        for issue in figures.get("issues", ())
        if issue["check"] == "node_cpu"
    ]
    if busy:
        since = datetime.fromtimestamp(min(issue["since"] for _, issue in busy), UTC)
        detail = ", ".join(f"{node}: {issue['actual']}" for node, issue in sorted(busy, key=lambda each: each[0]))
        return degraded(kind, since, _of_some(BUSY, len(busy), len(alive)), detail=_with_drains(detail, alive))
    if all(node.state == Node.State.DRAINING for node in alive):
        return degraded(kind, _since(seen, DRAINS, former), DRAINS, detail=_named(alive))
    return in_order(kind, min(node.started_at for node in alive), _named(alive))


def _alive(rows: Rows) -> list[Node]:
    return [node for node in rows.nodes if node.stopped_at is None and rows.at - node.seen_at <= NODE_LATE]


def _of_some(trouble: Trouble, count: int, of: int) -> Trouble:
    some = f"{count} of {of} media nodes {'is' if count == 1 else 'are'}"
    return replace(trouble, what=trouble.what.format(some=some))


def _since(seen: Observation, trouble: Trouble, former: Part | None) -> datetime | None:
    """Of a trouble that doesn't tell itself since when it is there."""
    return former.since if former is not None and former.what == trouble.what else seen.now


def _media(seen: Observation, kind: str, former: Part | None) -> Part:
    if settings.MEDIA_ADDRESS is None:
        return in_order(kind, None, "Off: RTMPWEB_MEDIA turns on previews, players in browsers and downloads.")
    if seen.current is None:
        return _unknown_or_down(kind, former)
    alive = _alive(seen.current)
    open_ = [node for node in alive if MEDIA_MARK in node.address]
    if open_:
        addresses = [part for node in open_ for part in node.address.split(", ") if MEDIA_MARK in part]
        where = ", ".join(part.removesuffix(MEDIA_MARK) for part in dict.fromkeys(addresses))  # Workers share one.
        return in_order(kind, min(node.started_at for node in open_), where)
    if not alive:  # What is to be said of that, the nodes' own part says.
        return unknown(kind)
    return degraded(kind, None, alarm=False)


def _analytics(seen: Observation, kind: str, former: Part | None) -> Part:
    if seen.current is None:
        return _unknown_or_down(kind, former)
    workers = [row for row in seen.current.heartbeats if row.kind == Heartbeat.Kind.WORKER_ANALYTICS]
    newest = max(workers, key=lambda row: row.seen_at, default=None)
    run = seen.current.run
    if newest is not None and (java := str(newest.detail.get("java", ""))):
        # Without an alarm: for some installations that is for good.
        return degraded(kind, newest.started_at, replace(NO_JAVA, advice=java), alarm=False)
    if run is not None and run.state == AnalyticsRun.State.FAILED:
        return degraded(kind, run.ended_at, Trouble(advice=run_advice(run.error_code)), detail=run.error)
    return in_order(kind, run.ended_at if run is not None else None)


def _disk(seen: Observation, kind: str, former: Part | None) -> Part:
    nodes = seen.nodes or ()
    failed = {
        figures["node"]: since
        for figures in nodes
        if "records" in figures and (since := figures["records"]["telemetry_failing_since"]) is not None
    }
    if failed:
        began = datetime.fromtimestamp(min(failed.values()), UTC)
        return failing(kind, began, detail=", ".join(sorted(failed)))
    unrecorded = {figures["node"]: count for figures in nodes if (count := figures.get("recordings_failing"))}
    hanging = [figures["node"] for figures in nodes if figures.get("disk_hangs_s", 0.0) >= OLD_S]
    shares = {THIS_PROCESS: seen.disk_free_percent} | {each["node"]: each["disk_free_percent"] for each in nodes}
    low = {node: share for node, share in shares.items() if share is not None and share < DISK_LOW_PERCENT}
    for trouble, details in (
        (UNRECORDED, [f"{node}: {count} stream{'' if count == 1 else 's'}" for node, count in unrecorded.items()]),
        (DISK_HANGS, [*hanging, THIS_PROCESS] if seen.disk_hangs else hanging),
        (DISK_LOW, [f"{node}: {share:.1f} % free" for node, share in low.items()]),
    ):
        if details:
            return degraded(kind, _since(seen, trouble, former), trouble, detail=", ".join(sorted(details)))
    return _unknown_or_down(kind, former) if seen.nodes is None else in_order(kind, None)


EVALUATIONS: dict[str, Callable[[Observation, str, Part | None], Part]] = {
    "nodes": _nodes,
    "media": _media,
    "worker_default": _processes,
    "worker_analytics": _processes,
    "beat": _processes,
    "analytics": _analytics,
    "disk": _disk,
}
"""How each part beside the database and Redis is looked at."""
