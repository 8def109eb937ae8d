"""Runs one ASGI application instance: a bounded inbox on one side, a table of message handlers on the other.

The application is called with (scope, receive, send) once for each connection, and once for the node. `send` acts at
once and never waits; a message that it doesn't know, or that lacks a field, is the application's error, raised to it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

logger = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
ASGIApplication = Callable[[Any, Receive, Send], Awaitable[None]]

ASGI_VERSION = {"version": "3.0", "spec_version": "1.0"}


class Driver:
    """One application instance, from its scope to its return."""

    __slots__ = (
        "_application",
        "_ended",
        "_handle",
        "_inbox",
        "_inbox_events",
        "_label",
        "_scope",
        "_timer",
        "_waiting",
        "dropped",
        "finishing",
        "task",
    )

    def __init__(
        self,
        application: ASGIApplication,
        scope: Mapping[str, Any],
        *,
        handle: Callable[[Message], None],
        ended: Callable[["Driver"], None],
        inbox_events: int,
        label: str,
    ) -> None:
        """`handle` gets what the application sends; `ended` is called once: it returned, failed or was cancelled."""
        self._application = application
        self._scope = scope
        self._handle = handle
        self._ended = ended
        self._inbox_events = inbox_events
        self._label = label
        self._inbox: list[Mapping[str, Any]] = []  # It is nearly always empty: a deque is ten times as large then.
        self._waiting: asyncio.Future[None] | None = None
        """The application's, for the next event."""
        self._timer: asyncio.TimerHandle | None = None
        self.finishing = False
        self.dropped = 0
        """Events that found the inbox full."""
        self.task = asyncio.get_running_loop().create_task(self._run())

    def put(self, event: Mapping[str, Any], *, droppable: bool = False) -> bool:
        """Hand an event over. One that is droppable is left out while the application is behind: False."""
        if droppable and len(self._inbox) >= self._inbox_events:
            self.dropped += 1
            return False
        self._inbox.append(event)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
        return True

    def take_unread(self) -> list[Mapping[str, Any]]:
        """What the application left in its inbox when it ended."""
        unread = list(self._inbox)
        self._inbox.clear()
        return unread

    def finish(self, event: Mapping[str, Any], timeout_s: float) -> None:
        """Hand the last event over; the application then has `timeout_s` to return before it is cancelled."""
        if self.finishing:
            return
        self.put(event)
        self.finishing = True
        if not self.task.done():
            self._timer = asyncio.get_running_loop().call_later(timeout_s, self._overdue)

    def _overdue(self) -> None:
        logger.warning("%s: the application did not return after its last event and is cancelled", self._label)
        self.task.cancel()

    async def _run(self) -> None:
        try:
            await self._application(self._scope, self._receive, self._send)
        except asyncio.CancelledError:
            pass
        except Exception:
            logger.exception("%s: the application failed", self._label)
        finally:
            if self._timer:
                self._timer.cancel()
            self._ended(self)

    async def _receive(self) -> Mapping[str, Any]:
        while not self._inbox:
            self._waiting = self.task.get_loop().create_future()
            await self._waiting
        self._waiting = None
        return self._inbox.pop(0)

    async def _send(self, message: Message) -> None:
        self._handle(message)
