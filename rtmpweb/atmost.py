"""How many requests are answered at a time: each has a thread of its own, and with it a connection to the database."""

import asyncio
from collections import deque
from typing import Any

from dashboard.system.watch import get_watch
from dashboard.unavailable import OPEN_PATHS, RETRY_S
from ingest.server import ASGIApplication

WAITING_EACH = 32
"""Requests that wait, for each that is answered at a time: with it they have their turn within some seconds."""

BUSY = b"Too much is being asked just now: try again in some seconds.\n"


class AtMost:
    """Wraps an ASGI application of the scope type http. What comes beyond it waits for its turn, unless too many do.

    Those that the server hands over have sent all they have to say, and it takes their answers whole: no slow client
    holds up the others. Health is told at once, and so is an outage of the database, which needs no connection.
    """

    def __init__(self, application: ASGIApplication, requests: int) -> None:
        self._application = application
        self._places = asyncio.Semaphore(requests)
        self._most_waiting = WAITING_EACH * requests
        self._waiting = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] in OPEN_PATHS or get_watch().database_is_down:
            await self._application(scope, receive, send)
            return
        client = Client(receive)
        if self._places.locked():
            if self._waiting >= self._most_waiting:
                await _refuse(send)
                return
            if not await self._turn(client):
                return
        else:
            await self._places.acquire()
        try:
            await self._application(scope, client.receive, send)
        finally:
            self._places.release()

    async def _turn(self, client: "Client") -> bool:
        """Waits for a place, and has it then. False: the client went before."""
        place, gone = asyncio.create_task(self._places.acquire()), asyncio.create_task(client.gone())
        self._waiting += 1
        has_turn = False
        try:
            await asyncio.wait((place, gone), return_when=asyncio.FIRST_COMPLETED)
            has_turn = place.done() and not gone.done()
            return has_turn
        finally:
            self._waiting -= 1
            gone.cancel()
            if not has_turn and not place.cancel():
                self._places.release()


class Client:
    """Who asks: what comes of it while it waits is kept for the application."""

    def __init__(self, receive: Any) -> None:
        self._receive = receive
        self._kept: deque[Any] = deque()

    async def receive(self) -> Any:
        return self._kept.popleft() if self._kept else await self._receive()

    async def gone(self) -> None:
        """Returns once it is."""
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                return
            self._kept.append(message)


async def _refuse(send: Any) -> None:
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(BUSY)).encode()),
        (b"retry-after", str(RETRY_S).encode()),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": BUSY})
