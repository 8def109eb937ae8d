"""Around the applications that answer HTTP and WebSocket: starts the watch, and refuses a WebSocket in order."""

import asyncio
import logging
from typing import Any

from dashboard.system.probes import AWAY
from dashboard.system.watch import get_watch

logger = logging.getLogger(__name__)

TRY_LATER = 4503
"""The close code. 1013 is registered for it, but Daphne sends none but 1000 and 3000 to 4999."""


class Watched:
    """Wraps an ASGI application; the first request or connection starts this process's watch.

    The watch is made here and now, so that it counts from the process's start.
    """

    def __init__(self, application: Any) -> None:
        self._application = application
        get_watch()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        watch = get_watch()
        watch.start()
        if not watch.has_looked:  # Nothing is served from a database that nobody has looked at.
            await asyncio.to_thread(watch.report)
        if scope["type"] == "websocket":
            await self._socket(scope, receive, send)
        else:
            await self._application(scope, receive, send)

    async def _socket(self, scope: Any, receive: Any, send: Any) -> None:
        """Who it is can't be asked without the database: then it is closed so that the browser tries again."""
        accepted = False

        async def watch(message: Any) -> None:
            nonlocal accepted
            accepted = accepted or message["type"] == "websocket.accept"
            await send(message)

        try:
            await self._application(scope, receive, watch)
        except AWAY as error:
            logger.warning("%s can't be opened: %s", scope["path"], type(error).__name__)
            if not accepted:  # A browser sees the code of a close only on an accepted connection.
                await send({"type": "websocket.accept"})
            await send({"type": "websocket.close", "code": TRY_LATER})
