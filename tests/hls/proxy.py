"""A bad network for a browser: a `Link` in a thread of its own, as tests that drive one wait in theirs."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Self

from tests.links import Link


class Proxy(AbstractContextManager["Proxy"]):
    """From `port` to `target`, both on loopback, for as long as the block lasts."""

    def __init__(self, target: int, *, bytes_per_s: float | None = None, delay_s: float = 0.0) -> None:
        """As `Link` has them."""
        self._link = Link(target, delay_s=delay_s, bytes_per_s=bytes_per_s)
        self._begun = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._begun.wait(10), "the proxy does not begin"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)

    @property
    def port(self) -> int:
        return self._link.port

    @property
    def passed_bytes(self) -> int:
        """From the target."""
        return self._link.passed_bytes

    def limit(self, bytes_per_s: float | None) -> None:
        """Of all connections together; None: no limit any more."""
        self._do(lambda: setattr(self._link, "bytes_per_s", bytes_per_s))

    def stall(self, seconds: float) -> None:
        """Nothing comes from the target for so long; nothing is lost."""
        self._do(lambda: self._link.stall(seconds))

    def cut(self) -> None:
        self._do(self._link.cut)

    def mend(self) -> None:
        """Connections from before the cut stay dead."""
        self._do(self._link.mend)

    def _do(self, act: Callable[[], None]) -> None:
        done = threading.Event()

        def run() -> None:
            act()
            done.set()

        self._loop.call_soon_threadsafe(run)
        assert done.wait(10), "the proxy hangs"

    async def _run(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        async with self._link:
            self._begun.set()
            await self._over.wait()
