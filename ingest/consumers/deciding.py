"""Decisions that ask the database, under one limit in time. They fail closed; of what came too late nothing is left."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, TypeVar

from django.conf import settings
from django.db import Error as AnyDatabaseError
from django.db import OperationalError

from ingest.consumers import database, journal
from ingest.services.admission import NotYet
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
