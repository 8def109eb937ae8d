"""What is known of the files that are played, and what it costs to know it."""

import asyncio
import os
import threading
import time
from pathlib import Path

import pytest

from ingest.rtmp import Limits
from ingest.server.vod import library
from ingest.server.vod.flv_source import FlvSource, RecordingInfo, Span, read_info
from ingest.server.vod.library import READING_THREADS, Library
from tests.ingest.server.recorded.files import made, write

LIMITS = Limits()


async def looked_up(found: Library, path: Path) -> RecordingInfo:
    told: asyncio.Future[RecordingInfo | Exception] = found.loop.create_future()
    found.lookup(path, told.set_result)
    leaf = await told
    assert isinstance(leaf, RecordingInfo)
    return leaf


async def test_a_growing_file_is_looked_at_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = Library(asyncio.get_running_loop(), LIMITS)
    path = write(tmp_path / "clip.flv", made(3), finished=False)
    monkeypatch.setattr(library, "GROWING_S", 60.0)
    try:
        first = await looked_up(shelf, path)
        whole = write(tmp_path / "longer.flv", made(4), finished=False).read_bytes()
        with path.open("ab") as stream:
            stream.write(whole[path.stat().st_size :])
        assert await looked_up(shelf, path) is first
        monkeypatch.setattr(library, "GROWING_S", 0.0)
        assert (await looked_up(shelf, path)).duration_ms == 3907
        write(tmp_path / "other.flv", made(1)).replace(path)
        monkeypatch.setattr(library, "GROWING_S", 60.0)
        assert (await looked_up(shelf, path)).duration_ms == 907, "another file is looked at in any case"
    finally:
        shelf.close()


def test_looking_leaves_most_of_the_time_to_others(tmp_path: Path) -> None:
    path = write(tmp_path / "clip.flv", made(900), finished=False)
    worked, began = time.thread_time(), time.monotonic()
    read_info(path, None, LIMITS)
    assert time.thread_time() - worked < 0.5 * (time.monotonic() - began)


async def test_who_leaves_while_the_disk_hangs_takes_no_other_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the file is closed when the disk is back."""
    shelf = Library(asyncio.get_running_loop(), LIMITS)
    path = write(tmp_path / "clip.flv", made(3))
    tape = FlvSource(path, read_info(path, None, LIMITS), LIMITS)
    reads, gives = threading.Event(), threading.Event()

    def hang(*_pieces: object) -> None:
        reads.set()
        gives.wait(20)

    monkeypatch.setattr(tape, "_batch", hang)
    descriptor = tape._stream.fileno()
    told: asyncio.Future[object] = shelf.loop.create_future()
    served: asyncio.Future[object] = shelf.loop.create_future()
    try:
        shelf.run(lambda: tape.begin(Span()), told.set_result)
        await asyncio.to_thread(reads.wait, 5)
        for _ in range(READING_THREADS):
            shelf.submit(tape.close)
        shelf.run(lambda: 1, served.set_result)
        assert await asyncio.wait_for(served, 5) == 1
        gives.set()
        await asyncio.wait_for(told, 5)
        with pytest.raises(OSError, match="descriptor"):
            os.fstat(descriptor)
    finally:
        gives.set()
        shelf.close()
