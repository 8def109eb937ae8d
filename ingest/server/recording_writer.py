"""One session's recording, in the threads that write: which file a message goes to, at what time, and what fails.

Its calls come one after the other. Times in a file begin at 0 with its first frame; where a file is continued, they go
on. Headers and data have the time of the frame before them: what encoders say of theirs means nothing.
"""

import logging
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from ingest import clock
from ingest.flv import FlvError, decode_metadata
from ingest.flv.recording import (
    DISK_FULL,
    FAILED,
    RecordingError,
    RecordingFile,
    Report,
    recording_error,
    recording_name,
    recording_path,
    repair,
)
from ingest.flv.seek_points import BACK_MS
from ingest.live.message import METADATA_AT, WIRE, Kind, SharedMessage
from ingest.rtmp.limits import MIB
from ingest.rtmp.messages import TIMESTAMP_WRAP, timestamp_difference
from ingest.server.config import RecordingSettings

logger = logging.getLogger(__name__)

STEP_MS: Final = 40
"""Between what was there and what is appended, and where a publisher's time goes back."""

NO_PICTURE_MS: Final = 10_000
"""After so long without video a stream is sound alone."""

NO_KEYFRAME_MS: Final = 60_000
"""After so long without a keyframe another file begins with any picture: there may be none (intra refresh)."""

CHECK_S: Final = 2.0

NUMBERS: Final = 100
"""Of recordings that may begin in the same second under the same name."""

ERRORS = (OSError, FlvError, ValueError, RecordingError)


class Locked(Exception):  # noqa: N818 - to be asked again.
    """Somebody else still has the file that is to be continued."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be recorded: a stream by its public name."""

    app: str
    name: str
    mode: Literal["record", "append", "all"]
    """A new recording of the stream's name, its recording continued, or some under names of their own, one after the
    other."""
    file: str = ""
    """What to continue, relative to the folder; empty, or not there: a new one is made."""


