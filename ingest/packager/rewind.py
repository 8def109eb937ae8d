"""Segments on disk, that viewers may go back to: written and read by a few threads, as a disk may take its time.

    FOLDER/EPOCH/v0-MSN.m4s

What a packaging left that is over goes with it; what a former process left, at the start. Over the bound of the folder
the oldest segments of all streams go first. With little room on the disk, or where it fails, nothing is written: then
viewers may go back as far as memory has it."""

import asyncio
import logging
import shutil
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ingest.log_records import Bound
from ingest.packager.settings import PackagerSettings

logger = logging.getLogger(__name__)

FAILING = Bound(1, 60.0)
UNLISTED_S = 120.0
"""What is listed no more can be had for a while."""


class NotReady(Exception):  # noqa: N818 - an answer, not an error.
    """What was asked for has not come into being, or can't be had, in time."""


class Key(NamedTuple):
    """A segment of any stream."""

    epoch: str
    rendition: str
    msn: int

    @property
    def file(self) -> str:
        return f"{self.epoch}/{self.rendition}-{self.msn}.m4s"


class Rewind:
    def __init__(self, folder: Path, settings: PackagerSettings, dropped: Callable[[Key], None]) -> None:
        """`dropped`: a segment that was written, or was to be, can't be had any more."""
        self._folder, self._settings, self._dropped = folder, settings, dropped
        self._threads = ThreadPoolExecutor(settings.disk_threads, thread_name_prefix="rtmpweb-rewind")
        self._kept: OrderedDict[Key, tuple[int, float]] = OrderedDict()
        """Bytes of each, and when it was whole (monotonic), oldest first."""
        self.held_bytes = 0
        self._writes = self._reads = 0
        """That wait for the threads, or are at it. Readers are anybody: they take no place of what is written."""
        self._read_bytes = 0
        """Of segments in answers under way."""

    async def open(self) -> None:
        """Raises OSError."""

        def begin_anew() -> None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder.mkdir(parents=True, mode=0o700)

        await self._in_thread(begin_anew)

    def keep(self, key: Key, data: bytes) -> None:
        """Writes it, later."""
        if self._writes >= self._settings.waiting_writes:
            self._dropped(key)
            return
        self._writes += 1
        size, now = len(data), time.monotonic()
        self._kept[key] = size, now
        self.held_bytes += size
        task = asyncio.ensure_future(self._in_thread(lambda: self._write(key, data)))
        task.add_done_callback(lambda done: self._was_written(key, done))
        oldest_at = now - self._settings.rewind_s - UNLISTED_S
        while self.held_bytes > self._settings.rewind_bytes or next(iter(self._kept.values()))[1] < oldest_at:
            self.drop(next(iter(self._kept)))

    def drop(self, key: Key) -> None:
        """It is not to be had any more."""
        if key in self._kept:
            self.held_bytes -= self._kept.pop(key)[0]
            self._threads.submit(lambda: (self._folder / key.file).unlink(missing_ok=True))
            self._dropped(key)

    def forget(self, epoch: str) -> None:
        """All of a packaging that is over."""
        for key in [key for key in self._kept if key.epoch == epoch]:
            self.held_bytes -= self._kept.pop(key)[0]
        self._threads.submit(shutil.rmtree, self._folder / epoch, ignore_errors=True)

    @asynccontextmanager
    async def read(self, key: Key) -> AsyncIterator[bytes | None]:
        """Its bytes, for as long as they are sent; each reader has its own. Raises NotReady: too many are at it."""
        if key not in self._kept:
            yield None
            return
        size, settings = self._kept[key][0], self._settings
        if self._reads >= settings.waiting_reads or (self._reads and self._read_bytes + size > settings.read_bytes):
            raise NotReady
        self._reads += 1
        self._read_bytes += size
        try:
            yield await self._in_thread(lambda: self._read(key))
        finally:
            self._reads -= 1
            self._read_bytes -= size

    async def close(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._threads, lambda: shutil.rmtree(self._folder, ignore_errors=True))
        self._threads.shutdown(wait=False)

    async def _in_thread(self, work: Callable[[], "bytes | None"]) -> bytes | None:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _read(self, key: Key) -> bytes | None:
        try:
            return (self._folder / key.file).read_bytes()
        except OSError:
            return None

    def _write(self, key: Key, data: bytes) -> None:
        if shutil.disk_usage(self._folder).free < self._settings.rewind_free_bytes:
            raise OSError("its disk has little room left")
        path = self._folder / key.file
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_bytes(data)

    def _remove(self, key: Key, is_over: bool) -> None:
        path = self._folder / key.file
        path.unlink(missing_ok=True)
        if is_over:
            with suppress(OSError):
                path.parent.rmdir()

    def _was_written(self, key: Key, done: "asyncio.Future[bytes | None]") -> None:
        self._writes -= 1
        error = None if done.cancelled() else done.exception()
        if error is not None:
            if FAILING.take() is not None:
                logger.warning("What viewers may go back to can't be written to %s: %s.", self._folder, error)
            with suppress(KeyError):
                self.held_bytes -= self._kept.pop(key)[0]
            self._dropped(key)
        elif key not in self._kept:  # It was dropped, or its packaging forgotten, before it was written.
            is_over = not any(other.epoch == key.epoch for other in self._kept)
            self._threads.submit(self._remove, key, is_over)
