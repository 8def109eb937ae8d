"""The database from the event loop: own threads, a limit in time, and decisions that fail closed.

Reads have a few threads, so that neither a flood of refusals nor a herd of players queues behind writes; writes have
one, since SQLite takes one writer at a time anyway. A decision that isn't there after LIMIT_S is refused."""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Hashable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any, Generic, NoReturn, TypeVar

from channels.db import database_sync_to_async
from django.conf import settings
from django.db import Error as AnyDatabaseError
from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from ingest.consumers import journal
from ingest.consumers.base import OfLoop
from ingest.services.admission import NotYet
from ingest.services.encoder_login import Challenged
from ingest.services.refusals import Action, Refused

T = TypeVar("T")

LIMIT_S = 2.0
READ_THREADS = 3
AT_ONCE = READ_THREADS - 1
"""Reads for players: those of publishers go first."""
MAX_UNDONE = 2000
"""Decisions that an executor may have before it, given up or not: a database that hangs may be asked for long."""

THREADS = "rtmpweb-db"
READ = ThreadPoolExecutor(READ_THREADS, thread_name_prefix=f"{THREADS}-read")
WRITE = ThreadPoolExecutor(1, thread_name_prefix=f"{THREADS}-write")


def is_here() -> bool:
    """Whether the caller runs in one of these threads, and may ask the database at once."""
    return threading.current_thread().name.startswith(THREADS)


def set_up(connection: BaseDatabaseWrapper, **kwargs: object) -> None:
    """Has no statement of these threads wait for what others can do.

    PostgreSQL gives one up in time, as SQLite does: one that hangs would hold the threads. SQLite leaves it to other
    writers to bring its log into the database's file, which waits for the disk.
    """
    limits = {
        "postgresql": f"SET statement_timeout = {settings.DATABASE_TIMEOUT_S * 1000:.0f}",
        "sqlite": "PRAGMA wal_autocheckpoint = 0",
    }
    if is_here():
        with connection.cursor() as cursor:
            cursor.execute(limits[connection.vendor])


_undone: dict[ThreadPoolExecutor, int] = {READ: 0, WRITE: 0}


connection_created.connect(set_up, dispatch_uid="ingest.consumers.decisions")


class TooSlow(Exception):  # noqa: N818 - an answer, not an error.
    """The database did not answer within the limit."""


def raise_if_late(until: float) -> None:
    """Raises TooSlow from then on (`time.monotonic`): to be asked before a commit."""
    if monotonic() > until:
        raise TooSlow


async def decide(work: Callable[[], T], *, executor: ThreadPoolExecutor, deadline: float) -> T:
    """Runs `work` in the executor until `deadline` (the loop's time), or raises TooSlow, at once if too much waits.

    What has not begun until then, or until a cancellation, is not done any more. A thread can't be stopped, so what has
    begun goes on.
    """
    if _undone[executor] >= MAX_UNDONE:
        raise TooSlow
    is_wanted = True

    def run() -> T:
        if not is_wanted:
            raise TooSlow
        return work()

    def finished(task: asyncio.Task[T]) -> None:
        _undone[executor] -= 1
        _swallow(task)

    call = database_sync_to_async(run, thread_sensitive=False, executor=executor)
    task: asyncio.Task[T] = asyncio.ensure_future(call())
    _undone[executor] += 1
    task.add_done_callback(finished)
    try:
        await asyncio.wait({task}, timeout=max(0.0, deadline - asyncio.get_running_loop().time()))
        if not task.done():
            raise TooSlow
        return task.result()
    finally:
        is_wanted = False


def _swallow(task: "asyncio.Task[T]") -> None:
    if not task.cancelled():
        task.exception()


class Together(Generic[T]):
    """One read for all who ask the same at the same time. It begins after each of them has asked: nothing is kept.

    Of each question one read is under way, and one more waits for it; of all questions AT_ONCE, so that a thread is
    left for others.
    """

    def __init__(self) -> None:
        self._reads: dict[Hashable, _Read[T]] = {}
        """The latest of each question and event loop."""
        self._room = OfLoop(lambda: asyncio.Semaphore(AT_ONCE))

    async def ask(self, question: Hashable, work: Callable[[], T], deadline: float) -> T:
        """What `work` reads, or TooSlow at the deadline (the loop's time). The question names all it depends on."""
        loop = asyncio.get_running_loop()
        key = (loop, question)
        read = self._reads.get(key)
        if read is None or read.begun:
            if len(self._reads) >= MAX_UNDONE:
                raise TooSlow
            read = self._reads[key] = _Read(after=read)
            read.task = asyncio.ensure_future(self._run(key, read, work))
            read.task.add_done_callback(_swallow)
        await asyncio.wait({read.task}, timeout=max(0.0, deadline - loop.time()))
        if not read.task.done():
            raise TooSlow
        return read.task.result()

    async def _run(self, key: Hashable, read: "_Read[T]", work: Callable[[], T]) -> T:
        try:
            if read.after is not None:
                await asyncio.wait({read.after.task})
                read.after = None
            async with self._room():
                read.begun = True
                deadline = asyncio.get_running_loop().time() + LIMIT_S
                return await decide(work, executor=READ, deadline=deadline)
        finally:
            if self._reads.get(key) is read:
                del self._reads[key]


class _Read(Generic[T]):
    task: "asyncio.Task[T]"

    def __init__(self, after: "_Read[T] | None") -> None:
        self.after = after
        self.begun = False


async def run(work: Callable[[], T], *, executor: ThreadPoolExecutor) -> T:
    """Runs `work` without a limit: for a node's own upkeep, which repeats."""
    result: T = await database_sync_to_async(work, thread_sensitive=False, executor=executor)()
    return result


PATIENCE = 0.9
"""A statement that failed after this part of its time limit was waiting: the database is slow rather than broken."""


async def decide_or_refuse(action: Action, work: Callable[[float], Coroutine[Any, Any, T]]) -> T:
    """What `work`, which gets the deadline (the loop's time), decides: else NotYet, Challenged, or Refused.

    A database that fails or is too slow refuses, and so do our own faults.
    """
    loop = asyncio.get_running_loop()
    started = loop.time()

    def refuse(reason: str) -> NoReturn:
        raise Refused(action, reason, stream=None, key=None)

    try:
        return await work(started + LIMIT_S)
    except (Refused, NotYet, Challenged):
        raise
    except TooSlow:
        refuse("database_slow")
    except OperationalError as error:
        journal.database_failed(action, error, logging.WARNING)
        waited = loop.time() - started >= PATIENCE * settings.DATABASE_TIMEOUT_S
        refuse("database_slow" if waited else "database_error")
    except AnyDatabaseError as error:
        journal.database_failed(action, error, logging.ERROR)
        refuse("database_error")
    except Exception as error:
        journal.failed(action, error)
        refuse("internal_error")
