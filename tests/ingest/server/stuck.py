"""A player that takes nothing of what it is sent."""

import asyncio
import ssl

from tests.ingest.server.app import ScriptedApplication
from tests.ingest.server.media import AVC_HEADER, key_frame
from tests.rtmp_client import RtmpClient


async def check_a_stuck_player_is_closed(
    app: ScriptedApplication, port: int, *, tls: ssl.SSLContext | None = None
) -> None:
    """Within some seconds; its publisher goes on. The server's `write_s` should be short."""
    async with RtmpClient(port=port, tls=tls) as publisher, RtmpClient(port=port, tls=tls) as stuck:
        await publisher.connect("live")
        stream_id = await publisher.publish("cam1")
        await stuck.connect("live")
        await stuck.play("cam1")
        stuck.pause_reading()
        await publisher.send_video(stream_id, 0, AVC_HEADER)
        async with asyncio.timeout(10):
            while not app.connections[1].of("rtmp.stop"):
                await publisher.send_video(stream_id, 0, key_frame(0, 60_000))
        assert app.connections[1].of("rtmp.stop")[0]["reason"] == "too_slow"
        assert not publisher.closed
