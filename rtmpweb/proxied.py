"""Requests that came by a proxy: who asks is its client, for the log-in's limit and the access log as well."""

from collections.abc import Sequence
from typing import Any

from ingest.addresses import Network, client_of
from ingest.server import ASGIApplication

FIELD = b"x-forwarded-for"


class Proxied:
    """Wraps an ASGI application of the scope types http and websocket. `proxies`: whose word counts."""

    def __init__(self, application: ASGIApplication, proxies: Sequence[Network]) -> None:
        self._application = application
        self._proxies = proxies

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        peer = scope.get("client")
        if self._proxies and peer:
            said = [value.decode("latin-1") for name, value in scope["headers"] if name == FIELD]
            client = client_of(peer[0], said, self._proxies)
            if client != peer[0]:
                scope = {**scope, "client": [client, 0]}
        await self._application(scope, receive, send)
