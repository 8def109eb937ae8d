"""Waiting for conditions, and deadlines that change while a server runs."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from ingest.server import RtmpServer
from ingest.server.publishing import Publishing

T = TypeVar("T")


async def becomes(condition: Callable[[], object], timeout_s: float = 5.0) -> None:
    """Returns as soon as it is true."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - nothing announces it.
            await asyncio.sleep(0.01)


async def within(timeout_s: float, ask: Callable[[], Awaitable[T]], wanted: T) -> T:
    """The first answer that is the wanted one, or the last in the time."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    while True:
        found = await ask()
        if found == wanted or asyncio.get_running_loop().time() > deadline:
            return found
        await asyncio.sleep(0.02)


def set_deadlines(server: RtmpServer, **deadlines: float) -> None:
    """From its next sweep on."""
    server.config = replace(server.config, deadlines=replace(server.config.deadlines, **deadlines))


def may_be_silent(server: RtmpServer, limit_s: float) -> None:
    """The one publisher, from now on."""
    (session,) = (found for found in server.sessions.values() if isinstance(found, Publishing))
    session.idle_timeout_s = limit_s
