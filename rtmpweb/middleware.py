"""What every request passes, as ASGI and as Django middleware.

ASGI: the client behind a proxy; the access log of HTTP and WebSocket, one record for each request or connection that
has ended, in place of Daphne's own (a URL's query is left out: it may hold what is nobody's business); how many
requests are answered at a time, as each has a thread and with it a connection to the database. Django: static files
from the application itself, at no cost to other requests; allowed hosts; nothing is cached."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.common import CommonMiddleware
from django.utils.deprecation import MiddlewareMixin
from whitenoise.middleware import WhiteNoiseMiddleware

from dashboard.system.unavailable import OPEN_PATHS, RETRY_S
from dashboard.system.watch import get_watch
from ingest.addresses import Network, client_of
from ingest.log_records import LONGEST_PATH
from ingest.server import ASGIApplication

FIELD = b"x-forwarded-for"


class ProxiedClient:
    """Wraps an ASGI application of the scope types http and websocket. `proxies`: whose word counts."""

    def __init__(self, application: ASGIApplication, proxies: Sequence[Network]) -> None:
        self._application = application
        self._proxies = proxies

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        peer = scope.get("client")
        if self._proxies and peer:
            forwarded = [value.decode("latin-1") for name, value in scope["headers"] if name == FIELD]
            client = client_of(peer[0], forwarded, self._proxies)
            if client != peer[0]:
                scope = {**scope, "client": [client, 0]}
        await self._application(scope, receive, send)


logger = logging.getLogger("rtmpweb.access")


class AccessLog:
    """Wraps an ASGI application of the scope types http and websocket."""

    def __init__(self, application: ASGIApplication) -> None:
        self._application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if not logger.isEnabledFor(logging.INFO):
            await self._application(scope, receive, send)
            return
        began = time.monotonic()
        status, size = 0, 0

        async def watch(message: Any) -> None:
            nonlocal status, size
            match message["type"]:
                case "http.response.start":
                    status = message["status"]
                case "http.response.body":
                    size += len(message.get("body", b""))
                case "websocket.accept":
                    status = 101
                case "websocket.close":
                    status = message.get("code", 1000)
            await send(message)

        try:
            await self._application(scope, receive, watch)
        finally:
            _write(scope, status, size, time.monotonic() - began)


def _write(scope: Any, status: int, size: int, lasted_s: float) -> None:
    client = scope.get("client") or ("-", 0)
    method, path = scope.get("method", "WEBSOCKET"), scope["path"][:LONGEST_PATH]
    fields = {
        "client": str(client[0]),
        "method": method,
        "path": path,
        "status": status,
        "bytes": size,
        "duration_ms": round(lasted_s * 1000, 1),
    }
    logger.info("%s %s %d in %.0f ms, %d bytes", method, path, status, lasted_s * 1000, size, extra=fields)


WAITING_EACH = 32
"""Requests that wait, for each that is answered at a time: with it they have their turn within some seconds."""

BUSY = b"Too much is being asked just now: try again in some seconds.\n"


class RequestLimit:
    """Wraps an ASGI application of the scope type http. What comes beyond it waits for its turn, unless too many do.

    Those that the server hands over have sent all they have to say, and it takes their answers whole: no slow client
    holds up the others. Health is told at once, and so is an outage of the database, which needs no connection.
    """

    def __init__(self, application: ASGIApplication, requests: int) -> None:
        self._application = application
        self._places = asyncio.Semaphore(requests)
        self._max_waiting = WAITING_EACH * requests
        self._waiting = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] in OPEN_PATHS or get_watch().database_is_down:
            await self._application(scope, receive, send)
            return
        client = WaitingClient(receive)
        if self._places.locked():
            if self._waiting >= self._max_waiting:
                await _answer_busy(send)
                return
            if not await self._turn(client):
                return
        else:
            await self._places.acquire()
        try:
            await self._application(scope, client.receive, send)
        finally:
            self._places.release()

    async def _turn(self, client: "WaitingClient") -> bool:
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


class WaitingClient:
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


async def _answer_busy(send: Any) -> None:
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(BUSY)).encode()),
        (b"retry-after", str(RETRY_S).encode()),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": BUSY})


Handler = Callable[[HttpRequest], Any]


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]
    """WhiteNoise, but native to both kinds of server.

    WhiteNoise's own class is synchronous, so under ASGI every request would take a detour over a thread, and a file
    would be streamed by an iterator that Django then has to collect, with a warning. The files here are small, as they
    are read in the event loop and stand in memory for each who asks: `ninja` is no installed application for its 8 MiB
    of scripts, which the API's own page does not need.
    """

    sync_capable = True
    async_capable = True

    found: ClassVar[dict[str, Any]] = {}
    """{path: file}: they stand in the tree's folders, which are gone through once a process, not once a handler."""

    def __init__(self, get_response: Handler) -> None:
        super().__init__(get_response)
        self.is_async = iscoroutinefunction(get_response)
        if self.is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        found = self.find_file(request.path_info) if self.autorefresh else self.files.get(request.path_info)
        if found is None:
            passed_on: HttpResponseBase | Awaitable[HttpResponseBase] = self.get_response(request)
            return passed_on
        response = self.serve(found, request)
        return finished(response) if self.is_async else response

    def add_files_from_finders(self) -> None:
        if self.found:
            self.files.update(self.found)
        else:
            super().add_files_from_finders()
            self.found.update(self.files)

    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponse:
        answer = static_file.get_response(request.method, request.META)
        content = b""
        if answer.file is not None:
            with answer.file:
                content = answer.file.read()
        response = HttpResponse(content, status=int(answer.status))
        del response["content-type"]
        for name, value in answer.headers:
            response[name] = value
        return response


class HostMiddleware(CommonMiddleware):
    """Django's own, which refuses hosts that are not allowed; but anybody may ask for the health under any.

    A container's own check and a load balancer ask by an address. The answer depends on no host and names none.
    """

    def process_request(self, request: HttpRequest) -> Any:
        return None if request.path in OPEN_PATHS else super().process_request(request)


class NoStoreMiddleware(MiddlewareMixin):
    """What an answer says is kept by no browser and no proxy, unless its view says otherwise: pages are for who is
    logged in now.
    """

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        if not response.has_header("Cache-Control"):
            response["Cache-Control"] = "no-store"
        return response


async def finished(response: HttpResponse) -> HttpResponse:
    return response
