"""A server that pulls, and another one of ours that has the stream."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from ingest.server import RtmpServer
from ingest.server.config import PullSettings
from tests.server.app import Message, ScriptedApp
from tests.server.conftest import Serve, serving

QUICK = PullSettings(
    begin_s=2.0,
    first_retry_s=0.05,
    last_retry_s=0.2,
    first_refused_s=0.1,
    last_refused_s=0.2,
    quiet_s=1.0,
    answer_s=1.0,
)

CREDENTIAL = "rk_pullpullpullpullpullpull"


def order(to: RtmpServer | int | str, *, source: int = 1, name: str = "cam1", **fields: Any) -> Message:
    if not isinstance(to, str):
        to = f"rtmp://127.0.0.1:{to if isinstance(to, int) else to.addresses[0][1]}/live"
    made = {"source": source, "path": "live/here", "url": to, "name": name, "credential": CREDENTIAL}
    return made | {"private_allowed": True} | fields


async def pull(app: ScriptedApp, *orders: Message) -> None:
    """These, and no others."""
    await app.wait_until(lambda: bool(app.nodes))
    await app.node.send({"type": "node.pull", "sources": list(orders)})


async def becomes_figures(app: ScriptedApp, **wanted: Any) -> Message:
    """The first tick's figures of the first pull that have these."""

    def found() -> Message | None:
        each = (tick["pulls"][0] for tick in app.ticks if tick["pulls"])
        return next((figures for figures in each if wanted.items() <= figures.items()), None)

    await app.wait_until(lambda: found() is not None)
    figures = found()
    assert figures is not None
    return figures


@pytest.fixture
def app() -> ScriptedApp:
    """Whatever is pulled is published as live/here."""
    made = ScriptedApp()
    made.change("rtmp.publish", path="live/here")
    return made


@pytest.fixture
def origin_app() -> ScriptedApp:
    return ScriptedApp()


@pytest_asyncio.fixture
async def serve_origin(origin_app: ScriptedApp) -> AsyncIterator[Serve]:
    async with serving(origin_app, "origin-1") as start:
        yield start


@pytest_asyncio.fixture
async def origin(serve_origin: Serve) -> RtmpServer:
    return await serve_origin()


@pytest_asyncio.fixture
async def server(serve: Serve) -> RtmpServer:
    """Which pulls."""
    return await serve(config={"pull": QUICK})
