"""Decisions that ask the database, under one limit in time. They fail closed; of what came too late nothing is left."""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, TypeVar

from django.conf import settings
from django.db import Error as AnyDatabaseError
from django.db import OperationalError

from ingest.consumers import database, journal, recorder
from ingest.consumers.asking import Permission
from ingest.history import get_history
from ingest.history_rows import DiscardRow
from ingest.services import sessions
from ingest.services.admission import Grant, NotYet
from ingest.services.callback import Question
from ingest.services.encoderlogin import Challenged
from ingest.services.refusals import Action, Refused

T = TypeVar("T")

PATIENCE = 0.9
"""A statement that failed after this part of its time limit was waiting: the database is slow rather than broken."""


async def decided(action: Action, work: Callable[[float], Coroutine[Any, Any, T]]) -> T:
    """What `work`, which gets the deadline (the loop's time), decides: else NotYet, Challenged, or Refused.

    A database that fails or is too slow refuses, and so do our own faults.
    """
    loop = asyncio.get_running_loop()
    started = loop.time()

    def refuse(reason: str) -> NoReturn:
        raise Refused(action, reason, stream=None, key=None)

    try:
        return await work(started + database.LIMIT_S)
    except (Refused, NotYet, Challenged):
        raise
    except database.TooSlow:
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


async def admit(
    session: uuid.UUID,
    check: Callable[[], Question | None],
    admit: Callable[[], Grant],
    permission: Permission,
    deadline: float,
) -> Grant:
    """Reads first, then writes; both before the deadline, which another service that is asked in between moves."""
    loop = asyncio.get_running_loop()

    def discard(grant: Grant) -> None:
        if grant.lost is not None:  # That one's end stays, and is to be told all the same.
            loop.call_soon_threadsafe(recorder.lost, grant.lost)
        undone = DiscardRow(grant.session, grant.replaced.silent_since if grant.replaced is not None else None)
        if database.is_here():  # At once: the node of who was replaced looks each second whether it was.
            with contextlib.suppress(AnyDatabaseError):
                sessions.discard(session=undone.session, silent_since=undone.silent_since)
        get_history().put(undone)

    asked = await database.decide(check, executor=database.READ, deadline=deadline)
    if asked is not None:
        await permission.ask(asked)
        deadline = loop.time() + database.LIMIT_S
    try:
        return await database.decide(admit, executor=database.WRITE, deadline=deadline, undo=discard)
    except AnyDatabaseError:
        get_history().put(DiscardRow(session))  # A commit may have gone through although its answer was lost.
        raise
