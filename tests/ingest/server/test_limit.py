"""A publisher over its key's bitrate limit, on a real listener."""

import asyncio
from dataclasses import replace

from ingest.live import LimitSettings, LiveSettings
from ingest.live.health import CHECKS
from ingest.rtmp import events
from ingest.server import RtmpServer
from tests.ingest.server.app import ScriptedApplication
from tests.ingest.server.conftest import Serve
from tests.ingest.server.media import AVC_HEADER, key_frame
from tests.rtmp_client import RtmpClient

LIMIT_KBPS = 400
QUICK = LiveSettings(
    checks=tuple(replace(check, hold_s=0.5) for check in CHECKS),
    warm_up_s=0,
    limit=LimitSettings(window_s=2, close_s=2.0),
)


async def send(client: RtmpClient, stream_id: int, kbps: int) -> None:
    """One frame each 50 ms, until it is cancelled or the server closes."""
    frame = key_frame(1, size=kbps * 125 // 20)
    timestamp = 0
    while not client.closed:
        await client.send_video(stream_id, timestamp, frame)
        timestamp += 50
        await asyncio.sleep(0.05)


async def test_one_key_ends_the_session_the_other_warns(app: ScriptedApplication, serve: Serve) -> None:
    server: RtmpServer = await serve(config={"live": QUICK})
    port = server.addresses[0][1]
    app.limits |= {"max_kbps": LIMIT_KBPS, "expect_audio": False}
    async with RtmpClient(port=port) as warned, RtmpClient(port=port) as ended:
        sending = []
        for client, name, policy in ((warned, "warned", "warn"), (ended, "ended", "close")):
            app.limits = app.limits | {"over_limit": policy}
            await client.connect("live")
            stream_id = await client.publish(name)
            await client.send_video(stream_id, 0, AVC_HEADER)
            sending.append(asyncio.create_task(send(client, stream_id, 2 * LIMIT_KBPS)))
        try:
            await ended.wait_closed(timeout_s=12)
            end = await app.event("rtmp.unpublish", connection=1)
            tick = app.node.of("node.tick")[-1]
        finally:
            for task in sending:
                task.cancel()
            await asyncio.gather(*sending, return_exceptions=True)
        assert not warned.closed
    assert end["reason"] == "over_limit"
    assert "kbit/s; the stream key's limit is 400 kbit/s." in end["description"]
    status = ended.of(events.StatusReceived)[-1]
    assert (status.level, status.code) == ("error", "NetStream.Publish.Rejected")
    issues = next(stream["issues"] for stream in tick["streams"] if stream["name"] == "warned")
    assert ("bitrate_high", "bad") in [(issue["check"], issue["level"]) for issue in issues], issues
