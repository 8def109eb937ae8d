"""What the parts are called, and what an operator is told when one is down, or a run of the analytics failed: one table
for each."""

from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.conf import settings

from analytics.models import AnalyticsRun
from ingest import command_line
from ingest.services import own_redis


class State(StrEnum):
    OK = "ok"
    DEGRADED = "degraded"  # It works in part, or not as it should.
    DOWN = "down"
    UNKNOWN = "unknown"  # Not heard of yet, or it can't be asked now.


@dataclass(frozen=True, slots=True)
class Words:
    """`effect`: what goes on and what stops. `advice`: the action."""

    title: str
    down: str
    effect: str
    advice: str


@dataclass(frozen=True, slots=True)
class Trouble:
    """What a part suffers from; "": as the table says of one that is down."""

    what: str = ""
    effect: str = ""
    advice: str = ""


DOWN = Trouble()

WORDS: dict[str, Words] = {
    "database": Words(
        "Database",
        "The database does not answer",
        "Live streams go on; new encoders and players are refused, pages can't be shown, and history waits.",
        "Check that PostgreSQL runs and can be reached, and what DATABASE_URL says.",
    ),
    "redis": Words(
        "Redis",
        "Redis does not answer",
        "Live streams go on; pages show no live figures until it is back, and no task is started.",
        "Check that redis-server runs, and what REDIS_URL says.",
    ),
    "nodes": Words(
        "Media nodes",
        "No media node is running",
        "Nobody can publish or play.",
        f"Start `{command_line.short('runrtmp')}`, or check its log.",
    ),
    "media": Words(
        "Media listener",
        "No media node sends FLV",
        "Publishing and RTMP players go on; previews, players in browsers and downloads of recordings don't.",
        "Check the media nodes' logs, and RTMPWEB_MEDIA there.",
    ),
    "packagers": Words(
        "Packagers (HLS)",
        "No packager is running",
        "Publishing and RTMP players go on; nobody can watch by HLS.",
        f"Start `{command_line.short('runhls')}`, or check its log.",
    ),
    "worker_default": Words(
        "Worker",
        "No worker is running",
        "Streams and pages go on; clean-up waits.",
        f"Start `{command_line.celery_short('worker -Q default')}`, or check its log.",
    ),
    "worker_analytics": Words(
        "Analytics worker",
        "No analytics worker is running",
        "Streams and pages go on; no history is computed.",
        f"Start `{command_line.celery_short('worker -Q analytics -c 1')}`, or check its log.",
    ),
    "beat": Words(
        "Scheduler",
        "The scheduler is not running",
        "Streams and pages go on; hourly analytics and clean-up are not started.",
        f"Start `{command_line.celery_short('beat')}`, or check its log.",
    ),
    "analytics": Words(
        "Analytics (Spark)",
        "Analytics is failing",
        "Streams go on; history pages show what was computed before.",
        "Read its log (Analytics jobs), then Update now.",
    ),
    "disk": Words(
        "Disk",
        "Telemetry can't be written",
        "Live streams go on; what is recorded of them waits in memory, and is lost when that is full.",
        "Free space on the disk, and check that RTMPWEB_LAKE can be written.",
    ),
    "web": Words("Web", "This web process is not running", "", ""),
}
"""By kind, in the order in which they are shown."""

EMBEDDED_ADVICE = {
    "database": "Check the disk of the data folder, and that nothing else locks the database.",
    "redis": "The server starts it again by itself; if it does not come back, check the server's log.",
    "nodes": "RTMPWEB_RTMP is off, or the listener failed: check the server's log.",
    "packagers": "The server starts it again by itself; if it does not come back, check the server's log.",
    "worker_default": "The server starts it again by itself; if it does not come back, check the server's log.",
    "worker_analytics": "The server starts it again by itself; if it does not come back, check the server's log.",
    "beat": "Check the server's log, then start the server again.",
}
"""By kind: the action where one process keeps all the others (`manage.py serve`)."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part's state. `since`: when it took this state, as far as that is known."""

    kind: str
    state: State
    since: datetime | None
    what: str = ""
    """What is wrong, without a full stop; empty while it is in order."""
    effect: str = ""
    advice: str = ""
    detail: str = ""
    """What more there is to say, for who may view: names, figures."""
    alarm: bool = True
    """Whether pages warn of it while it is not in order."""

    @property
    def title(self) -> str:
        return WORDS[self.kind].title

    @property
    def is_alarming(self) -> bool:
        return self.alarm and self.state in (State.DOWN, State.DEGRADED)

    @property
    def since_words(self) -> str:
        return f" since {self.since:%H:%M:%S} UTC" if self.since is not None else ""

    def public(self) -> dict[str, Any]:
        """What anybody may know: no name, figure or reason."""
        return {name: value for name, value in self.full().items() if name not in ("detail", "alarm")}

    def full(self) -> dict[str, Any]:
        return asdict(self) | {"title": self.title, "state": self.state.value}


def in_order(kind: str, since: datetime | None, detail: str = "") -> Part:
    return Part(kind, State.OK, since, detail=detail)


def unknown(kind: str) -> Part:
    return Part(kind, State.UNKNOWN, None)


def unknown_or_down(kind: str, former: Part | None) -> Part:
    """The database doesn't tell: what was down still is, as far as anybody knows."""
    return former if former is not None and former.state == State.DOWN else unknown(kind)


def since_first_seen(trouble: Trouble, former: Part | None, now: datetime) -> datetime | None:
    """Of a trouble that doesn't tell itself since when it is there."""
    return former.since if former is not None and former.what == trouble.what else now


def failing(
    kind: str,
    since: datetime | None,
    trouble: Trouble = DOWN,
    *,
    state: State = State.DOWN,
    detail: str = "",
    alarm: bool = True,
) -> Part:
    """A part that is not in order; what the trouble leaves out is as the table says."""
    words = WORDS[kind]
    is_embedded = not (settings.DATABASE_URL if kind == "database" else own_redis.is_apart())
    advice = trouble.advice or (is_embedded and EMBEDDED_ADVICE.get(kind)) or words.advice
    return Part(kind, state, since, trouble.what or words.down, trouble.effect or words.effect, advice, detail, alarm)


def degraded(kind: str, since: datetime | None, trouble: Trouble = DOWN, **more: Any) -> Part:
    return failing(kind, since, trouble, state=State.DEGRADED, **more)


RunError = AnalyticsRun.ErrorCode

RUN_ADVICE: dict[str, str] = {
    RunError.JAVA_MISSING: "Install Java where the analytics worker runs, or set JAVA_HOME, then start it again.",
    RunError.QUEUE: "Check that Redis and the analytics worker run. It is asked for again each minute.",
    RunError.LOST: "If nobody stopped it, check the memory of the analytics worker's machine.",
    RunError.TIME_LIMIT: "Give Spark more cores, or a cluster; the next run takes up the rest.",
    RunError.FAILED: "Read its log (Analytics jobs), fix what it says, then retry. The next run takes up the rest.",
}


def run_advice(code: str) -> str:
    return RUN_ADVICE.get(code, "")
