"""The database from the event loop: own threads, a limit in time, and nothing left of what came too late.

Reads have a few threads, so that a flood of refusals doesn't queue behind writes; writes have one, since SQLite takes
one writer at a time anyway; `Turns` keep a herd from filling its queue. A decision that isn't there after LIMIT_S is
refused. Its thread can't be stopped, so it asks its `Ticket` after its commit whether anybody still wants the result,
and undoes it if not.
"""

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from enum import Enum
from typing import TypeVar

from channels.db import database_sync_to_async
from django.conf import settings
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

T = TypeVar("T")

LIMIT_S = 2.0
READ_THREADS = 3

THREADS = "rtmpweb-db"
READ = ThreadPoolExecutor(READ_THREADS, thread_name_prefix=f"{THREADS}-read")
WRITE = ThreadPoolExecutor(1, thread_name_prefix=f"{THREADS}-write")


def limit_statements(connection: BaseDatabaseWrapper, **kwargs: object) -> None:
    """Has PostgreSQL give up a statement of these threads in time, as SQLite does: one that hangs would hold them."""
    if connection.vendor == "postgresql" and threading.current_thread().name.startswith(THREADS):
        with connection.cursor() as cursor:
            cursor.execute(f"SET statement_timeout = {settings.DATABASE_TIMEOUT_S * 1000:.0f}")


connection_created.connect(limit_statements, dispatch_uid="ingest.consumers.database")


class TooSlow(Exception):  # noqa: N818 - an answer, not an error.
    """The database did not answer within the limit."""


class Turns:
    """Lets few pieces of one kind of work into an executor's queue at a time: what else comes waits behind no herd."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            weakref.WeakKeyDictionary()
        )

    @asynccontextmanager
    async def turn(self, deadline: float) -> AsyncIterator[None]:
        """Waits for a turn until `deadline` (the loop's time), or raises TooSlow."""
        free = self._loops.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(self._at_once))
        try:
            async with asyncio.timeout_at(deadline):
                await free.acquire()
        except TimeoutError:
            raise TooSlow from None
        try:
            yield
        finally:
            free.release()


PLAYS = Turns(2)
"""A player's admission: publishers and leases come first."""


class _State(Enum):
    OPEN = 0
    DELIVERED = 1
    ABANDONED = 2


class Ticket:
    """Decides, once and for both sides, whether a result was taken or given up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state = _State.OPEN

    def _settle(self, state: _State) -> bool:
        with self._lock:
            if self._state is _State.OPEN:
                self._state = state
            return self._state is state

    def deliver(self) -> bool:
        """By the thread, when the result exists. False: nobody wants it."""
        return self._settle(_State.DELIVERED)

    def abandon(self) -> bool:
        """By the loop. False: too late, the result is being delivered."""
        return self._settle(_State.ABANDONED)

    @property
    def abandoned(self) -> bool:
        return self._state is _State.ABANDONED


def _nothing(result: object) -> None:
    """Undoes a read."""


def _run(work: Callable[[], T], ticket: Ticket, undo: Callable[[T], None]) -> T:
    if ticket.abandoned:
        raise TooSlow
    result = work()
    if not ticket.deliver():
        undo(result)
    return result


async def decide(
    work: Callable[[], T],
    *,
    executor: ThreadPoolExecutor,
    deadline: float,
    undo: Callable[[T], None] = _nothing,
) -> T:
    """Runs `work` in the executor until `deadline` (the loop's time), or raises TooSlow.

    After TooSlow or a cancellation `undo` is called with the result if there is one after all, in whichever thread.
    """
    loop = asyncio.get_running_loop()
    ticket = Ticket()
    call = database_sync_to_async(_run, thread_sensitive=False, executor=executor)
    task: asyncio.Task[T] = asyncio.ensure_future(call(work, ticket, undo))
    try:
        await asyncio.wait({task}, timeout=max(0.0, deadline - loop.time()))
        if not task.done() and ticket.abandon():
            task.add_done_callback(_swallow)
            raise TooSlow
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.add_done_callback(_swallow if ticket.abandon() else lambda done: _take_back(done, undo))
        raise
    return task.result()


def _swallow(task: "asyncio.Task[T]") -> None:
    if not task.cancelled():
        task.exception()


def _take_back(task: "asyncio.Task[T]", undo: Callable[[T], None]) -> None:
    if not task.cancelled() and task.exception() is None:
        undo(task.result())


async def run(work: Callable[[], T], *, executor: ThreadPoolExecutor) -> T:
    """Runs `work` without a limit: for a node's own upkeep, which repeats."""
    result: T = await database_sync_to_async(work, thread_sensitive=False, executor=executor)()
    return result
