"""A real RTMP listener in the test's own loop, with the project's consumers and database behind it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from channels.routing import ProtocolTypeRouter

from ingest.consumers.node import NodeConsumer
from ingest.consumers.rtmp import RtmpConsumer
from ingest.live import LiveSettings
from ingest.server import RtmpServer, ServerConfig
from tests.ingest.control import NODE

APPLICATION = ProtocolTypeRouter({"rtmp": RtmpConsumer.as_asgi(), "rtmp.node": NodeConsumer.as_asgi()})


@asynccontextmanager
async def listening(
    node: str = NODE, live: LiveSettings | None = None, grace_s: float = 2, **config: Any
) -> AsyncIterator[int]:
    """The port of a running media node. `grace_s`: of its stop; `config`: fields of its ServerConfig."""
    settings = ServerConfig(node=node, rtmp=("127.0.0.1", 0), live=live or LiveSettings(), **config)
    server = RtmpServer(APPLICATION, settings)
    await server.start()
    try:
        yield server.addresses[0][1]
    finally:
        await server.stop(grace_s=grace_s)
