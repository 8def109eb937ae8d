"""The event loop's side of recordings: takes a stream's media off it and hands them to the threads that write.

`Recorders` are all of a node: who writes, who waits for whom, and the wait for the last at the node's stop. A recording
stands beside the media path: its files play at any moment, also when their writer is killed.

The stream is tapped: what waits for the disk waits in a queue of its own, whose bounds drop frames up to the next
keyframe. Nothing here waits for a file, and the media path knows of nothing but one more queue."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import Any, Final

from ingest.contracts.connection import RecordEvent
from ingest.flv.recording import FAILED, Report
from ingest.live import LiveStream, Subscriber
from ingest.live.player_queue import newest_headers
from ingest.rtmp.limits import MIB
from ingest.server.config import RecordingSettings
from ingest.server.recording_writer import Locked, Order, Recording
from ingest.thread_pool import ThreadPool

logger = logging.getLogger(__name__)

BATCH_BYTES: Final = 8 * MIB
"""What goes to a thread at once; when more waits, it is written without gathering first."""


LOCKED_S: Final = 0.25
"""Between two tries of a file that somebody else has."""


@dataclass(eq=False, repr=False)
class Recorder:
    """Of one publish session, from its start until its last file is closed."""

    recording: Recording
    _settings: RecordingSettings
    _writers: ThreadPool
    _report: Callable[[Report], None]
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _subscriber: Subscriber = field(init=False)
    _live: LiveStream | None = None
    """Until the session is over."""
    _is_due: asyncio.Event = field(default_factory=asyncio.Event)
    _busy_since: float | None = None
    is_stalled: bool = False
    """The disk has taken nothing for too long, as was told."""
    is_followed: bool = False
    """Another one waits to continue its file."""
    _under_way_bytes: int = 0
    _dropped: int = 0
    """Frames, beside those that the queue itself has dropped."""

    def __post_init__(self) -> None:
        self._subscriber = Subscriber(0, self._settings.queue, lambda _subscriber: None)

    def start(self, live: LiveStream) -> None:
        self._live = live
        live.tap(self._subscriber, self._loop.time())

    def stop(self) -> None:
        """The session is over: what is left is written, and the file closed."""
        if self._live is not None:
            self._live.untap(self._subscriber)
            self._live = None
            self._is_due.set()

    def check_stall(self, now: float) -> None:
        """Tell, once, that the disk takes nothing. To be asked some times a second."""
        settings = self._settings
        if self.is_stalled or self._busy_since is None or now - self._busy_since < settings.stall_s:
            return
        self.is_stalled = True
        text = f"The disk has taken nothing for {settings.stall_s:.0f} s. What it misses meanwhile is dropped."
        self._report(Report("failed", dropped_frames=self.dropped_frames, code=FAILED, description=text))

    @property
    def dropped_frames(self) -> int:
        return self._subscriber.dropped_frames + self._dropped

    @property
    def waiting_bytes(self) -> int:
        return self._subscriber.pending_bytes

    @property
    def held_bytes(self) -> int:
        """Of media: what waits, and what is under way to the disk."""
        return self._subscriber.pending_bytes + self._under_way_bytes

    def drop(self) -> None:
        """All that waits, and what comes before the next keyframe: others need the memory."""
        subscriber = self._subscriber
        withdrawn = subscriber.withdraw()
        self._dropped += sum(message.is_frame for message in withdrawn)
        subscriber.wait_for_keyframe()
        subscriber.catch_up(newest_headers([message for message in withdrawn if message.is_header]))

    # --- Batches ---

    async def run(self) -> None:
        """Returns when nothing more will be written."""
        try:
            await self._write_all()
            reports = await self._on_disk(partial(self.recording.close, self.dropped_frames))
        except Exception as error:  # Our own fault: this recording is over, others go on.
            logger.exception("A job of recording failed")
            give_up = partial(self.recording.give_up, f"The recorder failed: {type(error).__name__}.")
            reports = await self._on_disk(give_up)
        self.stop()
        for report in (*reports, Report("over")):
            self._report(report)

    async def _write_all(self) -> None:
        """At once what is much or all there will be, else when some more has gathered."""
        subscriber = self._subscriber
        while True:
            if self._live is not None and subscriber.pending_bytes < BATCH_BYTES:
                timer = self._loop.call_later(self._settings.gather_s, self._is_due.set)
                await self._is_due.wait()
                timer.cancel()
                self._is_due.clear()
            if self._live is not None:
                self._live.gather()
            dropped, before = self.dropped_frames, subscriber.sent_bytes
            messages = subscriber.take_messages(BATCH_BYTES)
            if messages:
                self._under_way_bytes = subscriber.sent_bytes - before
                reports = await self._on_disk(partial(self.recording.write, messages, dropped))
                self._busy_since, self._under_way_bytes, self.is_stalled = None, 0, False
                for report in reports:
                    self._report(report)
            elif self._live is None:
                return

    async def _on_disk(self, work: Callable[[], list[Report]]) -> list[Report]:
        while True:
            self._busy_since = self._loop.time()
            try:
                return await self._writers.run(work, self._loop)
            except Locked:  # The disk is not to blame, nor does a thread wait.
                await asyncio.sleep(LOCKED_S)


POLL_S: Final = 0.25

MOST_WAITING: Final = 10_000
"""Events that wait for a node's application which is being started anew."""


