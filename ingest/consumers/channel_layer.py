"""The channel layer: groups of open pages and messages to them, and one channel for all connections of this process.

An open page's consumer is a member of its groups. Most groups have no member most of the time, so what concerns nobody
costs next to nothing: messages wait for GATHER_S at most, one question tells which of their groups have members, and
only for these they are made. In memory the layer knows without being asked.

A message to a session names it, and is handed to the consumer that has it (`Mailbox`). With a channel each, every
connection would wait for messages of its own: three tasks and two queues, and with Redis a turn of its lock.

Where the layer is away, one asks whether it is back, and all others wait for that (`Absence`): if each of a thousand
connections asked a Redis that is away once a second, media would wait for hundreds of milliseconds at a time."""

import asyncio
import contextvars
import logging
import math
import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final

from channels.layers import get_channel_layer

from ingest.consumers.active import ACTIVE
from ingest.consumers.base import OfLoop
from ingest.log_records import about

logger = logging.getLogger(__name__)

GATHER_S: Final = 0.05
"""Between the beginnings of two deliveries."""
MOST_WAITING: Final = 2000
"""Messages; over it they are left out: a page that misses one gets a whole picture."""
AT_ONCE: Final = 80
"""Groups that are sent something at a time: each takes one of the 100 connections that Redis' client may have."""
WARN_S: Final = 10.0

HAVE_MEMBERS: Final = """
local found = {}
for i, key in ipairs(KEYS) do
    if redis.call('EXISTS', key) == 1 then found[#found + 1] = i - 1 end
end
return found
"""
"""Which of the keys there are: a group's goes with its last member."""

Make = Callable[[], dict[str, Any]]
"""Makes a message of the layer."""

_warned = -WARN_S


def may_have_members(group: str) -> bool:
    """False: it has none for sure. Asks nobody."""
    groups = getattr(get_channel_layer(), "groups", None)
    return groups is None or bool(groups.get(group))


async def with_members(names: Collection[str]) -> Collection[str]:
    """Those of the groups that have members. Raises what the layer's client does when it is away."""
    layer: Any = get_channel_layer()
    groups = getattr(layer, "groups", None)
    if groups is not None:
        return [name for name in names if groups.get(name)]
    shards: dict[int, list[str]] = {}
    for name in names:
        shards.setdefault(layer.consistent_hash(name), []).append(name)
    found: list[str] = []
    for shard, several in shards.items():
        keys = [f"{layer.prefix}:group:{name}" for name in several]
        found += [several[place] for place in await layer.connection(shard).eval(HAVE_MEMBERS, len(keys), *keys)]
    return found


def send_to_group(group: str, make: Make) -> None:
    """Sends to whoever is in the group, without waiting: pages can do without a message, the caller can't wait for a
    layer. Nothing is made where nobody is."""
    if may_have_members(group):
        _deliveries().put(group, make)


class _Deliveries:
    def __init__(self) -> None:
        self._waiting: list[tuple[str, Make]] = []
        self._began = -math.inf
        self._task: asyncio.Task[None] | None = None

    def put(self, group: str, make: Make) -> None:
        if len(self._waiting) < MOST_WAITING:
            self._waiting.append((group, make))
            if self._task is None:
                self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                await asyncio.sleep(self._began + GATHER_S - loop.time())
                self._began = loop.time()
                waiting, self._waiting = self._waiting, []
                await _deliver(waiting)
        finally:
            self._task = None


_deliveries = OfLoop(_Deliveries)


async def _deliver(waiting: Iterable[tuple[str, Make]]) -> None:
    by_group: dict[str, list[Make]] = {}
    for group, make in waiting:
        by_group.setdefault(group, []).append(make)
    room = asyncio.Semaphore(AT_ONCE)

    async def to(group: str) -> None:
        layer: Any = get_channel_layer()
        async with room:
            for message in _made(by_group[group], group):
                try:
                    await layer.group_send(group, message)
                except Exception as error:
                    warn_of_layer(error)
                    return

    try:
        groups = await with_members(by_group.keys())
    except Exception as error:
        warn_of_layer(error)
        return
    await asyncio.gather(*map(to, groups))


