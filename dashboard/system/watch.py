"""One look at all parts each LOOK_S, in a thread of every web process, so that pages only read what it saw."""

import logging
import math
import threading
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache

from django.conf import settings
from django.utils import timezone

from dashboard.streams.queries import by_stream
from dashboard.system import probes
from dashboard.system.evaluation import evaluate
from dashboard.system.nodes import figures_of
from dashboard.system.observation import Observation
from dashboard.system.parts import WORDS, Part, State, Trouble, degraded, failing, in_order, unknown
from dashboard.system.probes import NoRoom, NotMigrated, NoWrites, Probe, Rows, Unfit
from ingest import command_line
from ingest.contracts import NodeFigures, RefusedGroup
from ingest.disk import OLD_S, DiskSpace
from ingest.live_store import LiveView, get_livestore
from ingest.services import database

logger = logging.getLogger(__name__)

POLL_S = 2.0
FIRST_S = 4.0
DISK_S = 0.5
"""For the answer of a disk, which others don't wait for."""
HURRY_S = 1.0
JUMP_S = 4.0
"""Of the clock of the heartbeats: more, and who is seen each 3 s would be late."""

LOCKED = timedelta(seconds=4)
"""Others may keep the database locked for so long. With the next poll heartbeats would be missed."""


@dataclass(frozen=True, slots=True)
class Report:
    """What one look found: all parts in the table's order."""

    at: datetime
    parts: list[Part] = field(default_factory=list)
    nodes: list[NodeFigures] | None = None
    """Of media nodes that tick; None: not to be had."""
    bad_streams: int | None = None
    """How many are in bad health, or dropped and nobody knows of it; None: not to be had."""
    refused: list[RefusedGroup] = field(default_factory=list)
    """Encoders that were turned away lately."""

    def state(self, kind: str) -> State:
        return next((part.state for part in self.parts if part.kind == kind), State.OK)

    def refused_since(self, seen_at: float) -> int:
        """How many connections were refused, but for what had begun by then: that was seen."""
        return sum(group["count"] for group in self.refused if group["since"] > seen_at)

    @property
    def worst(self) -> State:
        """Of what pages warn of."""
        states = {part.state for part in self.alarms}
        return next((state for state in (State.DOWN, State.DEGRADED) if state in states), State.OK)

    @property
    def alarms(self) -> list[Part]:
        return [part for part in self.parts if part.is_alarming]


