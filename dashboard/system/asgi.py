"""Starts the watch in processes that answer HTTP or WebSocket, and in no other."""

from typing import Any

from dashboard.system.watch import get_watch


class Watched:
    """Wraps an ASGI application; the first request or connection starts the watch."""

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        get_watch().start()
        await self._application(scope, receive, send)
