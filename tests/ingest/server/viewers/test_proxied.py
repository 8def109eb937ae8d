"""Viewers that come by a proxy: each is its own address, for the application and for the limits."""

from contextlib import AsyncExitStack
from functools import partial
from ipaddress import ip_network
from typing import Any

from ingest.server import RtmpServer
from tests.ingest.server.app import ScriptedApplication
from tests.ingest.server.conftest import Serve
from tests.ingest.server.viewers.browser import Viewer, ask
from tests.ingest.server.waiting import within

URL = "/live/live/cam1.flv"

PROXIED = {"media": ("127.0.0.1", 0), "trusted_proxies": (ip_network("127.0.0.0/8"),)}


async def connections(server: RtmpServer) -> int:
    return len(server.connections)


def by(*addresses: str) -> dict[str, str]:
    return {"X-Forwarded-For": ", ".join(addresses)}


async def clients(serve: Serve, app: ScriptedApplication, config: dict[str, Any], *addresses: str) -> str:
    server = await serve(config=config)
    async with Viewer(server.media_addresses[0][1], URL, headers=by(*addresses)) as viewer:
        await viewer.wait_until(lambda: viewer.status == 200)
    found: str = app.connections[-1].scope["client"][0]
    assert await within(5, partial(connections, server), 0) == 0
    return found


async def test_who_asks_is_the_client(serve: Serve, app: ScriptedApplication) -> None:
    assert await clients(serve, app, PROXIED, "198.51.100.9", "192.0.2.7", "127.0.0.2") == "192.0.2.7"


async def test_a_proxy_whose_word_makes_no_sense(serve: Serve, app: ScriptedApplication) -> None:
    assert await clients(serve, app, PROXIED, "192.0.2.7", "unknown") == "127.0.0.1"


async def test_who_is_no_proxy_is_not_believed(serve: Serve, app: ScriptedApplication) -> None:
    assert await clients(serve, app, {"media": ("127.0.0.1", 0)}, "192.0.2.7") == "127.0.0.1"


async def test_each_client_has_a_limit_of_its_own(serve: Serve, app: ScriptedApplication) -> None:
    server = await serve(config={**PROXIED, "max_connections_per_address": 2})
    port = server.media_addresses[0][1]
    async with AsyncExitStack() as stack:
        for address in ("192.0.2.7", "192.0.2.7", "192.0.2.8", "192.0.2.8"):
            viewer = await stack.enter_async_context(Viewer(port, URL, headers=by(address)))
            await viewer.wait_until(lambda viewer=viewer: viewer.status == 200)  # type: ignore[misc]
        more = await ask(port, URL, headers=by("192.0.2.7"))
        assert (more.status, more.headers["retry-after"]) == (503, "5")
        assert "this address" in more.detail
        assert server.connection_limits.take_refused() == [{"address": "192.0.2.7", "count": 1}]
    assert await within(5, partial(connections, server), 0) == 0
    async with Viewer(port, URL, headers=by("192.0.2.7")) as viewer:
        await viewer.wait_until(lambda: viewer.status == 200)
