"""Makes parts of what the probes found: who is late, since when, and what to say of it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.conf import settings

from analytics.models import AnalyticsRun
from dashboard.models import Heartbeat
from dashboard.system.parts import Part, State, failing, in_order, run_advice, unknown
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
UNRECORDED = "Recordings can't be written"
DRAINING = " (draining)"
DRAINS = "Every media node drains"
MEDIA_MARK = " (media)"
"""What `Node.address` has after those of the media listener."""


@dataclass(frozen=True, slots=True)
class Found:
    """One look at everything. `rows` are the last that were read; `hearing_until`: before it nobody is late."""

    now: datetime
    database: Part
    redis: Part | None
    rows: Rows | None
    nodes: Sequence[NodeFigures] | None
    """What nodes told within the last seconds; None: not to be had."""
    hearing_until: datetime
    disk_free_percent: float | None
    """Of this process's own data folder."""
    disk_hangs: bool
    """That disk does not answer."""
    embedded: bool


def evaluate(found: Found, former: dict[str, Part]) -> list[Part]:
    """All parts. `former`: the last judgement, by kind, for what the database or Redis does not tell now."""
    parts = [found.database]
    if found.redis is not None:
        parts.append(found.redis)
    for kind, look in EVALUATIONS.items():
        part = look(found, kind, former.get(kind))
        parts.append(_keep_since(part, former.get(kind)))
    return parts


def _keep_since(part: Part, former: Part | None) -> Part:
    """A part that has been in its state for a while keeps its time, unless it tells one itself."""
    if part.since is None and former is not None and former.state == part.state and former.what == part.what:
        return _since(part, former.since)
    return part


def _since(part: Part, since: datetime | None) -> Part:
    return Part(part.kind, part.state, since, part.what, part.effect, part.advice, part.detail, part.alarm)


def _unheard(kind: str, former: Part | None) -> Part:
    """The database doesn't tell: what was down still is, as far as anybody knows."""
    if former is not None and former.state == State.DOWN:
        return former
    return unknown(kind)


def _processes(found: Found, kind: str, former: Part | None) -> Part:
    if found.rows is None or found.database.state != State.OK:
        return _unheard(kind, former)
    limit = timedelta(seconds=settings.PROCESS_LATE_S)
    rows = [row for row in found.rows.heartbeats if row.kind == kind]
    alive = [row for row in rows if row.stopped_at is None and found.rows.at - row.seen_at <= limit]
    if alive:
        late = [
            row
            for row in rows
            if row.stopped_at is None and limit < found.rows.at - row.seen_at <= limit + MISSING_WORKER
        ]
        if late:
            return failing(
                kind,
                max(row.seen_at for row in late),
                embedded=found.embedded,
                state=State.DEGRADED,
                what=f"{len(late)} of {len(late) + len(alive)} processes is missing",
                effect="The others do its work.",
                detail=", ".join(row.name for row in late),
            )
        return in_order(kind, min(row.started_at for row in alive), ", ".join(row.name for row in alive))
    if found.now < found.hearing_until and not (former is not None and former.state == State.DOWN):
        return unknown(kind)
    return failing(
        kind,
        max((row.stopped_at or row.seen_at for row in rows), default=None),
        embedded=found.embedded,
        detail=", ".join(row.name for row in rows),
    )


def _named(nodes: Iterable[Node]) -> str:
    return ", ".join(f"{node.name}{DRAINING if node.state == Node.State.DRAINING else ''}" for node in nodes)


def _with_drains(detail: str, alive: Iterable[Node]) -> str:
    """And which of those that run take nothing new."""
    drains = _named(node for node in alive if node.state == Node.State.DRAINING)
    return f"{detail}; {drains}" if drains else detail


