"""Writes history to the database, in order, on a thread of its own: a slow or absent database holds up nothing.

What waits is bounded. Over the bound, events are dropped and counted; begins and ends of sessions, undone admissions
and bans are always kept, since they are few, and no play is admitted while the bound is reached. Attempts, of which
peers can make any number, wait apart: the same again takes no more room, and over their own bound they are dropped.

Shared objects wait apart too, and are written in transactions of their own, between those of sessions: how much of them
a second, is in `ingest.objectchanges`.

A process that is killed loses what waits: at most what happened in the last moments, but, while the database is away,
all since then. A player's session of which neither begin nor end was written is then missing from history; a
publisher's has its row from its admission, and ends when its node is found dead.
"""

import atexit
import logging
import math
import threading
import time
import uuid
from collections import deque
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import DataError, IntegrityError, connections, transaction
from django.db import Error as AnyDatabaseError

from ingest.attempts import AttemptRow, Attempts, Waiting
from ingest.contracts import EndReason, Totals
from ingest.contracts.recording import RecordEvent
from ingest.models import Session, StatusEvent, Stream
from ingest.objectchanges import Key, ObjectRow
from ingest.objectchanges import Waiting as WaitingObjects
from ingest.services import bans, leases, nodes, objects, outbox, recordings, sessions

logger = logging.getLogger(__name__)

MAX_WAITING = 20_000
BATCH = 200
GATHER_S = 0.02
"""How long operations gather before a batch is written: one transaction for a burst of events."""
BACKOFF_S = (0.1, 0.25, 0.5, 1.0, 2.0)
EXIT_S = 3.0
"""How long a process that ends waits for what is left."""

UNWRITABLE = (DataError, IntegrityError)
"""Errors of what is written. All others are the database's, such as a standby's that takes no writes, and may pass."""


@dataclass(frozen=True, slots=True)
class BeginRow:
    """A play session, which was admitted by reading alone; its texts are already fit for the database."""

    session: uuid.UUID
    app: str
    name: str
    stream: int | None
    node: str
    channel: str
    address: str
    encoder: str
    at: datetime


@dataclass(frozen=True, slots=True)
class EventRow:
    session: uuid.UUID
    sequence: int
    at: datetime
    kind: str
    level: str = ""
    code: str = ""
    description: str = ""
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MediaRow:
    session: uuid.UUID
    media: Mapping[str, Any]
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EndRow:
    session: uuid.UUID
    reason: EndReason
    description: str
    at: datetime
    totals: Totals | None = None


@dataclass(frozen=True, slots=True)
class DiscardRow:
    """Undoes an admission that came too late. `silent_since`: as in `sessions.discard`."""

    session: uuid.UUID
    silent_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class BanRow:
    """An address that this process refuses unheard from now on, for `seconds`."""

    address: str
    at: datetime
    seconds: float
    guesses: int
    node: str


@dataclass(frozen=True, slots=True)
class RecordRow:
    """What became of a recording's file."""

    session: uuid.UUID
    at: datetime
    event: RecordEvent


Operation = BeginRow | EventRow | MediaRow | AttemptRow | BanRow | RecordRow | ObjectRow | EndRow | DiscardRow
ENDS = (EndRow, DiscardRow)
KEPT = (BeginRow, BanRow, RecordRow, *ENDS)