Place = tuple[str, str]

RECENT_S: Final = 10.0
"""For so long the application may not know yet which file was closed last: who comes back to append is given it."""


class Recorders:
    """`notify_node` hands an event to the node's application; False: it can't take it now."""

    def __init__(self, settings: RecordingSettings, notify_node: Callable[[Any], bool]) -> None:
        self._settings = settings
        self._put_to_node = notify_node
        self._writers = ThreadPool(settings.threads, "recording")
        self._loop = asyncio.get_running_loop()
        self._recorders: dict[Recorder, asyncio.Task[None]] = {}
        self._closed: dict[Place, tuple[str, float]] = {}
        """By application and name: the file that was closed just now, and when, in seconds of the loop's clock."""
        self._waiting: deque[RecordEvent] = deque(maxlen=MOST_WAITING)
        self._polling = self._loop.create_task(self._poll())

    def begin(self, order: Order, live: LiveStream, report: Callable[[Report], None]) -> Recorder:
        former = self._writing(order) if order.mode == "append" else None
        if order.mode == "append" and (order.app, order.name) in self._closed:
            order = replace(order, file=self._closed[order.app, order.name][0])
        recorder = Recorder(Recording(order, self._settings), self._settings, self._writers, report)
        recorder.start(live)
        before = (former, self._recorders[former]) if former is not None else None
        self._recorders[recorder] = self._loop.create_task(self._run(recorder, before))
        return recorder

    def notify_node(self, event: RecordEvent) -> None:
        """What a publisher's own application can't be told any more, or later if the node's is being started anew."""
        self._waiting.append({**event, "type": "node.record"})
        self._put_waiting()

    async def close(self, timeout_s: float) -> None:
        """Wait for the files of sessions that are over; for so long at most, as a disk may hang."""
        if self._recorders:
            await asyncio.wait(self._recorders.values(), timeout=timeout_s)
        if self._recorders:
            logger.error(
                "%d recordings could not be closed, as the disk takes nothing. They are at the node's next start.",
                len(self._recorders),
            )
        self._polling.cancel()
        self._writers.close()

    def _writing(self, order: Order) -> Recorder | None:
        """The recorder that still has the recording which the order continues, and which nobody else waits for."""
        for recorder in self._recorders:
            other = recorder.recording.order
            is_same = (other.app, other.name) == (order.app, order.name) and other.mode != "all"
            if is_same and not recorder.is_followed:
                recorder.is_followed = True
                return recorder
        return None

    async def _run(self, recorder: Recorder, before: tuple[Recorder, asyncio.Task[None]] | None) -> None:
        """`before`: who still wrote what this one continues, and until when."""
        try:
            if before is not None:
                former, written = before
                await asyncio.wait([written])
                recorder.recording.follow(former.recording.file)
            await recorder.run()
        except Exception:  # Our own fault: nobody waits for this one any more.
            logger.exception("A recording could not be ended in order")
        finally:
            del self._recorders[recorder]
        order, file = recorder.recording.order, recorder.recording.file
        if file and order.mode != "all":
            self._closed[order.app, order.name] = (file, self._loop.time())

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            try:
                self._check(self._loop.time())
            except Exception:  # Our own fault: the next round checks all of them again.
                logger.exception("Recordings could not be checked")

    def _check(self, now: float) -> None:
        for recorder in list(self._recorders):
            recorder.check_stall(now)
        self._bound_memory()
        self._closed = {place: (file, at) for place, (file, at) in self._closed.items() if now - at < RECENT_S}
        self._put_waiting()

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

    def _put_waiting(self) -> None:
        while self._waiting and self._put_to_node(self._waiting[0]):
            self._waiting.popleft()