def _nodes(found: Found, kind: str, former: Part | None) -> Part:
    told = {figures["node"]: DRAINING if figures.get("draining") else "" for figures in found.nodes or ()}
    as_told = in_order(
        kind, former.since if former else None, ", ".join(f"{name}{drains}" for name, drains in sorted(told.items()))
    )
    if found.rows is None or found.database.state != State.OK:
        return as_told if told else _unheard(kind, former)
    running = [node for node in found.rows.nodes if node.stopped_at is None]
    alive = [node for node in running if found.rows.at - node.seen_at <= NODE_LATE]
    silent = [node for node in running if NODE_LATE < found.rows.at - node.seen_at <= MISSING_NODE]
    if alive and not silent:
        busy = [
            (figures["node"], issue)
            for figures in found.nodes or ()
            for issue in figures.get("issues", ())
            if issue["check"] == "node_cpu"
        ]
        if busy:
            return failing(
                kind,
                datetime.fromtimestamp(min(issue["since"] for _, issue in busy), UTC),
                embedded=found.embedded,
                state=State.DEGRADED,
                what=f"{len(busy)} of {len(alive)} media nodes {'is' if len(busy) == 1 else 'are'} at the limit",
                effect="Media may come late to players.",
                advice="Send new streams to another node, or drain this one.",
                detail=_with_drains(
                    ", ".join(f"{node}: {issue['actual']}" for node, issue in sorted(busy, key=lambda each: each[0])),
                    alive,
                ),
            )
        if all(node.state == Node.State.DRAINING for node in alive):
            return failing(
                kind,
                former.since if former is not None and former.what == DRAINS else found.now,
                embedded=found.embedded,
                state=State.DEGRADED,
                what=DRAINS,
                effect="What is live there goes on for a while; nothing new can be published or played.",
                advice="Resume one on the page Nodes, or start another.",
                detail=_named(alive),
            )
        return in_order(kind, min(node.started_at for node in alive), _named(alive))
    if found.now < found.hearing_until and not (former is not None and former.state == State.DOWN):
        return as_told if told else unknown(kind)
    cut_off = [node for node in silent if node.name in told]
    late = [node for node in silent if node.name not in told]
    if late and (alive or cut_off):
        return failing(
            kind,
            min(node.seen_at for node in late),
            embedded=found.embedded,
            state=State.DEGRADED,
            what=f"{_of(late, alive, cut_off)} missing",
            effect="Its streams are free for the other nodes; encoders come back there.",
            advice="Look at its log. One that is gone for good: Forget, on the page Nodes.",
            detail=_with_drains(", ".join(node.name for node in late), alive),
        )
    if cut_off:
        return failing(
            kind,
            min(node.seen_at for node in cut_off),
            embedded=found.embedded,
            state=State.DEGRADED,
            what=f"{_of(cut_off, alive)} cut off from the database",
            effect="Live streams go on there; nobody new can publish or play.",
            advice="Restart nothing, or these end: look at its log, and at the way from there to the database.",
            detail=_with_drains(", ".join(node.name for node in cut_off), alive),
        )
    return failing(
        kind,
        max((node.stopped_at or node.seen_at for node in found.rows.nodes), default=None),
        embedded=found.embedded,
        detail=", ".join(node.name for node in late),
    )


def _of(some: Sequence[Node], *others: Sequence[Node]) -> str:
    count = len(some) + sum(map(len, others))
    return f"{len(some)} of {count} media nodes {'is' if len(some) == 1 else 'are'}"


def _media(found: Found, kind: str, former: Part | None) -> Part:
    if settings.MEDIA_ADDRESS is None:
        return in_order(kind, None, "Off: RTMPWEB_MEDIA turns on previews, players in browsers and downloads.")
    if found.rows is None or found.database.state != State.OK:
        return _unheard(kind, former)
    running = [
        node for node in found.rows.nodes if node.stopped_at is None and found.rows.at - node.seen_at <= NODE_LATE
    ]
    open_ = [node for node in running if MEDIA_MARK in node.address]
    if open_:
        told = [part for node in open_ for part in node.address.split(", ") if MEDIA_MARK in part]
        where = ", ".join(part.removesuffix(MEDIA_MARK) for part in told)
        return in_order(kind, min(node.started_at for node in open_), where)
    if not running:  # What is to be said of that, the nodes' own part says.
        return unknown(kind)
    return failing(kind, None, embedded=found.embedded, state=State.DEGRADED, alarm=False)


