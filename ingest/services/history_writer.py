"""Writes history to the database, in order, on a thread of its own: a slow or absent database holds up nothing.

What waits is bounded. Over the bound, events are dropped and counted; begins and ends of sessions, undone admissions
and bans are always kept, since they are few, and no play is admitted while the bound is reached. Attempts, of which
peers can make any number, wait apart: the same again takes no more room, and over their own bound they are dropped.

Shared objects wait apart too, and are written in transactions of their own, between those of sessions: how much of them
a second, is in `ingest.services.shared_objects`.

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

from django.db import DataError, IntegrityError, connections, transaction
from django.db import Error as AnyDatabaseError

from ingest.services.attempts import AttemptRow, Attempts
from ingest.services.history import ENDS, KEPT, Operation, write
from ingest.services.shared_objects import Key, ObjectRow
from ingest.services.shared_objects import Waiting as WaitingObjects

logger = logging.getLogger(__name__)

MAX_WAITING = 20_000
BATCH = 200
GATHER_S = 0.1
"""How long operations gather before a batch is written: one transaction for a burst of events."""
BACKOFF_S = (0.1, 0.25, 0.5, 1.0, 2.0)
EXIT_S = 3.0
"""How long a process that ends waits for what is left."""

UNWRITABLE = (DataError, IntegrityError)
"""Errors of what is written. All others are the database's, such as a standby's that takes no writes, and may pass."""


class HistoryWriter:
    """`put` never blocks and never raises; the thread starts with the first operation."""

    def __init__(self, max_waiting: int = MAX_WAITING) -> None:
        self.dropped = 0
        self._max_waiting = max_waiting
        self._waiting: deque[Operation] = deque()
        self._attempts = Attempts()
        self._objects = WaitingObjects()
        self._sizes: dict[Key, int] = {}  # Of objects that were written just now.
        self._objects_turn = False
        self._hurried = 0
        """How many wait until all is written."""
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._urgent = threading.Event()
        """Set while somebody waits until all is written."""
        self._writing = 0
        self._ending: set[uuid.UUID] = set()
        self._just_written: set[uuid.UUID] = set()
        self._thread: threading.Thread | None = None

    @property
    def waiting(self) -> int:
        return len(self._waiting) + len(self._attempts) + len(self._objects) + self._writing

    @property
    def full(self) -> bool:
        """Whether as much waits as may: what isn't kept is dropped, and what would begin is better refused."""
        return len(self._waiting) >= self._max_waiting

    def put(self, operation: Operation | AttemptRow) -> None:
        with self._changed:
            if isinstance(operation, AttemptRow | ObjectRow):
                if not (
                    self._attempts.put(operation) if isinstance(operation, AttemptRow) else self._objects.put(operation)
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
            self._urgent.set()
            self._changed.notify_all()
            try:
                return self._changed.wait_for(lambda: not self.waiting, timeout)
            finally:
                self._hurried -= 1
                if not (self._hurried or self._closing.is_set()):
                    self._urgent.clear()

    def close(self, timeout: float) -> bool:
        """Writes what is left, for so long at most, and ends the thread. False: something was left."""
        done = self.flush(timeout)
        self._closing.set()
        self._urgent.set()
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
            while not (self._waiting or self._attempts or self._closing.is_set()):
                if not (wait_s := self._objects.wait_s(self._now)):
                    break
                self._changed.wait(min(wait_s, threading.TIMEOUT_MAX))
        self._urgent.wait(GATHER_S)
        with self._changed:
            if not (self._waiting or self._attempts or self._objects):
                return None if self._closing.is_set() else []
            is_turn = self._objects_turn or not (self._waiting or self._attempts)
            batch: list[Operation] = [*self._objects.take(self._now)] if is_turn else []
            self._objects_turn = not batch
            if not batch:
                batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
                batch += self._attempts.take(BATCH)
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
                    self._sizes |= write(batch)
                if failures:
                    logger.info("The database is back: history is written again.")
                return
            except UNWRITABLE as error:
                conflicts += isinstance(error, IntegrityError)
                if conflicts == 1:  # A stream or a key that it names was deleted just then: next time that is seen.
                    continue
                self._write_singly(batch, error)
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
                self._write_singly(batch, error)
                return

    def _write_singly(self, batch: list[Operation], error: Exception) -> None:
        """One operation that can never be written must not hold up the others."""
        if len(batch) == 1:
            self.dropped += 1
            logger.error("An entry of history was not written: %s", type(error).__name__)
            return
        for operation in batch:
            self._write([operation])


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