class HistoryWriter:
    """`put` never blocks and never raises; the thread starts with the first operation."""

    def __init__(self, max_waiting: int = MAX_WAITING) -> None:
        self.dropped = 0
        self._max_waiting = max_waiting
        self._waiting: deque[Operation] = deque()
        self._refused = Waiting()
        self._objects = WaitingObjects()
        self._sizes: dict[Key, int] = {}  # Of objects that were written just now.
        self._objects_turn = False
        self._hurried = 0
        """How many wait until all is written."""
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._writing = 0
        self._ending: set[uuid.UUID] = set()
        self._just_written: set[uuid.UUID] = set()
        self._thread: threading.Thread | None = None
        self._attempts = Attempts()

    @property
    def waiting(self) -> int:
        """Operations that are not written yet."""
        return len(self._waiting) + len(self._refused) + len(self._objects) + self._writing

    @property
    def _apart(self) -> int:
        """What waits, of the kinds of which more of the same takes no more room."""
        return len(self._refused) + len(self._objects)

    @property
    def full(self) -> bool:
        """Whether as much waits as may: what isn't kept is dropped, and what would begin is better refused."""
        return len(self._waiting) >= self._max_waiting

    def put(self, operation: Operation) -> None:
        with self._changed:
            if isinstance(operation, AttemptRow | ObjectRow):
                if not (
                    self._refused.put(operation) if isinstance(operation, AttemptRow) else self._objects.put(operation)
                ):
                    self.dropped += 1
                    return
            elif self.full and not isinstance(operation, KEPT):
                self.dropped += 1
                return
            else:
                self._waiting.append(operation)
            if isinstance(operation, ENDS):
                self._ending.add(operation.session)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="rtmpweb-history", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def is_ending(self, session: uuid.UUID) -> bool:
        """Whether the session's end waits to be written, or was written just now: it holds nothing any more."""
        return session in self._ending

    def unwritten_object(self, app: str, name: str) -> ObjectRow | None:
        """What the database may not have yet of a shared object."""
        with self._changed:
            return self._objects.of(app, name)

    def flush(self, timeout: float) -> bool:
        """Waits until all is written; False if the time was not enough."""
        with self._changed:
            self._hurried += 1
            self._changed.notify_all()
            try:
                return self._changed.wait_for(lambda: not self.waiting, timeout)
            finally:
                self._hurried -= 1

    def close(self, timeout: float) -> bool:
        """Writes what is left, for so long at most, and ends the thread. False: something was left."""
        done = self.flush(timeout)
        self._closing.set()
        with self._changed:
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(timeout)
        return done

    def _run(self) -> None:
        try:
            while (batch := self._take()) is not None:
                try:
                    self._write(batch)
                except Exception:  # Whatever it is: what comes next is still to be written.
                    logger.exception("%d entries of history were not written.", len(batch))
                    self.dropped += len(batch)
                with self._changed:
                    self._writing = 0
                    self._objects.written(self._sizes, time.monotonic())
                    self._sizes = {}
                    self._forget(batch)
                    self._changed.notify_all()
        finally:
            connections.close_all()

    def _forget(self, batch: list[Operation]) -> None:
        """What ended is remembered for one batch more, for whoever read a lease's row just before it was freed."""
        if batch:
            self._ending -= self._just_written
            self._just_written = {operation.session for operation in batch if isinstance(operation, ENDS)}

    def _take(self) -> list[Operation] | None:
        with self._changed:
            while not (self._waiting or self._refused or self._closing.is_set()):
                if not (wait_s := self._objects.wait_s(self._now)):
                    break
                self._changed.wait(min(wait_s, threading.TIMEOUT_MAX))
        self._closing.wait(GATHER_S)
        with self._changed:
            if not self._waiting and not self._apart:
                return None if self._closing.is_set() else []
            is_turn = self._objects_turn or not (self._waiting or self._refused)
            batch: list[Operation] = [*self._objects.take(self._now)] if is_turn else []
            self._objects_turn = not batch
            if not batch:
                batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
                batch += self._refused.take(BATCH)
            self._writing = len(batch)
            return batch

    @property
    def _now(self) -> float:
        """For objects, which wait for their time: it has come when somebody waits for us."""
        return math.inf if self._hurried or self._closing.is_set() else time.monotonic()

    def _write(self, batch: list[Operation]) -> None:
        failures, conflicts = 0, 0
        while batch:
            connection = connections["default"]
            try:
                connection.close_if_unusable_or_obsolete()
                with transaction.atomic():
                    self._sizes |= write(batch, self._attempts)
                self._attempts.keep()
                if failures:
                    logger.info("The database is back: history is written again.")
                return
            except UNWRITABLE as error:
                conflicts += isinstance(error, IntegrityError)
                if conflicts == 1:  # A stream or a key that it names was deleted just then: next time that is seen.
                    continue
                self._write_apart(batch, error)
                return
            except AnyDatabaseError as error:
                if not failures:
                    logger.warning("History waits for the database: %s", type(error).__name__)
                connection.close()
                wait = BACKOFF_S[min(failures, len(BACKOFF_S) - 1)]
                failures += 1
                if self._closing.wait(wait):
                    self.dropped += len(batch)
                    return
            except Exception as error:
                self._write_apart(batch, error)
                return

    def _write_apart(self, batch: list[Operation], error: Exception) -> None:
        """One operation that can never be written must not hold up the others."""
        if len(batch) == 1:
            self.dropped += 1
            logger.error("An entry of history was not written: %s", type(error).__name__)
            return
        for operation in batch:
            self._write([operation])


