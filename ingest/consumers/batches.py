"""Decisions that wait together are made together: one queue before a thread of the database, one batch at a time.

What a batch costs (a transaction, its statements, the way to the thread and back) is paid once for all in it; each has
an answer of its own. The first batch begins at once, and while it is under way the next one gathers.

Who asks waits for LIMIT_S at most until its batch begins, and for LIMIT_S from then; who can't be served within that,
going by the latest batches, is told so at once. Nothing is left of what came too late, as with `database.decide`.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from ingest.consumers import database
from ingest.consumers.database import Ticket, TooSlow

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
        self._queues: WeakKeyDictionary[asyncio.AbstractEventLoop, _Queue[Q, A]] = WeakKeyDictionary()

    async def ask(self, question: Q) -> A:
        """What is decided. Raises what `work` has for the question, or TooSlow."""
        loop = asyncio.get_running_loop()
        queue = self._queues.get(loop)
        if queue is None:
            queue = self._queues[loop] = _Queue(self)
        asked = queue.put(question)
        try:
            return await asked.future
        except asyncio.CancelledError:
            if not asked.ticket.abandon() and asked.is_given:
                self.undo(question, asked.future.result())
            raise


class _Asked(Generic[Q, A]):
    def __init__(self, question: Q, loop: asyncio.AbstractEventLoop) -> None:
        self.question = question
        self.future: asyncio.Future[A] = loop.create_future()
        self.ticket = Ticket()
        self.at = loop.time()

    @property
    def is_given(self) -> bool:
        return self.future.done() and not self.future.cancelled() and self.future.exception() is None

    def give_up(self) -> None:
        if self.ticket.abandon() and not self.future.done():
            self.future.set_exception(TooSlow())


class _Queue(Generic[Q, A]):
    """Of one event loop, which it does not hold."""

    def __init__(self, batches: Batches[Q, A]) -> None:
        self._batches = batches
        self._waiting: deque[_Asked[Q, A]] = deque()
        self._is_busy = False
        """A batch is under way, or about to begin."""
        self._began = -math.inf
        self._batch_s = 0.0
        self._expiry: asyncio.TimerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None
        """Of a batch that is about to begin."""
        self._task: asyncio.Task[None] | None = None

    def put(self, question: Q) -> _Asked[Q, A]:
        """Raises TooSlow where its batch would begin too late."""
        most = self._batches.most
        ahead = len(self._waiting)
        if ahead >= database.MAX_UNDONE or (ahead >= most and ahead / most * self._batch_s > database.LIMIT_S):
            raise TooSlow
        loop = asyncio.get_running_loop()
        asked = _Asked[Q, A](question, loop)
        self._waiting.append(asked)
        if not self._is_busy or (self._timer is not None and len(self._waiting) == most):
            self._begin_soon()
        if self._expiry is None:
            self._expiry = loop.call_later(database.LIMIT_S, self._expire)
        return asked

    def _expire(self) -> None:
        """Who has waited for too long waits no more."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._waiting and self._waiting[0].at + database.LIMIT_S <= now:
            self._waiting.popleft().give_up()
        first = self._waiting[0].at if self._waiting else None
        self._expiry = None if first is None else loop.call_at(first + database.LIMIT_S, self._expire)

    def _begin_soon(self) -> None:
        self._is_busy = True
        if self._timer is not None:
            self._timer.cancel()
        is_whole = len(self._waiting) >= self._batches.most
        self._timer = asyncio.get_running_loop().call_at(-math.inf if is_whole else self._began + GATHER_S, self._begin)

    def _begin(self) -> None:
        self._timer = None
        batch: list[_Asked[Q, A]] = []
        while self._waiting and len(batch) < self._batches.most:
            asked = self._waiting.popleft()
            if not asked.ticket.abandoned:
                batch.append(asked)
        if not batch:
            self._is_busy = False
            return
        loop = asyncio.get_running_loop()
        self._began = loop.time()
        until = monotonic() + database.LIMIT_S
        timer = loop.call_later(database.LIMIT_S, self._give_up, batch)
        self._task = loop.create_task(self._decide(batch, until, timer))

    @staticmethod
    def _give_up(batch: Sequence[_Asked[Q, A]]) -> None:
        for asked in batch:
            asked.give_up()

    async def _decide(self, batch: Sequence[_Asked[Q, A]], until: float, timer: asyncio.TimerHandle) -> None:
        try:
            answers = await database.run(lambda: self._answers(batch, until), executor=self._batches.executor)
        except Exception as error:
            answers = [error] * len(batch)
        timer.cancel()
        self._batch_s += WEIGHT * (asyncio.get_running_loop().time() - self._began - self._batch_s)
        self._is_busy, self._task = False, None
        if self._waiting:
            self._begin_soon()
        self._tell(deque(zip(batch, answers, strict=True)))

    def _tell(self, answered: deque[tuple[_Asked[Q, A], A | Exception]]) -> None:
        for _ in range(min(A_TURN, len(answered))):
            asked, answer = answered.popleft()
            if asked.future.done():
                if not asked.ticket.abandoned and not isinstance(answer, Exception):
                    self._batches.undo(asked.question, answer)  # It was delivered, and who asked has gone meanwhile.
            elif isinstance(answer, Exception):
                asked.future.set_exception(answer)
            else:
                asked.future.set_result(answer)
        if answered:
            asyncio.get_running_loop().call_soon(self._tell, answered)

    def _answers(self, batch: Sequence[_Asked[Q, A]], until: float) -> Sequence[A | Exception]:
        """In the thread. Who gave up before it began is not asked about."""
        wanted = [asked for asked in batch if not asked.ticket.abandoned]
        answers: dict[int, A | Exception] = {}
        if wanted:
            given = self._batches.work([asked.question for asked in wanted], until)
            answers = {id(asked): answer for asked, answer in zip(wanted, given, strict=True)}
        for asked in wanted:
            answer = answers[id(asked)]
            if not asked.ticket.deliver() and not isinstance(answer, Exception):
                self._batches.undo(asked.question, answer)
        return [answers.get(id(asked), TooSlow()) for asked in batch]
