"""The event loop's side of a recording: takes a stream's media off it and hands them to the threads that write.

The stream is tapped: what waits for the disk waits in a queue of its own, whose bounds drop frames up to the next
keyframe. Nothing here waits for a file, and the media path knows of nothing but one more queue.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from ingest.live import LiveStream, Subscriber
from ingest.live.dropping import newest_headers
from ingest.rtmp.limits import MIB
from ingest.server.recording.recording import Locked, Recording
from ingest.server.recording.reports import FAILED, Report
from ingest.server.recording.settings import RecordingSettings
from ingest.server.recording.writers import Job, Writers

T = TypeVar("T")

Tell = Callable[[Report], None]

BATCH_BYTES: Final = 8 * MIB
"""What goes to a thread at once; when more waits, it is written without gathering first."""


LOCKED_S: Final = 0.25
"""Between two tries of a file that somebody else has."""


class Recorder:
    """Of one publish session, from its start until its last file is closed."""

    def __init__(
        self,
        recording: Recording,
        settings: RecordingSettings,
        writers: Writers,
        tell: Tell,
        done: Callable[["Recorder"], None],
    ) -> None:
        """`tell` gets the reports; `done` is called once, when nothing more will be written."""
        self.recording = recording
        self._settings = settings
        self._writers = writers
        self._tell = tell
        self._done = done
        self._loop = asyncio.get_running_loop()
        self._subscriber = Subscriber(0, settings.queue, self._wake)
        self._timer: asyncio.TimerHandle | None = None
        self._busy_since: float | None = None
        self.is_stalled = False
        """The disk has taken nothing for too long, as was told."""
        self._is_held = False
        self._under_way_bytes = 0
        self._dropped = 0
        """Frames, beside those that the queue itself has dropped."""
        self._live: LiveStream | None = None
        self._closing = False

    def start(self, live: LiveStream, now: float, *, hold: bool) -> None:
        """`hold`: write nothing before `release`, as another recorder has the file."""
        self._live = live
        self._is_held = hold
        live.tap(self._subscriber, now)
        self._go_on()

    def release(self, file: str) -> None:
        """The other one has closed `file` (relative to the folder), which this one continues."""
        self.recording.follow(file)
        self._is_held = False
        self._go_on()

    def stop(self) -> None:
        """The session is over: write what is left, and close the file."""
        if self._live is None:
            return
        self._live.untap(self._subscriber)
        self._live = None
        self._closing = True
        self._go_on()

    def look(self, now: float) -> None:
        """Tell, once, that the disk takes nothing. To be asked some times a second."""
        settings = self._settings
        if self.is_stalled or self._busy_since is None or now - self._busy_since < settings.stall_s:
            return
        self.is_stalled = True
        text = f"The disk has taken nothing for {settings.stall_s:.0f} s. What it misses meanwhile is dropped."
        self._tell(Report("failed", dropped_frames=self.dropped_frames, code=FAILED, description=text))

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

    def _wake(self, _subscriber: Subscriber) -> None:
        if self._busy_since is None and self._timer is None and not self._is_held:
            self._timer = self._loop.call_later(self._settings.gather_s, self._write)

    def _go_on(self) -> None:
        """Write what waits: at once if it is much or all there will be, else when some more has gathered."""
        if self._busy_since is not None or self._is_held:
            return
        subscriber = self._subscriber
        if self._closing or subscriber.pending_bytes >= BATCH_BYTES:
            self._write()
        elif subscriber.pending_messages or self._live is not None:
            self._wake(subscriber)

    def _write(self) -> None:
        if self._live is not None:
            self._live.gather()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        subscriber, recording = self._subscriber, self.recording
        self._busy_since = self._loop.time()
        dropped, before = self.dropped_frames, subscriber.sent_bytes
        messages = subscriber.take_messages(BATCH_BYTES)
        self._under_way_bytes = subscriber.sent_bytes - before
        if messages:
            self._submit(partial(recording.write, messages, dropped), self._written)
        elif self._closing:
            self._submit(partial(recording.close, dropped), self._closed)
        else:
            self._busy_since = None
            self._go_on()

    def _submit(self, work: Callable[[], list[Report]], then: Callable[[list[Report]], None]) -> None:
        loop = self._loop

        def job() -> None:
            try:
                reports = work()
            except Locked:
                _hand_over(loop, self._again, job)
                return
            except Exception as error:  # Our own fault: this recording is over, others go on.
                _hand_over(loop, self._closed, self.recording.give_up(f"The recorder failed: {type(error).__name__}."))
                raise
            _hand_over(loop, then, reports)

        self._writers.submit(job)

    def _again(self, job: Job) -> None:
        """The disk is not to blame, nor does a thread wait."""
        self._busy_since = self._loop.time()
        self._loop.call_later(LOCKED_S, self._writers.submit, job)

    def _written(self, reports: list[Report]) -> None:
        self._busy_since = None
        self._under_way_bytes = 0
        self.is_stalled = False
        self._tell_all(reports)
        self._go_on()

    def _closed(self, reports: list[Report]) -> None:
        if self._live is not None:
            self._live.untap(self._subscriber)
            self._live = None
        self._tell_all([*reports, Report("over")])
        self._done(self)

    def _tell_all(self, reports: list[Report]) -> None:
        for report in reports:
            self._tell(report)


def _hand_over(loop: asyncio.AbstractEventLoop, act: Callable[[T], None], given: T) -> None:
    """From a thread to the loop, which may be closed by now: then nobody waits for it."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(act, given)
