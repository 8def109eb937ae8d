"""WebSockets of pages, as a browser opens them, and the updates that nodes send to their groups."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from channels.layers import InMemoryChannelLayer, get_channel_layer
from channels.testing import WebsocketCommunicator
from django.test import Client

from ingest import pages
from ingest.live_store import get_livestore
from rtmpweb.asgi import application
from tests.snapshots import figures

ORIGIN = (b"origin", b"http://localhost")
HOST = (b"host", b"localhost")


def socket(path: str, client: Client | None = None, origin: tuple[bytes, bytes] = ORIGIN) -> WebsocketCommunicator:
    cookie = client.cookies["sessionid"].value if client else ""
    return WebsocketCommunicator(application, path, [HOST, origin, (b"cookie", f"sessionid={cookie}".encode())])


@asynccontextmanager
async def opened(path: str, client: Client) -> AsyncIterator[WebsocketCommunicator]:
    page = socket(path, client)
    connected, _ = await page.connect(timeout=20)
    assert connected
    try:
        yield page
    finally:
        await page.disconnect()


async def said(page: WebsocketCommunicator) -> Any:
    return json.loads(await page.receive_from(timeout=20))


async def groups() -> set[str]:
    """Return the groups of the channel layer that have members."""
    layer = get_channel_layer()
    if isinstance(layer, InMemoryChannelLayer):
        return set(layer.groups)
    keys = await layer.connection(0).keys(f"{layer.prefix}:group:*")
    return {key.decode().rpartition(":")[2] for key in keys}


async def put(at: float, *snapshots: Any, node: str = "n1") -> None:
    await get_livestore().put_node(figures(node, at), snapshots)


async def tick(
    at: float, *snapshots: Any, gone: tuple[int, ...] = (), node: str = "n1", prior: float | None = None
) -> str:
    """Send an update to the wall as a node does. Return its text."""
    update = pages.update(
        node, at=at, prior=prior, nodes=[figures(node, at)], streams=pages.to_json(snapshots), gone=gone
    )
    await get_channel_layer().group_send("live", update)
    return str(update["text"])


def sample(at: float, **fields: Any) -> Any:
    usual = {"fps": 30.0, "keyframe_interval": 2.0, "drift": 12.0, "drift_dev": 1.0, "rtt_ms": 14.5}
    return {"at": at, "video_kbps": 2480.0, "audio_kbps": 128.0, "players": 3, "health": "good", **usual, **fields}
