"""Asking the parts: each in a thread of its own, with a limit in time. These don't hold up the process's end, nor does
that end them with an error: what hangs may hang for long."""

import logging
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Generic, TypeVar

from django.db import DatabaseError, Error, InterfaceError, OperationalError, close_old_connections, connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.utils import timezone

from analytics.models import AnalyticsRun
from dashboard.models import Heartbeat
from dashboard.streams.drops import open_drops
from dashboard.system import heartbeats
from ingest import clock
from ingest.live_store import redis_errors
from ingest.models import Node
from ingest.services import database, installation
from ingest.thread_pool import ThreadPool

logger = logging.getLogger(__name__)

LIMIT_S = 3.0
"""For an answer; what takes longer is down."""

AWAY: tuple[type[Exception], ...] = (OperationalError, InterfaceError, *redis_errors())
"""What is raised while the database or Redis does not answer."""
UNANSWERED: tuple[type[Exception], ...] = (*AWAY, TimeoutError)

NO_ROOM = ("53300", "53400")
"""PostgreSQL's codes: too_many_connections, configuration_limit_exceeded."""
NO_ROOM_ERRORS = ("too many clients", "too many connections", "remaining connection slots")

T = TypeVar("T")


class NotMigrated(OperationalError):  # noqa: N818
    """The database answers, but lacks tables or columns of this version."""


class NoRoom(OperationalError):  # noqa: N818
    """The database answers who is connected, and takes no more connections."""


class Unfit(OperationalError):  # noqa: N818
    """The database answers, and this process may not serve with it: it is of another version or pepper."""


class NoWrites(OperationalError):  # noqa: N818
    def __init__(self, cause: database.Cause, text: str) -> None:
        super().__init__(f"The database takes no writes. {cause.why} ({text})")
        self.cause = cause
        self.text = text


class Probe(Generic[T]):
    """Asks one part, again and again. `since`: when its present state, up or down, was first seen.

    One that is up when it is first asked counts as up since this was made: nobody missed it before.
    """

    def __init__(self, name: str, ask: Callable[[], T]) -> None:
        self.name = name
        self.up: bool | None = None
        self.since: datetime | None = None
        self.found: T | None = None
        """The last answer."""
        self.error: Exception | None = None
        """Why there was none to the latest question."""
        self._began = timezone.now()
        self._ask = ask
        self._asked_at, self._asked_s = self._began, 0.0
        """When it was last asked for an answer: by the wall's clock, and by one that goes on."""
        self._is_fresh = False
        """It did not owe one then."""
        self._pending: Future[T] | None = None
        self._thread = ThreadPool(1, f"probe-{name}")

    def ask(self) -> None:
        """Unless it still owes an answer."""
        self._asked_at, self._asked_s = timezone.now(), time.monotonic()
        if self._pending is not None and self._pending.done() and isinstance(self._pending.exception(), AWAY):
            self._pending = None  # That was of the look before, and says nothing of now.
        self._is_fresh = self._pending is None
        if self._pending is None:
            self._pending = Future()
            self._thread.submit(partial(self._answer, self._pending))

    def has_answered(self, limit_s: float = LIMIT_S) -> bool:
        """What it was asked; `limit_s` from then on."""
        assert self._pending is not None  # noqa: S101 - it was asked.
        left_s = max(0.0, self._asked_s + limit_s - time.monotonic()) if self._is_fresh or self.up else 0
        try:
            self.found = self._pending.result(left_s)
        except UNANSWERED as error:
            if self._pending.done():
                self._pending = None
            return self._note(self._asked_at, error)
        except Exception:
            self._pending = None
            raise
        self._pending = None
        return self._note(self._asked_at)

    def check(self, limit_s: float = LIMIT_S) -> bool:
        """Asks, and waits whether it answers."""
        self.ask()
        return self.has_answered(limit_s)

    def ask_inline(self) -> bool:
        """The same without a thread or a limit: for a process that asks once."""
        began = timezone.now()
        try:
            self.found = self._ask()
        except AWAY as error:
            return self._note(began, error)
        return self._note(began)

    def _answer(self, question: "Future[T]") -> None:
        try:
            question.set_result(self._ask_again())
        except Exception as error:
            question.set_exception(error)

    def _ask_again(self) -> T:
        connection.close_at = None  # It doesn't age: there may be no room for another.
        close_old_connections()
        return self._ask()

    @property
    def hangs(self) -> bool:
        return self._pending is not None

    @property
    def detail(self) -> str:
        """What the database said, if it is the database that did not answer."""
        return database.describe_error(self.error) if isinstance(self.error, Error) else ""

    def _note(self, at: datetime, error: Exception | None = None) -> bool:
        up, self.error = error is None, error
        if self.up != up:
            if isinstance(error, NotMigrated | NoRoom | NoWrites | Unfit):
                logger.error("%s", error)
            elif error is not None:
                why = "no answer in time" if self.hangs else self.detail or type(error).__name__
                logger.error("%s does not answer: %s", self.name, why)
            elif self.up is False:
                logger.info("%s answers again.", self.name)
            self.since = self._began if up and self.up is None else at
            self.up = up
        return up


