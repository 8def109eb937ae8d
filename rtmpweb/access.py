"""The access log of HTTP and WebSocket: one record for each request or connection that has ended.

In place of Daphne's own, which writes its lines past the logging settings (`daphne -v 0` turns that off). A URL's query
is left out: it may hold what is nobody's business.
"""

import logging
import time
from typing import Any

from ingest.logbound import LONGEST_PATH
from ingest.server import ASGIApplication

logger = logging.getLogger(__name__)


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
