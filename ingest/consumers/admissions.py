"""Publishers that ask to be let in: those that are ordinary together, all others each by itself."""

import asyncio
import contextlib
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from django.db import Error as AnyDatabaseError

from ingest import clock, sharedclock
from ingest.consumers import database, recorder
from ingest.consumers.active import REACH, standing
from ingest.consumers.asking import Permission
from ingest.consumers.batches import Batches
from ingest.history import get_history
from ingest.history_rows import DiscardRow
from ingest.services import admission, group_admission, sessions
from ingest.services.admission import Grant
from ingest.services.callback import Question
from ingest.services.group_admission import Apart, Ask

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Single:
    """One that is decided by itself."""

    ask: Ask
    asked_at: datetime
    """When it asked first."""
    loop: asyncio.AbstractEventLoop

    def check(self) -> Question | None:
        return admission.check_publish(
            request=self.ask.request, address=self.ask.peer.address, asked_at=self.asked_at, **_known()
        )

    def admit(self, until: float) -> Grant:
        return admission.admit_publish(
            session=self.ask.session,
            request=self.ask.request,
            peer=self.ask.peer,
            asked_at=self.asked_at,
            in_time=lambda: database.in_time(until),
            **_known(),
        )


def _known() -> dict[str, Any]:
    """What this process knows now, for `admission`."""
    shared = sharedclock.look()
    return {
        "now": clock.utc_now(),
        "standing": standing,
        "reached_since": REACH.since(shared),
        "shared_now": shared,
    }


async def admit(single: Single, permission: Permission) -> Grant:
    """What was granted. Raises Refused, NotYet, TooSlow, and what the database raises: then nothing is left of it."""
    try:
        await CHECKS.ask(single.ask)
        return await _written(single.ask, TOGETHER.ask(single.ask))
    except Apart:
        asked = await SINGLE_CHECKS.ask(single)
        if asked is not None:
            await permission.ask(asked)
        return await _written(single.ask, SINGLY.ask(single))


async def _written(ask: Ask, admission: Awaitable[Grant]) -> Grant:
    try:
        return await admission
    except AnyDatabaseError:
        get_history().put(DiscardRow(ask.session))  # A commit may have gone through although its answer was lost.
        raise


def _check(asks: Sequence[Ask], until: float) -> list[Exception | None]:
    return group_admission.check(asks, now=clock.utc_now())


def _admit(asks: Sequence[Ask], until: float) -> list[Grant | Exception]:
    return group_admission.admit(
        asks,
        now=clock.utc_now(),
        shared_now=sharedclock.look(),
        standing=standing,
        in_time=lambda: database.in_time(until),
    )


def _each(decide: Callable[[Single, float], T]) -> Callable[[Sequence[Single], float], list[T | Exception]]:
    """One after the other."""

    def work(several: Sequence[Single], until: float) -> list[T | Exception]:
        answers: list[T | Exception] = []
        for single in several:
            try:
                answers.append(decide(single, until))
            except Exception as error:
                answers.append(error)
        return answers

    return work


def _discard(session: uuid.UUID, silent_since: datetime | None = None) -> None:
    if database.is_here():  # At once: the node of who was replaced looks each second whether it was.
        with contextlib.suppress(AnyDatabaseError):
            sessions.discard(session=session, silent_since=silent_since)
    get_history().put(DiscardRow(session, silent_since))


def _undo(asked: Ask, grant: Grant) -> None:
    _discard(grant.session)


def _undo_single(single: Single, grant: Grant) -> None:
    if grant.lost is not None:  # That one's end stays, and is to be told all the same.
        single.loop.call_soon_threadsafe(recorder.lost, grant.lost)
    _discard(grant.session, grant.replaced.silent_since if grant.replaced is not None else None)


CHECKS: Batches[Ask, None] = Batches(_check, executor=database.READ)
TOGETHER: Batches[Ask, Grant] = Batches(_admit, executor=database.WRITE, undo=_undo)
SINGLE_CHECKS: Batches[Single, Question | None] = Batches(
    _each(lambda single, until: single.check()), executor=database.READ, most=1
)
SINGLY: Batches[Single, Grant] = Batches(_each(Single.admit), executor=database.WRITE, undo=_undo_single, most=1)
