"""Nodes of one installation, in the test's own loop, and what they tell of streams that one fetches from another."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from ingest.contracts import NodeFigures, RelayFigures, StreamSnapshot
from ingest.live_store import get_livestore
from ingest.models import Node
from ingest.rtmp import events
from ingest.server import RtmpServer
from ingest.server.config import RelaySettings
from tests.ingest.control import serving
from tests.ingest.ticks import until
from tests.rtmp_client import RtmpClient
from tests.server.media import AAC_HEADER, AVC_HEADER, inter_frame, key_frame, sound

HERE, THERE, OTHER = "node-a", "node-b", "node-c"
SOON: Any = {"relay": RelaySettings(idle_s=0.5, send_away_s=0.5)}


@asynccontextmanager
async def cluster(*names: str, **config: Any) -> AsyncIterator[list[RtmpServer]]:
    """Nodes that know one another."""
    async with AsyncExitStack() as stack:
        found = [await stack.enter_async_context(serving(name, **config)) for name in names]
        await until(lambda: Node.objects.exclude(url="").filter(name__in=names).count() == len(names))
        yield found


def client(server: RtmpServer, **options: Any) -> RtmpClient:
    return RtmpClient(port=server.addresses[0][1], **options)


def shown() -> dict[str, NodeFigures]:
    return {figures["node"]: figures for figures in get_livestore().read().nodes}


def relayed(node: str) -> list[RelayFigures]:
    """What it fetches, as it told last."""
    figures = shown().get(node)
    return figures.get("relays", []) if figures is not None else []


def snapshots(node: str) -> list[StreamSnapshot]:
    return [each for each in get_livestore().read().streams if each["node"] == node]


def media(player: RtmpClient) -> list[tuple[type, int, bytes]]:
    kinds = (events.VideoReceived, events.AudioReceived)
    return [(type(each), each.timestamp, each.payload) for each in player.received if isinstance(each, kinds)]


def times(player: RtmpClient) -> list[int]:
    return [timestamp for _, timestamp, payload in media(player) if payload != AVC_HEADER]


def data(player: RtmpClient) -> list[tuple[str, bytes]]:
    return [(each.name, each.payload) for each in player.received if isinstance(each, events.DataReceived)]


def pictures(server: RtmpServer) -> int:
    """That were published there."""
    live = server.registry.get("live/cam1")
    return live.publication.meter.video_line.frames if live is not None and live.publication is not None else 0


async def publish_some(encoder: RtmpClient, secret: str) -> int:
    """Metadata, headers, a group of pictures with sound and data of its own; then another keyframe."""
    await encoder.connect("live")
    stream_id = await encoder.publish(secret)
    protocol = encoder.protocol
    protocol.send_metadata(stream_id, 0, {"width": 640.0, "encoder": "Test"})
    protocol.send_data(stream_id, 0, "@setDataFrame", "onTitle", "Sunday service")
    await encoder.send_video(stream_id, 0, AVC_HEADER)
    await encoder.send_audio(stream_id, 0, AAC_HEADER)
    for number in range(10):
        frame = key_frame(number, 80_000) if number in (0, 5) else inter_frame(number)
        await encoder.send_video(stream_id, 1000 + 40 * number, frame)
        await encoder.send_audio(stream_id, 1001 + 40 * number, sound(number))
    return stream_id
