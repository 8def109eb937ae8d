"""What came before a fault counts, however TCP happened to cut it."""

import pytest

from ingest.rtmp import encode_message, events
from ingest.rtmp.amf import amf0
from ingest.rtmp.messages import Message, MessageType
from tests.ingest.rtmp.wire import type0
from tests.ingest.server.app import ScriptedApplication
from tests.ingest.server.media import AVC_HEADER, key_frame
from tests.rtmp_client import RtmpClient

BAD = b"\xff"
"""A type 3 chunk where there is nothing to go on with."""
FAULT = "a chunk stream begins with a type 3 chunk"


def command(stream_id: int, *values: object) -> bytes:
    message = Message(MessageType.COMMAND_AMF0, 0, stream_id, amf0.encode(*values))
    return encode_message(message, chunk_stream_id=3, chunk_size=128)


@pytest.mark.parametrize("pieces", [1, 2])
async def test_frames_in_the_same_read_are_relayed(app: ScriptedApplication, port: int, pieces: int) -> None:
    async with RtmpClient(port=port) as player, RtmpClient(port=port) as publisher:
        await publisher.connect("live")
        stream_id = await publisher.publish("cam")
        await player.connect("live")
        await player.play("cam")
        frames = b"".join(type0(20, number, 9, stream_id, data) for number, data in enumerate(PICTURES))
        if pieces == 1:
            publisher._writer.write(frames + BAD)
        else:
            publisher._writer.write(frames)
            await player.wait_for(events.VideoReceived, lambda event: event.payload == PICTURES[-1])
            publisher._writer.write(BAD)
        ended = await app.event("rtmp.unpublish", connection=0)
        assert (ended["reason"], ended["description"]) == ("protocol_error", FAULT)
        await player.wait_for(events.VideoReceived, lambda event: event.payload == PICTURES[-1])
        assert ended["totals"]["video_frames"] == 1


PICTURES = [AVC_HEADER, key_frame(1)[:100]]


async def test_a_fault_behind_what_is_to_be_decided(app: ScriptedApplication, port: int) -> None:
    """All in one write: each decision brings what follows to light, at last the fault."""
    async with RtmpClient(port=port) as client:
        client._writer.write(
            command(0, "connect", 1.0, {"app": "live", "tcUrl": "rtmp://127.0.0.1/live"})
            + command(0, "createStream", 2.0, None)
            + command(1, "publish", 0.0, None, "cam", "live")
            + b"".join(type0(20, number, 9, 1, data) for number, data in enumerate(PICTURES))
            + BAD
        )
        await client.wait_closed()
    ended = await app.event("rtmp.disconnect")
    assert (ended["reason"], ended["description"]) == ("protocol_error", FAULT)
    told = [event["type"] for event in app.connections[-1].events]
    assert [kind for kind in told if kind not in ("rtmp.status", "rtmp.metadata")] == [
        "rtmp.connect",
        "rtmp.publish",
        "rtmp.unpublish",
        "rtmp.disconnect",
    ]
    (unpublish,) = app.connections[-1].of("rtmp.unpublish")
    assert unpublish["totals"]["video_frames"] == 1