@dataclass(frozen=True, slots=True)
class Rows:
    heartbeats: list[Heartbeat]
    nodes: list[Node]
    run: AnalyticsRun | None
    """The last one that has ended."""
    at: datetime
    """By the clock that all who write them share,"""
    ahead_s: float
    """which was ahead of the time that passes by so much."""
    dropped: frozenset[int] = frozenset()
    """Streams that count as bad since they dropped."""


def read_rows() -> Rows:
    ended = AnalyticsRun.objects.filter(ended_at__isnull=False).order_by("-ended_at")
    try:
        heartbeats, nodes, run = list(Heartbeat.objects.all()), list(Node.objects.all()), ended.first()
        dropped = frozenset(open_drops())
        at = database.read_shared_clock()
    except DatabaseError as error:
        if database.lacks_tables(error):
            raise NotMigrated(database.describe_error(error)) from error
        raise
    ahead_s = at.timestamp() - clock.passing()
    _check()
    _connect_anew()
    return Rows(heartbeats, nodes, run, at, ahead_s, dropped)


def has_no_room(error: OperationalError) -> bool:
    """Whether PostgreSQL refuses a connection for want of room. Of one that was never made its driver has no code."""
    if getattr(error.__cause__, "sqlstate", None) in NO_ROOM:
        return True
    return any(words in str(error) for words in NO_ROOM_ERRORS)


def _check() -> None:
    """What processes look at when they start, if the database was away then, or nobody looked."""
    try:
        installation.check_once()
    except installation.StartError as error:
        raise Unfit(str(error)) from error
    except DatabaseError as error:  # It takes no writes, which is told of elsewhere: the next poll asks again.
        logger.debug("The installation can't be checked: %s", database.describe_error(error))


def _connect_anew() -> None:
    """Requests need connections of their own: that the one of this thread answers does not tell of theirs."""
    if connection.vendor == "sqlite":
        return  # Which has none to run out of.
    another = connection.copy()
    try:
        another.ensure_connection()
    except OperationalError as error:
        if has_no_room(error):
            raise NoRoom(f"The database takes no more connections: {error}") from error
        raise
    finally:
        another.close()


_began = timezone.now()


def write_sign() -> None:
    """That this host's web processes live; nobody else looks at it. Raises NoWrites."""
    try:
        heartbeats.write(
            kinds=[Heartbeat.Kind.WEB], name=socket.gethostname(), started_at=_began, detail={}, now=timezone.now()
        )
    except Error as error:
        raise NoWrites(database.write_failure_cause(error), database.describe_error(error)) from error


# --- A database that hangs ---

_connections: "weakref.WeakSet[Any]" = weakref.WeakSet()
_lock = threading.Lock()


def _remember(connection: BaseDatabaseWrapper, **kwargs: object) -> None:
    if connection.vendor == "postgresql":
        with _lock:
            _connections.add(connection.connection)


connection_created.connect(_remember, dispatch_uid="dashboard.system.probes")


def break_hanging_connections() -> int:
    """Ends this process's connections that wait for PostgreSQL's answer; their threads get an error. Returns how many.

    A server that is frozen, or behind a network that swallows packets, lets a query wait for ever: neither libpq nor
    the server limits that. Called once the probe has got no answer either.
    """
    from psycopg.pq import TransactionStatus  # Loaded only where PostgreSQL is the database.

    with _lock:
        waiting = [each for each in _connections if not each.closed]
    broken = 0
    for each in waiting:
        if each.pgconn.transaction_status == TransactionStatus.ACTIVE:
            with socket.socket(fileno=os.dup(each.pgconn.socket)) as its_socket:
                its_socket.shutdown(socket.SHUT_RDWR)
            broken += 1
    return broken
