"""One viewer of a recording: pieces of its file, read by threads as fast as the viewer takes them.

All of the file or a range of it, or FLV from a time on.

All here may wait for a disk, so it runs in the threads of `vod/library` only. What it raises: OSError; FlvError
where the file is none."""

import os
import re
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Final

from ingest.contracts import PlayAccept, PlayerSample, RecordedFile, Totals
from ingest.contracts.figures import NO_TOTALS
from ingest.flv import FlvError
from ingest.flv.tags import BEFORE_TAG_BYTES, POINTER_BYTES, read_tag_header, tag_bytes
from ingest.live.message import METADATA_AT
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages import MessageType
from ingest.server.context import Session
from ingest.server.media.connection import MediaConnection
from ingest.server.media.http import RETRY_S, Answer, Header
from ingest.server.media.live_viewer import STREAM_ID, file_start
from ingest.server.vod.flv_source import RecordingInfo

READ_BYTES: Final = 128 * 1024

_range: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
"""RFC 9110, section 14.2, with one range; several, and other units, are let go by: the whole file follows."""


@dataclass(slots=True)
class Part:
    descriptor: int
    offset: int
    end: int
    size: int
    """Of the whole file."""
    tag: str
    """Names this state of the file (an ETag)."""
    head: bytes = b""
    """What is sent before."""
    is_range: bool = False

    @property
    def length(self) -> int:
        return len(self.head) + self.end - self.offset

    def read(self) -> bytes:
        """The next piece; nothing at the end, also where the file has become shorter."""
        data = os.pread(self.descriptor, min(READ_BYTES, self.end - self.offset), self.offset)
        self.offset += len(data)
        return data

    def close(self) -> None:
        os.close(self.descriptor)


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
            part.close()
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
        _, timestamp, _ = _tag_at(part, point.offset, limits)
        head = [
            file_start(audio=info.index.has_audio, video=info.index.has_video),
            tag_bytes(MessageType.DATA_AMF0, METADATA_AT, info.metadata),
        ]
        for offset in info.index.headers_at(point.offset):
            type_id, _, payload = _tag_at(part, offset, limits)
            head.append(tag_bytes(type_id, timestamp, payload))
    except BaseException:
        part.close()
        raise
    part.head, part.offset = b"".join(head), point.offset
    if info.index.is_truncated or info.index.fault:
        part.end = max(info.index.end + POINTER_BYTES, part.offset)
    return part


def _open(path: Path) -> Part:
    descriptor = os.open(path, os.O_RDONLY)
    found = os.fstat(descriptor)
    return Part(descriptor, 0, found.st_size, found.st_size, f'"{found.st_mtime_ns:x}-{found.st_size:x}"')


def _tag_at(part: Part, offset: int, limits: Limits) -> tuple[int, int, bytes]:
    before = os.pread(part.descriptor, BEFORE_TAG_BYTES, offset - POINTER_BYTES)
    if len(before) < BEFORE_TAG_BYTES:
        raise FlvError("the file has become shorter")
    header = read_tag_header(before, 0, offset, limits)
    payload = os.pread(part.descriptor, header.size, offset - POINTER_BYTES + BEFORE_TAG_BYTES)
    if len(payload) < header.size:
        raise FlvError("the file has become shorter")
    return header.type_id, header.timestamp, payload


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
        self._sent_bytes = 0
        self._began = 0.0

    def start(self, now: float) -> None:
        self._began = self._waiting_since = now
        if self._start_ms is None:
            self._library.run(partial(open_whole, self._file, *self._range), self._opened)
        else:
            self._library.lookup(self._file, partial(self._found, self._start_ms))

    def _found(self, start_ms: int, info: RecordingInfo | Exception) -> None:
        if isinstance(info, Exception):
            self._opened(info)
        else:
            self._library.run(partial(open_from, self._file, info, start_ms, self._library.limits), self._opened)

    def _opened(self, found: Part | Exception) -> None:
        self._waiting_since = None
        if isinstance(found, Exception):
            self._fail(found)
            return
        self._part = found
        if self._stopped:
            self._close()
            return
        headers: list[Header] = [FLV, ("Content-Length", str(found.length)), ("ETag", found.tag)]
        if self._start_ms is None:
            headers.append(("Accept-Ranges", "bytes"))
        if self._disposition:
            headers.append(("Content-Disposition", self._disposition))
        if found.is_range:
            headers.append(("Content-Range", f"bytes {found.offset}-{found.end - 1}/{found.size}"))
        self.connection.respond(HTTPStatus.PARTIAL_CONTENT if found.is_range else HTTPStatus.OK, tuple(headers))
        if not self._stopped:
            self._write(found.head)
            self.resume()

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
        self.connection.end("tcp_reset", f"The recording can't be read any further: {description}", tell=False)

    def resume(self) -> None:
        part = self._part
        if part is None or self._waiting_since is not None or self._stopped or not self.connection.outlet.is_open:
            return
        if part.offset >= part.end:
            self.connection.end("completed", "All of it was sent.")
            return
        self._waiting_since = self.connection.loop.time()
        self._library.run(part.read, self._has_read)

    def _has_read(self, data: bytes | Exception) -> None:
        self._waiting_since = None
        if self._stopped:
            self._close()
        elif isinstance(data, Exception) or not data:
            self._give_up(str(data) if data else "The file has become shorter.")
        else:
            self._write(data)
            self.connection.loop.call_soon(self.resume)

    def _write(self, data: bytes) -> None:
        if data:
            self._sent_bytes += len(data)
            self._library.sent_bytes += len(data)
            self.connection.write_media([data], len(data))

    def _close(self) -> None:
        if self._part:
            self._library.submit(self._part.close)
            self._part = None

    def stop(self, now: float) -> Totals:
        self._stopped = True
        if self._waiting_since is None:
            self._close()
        return {**NO_TOTALS, "bytes_out": self._sent_bytes, "duration_ms": round((now - self._began) * 1000)}

    def sample(self) -> PlayerSample:
        return PlayerSample(
            session_id=self.session_id, path=self.path, out_bytes=self._sent_bytes, dropped_frames=0, queued_ms=0
        )
