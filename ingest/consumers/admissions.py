"""Publishers that ask to be let in: those that are ordinary together, in `Batches`, all others each by itself.

A batch is a queue before a thread of the database. What one costs (a transaction, its statements, the way to the thread
and back) is paid once for all in it; each has an answer of its own. The first begins at once, and while it is under way
the next one gathers.

Who asks waits for LIMIT_S at most until its batch begins, and for LIMIT_S from then; who can't be served within that,
going by the latest batches, is told so at once. A thread can't be stopped, so it asks each one's `Ticket` after its
commit whether anybody still wants the result, and undoes it if not: of what came too late nothing is left."""

import asyncio
import contextlib
import math
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from time import monotonic
from typing import Generic, TypeVar

from django.db import Error as AnyDatabaseError

from ingest import clock
from ingest.consumers import decisions, recorder
from ingest.consumers.active import REACH, standing
from ingest.consumers.base import OfLoop
from ingest.consumers.decisions import TooSlow
from ingest.services import admission, database, leases, sessions
from ingest.services.admission import Ask, DecideAlone, Grant
from ingest.services.callback import Permission, Question
from ingest.services.history import DiscardRow
from ingest.services.history_writer import get_history

Q = TypeVar("Q")
A = TypeVar("A")

MOST = 64
"""Questions in a batch: more take a transaction longer than others should wait for it."""
GATHER_S = 0.05
"""Between the beginnings of two batches, unless as many wait as a batch takes: so under load each has more in it."""
A_TURN = 8
"""Answers in a turn of the loop. What follows each takes a millisecond or two, and media go on between two turns."""
WEIGHT = 0.25
"""Of the latest batch in what a batch takes."""


class Ticket(Future[None]):
    """Decides, once and for both sides, whether a result was taken or given up."""

    deliver = Future.set_running_or_notify_cancel
    """By the thread, when the result exists. False: nobody wants it."""
    abandon = Future.cancel
    """By the loop. False: too late, the result is being delivered."""


