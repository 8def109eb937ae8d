"""All recordings of a node: who writes, who waits for whom, and the wait for the last at the node's stop."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final

from ingest.contracts.recording import RecordEvent
from ingest.live import LiveStream
from ingest.server.recording.recorder import Recorder, Tell
from ingest.server.recording.recording import Order, Recording
from ingest.server.recording.settings import RecordingSettings
from ingest.server.recording.writers import Writers

logger = logging.getLogger(__name__)

LOOK_S: Final = 0.25

MOST_UNTOLD: Final = 10_000
"""Events that wait for a node's application which is being started anew."""


Place = tuple[str, str]
"""Application and name."""

RECENT_S: Final = 10.0
"""For so long the application may not know yet which file was closed last: who comes back to append is given it."""


class Recorders:
    """`tell_node` hands an event to the node's application; False: it can't take it now."""

    def __init__(self, settings: RecordingSettings, tell_node: Callable[[Any], bool]) -> None:
        self._settings = settings
        self._tell_node = tell_node
        self._writers = Writers(settings.threads)
        self._loop = asyncio.get_running_loop()
        self._recorders: set[Recorder] = set()
        """Those whose last file is not closed yet."""
        self._followers: dict[Recorder, Recorder] = {}
        """Who waits for whom: the one that continues what the other still writes, by the other."""
        self._closed: dict[Place, tuple[str, float]] = {}
        """By application and name: the file that was closed just now, and when, in seconds of the loop's clock."""
        self._untold: deque[RecordEvent] = deque(maxlen=MOST_UNTOLD)
        self._timer: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()

    def begin(self, order: Order, live: LiveStream, now: float, tell: Tell) -> Recorder:
        """Record the publisher that has just begun."""
        former = self._writing(order) if order.mode == "append" else None
        if order.mode == "append" and (order.app, order.name) in self._closed:
            order = replace(order, file=self._closed[order.app, order.name][0])
        recorder = Recorder(Recording(order, self._settings), self._settings, self._writers, tell, self._done)
        self._recorders.add(recorder)
        if former is not None:
            self._followers[former] = recorder
        recorder.start(live, now, hold=former is not None)
        self._keep_looking()
        return recorder

    def tell_node(self, event: RecordEvent) -> None:
        """What a publisher's own application can't be told any more, or later if the node's is being started anew."""
        self._untold.append({**event, "type": "node.record"})
        self._tell_untold()
        self._keep_looking()

    async def close(self, timeout_s: float) -> None:
        """Wait for the files of sessions that are over; for so long at most, as a disk may hang."""
        if self._recorders:
            self._empty.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), timeout_s)
        if self._recorders:
            logger.error(
                "%d recordings could not be closed, as the disk takes nothing. They are at the node's next start.",
                len(self._recorders),
            )
        if self._timer is not None:
            self._timer.cancel()
        self._writers.close()

    def _writing(self, order: Order) -> Recorder | None:
        """The recorder that still has the recording which the order continues, and which nobody else waits for."""
        for recorder in self._recorders:
            other = recorder.recording.order
            is_same = (other.app, other.name) == (order.app, order.name) and other.mode != "all"
            if is_same and recorder not in self._followers:
                return recorder
        return None

    def _done(self, recorder: Recorder) -> None:
        self._recorders.discard(recorder)
        order, file = recorder.recording.order, recorder.recording.file
        if file and order.mode != "all":
            self._closed[order.app, order.name] = (file, self._loop.time())
        follower = self._followers.pop(recorder, None)
        if follower is not None:
            follower.release(file)
        if not self._recorders:
            self._empty.set()

    def _keep_looking(self) -> None:
        if self._timer is None and (self._recorders or self._untold or self._closed):
            self._timer = self._loop.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        now = self._loop.time()
        for recorder in list(self._recorders):
            recorder.look(now)
        self._bound_memory()
        self._closed = {place: (file, at) for place, (file, at) in self._closed.items() if now - at < RECENT_S}
        self._tell_untold()
        self._timer = None
        self._keep_looking()

    def _bound_memory(self) -> None:
        """One disk that hangs hangs for all of them: together they may hold no more than one node has to spare."""
        excess = sum(recorder.held_bytes for recorder in self._recorders) - self._settings.memory_bytes
        if excess <= 0:
            return
        for recorder in sorted(self._recorders, key=attrgetter("waiting_bytes"), reverse=True):
            waiting = recorder.waiting_bytes
            recorder.drop()
            excess -= waiting - recorder.waiting_bytes
            if excess <= 0:
                return

    def _tell_untold(self) -> None:
        while self._untold and self._tell_node(self._untold[0]):
            self._untold.popleft()