class Recording:
    """`write` and `close` return what the application has to hear of, and raise nothing that a disk can cause."""

    def __init__(self, order: Order, settings: RecordingSettings) -> None:
        self.order = order
        self._settings = settings
        self._continues = order.file if order.mode == "append" else ""
        self._file: RecordingFile | None = None
        self._report: Report | None = None
        self._name = order.name
        self._began = 0.0
        """Seconds since the epoch."""
        self._is_continued = False
        self._is_beside = False
        """What it was to continue had another writer for too long: it has a file, and a name, of its own."""
        self._waits_until: float | None = None
        self._headers: dict[tuple[Kind, int], SharedMessage] = {}
        self._pictured: int | None = None
        self._keyed: int | None = None
        """The latest keyframe's. None: there was none, so that the stream gave pictures as none is to be waited for."""
        self._latest: int | None = None
        """The latest frame's timestamp as the stream has it; None: the next frame is the file's first."""
        self._at = 0
        """The same in the file's own time, ms."""
        self._reports: list[Report] = []
        self._is_failing = False
        self._again_at = self._checks_at = self._syncs_at = self._rotates_at = 0.0

    @property
    def file(self) -> str:
        """The latest one of the stream's name, relative to the folder; empty before there is one."""
        return "" if self._is_beside else self._continues

    def follow(self, file: str) -> None:
        """What is to be continued is another one by now. To be said before the first call."""
        self._continues = file or self._continues

    def write(self, messages: Sequence[SharedMessage], dropped: int) -> list[Report]:
        """`dropped`: frames of the session so far that never came here. Raises Locked, for `lock_s` at most: then the
        same messages are to be given again, a little later.
        """
        try:
            for message in messages:
                self._put(message, dropped)
            self._flush(dropped)
        except ERRORS as error:
            self._fail(recording_error(error), dropped)
        return self._take_reports()

    def close(self, dropped: int) -> list[Report]:
        try:
            self._end_file(dropped)
        except ERRORS as error:
            self._fail(recording_error(error), dropped)
        return self._take_reports()

    def give_up(self, description: str) -> list[Report]:
        """The recorder itself has failed: the file stays as it is, as after the death of the process."""
        file, self._file, report = self._file, None, self._report
        if file is not None:
            file.abandon()
        known = Report("failed")
        if report is not None and file is not None:
            known = replace(report, state="failed", duration_ms=file.duration_ms, size_bytes=file.size)
        return [*self._take_reports(), replace(known, code=FAILED, description=description)]

    def _take_reports(self) -> list[Report]:
        reports, self._reports = self._reports, []
        return reports

    # --- Messages ---

    def _put(self, message: SharedMessage, dropped: int) -> None:
        if message.is_header:
            self._headers[message.kind, message.slot] = message
        elif message.is_frame:
            if message.is_video:
                self._pictured = message.timestamp
            if message.is_keyframe:
                self._keyed = message.timestamp
            if self._is_full(message):
                self._end_file(dropped)
            if self._file is None and not self._begin(message):
                return
            self._advance(message.timestamp)
        if self._file is not None:
            at = METADATA_AT if message.is_metadata else self._at % TIMESTAMP_WRAP
            self._file.writer.write(WIRE[message.kind][0], at, message.payload)

    def _advance(self, timestamp: int) -> None:
        step = 0 if self._latest is None else timestamp_difference(timestamp, self._latest)
        self._latest = timestamp
        self._at = max(self._at + (step if step >= -BACK_MS else STEP_MS), 0)

    def _is_full(self, message: SharedMessage) -> bool:
        """Whether a new file begins with this frame: only of a session that has its own, and where it can."""
        settings, file = self._settings, self._file
        if file is None or self.order.mode != "all" or not self._can_begin(message):
            return False
        is_long = bool(settings.rotate_s) and time.monotonic() >= self._rotates_at
        return is_long or bool(settings.rotate_bytes and file.size >= settings.rotate_bytes)

    def _can_begin(self, message: SharedMessage) -> bool:
        """With a keyframe, or any picture where there are none; while there has been no video, or none for long, with
        any sound.
        """
        if message.is_video:
            keyed = self._keyed
            return (
                message.is_keyframe or keyed is None or timestamp_difference(message.timestamp, keyed) > NO_KEYFRAME_MS
            )
        return self._pictured is None or timestamp_difference(message.timestamp, self._pictured) > NO_PICTURE_MS

    # --- Files ---

    def _begin(self, message: SharedMessage) -> bool:
        """A file for this frame and what follows; False where none can begin with it, or it isn't time to try again."""
        now = time.monotonic()
        if not self._can_begin(message) or now < self._again_at:
            return False
        self._checks_at = 0.0
        self._check_disk(now)
        self._latest, self._at = None, 0
        continued = self._continued()
        self._is_continued = continued is not None
        file = self._file = continued or self._new()
        self._continues = file.path.relative_to(self._settings.folder).as_posix()
        self._syncs_at, self._rotates_at = now + self._settings.sync_s, now + self._settings.rotate_s
        for header in self._headers.values():
            if header.kind != "data":  # Metadata are in the file's own.
                file.writer.write(WIRE[header.kind][0], self._at % TIMESTAMP_WRAP, header.payload)
        return True

    def _continued(self) -> RecordingFile | None:
        if not self._continues or self.order.mode == "all":
            return None
        try:
            file = RecordingFile.continuing(self._settings.folder / self._continues, self._settings.limits)
        except BlockingIOError:
            self._wait()
            return None
        except FileNotFoundError:
            return None
        except FlvError as error:
            logger.warning("%s can't be continued, and a new file is begun: %s.", self._continues, error)
            return None
        if file.writer.duration_ms:
            self._at = file.writer.last_timestamp + STEP_MS
        return file

    def _wait(self) -> None:
        """For the other writer, while frames can wait; then what comes is recorded beside what that has."""
        now = time.monotonic()
        if self._waits_until is None:
            self._waits_until = now + self._settings.lock_s
        if now < self._waits_until:
            raise Locked
        self._is_beside = True
        logger.warning(
            "%s is still being written or closed elsewhere: %s/%s is recorded beside it.",
            self._continues,
            self.order.app,
            self.order.name,
        )

    def _new(self) -> RecordingFile:
        """Under the first number of its second that is free."""
        order, settings = self.order, self._settings
        self._began = clock.now()
        metadata = self._metadata()
        for number in range(1, NUMBERS + 1):
            path = settings.folder / recording_path(order.app, order.name, self._began, number)
            try:
                file = RecordingFile.new(path, metadata, settings.limits)
            except FileExistsError:
                continue
            if order.mode == "all" or self._is_beside:
                self._name = recording_name(order.name, self._began, number)
            return file
        raise RecordingError(DISK_FULL, f"{NUMBERS} recordings of the stream began in the same second.")

    def _metadata(self) -> dict[str, Any]:
        for (kind, _), header in self._headers.items():
            if kind == "data":
                return decode_metadata(header.payload, self._settings.limits) or {}
        return {}

    def _flush(self, dropped: int) -> None:
        file = self._file
        if file is None:
            return
        file.flush()
        self._report_begun(file, dropped)
        now = time.monotonic()
        self._check_disk(now)
        if self._settings.sync_s and now >= self._syncs_at:
            file.sync()
            self._syncs_at = time.monotonic() + self._settings.sync_s

    def _check_disk(self, now: float) -> None:
        """Raises RecordingError where the disk has too little room."""
        settings = self._settings
        if now < self._checks_at or not settings.min_free_bytes:
            return
        self._checks_at = now + CHECK_S
        settings.folder.mkdir(parents=True, exist_ok=True)
        found = os.statvfs(settings.folder)
        free = found.f_bavail * found.f_frsize
        if free < settings.min_free_bytes:
            raise RecordingError(
                DISK_FULL,
                f"The disk has {free // MIB} MiB free, under the {settings.min_free_bytes // MIB} MiB that stay.",
            )

    def _end_file(self, dropped: int) -> None:
        file = self._file
        if file is None:
            return
        file.flush()
        self._report_begun(file, dropped)
        file.finish()
        self._file = None
        self._report_over(file, dropped)

    # --- What is told ---

    def _report_begun(self, file: RecordingFile, dropped: int) -> None:
        if self._report is None:
            self._is_failing = False
            begun = Report(
                "started", name=self._name, file=self._continues, began=self._began, is_continued=self._is_continued
            )
            self._report = self._add(begun, file, dropped)

    def _report_over(self, file: RecordingFile, dropped: int, error: RecordingError | None = None) -> None:
        if self._report is not None:
            over = replace(self._report, state="closed")
            if error is not None:
                over = replace(over, state="failed", code=error.code, description=str(error))
            self._add(over, file, dropped)
        self._report = None

    def _add(self, report: Report, file: RecordingFile, dropped: int) -> Report:
        full = replace(report, duration_ms=file.duration_ms, size_bytes=file.size, dropped_frames=dropped)
        self._reports.append(full)
        return full

    def _fail(self, error: RecordingError, dropped: int) -> None:
        """Closes the file as far as the disk lets it. The recording is tried again later, and told of once until then.

        Then what is there is continued, unless each session has files of its own.
        """
        self._again_at = time.monotonic() + self._settings.again_s
        file, self._file = self._file, None
        if file is not None:
            file.abandon()
            with suppress(OSError, FlvError):
                if self._report is None and not self._is_continued:
                    file.path.unlink()
                else:
                    file = repair(file.path, self._settings.limits)
        if file is not None and self._report is not None:
            self._report_over(file, dropped, error)
        elif not self._is_failing:
            self._reports.append(Report("failed", dropped_frames=dropped, code=error.code, description=str(error)))
        self._is_failing = True
