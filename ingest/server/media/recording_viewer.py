"""One viewer of a recording: pieces of its file, as FLV or MP4, read by threads as fast as the viewer takes them."""

import asyncio
from collections.abc import Awaitable
from http import HTTPStatus
from pathlib import Path
from typing import Final, Literal, TypeVar

from ingest.byte_range import NoSuchRange
from ingest.contracts import PlayAccept, PlayerSample, RecordedFile, Totals
from ingest.contracts.figures import NO_TOTALS
from ingest.flv import FlvError
from ingest.live.message import STREAM_ID
from ingest.mp4.limits import Unplayable
from ingest.server.context import Session
from ingest.server.media.connection import MediaConnection
from ingest.server.media.http import RETRY_S, Answer, Header
from ingest.server.media.parts import NotChanged, Part, Wanted, mp4_part, open_from, open_whole

T = TypeVar("T")

Form = Literal["flv", "mp4"]

GONE: Final = Answer(HTTPStatus.NOT_FOUND, "The recording's file is missing.")
BROKEN: Final = Answer(HTTPStatus.NOT_FOUND, "The recording's file can't be played.")
UNREADABLE: Final = Answer(
    HTTPStatus.SERVICE_UNAVAILABLE, "The recording can't be read now.", (("Retry-After", str(RETRY_S)),)
)

GROWING: Final = Answer(
    HTTPStatus.CONFLICT,
    "It is still being recorded: there is an MP4 once that has ended. Its FLV plays as far as it is.",
)

FAILURES: Final[dict[type[Exception], Answer]] = {
    FileNotFoundError: GONE,
    FlvError: BROKEN,
    OSError: UNREADABLE,
}

FLV: Final = ("Content-Type", "video/x-flv")
MP4: Final = ("Content-Type", "video/mp4")
TYPES: Final[dict[Form, Header]] = {"flv": FLV, "mp4": MP4}
KEPT: Final[Header] = ("Cache-Control", "no-cache")
"""Who keeps it asks each time whether it may be had, and is the same."""


