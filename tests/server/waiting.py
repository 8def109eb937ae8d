"""Waiting for conditions, and changing the deadlines of a running server."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from ingest.server import RtmpServer

T = TypeVar("T")


async def becomes(condition: Callable[[], object], timeout_s: float = 5.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - nothing announces it.
            await asyncio.sleep(0.01)


async def within(timeout_s: float, ask: Callable[[], Awaitable[T]], wanted: T) -> T:
    """Return the wanted answer as soon as it comes, or else the last one."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    while True:
        found = await ask()
        if found == wanted or asyncio.get_running_loop().time() > deadline:
            return found
        await asyncio.sleep(0.02)


def set_deadlines(server: RtmpServer, **deadlines: float) -> None:
    """Change deadlines from the server's next sweep on."""
    server.config = replace(server.config, deadlines=replace(server.config.deadlines, **deadlines))
