"""Other servers of ours, to which streams are pushed."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from ingest.server import RtmpServer, ServerConfig
from tests.ingest.server.app import ScriptedApp
from tests.ingest.server.conftest import QUICK as QUICK_DEADLINES
from tests.ingest.server.conftest import Serve
from tests.ingest.server.push.orders import QUICK

ServeTarget = Callable[..., Awaitable[RtmpServer]]


@pytest.fixture
def target_app() -> ScriptedApp:
    return ScriptedApp()


@pytest_asyncio.fixture
async def serve_target(target_app: ScriptedApp) -> AsyncIterator[ServeTarget]:
    servers: list[RtmpServer] = []

    async def start(port: int = 0, **config: Any) -> RtmpServer:
        settings = ServerConfig(node="target-1", rtmp=("127.0.0.1", port), deadlines=QUICK_DEADLINES, **config)
        server = RtmpServer(target_app, settings)
        servers.append(server)
        await server.start()
        return server

    yield start
    for server in servers:
        await server.stop(grace_s=2)
        assert not server.connections
        assert not server.sessions


@pytest_asyncio.fixture
async def target(serve_target: ServeTarget) -> RtmpServer:
    return await serve_target()


@pytest_asyncio.fixture
async def server(serve: Serve) -> RtmpServer:
    """Which pushes."""
    return await serve(config={"push": QUICK})
