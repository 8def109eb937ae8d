"""Segments on disk: readers, who are anybody, take nothing from what is written; nothing is left of what is over."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from ingest.packager.rewind import Key, NotReady, Rewind
from ingest.packager.settings import PackagerSettings

SETTINGS = PackagerSettings(waiting_reads=4, rewind_free_bytes=0, read_bytes=10)


def key(msn: int) -> Key:
    return Key("c0ffee00", "v0", msn)


@pytest.fixture
def dropped() -> list[Key]:
    return []


@pytest.fixture
async def rewind(tmp_path: Path, dropped: list[Key]) -> AsyncIterator[Rewind]:
    made = Rewind(tmp_path / "rewind", SETTINGS, dropped.append)
    await made.open()
    yield made
    await made.close()


async def written(rewind: Rewind, msn: int, data: bytes) -> None:
    rewind.keep(key(msn), data)
    async with asyncio.timeout(5):
        while not await found(rewind, msn):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def found(rewind: Rewind, msn: int) -> bytes | None:
    async with rewind.read(key(msn)) as content:
        return content


async def test_rewind_reads_take_no_room_from_segments_to_be_written(rewind: Rewind, dropped: list[Key]) -> None:
    await written(rewind, 1, b"a")
    async with AsyncExitStack() as reading:
        for _ in range(SETTINGS.waiting_reads):
            assert await reading.enter_async_context(rewind.read(key(1))) == b"a"
        with pytest.raises(NotReady):
            await found(rewind, 1)
        rewind.keep(key(2), b"b")
    assert not dropped
    await written(rewind, 2, b"b")


async def test_bytes_of_rewind_reads_in_progress_are_bounded(rewind: Rewind) -> None:
    """One that is over the bound alone can be had all the same."""
    await written(rewind, 1, b"x" * 20)
    async with rewind.read(key(1)) as content:
        assert content == b"x" * 20
        with pytest.raises(NotReady):
            await found(rewind, 1)
    assert await found(rewind, 1) == b"x" * 20


async def test_nothing_is_left_of_a_packaging_that_is_over(rewind: Rewind, tmp_path: Path) -> None:
    """Though its last segments were still to be written."""
    for msn in range(20):
        rewind.keep(key(msn), b"x")
    rewind.forget("c0ffee00")
    assert rewind.held_bytes == 0
    await written(rewind, 99, b"x")  # By then the threads had their turn with all of the others.
    rewind.forget("c0ffee00")
    async with asyncio.timeout(5):
        while [*(tmp_path / "rewind").iterdir()]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
