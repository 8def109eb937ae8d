"""What the channel layer has for the sessions of this process: one channel for all of its connections.

A message names its session, and is handed to the consumer that has it. With a channel each, every connection would
wait for messages of its own: three tasks and two queues, and with Redis a turn of its lock.
"""

import asyncio
import contextvars
import logging
import weakref
from typing import Any

from ingest.consumers.active import ACTIVE
from ingest.consumers.layer import absence
from ingest.logcontext import about

logger = logging.getLogger(__name__)

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
    """One event loop's. It hears messages as long as there are connections."""

    def __init__(self) -> None:
        self._members = 0
        self._channel = ""
        self._hearing: asyncio.Task[None] | None = None

    async def join(self, layer: Any) -> str:
        """The channel by which a connection's sessions are reached."""
        self._members += 1
        if self._hearing is None:
            self._channel = await layer.new_channel()
            work = self._hear(layer, self._channel)
            # Its log records are not about the connection that came first.
            self._hearing = asyncio.get_running_loop().create_task(work, context=contextvars.Context())
        return self._channel

    def leave(self) -> None:
        self._members -= 1
        if not self._members and self._hearing is not None:
            _end(self._hearing)
            self._hearing = None

    async def _hear(self, layer: Any, channel: str) -> None:
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
        if session is None or session.hear is None:
            return
        with about(client=session.address, session_id=str(session.id)):
            try:
                await session.hear(message)
            except Exception:
                logger.exception("A message of the channel layer could not be handled: %s", message["type"])


_mailboxes: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Mailbox]" = weakref.WeakKeyDictionary()


def mailbox() -> Mailbox:
    """The running loop's."""
    return _mailboxes.setdefault(asyncio.get_running_loop(), Mailbox())
