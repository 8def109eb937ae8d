"""Asking again until the answer is the wanted one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def within(timeout_s: float, ask: Callable[[], Awaitable[T]], wanted: T) -> T:
    """The first answer that is the wanted one, or the last in the time."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    while True:
        found = await ask()
        if found == wanted or asyncio.get_running_loop().time() > deadline:
            return found
        await asyncio.sleep(0.02)
