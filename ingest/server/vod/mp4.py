"""Recordings as MP4 (`ingest.mp4`): the head of one is made once for all who ask at the same time, by the threads that
scan files, and kept in a folder; what follows it is the recording's own file. Nobody holds either in memory.

Where the folder can't be written, the latest heads are kept in files without a name. Why there is no MP4 of a recording
is remembered too, until its file changes."""

import asyncio
import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, Protocol, TypeVar

from ingest.flv.recording import CpuShare
from ingest.mp4.heads import FORMAT, Head, Heads, Version, read_head, version_of, write_head
from ingest.mp4.limits import Mp4Limits, Unplayable
from ingest.rtmp.limits import Limits

T = TypeVar("T")

MAX_REFUSALS: Final = 1024
"""Recordings of which is remembered why there is no MP4."""


class Threads(Protocol):
    """Of the library, in which disks are waited for."""

    limits: Limits

    def run(self, job: Callable[[], T]) -> "asyncio.Future[T]": ...

    def scan(self, job: Callable[[], T]) -> "asyncio.Future[T]":
        """For what takes long."""


@dataclass(frozen=True, slots=True)
class Mp4File:
    """One that is open to be read, by one reader."""

    stream: BinaryIO
    """The recording's."""
    head: Head
    version: Version

    @property
    def size(self) -> int:
        return self.head.size + self.head.media_bytes

    @property
    def tag(self) -> str:
        """An ETag."""
        return f'"{self.version.changed_ns:x}-{self.version.size:x}-mp4.{FORMAT}"'

    def read(self, offset: int, most: int) -> bytes:
        """From there on, so many bytes at most; none where the file has become shorter."""
        head = self.head
        if offset < head.size:
            return os.pread(head.stream.fileno(), min(most, head.size - offset), head.begins_at + offset)
        most = min(most, self.size - offset)
        return os.pread(self.stream.fileno(), most, offset - head.size)

    def close(self) -> None:
        self.head.stream.close()
        self.stream.close()


class Mp4Shelf:
    """One for each library."""

    def __init__(self, library: Threads, heads: Heads | None, mp4_limits: Mp4Limits, most_unnamed: int) -> None:
        """`heads`: None: there is no folder to keep them in."""
        self._library = library
        self._heads = heads
        self._mp4_limits = mp4_limits
        self._most_unnamed = most_unnamed
        self._unnamed: OrderedDict[Path, BinaryIO] = OrderedDict()
        self._refusals: OrderedDict[Path, tuple[Version, str]] = OrderedDict()
        self._asked: dict[Path, asyncio.Future[None]] = {}
        self._lock = threading.Lock()
        """For files without a name, which threads open while another closes some."""

    async def open(self, path: Path) -> Mp4File:
        """Raises OSError; FlvError where the file is none; Unplayable."""
        found = await self._library.run(partial(self._find, path))
        if found is None:
            await self._made(path)
            found = await self._library.run(partial(self._find, path))
        if found is None:
            raise OSError("Its file changes all the time.")
        return found

    async def _made(self, path: Path) -> None:
        future = self._asked.get(path)
        if future is None:
            future = self._asked[path] = self._library.scan(partial(self._make, path))
            future.add_done_callback(lambda _: self._asked.pop(path))
        await asyncio.shield(future)

    def _find(self, path: Path) -> Mp4File | None:
        stream = path.open("rb", buffering=0)
        try:
            version = version_of(stream)
            refused = self._refusals.get(path)
            if refused is not None and refused[0] == version:
                raise Unplayable(refused[1])
            head = self._head(path, version)
        except BaseException:
            stream.close()
            raise
        if head is None:
            stream.close()
            return None
        return Mp4File(stream, head, version)

    def _head(self, path: Path, version: Version) -> Head | None:
        with self._lock:
            unnamed = self._unnamed.get(path)
            opened = os.fdopen(os.dup(unnamed.fileno()), "rb", buffering=0) if unnamed is not None else None
        if opened is not None:
            if (head := read_head(opened, version)) is not None:
                return head
            opened.close()
        return self._heads.find(path, version) if self._heads is not None else None

    def _make(self, path: Path) -> None:
        """Takes what a scan of the whole file does, and numpy's memory, which is its index's."""
        from ingest.mp4.frames import scan_frames
        from ingest.mp4.movie import movie_head

        found = self._find(path)
        if found is not None:  # It was made while it was told that there was none.
            found.close()
            return
        limits: Limits = self._library.limits
        with path.open("rb", buffering=0) as stream:
            version = version_of(stream)
            try:
                frames = scan_frames(stream, limits, self._mp4_limits, on_progress=CpuShare())
                head = movie_head(frames)
            except Unplayable as error:
                self._refuse(path, version, str(error))
                raise
        self._keep(path, version, frames.end, head)

    def _refuse(self, path: Path, version: Version, why: str) -> None:
        self._refusals[path] = version, why
        if len(self._refusals) > MAX_REFUSALS:
            self._refusals.popitem(last=False)

    def _keep(self, path: Path, version: Version, media_bytes: int, head: bytes) -> None:
        if self._heads is not None:
            try:
                self._heads.keep(path, version, media_bytes, head)
                return
            except OSError:
                pass
        unnamed = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - it stays open.
        write_head(unnamed, version, media_bytes, head)
        with self._lock:
            former = self._unnamed.pop(path, None)
            self._unnamed[path] = unnamed
            if former is None and len(self._unnamed) > self._most_unnamed:
                former = self._unnamed.popitem(last=False)[1]
        if former is not None:
            former.close()

    def close(self) -> None:
        with self._lock:
            while self._unnamed:
                self._unnamed.popitem()[1].close()
