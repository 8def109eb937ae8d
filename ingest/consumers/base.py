"""What our consumers share: dispatch that waits for nothing, and tasks for what takes time."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from channels.consumer import AsyncConsumer, get_handler_name
from channels.exceptions import StopConsumer
from channels.layers import get_channel_layer

logger = logging.getLogger(__name__)

T = TypeVar("T")
C = TypeVar("C", bound="ControlConsumer")
E = TypeVar("E")

Send = Callable[[Any], Coroutine[Any, Any, None]]
"""Sends the server a message of `ingest.contracts`."""


class OfLoop(Generic[T]):
    """An object for each event loop, which it must not hold: the running loop's, made when it is first asked for."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: WeakKeyDictionary[asyncio.AbstractEventLoop, T] = WeakKeyDictionary()

    def __call__(self) -> T:
        loop = asyncio.get_running_loop()
        if loop not in self._made:
            self._made[loop] = self._make()
        return self._made[loop]


def in_task(
    handler: Callable[[C, E], Coroutine[Any, Any, None]],
) -> Callable[[C, E], Coroutine[Any, Any, None]]:
    """A handler that takes its time: a stop never waits behind it."""

    @wraps(handler)
    async def start(consumer: C, event: E) -> None:
        consumer.spawn(handler(consumer, event))

    return start


class ControlConsumer(AsyncConsumer):  # type: ignore[misc]
    """An AsyncConsumer whose events never wait for a database.

    Channels' own dispatch awaits `aclose_old_connections` in the one thread-sensitive thread for every message, so that
    one slow write anywhere stalls every consumer. Ours doesn't: `ingest.consumers.decisions` closes connections where
    they are used. A handler that needs time is `in_task`.
    """

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[None]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scope = scope
        self.base_send = send
        self.channel_layer = get_channel_layer(self.channel_layer_alias)
        await self.began()
        try:
            while True:
                await self.dispatch(await receive())
        except StopConsumer:
            pass
        finally:
            self.ended()
            await self.cancel_tasks()

    async def dispatch(self, message: dict[str, Any]) -> None:
        handler = getattr(self, get_handler_name(message), None)
        if handler is None:
            logger.debug("No handler for %s", message["type"])
            return
        await handler(message)

    async def began(self) -> None:
        """Called once, before the first message."""

    def ended(self) -> None:
        """Called once, however the application ends."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self.tasks.append(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self.tasks.remove(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("A control task failed", exc_info=error)

    async def cancel_tasks(self) -> None:
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)
