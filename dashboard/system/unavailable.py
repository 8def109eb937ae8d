"""What is answered while a part that an answer needs is away: at once, with what is down and since when.

Pages get an HTML page that loads itself again, scripts JSON; both with status 503. Anybody may see it, as nobody can be
known without the database, so it names kinds of parts and times, nothing else. A WebSocket is closed so that the
browser tries again. `WatchMiddleware`, around the applications that answer, starts this process's watch."""

import asyncio
import logging
import sys
from collections.abc import Awaitable
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.views import defaults

from dashboard.middleware import Middleware
from dashboard.system.probes import AWAY
from dashboard.system.watch import get_watch
from ingest.log_records import LONGEST_PATH, Bound, more
from ingest.services import database
from ingest.services.database import lacks_tables

logger = logging.getLogger(__name__)

TRY_LATER = 4503
"""The close code. 1013 is registered for it, but Daphne sends none but 1000 and 3000 to 4999."""


class WatchMiddleware:
    """Wraps an ASGI application; the first request or connection starts this process's watch.

    The watch is made here and now, so that it counts from the process's start.
    """

    def __init__(self, application: Any) -> None:
        self._application = application
        get_watch()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        watch = get_watch()
        watch.start()
        if not watch.has_checked:  # Nothing is served from a database that nobody has looked at.
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


FAILURES = Bound(1)
"""Requests that met an error, and are logged, in one second."""

RETRY_S = 5
"""How soon the page loads itself again."""

OPEN_PATHS = ("/healthz",)
"""They tell what is down themselves, whoever asks, under whatever host."""

STORAGE = ("database", "redis")
"""Kinds of parts without which an answer can't be given."""

UNKNOWN = "The server's storage did not answer in time. Try again."


def unavailable(request: HttpRequest) -> HttpResponse:
    parts = [part for part in get_watch().report().parts if part.kind in STORAGE and part.is_alarming]
    if request.accepts("text/html") and not request.path.startswith(("/api/", "/metrics")):
        response = HttpResponse(render_to_string("503.html", {"parts": parts, "retry_s": RETRY_S}, request=request))
    else:
        detail = " ".join(f"{part.what}{part.since_words}." for part in parts) or UNKNOWN
        items = [part.public() for part in parts]
        response = JsonResponse({"detail": detail, "items": items, "count": len(items)})
    response.status_code = 503
    response._has_been_logged = True  # type: ignore[attr-defined]  # The watch did, once, rather than each request.
    response["Retry-After"] = str(RETRY_S)
    response["Cache-Control"] = "no-store"
    return response


def failed(request: HttpRequest, error: BaseException) -> HttpResponse:
    """The answer to a request that met an error of AWAY."""
    left_out = FAILURES.take()
    if left_out is not None:
        path, kind = request.path[:LONGEST_PATH], type(error).__name__
        logger.warning("%s %s can't be answered: %s%s", request.method, path, kind, more(left_out))
    watch = get_watch()
    if not (watch.database_is_down or watch.redis_is_down):
        watch.check_now()
    return unavailable(request)


def server_error(request: HttpRequest) -> HttpResponse:
    """Django's handler500: an error that passed all others. Of a part that is away it says so."""
    error = sys.exc_info()[1]
    return failed(request, error) if error is not None and _is_away(error) else defaults.server_error(request)


def _is_away(error: BaseException) -> bool:
    return isinstance(error, AWAY) or lacks_tables(error) or database.is_write_refused(error)


class UnavailableMiddleware(Middleware):
    """Answers at once while it is known that the database is down; else turns its errors into the same answer."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        known = get_watch().database_is_down and request.path not in OPEN_PATHS
        if not known:
            passed_on: HttpResponseBase | Awaitable[HttpResponseBase] = self.get_response(request)
            return passed_on
        response = unavailable(request)
        return _finished(response) if self.is_async else response

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        return failed(request, error) if _is_away(error) else None


async def _finished(response: HttpResponse) -> HttpResponse:
    return response
