"""Makes parts of what the probes found: who is late, since when, and what to say of it."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from django.conf import settings

from analytics.models import AnalyticsRun
from dashboard.models import Heartbeat
from dashboard.system.nodes import alive_nodes, evaluate_nodes, evaluate_packagers
from dashboard.system.observation import Observation
from dashboard.system.parts import (
    Part,
    Trouble,
    degraded,
    failing,
    in_order,
    run_advice,
    since_first_seen,
    unknown,
    unknown_or_down,
)
from ingest.disk import OLD_S

MISSING_WORKER = timedelta(minutes=10)
"""How long one of several that vanished is missed, if it did not stop in order."""

DISK_LOW_PERCENT = 5.0
MEDIA_MARK = " (media)"
"""What `Node.address` has after those of the media listener."""
THIS_PROCESS = "this web process"

# What a part suffers from that works all the same; of nodes: `nodes`.
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


def _processes(seen: Observation, kind: str, former: Part | None) -> Part:
    if seen.current is None:
        return unknown_or_down(kind, former)
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


def _media(seen: Observation, kind: str, former: Part | None) -> Part:
    if settings.MEDIA_ADDRESS is None:
        return in_order(kind, None, "Off: RTMPWEB_MEDIA turns on previews, players in browsers and downloads.")
    if seen.current is None:
        return unknown_or_down(kind, former)
    running = alive_nodes("nodes", seen.current)
    open_ = [node for node in running if MEDIA_MARK in node.address]
    if open_:
        addresses = [part for node in open_ for part in node.address.split(", ") if MEDIA_MARK in part]
        where = ", ".join(part.removesuffix(MEDIA_MARK) for part in dict.fromkeys(addresses))  # Workers share one.
        return in_order(kind, min(node.started_at for node in open_), where)
    if not running:  # What is to be said of that, the nodes' own part says.
        return unknown(kind)
    return degraded(kind, None, alarm=False)


def _analytics(seen: Observation, kind: str, former: Part | None) -> Part:
    if seen.current is None:
        return unknown_or_down(kind, former)
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
            first_seen = since_first_seen(trouble, former, seen.now)
            return degraded(kind, first_seen, trouble, detail=", ".join(sorted(details)))
    return unknown_or_down(kind, former) if seen.nodes is None else in_order(kind, None)


EVALUATIONS: dict[str, Callable[[Observation, str, Part | None], Part]] = {
    "nodes": evaluate_nodes,
    "media": _media,
    "packagers": evaluate_packagers,
    "worker_default": _processes,
    "worker_analytics": _processes,
    "beat": _processes,
    "analytics": _analytics,
    "disk": _disk,
}
"""How each part beside the database and Redis is looked at."""
