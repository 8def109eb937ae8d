"""What our consumers share: dispatch that waits for nothing, and tasks for what takes time."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from channels.consumer import AsyncConsumer, get_handler_name
from channels.exceptions import StopConsumer
from channels.layers import get_channel_layer
from channels.utils import await_many_dispatch

from ingest.consumers.layer import absence

logger = logging.getLogger(__name__)


AGAIN_S = 0.1


def _end(task: asyncio.Task[Any]) -> None:
    """Cancels a task, again and again until it has ended, without waiting for that.

    redis-py sends within asyncio.wait_for, which may swallow a cancellation before Python 3.12: a consumer that waited
    for its `receive` to end would go on, at worst for ever, after its connection.
    """
    if task.done():
        if not task.cancelled():
            task.exception()  # Looked at, or asyncio complains that nobody did.
        return
    task.cancel()
    asyncio.get_running_loop().call_later(AGAIN_S, _end, task)


class ControlConsumer(AsyncConsumer):  # type: ignore[misc]
    """An AsyncConsumer whose events never wait for a database.

    Channels' own dispatch awaits `aclose_old_connections` in the one thread-sensitive thread for every message, so that
    one slow write anywhere stalls every consumer. Ours doesn't: `ingest.consumers.database` closes connections where
    they are used. A handler that needs time starts a task with `spawn`, so that a stop never waits behind it.
    """

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scope = scope
        self.base_send = send
        self.channel_layer = get_channel_layer(self.channel_layer_alias)
        sources = [receive]
        if self.channel_layer is not None:
            self.channel_name = await self.channel_layer.new_channel()
            sources.append(self._from_layer)
        try:
            await await_many_dispatch(sources, self.dispatch)
        except StopConsumer:
            pass
        finally:
            self.ended()
            await self.cancel_tasks()

    async def _from_layer(self) -> Any:
        """The next message of the channel layer. One that fails is asked again: no connection ends for its sake."""
        while True:
            receiving = asyncio.ensure_future(self.channel_layer.receive(self.channel_name))
            try:
                await asyncio.wait({receiving})
                return receiving.result()
            except asyncio.CancelledError:
                _end(receiving)
                raise
            except Exception as error:
                await absence().over(self.channel_layer, self.channel_name, error)

    async def dispatch(self, message: dict[str, Any]) -> None:
        handler = getattr(self, get_handler_name(message), None)
        if handler is None:
            logger.debug("No handler for %s", message["type"])
            return
        await handler(message)

    def ended(self) -> None:
        """Called once, however the application ends."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("A control task failed", exc_info=error)

    async def cancel_tasks(self) -> None:
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)