class Batches(Generic[Q, A]):
    """`work` answers a batch in a thread of the executor: for each question what it gives or the exception it raises;
    or it raises one for all. It is told until when (`time.monotonic`) it may commit; after that it raises TooSlow.

    `undo` takes back, in whichever thread, what was given and nobody waits for any more.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Q], float], Sequence[A | Exception]],
        *,
        executor: ThreadPoolExecutor,
        undo: Callable[[Q, A], None] = lambda question, given: None,
        most: int = MOST,
    ) -> None:
        self.work, self.executor, self.undo, self.most = work, executor, undo, most
        self._queue: OfLoop[_Queue[Q, A]] = OfLoop(lambda: _Queue(self))

    async def ask(self, question: Q) -> A:
        """What is decided. Raises what `work` has for the question, or TooSlow."""
        entry = self._queue().put(question)
        try:
            return await entry.future
        except asyncio.CancelledError:
            if not entry.ticket.abandon() and entry.is_given:
                self.undo(question, entry.future.result())
            raise


class _Entry(Generic[Q, A]):
    def __init__(self, question: Q) -> None:
        self.question = question
        self.future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self.ticket = Ticket()
        self.limit()

    @property
    def is_given(self) -> bool:
        return self.future.done() and not self.future.cancelled() and self.future.exception() is None

    def limit(self) -> None:
        """It waits for LIMIT_S from now at most."""
        self.timer = asyncio.get_running_loop().call_later(decisions.LIMIT_S, self._give_up)

    def _give_up(self) -> None:
        if self.ticket.abandon() and not self.future.done():
            self.future.set_exception(TooSlow())


class _Queue(Generic[Q, A]):
    """Of one event loop, which it does not hold."""

    def __init__(self, batches: Batches[Q, A]) -> None:
        self._batches = batches
        self._waiting: deque[_Entry[Q, A]] = deque()
        self._whole: asyncio.Event | None = None
        """While a batch gathers: as many wait as it takes."""
        self._began = -math.inf
        self._batch_s = 0.0
        self._task: asyncio.Task[None] | None = None

    def put(self, question: Q) -> _Entry[Q, A]:
        """Raises TooSlow where its batch would begin too late."""
        while self._waiting and self._waiting[0].ticket.cancelled():
            self._waiting.popleft()
        most, ahead = self._batches.most, len(self._waiting)
        if ahead >= decisions.MAX_UNDONE or (ahead >= most and ahead / most * self._batch_s > decisions.LIMIT_S):
            raise TooSlow
        entry = _Entry[Q, A](question)
        self._waiting.append(entry)
        if self._whole is not None and len(self._waiting) >= most:
            self._whole.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        return entry

    async def _run(self) -> None:
        """Batch after batch, as long as any wait."""
        try:
            while self._waiting:
                await self._gather()
                batch: list[_Entry[Q, A]] = []
                while self._waiting and len(batch) < self._batches.most:
                    entry = self._waiting.popleft()
                    if not entry.ticket.cancelled():
                        batch.append(entry)
                if batch:
                    await self._decide(batch)
        finally:
            self._task = None

    async def _gather(self) -> None:
        left_s = self._began + GATHER_S - asyncio.get_running_loop().time()
        if len(self._waiting) < self._batches.most and left_s > 0:
            self._whole = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._whole.wait(), left_s)
            self._whole = None

    async def _decide(self, batch: Sequence[_Entry[Q, A]]) -> None:
        loop = asyncio.get_running_loop()
        self._began, until = loop.time(), monotonic() + decisions.LIMIT_S
        for entry in batch:
            entry.timer.cancel()
            entry.limit()
        try:
            answers = await decisions.run(lambda: self._answers(batch, until), executor=self._batches.executor)
        except Exception as error:
            answers = [error] * len(batch)
        for entry in batch:
            entry.timer.cancel()
        self._batch_s += WEIGHT * (loop.time() - self._began - self._batch_s)
        self._deliver(deque(zip(batch, answers, strict=True)))

    def _deliver(self, answered: deque[tuple[_Entry[Q, A], A | Exception]]) -> None:
        for _ in range(min(A_TURN, len(answered))):
            entry, answer = answered.popleft()
            if entry.future.done():
                if not entry.ticket.cancelled() and not isinstance(answer, Exception):
                    self._batches.undo(entry.question, answer)  # It was delivered, and who asked has gone meanwhile.
            elif isinstance(answer, Exception):
                entry.future.set_exception(answer)
            else:
                entry.future.set_result(answer)
        if answered:
            asyncio.get_running_loop().call_soon(self._deliver, answered)

    def _answers(self, batch: Sequence[_Entry[Q, A]], until: float) -> Sequence[A | Exception]:
        """In the thread. Who gave up before it began is not asked about."""
        entries = [entry for entry in batch if not entry.ticket.cancelled()]
        answers: dict[int, A | Exception] = {}
        if entries:
            decided = self._batches.work([entry.question for entry in entries], until)
            answers = {id(entry): answer for entry, answer in zip(entries, decided, strict=True)}
        for entry in entries:
            answer = answers[id(entry)]
            if not entry.ticket.deliver() and not isinstance(answer, Exception):
                self._batches.undo(entry.question, answer)
        return [answers.get(id(entry), TooSlow()) for entry in batch]


@dataclass(frozen=True, slots=True)
class Single:
    ask: Ask
    asked_at: datetime
    """When it asked first."""
    loop: asyncio.AbstractEventLoop

    def check(self) -> Question:
        knowledge = _knowledge()
        return admission.check_publish(self.ask, asked_at=self.asked_at, now=clock.utc_now(), knowledge=knowledge)

    def admit(self, until: float) -> Grant:
        return admission.admit_publish(
            self.ask,
            asked_at=self.asked_at,
            knowledge=_knowledge(),
            now=clock.utc_now(),
            in_time=lambda: decisions.raise_if_late(until),
        )


def _knowledge() -> leases.Knowledge:
    shared = database.read_shared_clock()
    return leases.Knowledge(shared, standing, REACH.since(shared))


async def admit(single: Single, permission: Permission) -> Grant:
    """What was granted. Raises Refused, NotYet, TooSlow, and what the database raises: then nothing is left of it."""
    try:
        await CHECKS.ask(single.ask)
        return await _written(single.ask, TOGETHER.ask(single.ask))
    except DecideAlone:
        await permission.ask(await SINGLE_CHECKS.ask(single))
        return await _written(single.ask, SINGLY.ask(single))


async def _written(ask: Ask, admission: Awaitable[Grant]) -> Grant:
    try:
        return await admission
    except AnyDatabaseError:
        get_history().put(DiscardRow(ask.session))  # A commit may have gone through although its answer was lost.
        raise


def _admit(asks: Sequence[Ask], until: float) -> list[Grant | Exception]:
    return admission.admit_group(
        asks,
        now=clock.utc_now(),
        knowledge=_knowledge(),
        in_time=lambda: decisions.raise_if_late(until),
    )


def answer_each(several: Iterable[Q], decide: Callable[[Q], A]) -> list[A | Exception]:
    """By one after the other: what is decided of each, or what that raises."""
    answers: list[A | Exception] = []
    for one in several:
        try:
            answers.append(decide(one))
        except Exception as error:
            answers.append(error)
    return answers


def _discard(session: uuid.UUID, silent_since: datetime | None = None) -> None:
    if decisions.is_here():  # At once: the node of who was replaced looks each second whether it was.
        with contextlib.suppress(AnyDatabaseError):
            sessions.discard(session=session, silent_since=silent_since)
    get_history().put(DiscardRow(session, silent_since))


def _undo_single(single: Single, grant: Grant) -> None:
    if grant.lost is not None:  # That one's end stays, and is to be told all the same.
        single.loop.call_soon_threadsafe(recorder.lost, grant.lost)
    _discard(grant.session, grant.replaced.silent_since if grant.replaced is not None else None)


CHECKS: Batches[Ask, None] = Batches(
    lambda asks, until: admission.check_group(asks, now=clock.utc_now()), executor=decisions.READ
)
TOGETHER: Batches[Ask, Grant] = Batches(
    _admit, executor=decisions.WRITE, undo=lambda ask, grant: _discard(grant.session)
)
SINGLE_CHECKS: Batches[Single, Question] = Batches(
    lambda several, until: answer_each(several, Single.check), executor=decisions.READ, most=1
)
SINGLY: Batches[Single, Grant] = Batches(
    lambda several, until: answer_each(several, lambda single: single.admit(until)),
    executor=decisions.WRITE,
    undo=_undo_single,
    most=1,
)