class Watch:
    """`report()` is at hand at once while the thread runs; without it (a command, a test) it looks."""

    def __init__(self) -> None:
        self._database: Probe[Rows] = Probe("The database", probes.read_rows)
        self._writes: Probe[None] = Probe("The database (for writes)", probes.write_sign)
        """Asked while the database answers at all."""
        self._live: Probe[LiveView] = Probe(
            "Redis" if settings.REDIS_URL else "LiveStore", lambda: get_livestore().read()
        )
        self._disk = DiskSpace(settings.DATA_DIR)
        self._began = timezone.now()
        self._jumped_at, self._ahead_s = self._began, math.nan
        """When the clock that all heartbeats go by was set; and how far it was ahead of the time that passes."""
        self._report = Report(self._began)
        self._thread: threading.Thread | None = None
        self._started_s = 0.0
        self._lock = threading.Lock()
        self._checked = threading.Event()
        self._hurry = threading.Event()

    def start(self) -> None:
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._started_s = time.monotonic()
                    self._thread = threading.Thread(target=self._run, name="rtmpweb-watch", daemon=True)
                    self._thread.start()

    def report(self) -> Report:
        """The last look. Just after `start` it waits for the first, FIRST_S at most."""
        if self._thread is None:
            with self._lock:
                if self._database.ask_inline():
                    self._writes.ask_inline()
                self._live.ask_inline()
                self._report = self._evaluate()
        else:
            self._checked.wait(FIRST_S)
        return self._report

    @property
    def has_checked(self) -> bool:
        """Whether there was a first look. One that takes longer than FIRST_S is not waited for."""
        return self._checked.is_set() or time.monotonic() - self._started_s > FIRST_S

    def check_now(self) -> None:
        """Somebody met an error: looks at once, rather than when it is due. Returns after HURRY_S at the latest."""
        if self._thread is not None:
            self._checked.clear()
            self._hurry.set()
            self._checked.wait(HURRY_S)

    @property
    def database_is_down(self) -> bool:
        """Whether it is known that the database does not answer: then nobody needs to wait to find out."""
        return self._thread is not None and self._database.up is False

    @property
    def redis_is_down(self) -> bool:
        return self._thread is not None and self._live.up is False

    def _run(self) -> None:
        while True:
            began = time.monotonic()
            try:
                self._check()
            except Exception:  # One bad look must not be the last.
                logger.exception("The parts could not be looked at")
            self._checked.set()
            self._hurry.wait(max(0.1, POLL_S - (time.monotonic() - began)))
            self._hurry.clear()

    def _check(self) -> None:
        self._live.ask()
        if self._database.check():
            self._writes.check()
        elif self._database.hangs and (broken := probes.break_hanging_connections()):
            logger.warning("Gave up %d connections that wait for the database.", broken)
        self._live.has_answered()
        self._report = self._evaluate()

    def _evaluate(self) -> Report:
        now, seconds = timezone.now(), time.monotonic()
        self._disk.ask(seconds)
        self._disk.wait(DISK_S)
        view = self._live.found if self._live.up else None
        former = {part.kind: part for part in self._report.parts}
        self._note_clock_jump(now)
        seen = Observation(
            now=now,
            database=self._database_part(now),
            redis=_probed("redis", self._live) if settings.REDIS_URL else None,
            rows=self._database.found,
            nodes=view.nodes if view is not None else None,
            grace_until=max(
                self._began + timedelta(seconds=settings.STARTING_S),
                self._jumped_at + timedelta(seconds=settings.HEARING_S),
                *(
                    (probe.since or self._began) + timedelta(seconds=settings.HEARING_S)
                    for probe in (self._database, self._writes)
                ),
            ),
            disk_free_percent=self._disk.free_percent(seconds),
            disk_hangs=self._disk.hangs_s(seconds) >= OLD_S,
        )
        order = list(WORDS)
        parts = [*evaluate(seen, former), in_order("web", self._began)]
        parts.sort(key=lambda part: order.index(part.kind))
        if view is None:
            return Report(now, parts)
        bad = {pk for pk, stream in by_stream(view.streams).items() if stream["health"] == "bad"}
        if self._database.found is not None:
            bad |= self._database.found.dropped
        refused = [group for node in view.nodes for group in node.get("refused", [])]
        return Report(now, parts, figures_of("nodes", seen), len(bad), refused)

    def _note_clock_jump(self, now: datetime) -> None:
        """After one, all are heard anew: what they wrote before seems to be old."""
        if self._database.up and self._database.found is not None:
            former, self._ahead_s = self._ahead_s, self._database.found.ahead_s
            if abs(self._ahead_s - former) > JUMP_S:
                self._jumped_at = now

    def _database_part(self, now: datetime) -> Part:
        """One that only answers works in part: whoever writes that he lives can't be heard then."""
        part, since = _probed("database", self._database), self._writes.since
        if part.state != State.OK or self._writes.up is not False or since is None:
            return part
        error = self._writes.error
        cause = error.cause if isinstance(error, NoWrites) else database.SILENT
        if cause is database.LOCKED and now - since < LOCKED:
            return part
        trouble = Trouble(
            "The database takes no writes",
            f"{cause.why} Live streams go on and can be played, and history waits; nobody new can publish or log in, "
            "and nothing can be changed.",
            f"{cause.advice} Restart nothing: what is live would end.",
        )
        return degraded("database", since, trouble, detail=error.text if isinstance(error, NoWrites) else "")


DATABASE_TROUBLES: dict[type[Exception], Trouble] = {
    NotMigrated: Trouble("The database lacks tables of this version", advice=f"Run `{command_line.short('migrate')}`."),
    NoRoom: Trouble(
        "The database takes no more connections",
        advice="Check who holds them (pg_stat_activity), end what is not needed, or raise its max_connections.",
    ),
    Unfit: Trouble("The database does not fit this server", advice="The server's log says why, and what to do."),
}
"""By why it can't be used although it answers."""


def _probed(kind: str, probe: Probe[Rows] | Probe[LiveView]) -> Part:
    if probe.up is None:
        return unknown(kind)
    if probe.up:
        return in_order(kind, probe.since)
    if probe.error is None or type(probe.error) not in DATABASE_TROUBLES:
        return failing(kind, probe.since, detail=probe.detail)
    detail = str(probe.error) if isinstance(probe.error, Unfit) else ""
    return failing(kind, probe.since, DATABASE_TROUBLES[type(probe.error)], detail=detail)


@cache
def get_watch() -> Watch:
    return Watch()