def _analytics(found: Found, kind: str, former: Part | None) -> Part:
    if found.rows is None or found.database.state != State.OK:
        return _unheard(kind, former)
    workers = [row for row in found.rows.heartbeats if row.kind == Heartbeat.Kind.WORKER_ANALYTICS]
    newest = max(workers, key=lambda row: row.seen_at, default=None)
    java = str(newest.detail.get("java", "")) if newest is not None else ""
    run = found.rows.run
    if java and newest is not None:
        return failing(
            kind,
            newest.started_at,
            embedded=found.embedded,
            state=State.DEGRADED,
            what="Java is missing",
            effect="No history is computed; everything else works without it.",
            advice=java,
            alarm=False,  # For some installations that is for good.
        )
    if run is not None and run.state == AnalyticsRun.State.FAILED:
        return failing(
            kind,
            run.ended_at,
            embedded=found.embedded,
            state=State.DEGRADED,
            advice=run_advice(run.error_code),
            detail=run.error,
        )
    return in_order(kind, run.ended_at if run is not None else None)


def _disk(found: Found, kind: str, former: Part | None) -> Part:
    nodes = found.nodes or ()
    failed = {
        figures["node"]: since
        for figures in nodes
        if "records" in figures and (since := figures["records"]["telemetry_failing_since"]) is not None
    }
    if failed:
        return failing(
            kind,
            datetime.fromtimestamp(min(failed.values()), UTC),
            embedded=found.embedded,
            detail=", ".join(sorted(failed)),
        )
    unrecorded = {figures["node"]: count for figures in nodes if (count := figures.get("recordings_failing"))}
    if unrecorded:
        return failing(
            kind,
            former.since if former is not None and former.what == UNRECORDED else found.now,
            embedded=found.embedded,
            state=State.DEGRADED,
            what=UNRECORDED,
            effect="Live streams go on; what is to be recorded of them is lost meanwhile.",
            advice="Free space where RTMPWEB_RECORDINGS is, and check that it can be written.",
            detail=", ".join(f"{node}: {count} streams" for node, count in sorted(unrecorded.items())),
        )
    hanging = [figures["node"] for figures in nodes if figures.get("disk_hangs_s", 0.0) >= OLD_S]
    if found.disk_hangs:
        hanging.append("this web process")
    if hanging:
        return failing(
            kind,
            former.since if former is not None and former.state == State.DEGRADED else found.now,
            embedded=found.embedded,
            state=State.DEGRADED,
            what="A data folder's disk does not answer",
            effect="Live streams go on; recordings and telemetry wait in memory.",
            advice="Look at the disk, or where it is mounted from.",
            detail=", ".join(sorted(hanging)),
        )
    shares = {figures["node"]: figures["disk_free_percent"] for figures in nodes}
    low = {node: share for node, share in shares.items() if share is not None and share < DISK_LOW_PERCENT}
    if found.disk_free_percent is not None and found.disk_free_percent < DISK_LOW_PERCENT:
        low.setdefault("this web process", found.disk_free_percent)
    if low:
        return failing(
            kind,
            former.since if former is not None and former.state == State.DEGRADED else found.now,
            embedded=found.embedded,
            state=State.DEGRADED,
            what="A data folder's disk is nearly full",
            effect="When it is full, telemetry waits in memory.",
            advice="Free space on it, or move RTMPWEB_DATA_DIR or RTMPWEB_LAKE.",
            detail=", ".join(f"{node}: {share:.1f} % free" for node, share in sorted(low.items())),
        )
    if found.nodes is None:
        return _unheard(kind, former)
    return in_order(kind, None)


EVALUATIONS: dict[str, Callable[[Found, str, Part | None], Part]] = {
    "nodes": _nodes,
    "media": _media,
    "worker_default": _processes,
    "worker_analytics": _processes,
    "beat": _processes,
    "analytics": _analytics,
    "disk": _disk,
}
"""How each part beside the database and Redis is looked at."""
