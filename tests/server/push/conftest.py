"""Other servers of ours, to which streams are pushed."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from ingest.server import RtmpServer
from tests.server.app import ScriptedApp
from tests.server.conftest import Serve, serving
from tests.server.push.orders import QUICK


@pytest.fixture
def target_app() -> ScriptedApp:
    return ScriptedApp()


@pytest_asyncio.fixture
async def serve_target(target_app: ScriptedApp) -> AsyncIterator[Serve]:
    async with serving(target_app, "target-1") as start:
        yield start


@pytest_asyncio.fixture
async def target(serve_target: Serve) -> RtmpServer:
    return await serve_target()


@pytest_asyncio.fixture
async def server(serve: Serve) -> RtmpServer:
    """Which pushes."""
    return await serve(config={"push": QUICK})
