"""Orders to push streams, and another server of ours as the target."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from ingest.server import RtmpServer
from ingest.server.config import PushSettings
from ingest.server.push import Push
from tests.server.app import Message, ScriptedApp
from tests.server.conftest import Serve, serving

KEY = "target-key-8Fd2"

TIMES: Any = {"first_retry_s": 0.05, "last_retry_s": 0.2}
TIMES |= {"first_refused_s": 0.1, "last_refused_s": 0.2}
QUICK = PushSettings(**TIMES, media_s=0.01, end_s=1.0)
"""Settings with short waits between tries."""


def url_of(server: RtmpServer | int, app: str = "live", *, scheme: str = "rtmp", host: str = "127.0.0.1") -> str:
    port = server if isinstance(server, int) else server.bound[scheme][0][1]
    return f"{scheme}://{host}:{port}/{app}"


def order(to: RtmpServer | int | str, *, target: int = 1, name: str = KEY, **fields: Any) -> Message:
    url = to if isinstance(to, str) else url_of(to)
    return {"target": target, "url": url, "name": name, "private_allowed": True, **fields}


async def push(app: ScriptedApp, *orders: Message, session_id: str = "publish-1") -> None:
    """Order pushes of this publisher's stream to these targets, and to no others."""
    await app.wait_until(lambda: bool(app.nodes))
    await app.node.send({"type": "node.push", "session_id": session_id, "targets": list(orders)})


def changes(app: ScriptedApp, target: int = 1) -> list[Message]:
    return [change for change in app.node.of("node.pushed") if change["target"] == target]


async def becomes_state(app: ScriptedApp, state: str, *, target: int = 1, after: int = 0, **fields: Any) -> Message:
    """Wait for the first change to this state, with these fields."""
    wanted = {"state": state, **fields}

    def found() -> list[Message]:
        return [each for each in changes(app, target)[after:] if wanted.items() <= each.items()]

    await app.wait_until(found)
    return found()[0]


def only_push(server: RtmpServer) -> Push:
    (found,) = server.node.pushes
    return found


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
    """A server that pushes."""
    return await serve(config={"push": QUICK})
