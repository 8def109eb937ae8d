"""One viewer of a recording: pieces of its file, read by threads as fast as the viewer takes them.

All of the file or a range of it, or FLV from a time on.

All here may wait for a disk, so it runs in the threads of `vod/library` only. What it raises: OSError; FlvError
where the file is none."""

import asyncio
import os
import re
from collections.abc import Awaitable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

from ingest.contracts import PlayAccept, PlayerSample, RecordedFile, Totals
from ingest.contracts.figures import NO_TOTALS
from ingest.flv import FlvError
from ingest.flv.tags import POINTER_BYTES, Tag, tag_bytes
from ingest.live.message import METADATA_AT, STREAM_ID
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages import MessageType
from ingest.server.context import Session
from ingest.server.media.connection import MediaConnection
from ingest.server.media.http import RETRY_S, Answer, Header
from ingest.server.media.live_viewer import file_start
from ingest.server.vod.flv_source import RecordingInfo, tag_at

T = TypeVar("T")

READ_BYTES: Final = 128 * 1024

_range: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
"""RFC 9110, section 14.2, with one range; several, and other units, are let go by: the whole file follows."""


@dataclass(slots=True)
class Part:
    stream: BinaryIO
    offset: int
    end: int
    size: int
    """Of the whole file."""
    tag: str
    """Names this state of the file (an ETag)."""
    head: bytes = b""
    is_range: bool = False

    @property
    def length(self) -> int:
        return len(self.head) + self.end - self.offset

    def read(self) -> bytes:
        """The next piece, before the end."""
        data = os.pread(self.stream.fileno(), min(READ_BYTES, self.end - self.offset), self.offset)
        if not data:
            raise OSError("The file has become shorter.")
        self.offset += len(data)
        return data


class NoSuchRange(Exception):  # noqa: N818 - an answer, not an error.
    """The file ends before it."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


def open_whole(path: Path, wanted: str, only_if: str) -> Part:
    """The file, or what the field Range asks for if If-Range (`only_if`) allows it. Raises NoSuchRange, OSError."""
    part = _open(path)
    found = _range.fullmatch(wanted.replace(" ", "")) if only_if in ("", part.tag) else None
    if found and (found[1] or found[2]):
        first = int(found[1]) if found[1] else max(part.size - int(found[2]), 0)
        last = int(found[2]) if found[1] and found[2] else part.size - 1
        if first >= part.size or last < first:
            part.stream.close()
            raise NoSuchRange(part.size)
        part.offset, part.end, part.is_range = first, min(last + 1, part.size), True
    return part


def open_from(path: Path, info: RecordingInfo, start_ms: int, limits: Limits) -> Part:
    """From the keyframe at or before the time: FLV's header, metadata, what decoders need first, then the file's tags
    with the file's times. Raises OSError, FlvError.
    """
    point = info.index.at_or_before(start_ms)
    if point is None:
        raise FlvError("there is nothing to play in it")
    part = _open(path)
    try:
        timestamp = _tag_at(part, point.offset, limits).timestamp
        head = [
            file_start(audio=info.index.has_audio, video=info.index.has_video),
            tag_bytes(MessageType.DATA_AMF0, METADATA_AT, info.metadata),
        ]
        for offset in info.index.headers_at(point.offset):
            tag = _tag_at(part, offset, limits)
            head.append(tag_bytes(tag.type_id, timestamp, tag.payload))
    except BaseException:
        part.stream.close()
        raise
    part.head, part.offset = b"".join(head), point.offset
    if info.index.is_truncated or info.index.fault:
        part.end = max(info.index.end + POINTER_BYTES, part.offset)
    return part


def _open(path: Path) -> Part:
    stream = path.open("rb", buffering=0)
    found = os.fstat(stream.fileno())
    return Part(stream, 0, found.st_size, found.st_size, f'"{found.st_mtime_ns:x}-{found.st_size:x}"')


def _tag_at(part: Part, offset: int, limits: Limits) -> Tag:
    tag = tag_at(part.stream, offset, limits)
    if tag is None:
        raise FlvError("the file has become shorter")
    return tag


GONE: Final = Answer(HTTPStatus.NOT_FOUND, "The recording's file is missing.")
BROKEN: Final = Answer(HTTPStatus.NOT_FOUND, "The recording's file can't be played.")
UNREADABLE: Final = Answer(
    HTTPStatus.SERVICE_UNAVAILABLE, "The recording can't be read now.", (("Retry-After", str(RETRY_S)),)
)

FAILURES: Final[dict[type[Exception], Answer]] = {FileNotFoundError: GONE, FlvError: BROKEN, OSError: UNREADABLE}

FLV: Final = ("Content-Type", "video/x-flv")


class RecordingViewer(Session[MediaConnection]):
    """Two pieces of the file at most wait for the viewer."""

    def __init__(
        self,
        connection: MediaConnection,
        accept: PlayAccept,
        recording: RecordedFile,
        *,
        start_ms: int | None,
        wanted: str,
        only_if: str,
    ) -> None:
        """`start_ms`: None for the file as it is, or the range that is `wanted` of it (`file.open_whole`)."""
        super().__init__(connection, STREAM_ID, accept["session_id"], accept["path"])
        self._file = Path(recording["file"])
        self._disposition = recording.get("disposition", "")
        self._start_ms = start_ms
        self._range = (wanted, only_if)
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
            self._library.submit(self._part.stream.close)
            self._part = None

    async def _from_disk(self, work: Awaitable[T]) -> T:
        self._waiting_since = self.connection.loop.time()
        try:
            return await work
        finally:
            self._waiting_since = None

    async def _open(self) -> Part | None:
        """None where the viewer has gone while this waited for a thread."""
        library, file, start_ms = self._library, self._file, self._start_ms
        info = await library.lookup(file) if start_ms is not None else None

        def open_part() -> Part | None:
            if self._stopped:
                return None
            if info is None or start_ms is None:
                return open_whole(file, *self._range)
            return open_from(file, info, start_ms, library.limits)

        return await library.run(open_part)

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
        headers: list[Header] = [FLV, ("Content-Length", str(part.length)), ("ETag", part.tag)]
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
