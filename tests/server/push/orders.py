"""What a node's application orders of pushes, and what it is told of them."""

from typing import Any

from ingest.server import RtmpServer
from ingest.server.config import PushSettings
from ingest.server.push import Push
from tests.server.app import Message, ScriptedApp

KEY = "target-key-8Fd2"

QUICK = PushSettings(
    begin_s=2.0,
    first_retry_s=0.05,
    last_retry_s=0.2,
    first_refused_s=0.1,
    last_refused_s=0.2,
    media_s=0.01,
    end_s=1.0,
)
"""As usual, but tried again soon."""


def url_of(server: RtmpServer | int, app: str = "live", *, scheme: str = "rtmp", host: str = "127.0.0.1") -> str:
    port = server if isinstance(server, int) else server.bound[scheme][0][1]
    return f"{scheme}://{host}:{port}/{app}"


def order(to: RtmpServer | int | str, *, target: int = 1, name: str = KEY, **fields: Any) -> Message:
    url = to if isinstance(to, str) else url_of(to)
    return {"target": target, "url": url, "name": name, "private_allowed": True, **fields}


async def push(app: ScriptedApp, *orders: Message, session_id: str = "publish-1") -> None:
    """The stream of this publisher goes to these targets, and to no others."""
    await app.wait_until(lambda: bool(app.nodes))
    await app.node.send({"type": "node.push", "session_id": session_id, "targets": list(orders)})


def changes(app: ScriptedApp, target: int = 1) -> list[Message]:
    return [change for change in app.node.of("node.pushed") if change["target"] == target]


async def becomes_state(app: ScriptedApp, state: str, *, target: int = 1, after: int = 0, **fields: Any) -> Message:
    """The first change to this state, with these fields."""
    wanted = {"state": state, **fields}

    def found() -> Message | None:
        return next((each for each in changes(app, target)[after:] if wanted.items() <= each.items()), None)

    await app.wait_until(lambda: found() is not None)
    change = found()
    assert change is not None
    return change


def only_push(server: RtmpServer) -> Push:
    (found,) = server.node.pushes
    return found
