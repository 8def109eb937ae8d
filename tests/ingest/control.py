"""The consumers, driven by events as the RTMP server does, or behind a real listener in the test's own loop."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast

from channels.routing import ProtocolTypeRouter
from channels.testing import ApplicationCommunicator

from ingest.consumers.node import NodeConsumer
from ingest.consumers.rtmp import RtmpConsumer
from ingest.contracts import LoginAnswer, Totals
from ingest.models import Node
from ingest.server import Deadlines, RtmpServer, ServerConfig
from ingest.services import history_writer
from tests.snapshots import figures

FRAMES: Any = {"video_frames": 30, "audio_frames": 40, "keyframes": 2, "dropped_frames": 1}
TOTALS = cast(Totals, {"bytes_in": 1000, "bytes_out": 200, "duration_ms": 1500} | FRAMES)

NODE = "node-a"
_request_ids = itertools.count(1)


def rtmp_scope(app: str = "live", address: str = "192.0.2.7", node: str = NODE) -> dict[str, Any]:
    kind = {"type": "rtmp", "asgi": {"version": "3.0"}, "scheme": "rtmp", "node": node}
    sockets = {"client": (address, 50000), "server": ("127.0.0.1", 1935)}
    asked = {"app": app, "tc_url": f"rtmp://127.0.0.1/{app}", "query": {}, "connect": {}, "capabilities": {}}
    return kind | sockets | asked | {"flash_ver": "FMLE/3.0 (compatible; FMSc/1.0)"}


async def _over(app: ApplicationCommunicator) -> None:
    """Wait until the application has handled everything. Its own `wait` silently cancels a slow one."""
    over, _ = await asyncio.wait({app.future}, timeout=20)
    assert over, "an application goes on 20 s after its end"
    await app.wait()


def flush() -> None:
    """Write all that the fixture `process` knows so far."""
    assert history_writer._writer is not None
    assert history_writer._writer.flush(10)


class Connection:
    """The application of one RTMP connection."""

    def __init__(self, **scope: Any) -> None:
        self.app = ApplicationCommunicator(RtmpConsumer.as_asgi(), rtmp_scope(**scope))

    async def tell(self, event: dict[str, Any]) -> None:
        await self.app.send_input(event)

    async def answer(self) -> dict[str, Any]:
        answer: dict[str, Any] = await self.app.receive_output(20)
        return answer

    async def ask(self, event: dict[str, Any]) -> dict[str, Any]:
        await self.tell(event)
        return await self.answer()

    async def connect(self, credential: str = "", login: LoginAnswer | None = None) -> dict[str, Any]:
        return await self.ask({"type": "rtmp.connect", "credential": credential, "login": login})

    def publish_event(self, credential: str, *, name: str | None = None, stream_id: int = 1) -> dict[str, Any]:
        """Publish with the credential as the name. With `name`: as name?key=credential."""
        shown = {"name": f"{credential[:3]}…" if name is None else name, "credential_is_name": name is None}
        kind = {"type": "rtmp.publish", "request_id": next(_request_ids), "stream_id": stream_id, "query": {}}
        return kind | shown | {"credential": credential, "publish_type": "live"}

    async def publish(self, credential: str, **event: Any) -> dict[str, Any]:
        return await self.ask(self.publish_event(credential, **event))

    def play_event(self, name: str, token: str = "", stream_id: int = 1) -> dict[str, Any]:
        kind = {"type": "rtmp.play", "request_id": next(_request_ids), "stream_id": stream_id, "query": {}}
        asked = {"name": name, "credential": token, "start": -2.0, "duration": -1.0, "reset": True, "transition": ""}
        return kind | asked

    async def play(self, name: str, token: str = "", stream_id: int = 1) -> dict[str, Any]:
        return await self.ask(self.play_event(name, token, stream_id))

    async def status(self, code: str, stream_id: int = 1, level: str = "status") -> None:
        said = {"level": level, "code": code, "description": "Said."}
        await self.tell({"type": "rtmp.status", "stream_id": stream_id, **said})

    async def unpublish(self, session_id: str, reason: str = "client_unpublish") -> None:
        end = {"session_id": session_id, "reason": reason, "description": "", "totals": TOTALS}
        await self.tell({"type": "rtmp.unpublish", "stream_id": 1, **end})

    async def disconnect(self, reason: str = "tcp_reset") -> None:
        await self.tell({"type": "rtmp.disconnect", "reason": reason, "description": ""})
        await _over(self.app)


async def connected(count: int) -> list[Connection]:
    made = [Connection() for _ in range(count)]
    for each in made:
        assert (await each.connect())["type"] == "rtmp.accept"
    return made


async def disconnect(*connections: Connection) -> None:
    await asyncio.gather(*(each.disconnect() for each in connections))


class NodeApp:
    """The application of one listener. `fields` replace those of its scope."""

    def __init__(self, node: str = NODE, **fields: Any) -> None:
        scope: Any = {"type": "rtmp.node", "asgi": {"version": "3.0"}, "node": node, "local": ""}
        scope |= {"addresses": [("127.0.0.1", 1935)], "tls_addresses": [], "media_addresses": [], "hls_addresses": []}
        self.node = node
        self.app = ApplicationCommunicator(NodeConsumer.as_asgi(), scope | fields)

    async def tell(self, kind: str, **fields: Any) -> None:
        await self.app.send_input({"type": kind, **fields})

    async def tick(self, at: float = 1_800_000_000.0, **fields: Any) -> None:
        nothing: dict[str, Any] = {"samples": [], "streams": [], "players": [], "refused": []}
        await self.tell("node.tick", **(nothing | {"figures": figures(self.node, at)} | fields))

    async def stop(self) -> None:
        await self.tell("node.stopped")
        await _over(self.app)


APPLICATION = ProtocolTypeRouter({"rtmp": RtmpConsumer.as_asgi(), "rtmp.node": NodeConsumer.as_asgi()})


@asynccontextmanager
async def serving(node: str = NODE, *, grace_s: float = 2, **config: Any) -> AsyncIterator[RtmpServer]:
    """Run a media node with these fields of its ServerConfig. `grace_s` is for its stop."""
    deadlines = Deadlines(sweep_s=0.05, next_item_s=0.1, linger_s=0.2)
    usual: dict[str, Any] = {"rtmp": ("127.0.0.1", 0), "deadlines": deadlines}
    server = RtmpServer(APPLICATION, ServerConfig(node=node, **(usual | config)))
    await server.start()
    try:
        yield server
    finally:
        await server.stop(grace_s=grace_s)


@asynccontextmanager
async def listening(*node: str, **config: Any) -> AsyncIterator[int]:
    """Run a media node and yield its port."""
    async with serving(*node, **config) as server:
        yield server.addresses[0][1]


@asynccontextmanager
async def cluster(*names: str, **config: Any) -> AsyncIterator[list[RtmpServer]]:
    """Run media nodes that know one another."""
    async with AsyncExitStack() as stack:
        found = [await stack.enter_async_context(serving(name, **config)) for name in names]
        known = Node.objects.exclude(url="").filter(name__in=names)
        async with asyncio.timeout(20):
            while await known.acount() < len(names):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        yield found
