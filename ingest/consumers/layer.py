"""A channel layer that is away: one asks whether it is back, all others wait for that.

Each connection's consumer waits for messages of the layer. If each of them asked a Redis that is away once a second, a
thousand players' would keep the loop for hundreds of milliseconds at a time, and media would wait.
"""

import asyncio
import logging
import random
import time
import weakref
from typing import Any

logger = logging.getLogger(__name__)

ASK_S = 1.0
"""How often it is asked whether it is back."""

SPREAD_S = 1.0
"""Over so long the consumers come back to it, not all in one turn of the loop."""

PROBE = "layer.probe"
"""What the one that asks sends to itself; no consumer heeds it."""


class Absence:
    """One event loop's."""

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


_absences: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Absence]" = weakref.WeakKeyDictionary()


def absence() -> Absence:
    """The running loop's."""
    return _absences.setdefault(asyncio.get_running_loop(), Absence())
