"""When what waits for players is written."""

import asyncio

import pytest

from ingest.server.output import Flusher


class Player:
    def __init__(self, fault: Exception | None = None) -> None:
        self.fault = fault
        self.flushed = asyncio.Event()
        self.flushes = 0
        self.errors: list[Exception] = []

    def flush(self) -> None:
        self.flushes += 1
        self.flushed.set()
        if self.fault:
            raise self.fault

    def broken(self, error: Exception) -> None:
        self.errors.append(error)


@pytest.mark.parametrize("flush_ms", [0, 5])
async def test_a_marked_player_is_flushed_once_and_not_at_once(flush_ms: int) -> None:
    flusher, player, other = Flusher(asyncio.get_running_loop(), flush_ms), Player(), Player()
    flusher.mark(player)
    flusher.mark(other)
    assert player.flushes == 0
    await asyncio.wait_for(other.flushed.wait(), 20)
    assert (player.flushes, other.flushes) == (1, 1)


async def test_the_timer_gathers() -> None:
    loop = asyncio.get_running_loop()
    flusher, player = Flusher(loop, 50), Player()
    started = loop.time()
    flusher.mark(player)
    await asyncio.wait_for(player.flushed.wait(), 20)
    assert loop.time() - started >= 0.045


async def test_one_players_fault_is_its_own() -> None:
    fault = RuntimeError("broken on purpose")
    flusher, broken, player = Flusher(asyncio.get_running_loop(), 0), Player(fault), Player()
    flusher.mark(broken)
    flusher.mark(player)
    await asyncio.wait_for(player.flushed.wait(), 20)
    assert broken.errors == [fault]
    assert player.errors == []


async def test_nothing_is_flushed_after_close() -> None:
    loop = asyncio.get_running_loop()
    flusher, player = Flusher(loop, 0), Player()
    flusher.mark(player)
    flusher.close()
    passed = asyncio.Event()
    loop.call_soon(passed.set)
    await passed.wait()
    assert player.flushes == 0