class RecordingViewer(Session[MediaConnection]):
    """Two pieces of the file at most wait for the viewer."""

    def __init__(
        self,
        connection: MediaConnection,
        accept: PlayAccept,
        recording: RecordedFile,
        *,
        form: Form,
        start_ms: int | None,
        wanted: Wanted,
    ) -> None:
        """`start_ms`: of FLV; None for the file as it is, or what is `wanted` of it."""
        super().__init__(connection, STREAM_ID, accept["session_id"], accept["path"])
        self._file = Path(recording["file"])
        self._form = form
        is_flv = form == "flv"
        self._disposition = recording.get("disposition", "") if is_flv else recording.get("mp4_disposition", "")
        self._start_ms = start_ms
        self._wanted = wanted
        self.reads_as_it_plays = form == "mp4"
        self._library = connection.server.library
        self._part: Part | None = None
        self._waiting_since: float | None = None
        """For a thread: since when."""
        self._stopped = False
        self._resumed = asyncio.Event()
        self._sent_bytes = 0
        self._began = 0.0

    def start(self, now: float) -> None:
        self._began = now
        self._task = self.connection.loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            part = self._part = await self._from_disk(self._open())
        except Exception as error:
            self._fail(error)
            return
        try:
            if part is not None:
                await self._send(part)
        except OSError as error:
            self._give_up(str(error))
        except Exception as error:
            self.connection.broken(error)
        finally:
            self._close()

    def _close(self) -> None:
        if self._part is not None:
            self._library.submit(self._part.source.close)
            self._part = None

    async def _from_disk(self, work: Awaitable[T]) -> T:
        self._waiting_since = self.connection.loop.time()
        try:
            return await work
        finally:
            self._waiting_since = None

    async def _open(self) -> Part | None:
        """None where the viewer has gone while this waited for a thread."""
        if self._form == "mp4":
            return await self._open_mp4()
        library, file, start_ms = self._library, self._file, self._start_ms
        info = await library.lookup(file) if start_ms is not None else None

        def open_part() -> Part | None:
            if self._stopped:
                return None
            if info is None or start_ms is None:
                return open_whole(file, self._wanted)
            return open_from(file, info, start_ms, library.limits)

        return await library.run(open_part)

    async def _open_mp4(self) -> Part | None:
        opened = await self._library.mp4.open(self._file)
        if self._stopped:
            self._library.submit(opened.close)
            return None
        return mp4_part(opened, self._wanted)

    async def _send(self, part: Part) -> None:
        if self._stopped:
            return
        self._respond(part)
        self._write(part.head)
        while await self._may_write():
            if part.offset >= part.end:
                self.connection.end("completed", "All of it was sent.")
                return
            self._write(await self._from_disk(self._library.run(part.read)))

    async def _may_write(self) -> bool:
        """Once the peer takes more. False: it is over."""
        while not (self._stopped or self.connection.outlet.is_open):
            self._resumed.clear()
            await self._resumed.wait()
        return not self._stopped

    def _respond(self, part: Part) -> None:
        headers: list[Header] = [TYPES[self._form], ("Content-Length", str(part.length)), ("ETag", part.tag)]
        if self._form == "mp4":
            headers.append(KEPT)
        if self._start_ms is None:
            headers.append(("Accept-Ranges", "bytes"))
        if self._disposition:
            headers.append(("Content-Disposition", self._disposition))
        if part.is_range:
            headers.append(("Content-Range", f"bytes {part.offset}-{part.end - 1}/{part.size}"))
        self.connection.respond(HTTPStatus.PARTIAL_CONTENT if part.is_range else HTTPStatus.OK, tuple(headers))

    def _fail(self, error: Exception) -> None:
        if self._stopped:
            return
        if isinstance(error, NoSuchRange):
            beyond = Answer(
                HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
                f"The file has {error.size} bytes.",
                (("Content-Range", f"bytes */{error.size}"),),
            )
            self.connection.refuse(beyond, reason="completed")
            return
        if isinstance(error, NotChanged):
            self.connection.refuse(
                Answer(HTTPStatus.NOT_MODIFIED, headers=(("ETag", error.tag), KEPT)), reason="completed"
            )
            return
        if isinstance(error, Unplayable):
            words = f"{error} There is no MP4 of this recording: download it as FLV."
            self.connection.refuse(Answer(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, words), reason="completed")
            return
        answer = next((answer for kind, answer in FAILURES.items() if isinstance(error, kind)), None)
        if answer is None:
            self.connection.broken(error)
        else:
            detail = "" if answer is GONE else getattr(error, "strerror", None) or error
            self.connection.refuse(answer, f"{answer.detail} {detail}".rstrip(), reason="completed")

    def check_deadlines(self, now: float) -> None:
        """A disk that gives nothing for long ends it; what a thread has opened by then is closed when it is back."""
        deadline_s = self.connection.server.config.deadlines.disk_s
        if self._waiting_since is None or now - self._waiting_since < deadline_s:
            return
        description = f"Nothing came from the disk for {deadline_s:g} s."
        if self._part is None:
            self.connection.refuse(UNREADABLE, f"{UNREADABLE.detail} {description}", reason="completed")
        else:
            self._give_up(description)

    def _give_up(self, description: str) -> None:
        """In the middle: the peer knows by the length that something is missing."""
        self.connection.end("tcp_reset", f"The recording can't be read any further: {description}", notify=False)

    def resume(self) -> None:
        self._resumed.set()

    def _write(self, data: bytes) -> None:
        if data and not self._stopped:
            self._sent_bytes += len(data)
            self._library.sent_bytes += len(data)
            self.connection.write_media([data], len(data))

    def stop(self, now: float) -> Totals:
        self._stopped = True
        self._resumed.set()
        if self._waiting_since is None:
            self._close()
        return {**NO_TOTALS, "bytes_out": self._sent_bytes, "duration_ms": round((now - self._began) * 1000)}

    def sample(self) -> PlayerSample:
        return self._sample(self._sent_bytes)