def write(batch: Sequence[Operation], attempts: Attempts) -> dict[Key, int]:
    """Writes the operations in order; neighbouring events in one statement. Repeating a batch changes nothing.

    Sessions begin first, all in one statement: nothing that is told of one comes before its begin. Attempts and
    shared objects belong to none. The streams of all of which others are told are held before anything is written (see
    `outbox`), and then the leases of all that end. Returns the bytes of each object that was written.
    """
    telling = (
        operation.session
        for operation in batch
        if isinstance(operation, EndRow | RecordRow)
        or (isinstance(operation, EventRow) and outbox.tells(operation.kind, operation.code))
    )
    outbox.hold_of(set(telling))
    leases.hold(sessions={operation.session for operation in batch if isinstance(operation, ENDS)})
    _begin([operation for operation in batch if isinstance(operation, BeginRow)])
    attempts.write([operation for operation in batch if isinstance(operation, AttemptRow)])
    sizes = objects.save(operation for operation in batch if isinstance(operation, ObjectRow))
    events: list[StatusEvent] = []
    for operation in batch:
        if isinstance(operation, BeginRow | AttemptRow | ObjectRow):
            continue
        if isinstance(operation, EventRow):
            events.append(_event(operation))
            continue
        _save(events)
        if isinstance(operation, MediaRow):
            sessions.set_media(session=operation.session, media=operation.media, metadata=operation.metadata)
        elif isinstance(operation, RecordRow):
            recordings.note(session=operation.session, at=operation.at, event=operation.event)
        elif isinstance(operation, BanRow):
            bans.impose(
                address=operation.address,
                seconds=operation.seconds,
                now=operation.at,
                guesses=operation.guesses,
                node=operation.node,
            )
        elif isinstance(operation, EndRow):
            sessions.end(
                session=operation.session,
                reason=operation.reason,
                description=operation.description,
                at=operation.at,
                totals=operation.totals,
            )
        else:
            sessions.discard(session=operation.session, silent_since=operation.silent_since)
    _save(events)
    return sizes


def _begin(rows: Sequence[BeginRow]) -> None:
    """Makes the sessions' rows. One whose stream was deleted since is made without: its node then ends it. One that
    waited for a name has the stream that came under it since."""
    if not rows:
        return
    streams = set(Stream.objects.filter(pk__in={row.stream for row in rows}).values_list("pk", flat=True))
    came = _came({(row.app, row.name) for row in rows if row.stream is None})
    there = {name: nodes.row(name=name) for name in {row.node for row in rows}}
    Session.objects.bulk_create(
        [
            Session(
                pk=row.session,
                kind=Session.Kind.PLAY,
                app=row.app,
                name=row.name,
                stream_id=row.stream if row.stream in streams else came.get((row.app, row.name)),
                node=there[row.node],
                channel=row.channel,
                address=row.address,
                encoder=row.encoder,
                started_at=row.at,
            )
            for row in rows
        ],
        ignore_conflicts=True,
    )


def _came(names: Set[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """The streams that there are of these names (application, name)."""
    if not names:
        return {}
    rows = Stream.objects.filter(application__name__in={app for app, _ in names}, name__in={name for _, name in names})
    return {(app, name): pk for app, name, pk in rows.values_list("application__name", "name", "pk")}


def _save(events: list[StatusEvent]) -> None:
    if events:
        StatusEvent.objects.bulk_create(events, ignore_conflicts=True)
        outbox.told(events)
        events.clear()


def _event(row: EventRow) -> StatusEvent:
    return StatusEvent(
        session_id=row.session,
        sequence=row.sequence,
        at=row.at,
        kind=row.kind,
        level=row.level,
        code=row.code,
        description=row.description,
        detail=row.detail,
    )


_writer: HistoryWriter | None = None
_lock = threading.Lock()


def get_history() -> HistoryWriter:
    """This process's writer, made when it is first needed and closed when the process ends."""
    global _writer
    with _lock:
        if _writer is None:
            _writer = HistoryWriter()
            atexit.register(_writer.close, EXIT_S)
        return _writer
