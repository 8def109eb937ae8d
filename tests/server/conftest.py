"""An RTMP server on a free loopback port, under asyncio's own loop and under uvloop."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio
import uvloop

from ingest.server import Deadlines, RtmpServer, ServerConfig
from ingest.server import node as node_module
from tests.server.app import ScriptedApp
from tests.server.clients import Stage

QUICK = Deadlines(sweep_s=0.02, next_item_s=0.1, linger_s=0.2)
"""The usual deadlines, but looked at often, and with little patience after a refusal."""

TICK_S = 0.05
"""Between two ticks of a node, which are a second apart in the product: tests wait for many of them."""


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


Serve = Callable[..., Awaitable[RtmpServer]]
OnStage = Callable[..., Awaitable[Stage]]
Enter = Callable[..., Awaitable[Any]]


@pytest.fixture(autouse=True)
def quick_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_module, "TICK_S", TICK_S)
    monkeypatch.setattr(node_module, "RESTART_S", TICK_S)


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Check that the test logs no warning and no traceback."""
    yield
    logged = caplog.get_records("call")
    assert not [record.getMessage() for record in logged if record.levelno >= logging.WARNING or record.exc_info]


@pytest.fixture
def app() -> ScriptedApp:
    return ScriptedApp()


@asynccontextmanager
async def serving(app: ScriptedApp, node: str = "node-1") -> AsyncIterator[Serve]:
    """Yield a function that starts servers: `await serve(handshake_s=0.1, config={...})` sets deadlines and fields."""
    servers: list[RtmpServer] = []

    async def start(*, port: int = 0, config: dict[str, Any] | None = None, **deadlines: float) -> RtmpServer:
        settings = ServerConfig(
            node=node, rtmp=("127.0.0.1", port), deadlines=replace(QUICK, **deadlines), **(config or {})
        )
        server = RtmpServer(app, settings)
        servers.append(server)
        await server.start()
        return server

    yield start
    for server in servers:
        await server.stop(grace_s=2)
        assert not server.connections
        assert not server.sessions


@pytest_asyncio.fixture
async def serve(app: ScriptedApp) -> AsyncIterator[Serve]:
    async with serving(app) as start:
        yield start


@pytest_asyncio.fixture
async def server(serve: Serve) -> RtmpServer:
    return await serve()


@pytest.fixture
def port(server: RtmpServer) -> int:
    return server.addresses[0][1]


@pytest_asyncio.fixture
async def enter() -> AsyncIterator[Enter]:
    """Return a function that enters an async context for the rest of the test."""
    async with AsyncExitStack() as stack:
        yield stack.enter_async_context


@pytest.fixture
def on_stage(serve: Serve, enter: Enter) -> OnStage:
    """Return a function that starts a server, like `serve`, with a stage."""

    async def start(**settings: Any) -> Stage:
        stage: Stage = await enter(Stage(await serve(**settings)))
        return stage

    return start


@pytest_asyncio.fixture
async def stage(server: RtmpServer, enter: Enter) -> Stage:
    stage: Stage = await enter(Stage(server))
    return stage
