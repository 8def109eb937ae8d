"""How many requests are answered at a time: each has a thread of its own, and with it a connection to the database."""

import asyncio
from typing import Any

from dashboard.system.watch import get_watch
from dashboard.unavailable import OPEN_PATHS
from ingest.server import ASGIApplication


class AtMost:
    """Wraps an ASGI application of the scope type http. What comes beyond it waits for its turn.

    Those that the server hands over have sent all they have to say, and it takes their answers whole: no slow client
    holds up the others. Health is told at once, and so is an outage of the database, which needs no connection.
    """

    def __init__(self, application: ASGIApplication, requests: int) -> None:
        self._application = application
        self._places = asyncio.Semaphore(requests)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] in OPEN_PATHS or get_watch().database_is_down:
            await self._application(scope, receive, send)
            return
        async with self._places:
            await self._application(scope, receive, send)
