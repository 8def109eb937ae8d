"""Groups of the channel layer: who has pages open, and messages to them.

An open page's consumer is a member of its groups. Most groups have no member most of the time, so what concerns nobody
costs next to nothing: messages wait for GATHER_S at most, one question tells which of their groups have members, and
only for these they are made. In memory the layer knows without being asked.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final
from weakref import WeakKeyDictionary

from channels.layers import get_channel_layer

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
    if layer is None:
        return ()
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


def send(group: str, make: Make) -> None:
    """Sends to whoever is in the group, without waiting: pages can do without a message, the caller can't wait for a
    layer. Nothing is made where nobody is."""
    if may_have_members(group):
        loop = asyncio.get_running_loop()
        deliveries = _deliveries.get(loop)
        if deliveries is None:
            deliveries = _deliveries[loop] = _Deliveries()
        deliveries.put(group, make)


class _Deliveries:
    """Of one event loop."""

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


_deliveries: WeakKeyDictionary[asyncio.AbstractEventLoop, _Deliveries] = WeakKeyDictionary()


async def _deliver(waiting: Iterable[tuple[str, Make]]) -> None:
    """To each group in order."""
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
                    warn(error)
                    return

    try:
        groups = await with_members(by_group.keys())
    except Exception as error:
        warn(error)
        return
    await asyncio.gather(*map(to, groups))


def _made(several: Iterable[Make], group: str) -> Iterator[dict[str, Any]]:
    for make in several:
        try:
            yield make()
        except Exception:  # Our own fault: the others go on.
            logger.exception("A message to the group %s could not be made", group)


def warn(error: Exception) -> None:
    """Whatever the layer's trouble is: it is not the streams'."""
    global _warned
    if time.monotonic() - _warned >= WARN_S:
        _warned = time.monotonic()
        logger.warning("The channel layer did not take a message: %s", type(error).__name__)