def _made(several: Iterable[Make], group: str) -> Iterator[dict[str, Any]]:
    for make in several:
        try:
            yield make()
        except Exception:  # Our own fault: the others go on.
            logger.exception("A message to the group %s could not be made", group)


def warn_of_layer(error: Exception) -> None:
    """Whatever the layer's trouble is: it is not the streams'."""
    global _warned
    if time.monotonic() - _warned >= WARN_S:
        _warned = time.monotonic()
        logger.warning("The channel layer did not take a message: %s", type(error).__name__)


ASK_S = 1.0
"""How often it is asked whether it is back."""

SPREAD_S = 1.0
"""Over so long the consumers come back to it, not all in one turn of the loop."""

PROBE = "layer.probe"
"""What the one that asks sends to itself; no consumer heeds it."""


class Absence:
    def __init__(self) -> None:
        self._asking: asyncio.Task[None] | None = None

    async def over(self, layer: Any, channel: str, error: Exception) -> None:
        """Waits until the layer takes a message again. `error`: what this consumer got instead of one."""
        if self._asking is None:
            logger.warning("The channel layer gives no messages: %s", type(error).__name__)
            self._asking = asyncio.ensure_future(self._ask(layer, channel))
        await asyncio.wait({self._asking})
        await asyncio.sleep(random.uniform(0, SPREAD_S))  # noqa: S311 - no secret.

    async def _ask(self, layer: Any, channel: str) -> None:
        began = time.monotonic()
        try:
            while True:
                await asyncio.sleep(ASK_S)
                try:
                    await layer.send(channel, {"type": PROBE})
                except Exception:  # noqa: S112 - it was told of when it began.
                    continue
                logger.info("The channel layer is back after %.0f s.", time.monotonic() - began)
                return
        finally:
            self._asking = None


absence = OfLoop(Absence)


AGAIN_S = 0.1


def _end(task: asyncio.Task[Any]) -> None:
    """Cancels a task, again and again until it has ended, without waiting for that.

    redis-py sends within asyncio.wait_for, which may swallow a cancellation before Python 3.12: who waited for its
    `receive` to end would go on, at worst for ever.
    """
    if task.done():
        if not task.cancelled():
            task.exception()  # Looked at, or asyncio complains that nobody did.
        return
    task.cancel()
    asyncio.get_running_loop().call_later(AGAIN_S, _end, task)


class Mailbox:
    """It receives messages as long as there are connections."""

    def __init__(self) -> None:
        self._members = 0
        self._channel = ""
        self._receiving: asyncio.Task[None] | None = None

    async def join(self, layer: Any) -> str:
        """The channel by which a connection's sessions are reached."""
        self._members += 1
        if self._receiving is None:
            self._channel = await layer.new_channel()
            work = self._receive(layer, self._channel)
            # Its log records are not about the connection that came first.
            self._receiving = asyncio.get_running_loop().create_task(work, context=contextvars.Context())
        return self._channel

    def leave(self) -> None:
        self._members -= 1
        if not self._members and self._receiving is not None:
            _end(self._receiving)
            self._receiving = None

    async def _receive(self, layer: Any, channel: str) -> None:
        while True:
            try:
                message = await layer.receive(channel)
            except Exception as error:
                await absence().over(layer, channel, error)
            else:
                await self._hand_on(message)

    async def _hand_on(self, message: dict[str, Any]) -> None:
        """To who has the session. One that has ended, or has yet to begin, is left to what the node reads."""
        session = ACTIVE.get(message.get("session_id", ""))
        if session is None or session.deliver is None:
            return
        with about(client=session.address, session_id=str(session.id)):
            try:
                await session.deliver(message)
            except Exception:
                logger.exception("A message of the channel layer could not be handled: %s", message["type"])


mailbox = OfLoop(Mailbox)
