"""What an encoder sends and nobody can read ends nothing: it is ignored, and noted once."""

import logging

import pytest

from ingest.rtmp import Message, events
from ingest.rtmp.amf import amf0
from tests.ingest.server.app import ScriptedApplication
from tests.ingest.server.media import AVC_HEADER, key_frame
from tests.rtmp_client import RtmpClient

COMMAND, DATA = 20, 18
STRAY = b"\x00\x00\x09"
METADATA = amf0.encode("onMetaData", {"width": 640.0, "height": 360.0})


async def test_a_publisher_goes_on(app: ScriptedApplication, port: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="ingest.server")
    async with RtmpClient(port=port) as publisher, RtmpClient(port=port) as player:
        await player.connect("live")
        await player.play("cam1")
        await publisher.connect("live")
        send = publisher.protocol.send_message
        send(Message(COMMAND, 0, 0, amf0.encode("releaseStream", 0.0, None, "cam1") + STRAY))
        stream_id = await publisher.publish("cam1")
        send(Message(COMMAND, 0, 0, b"\xff\xff"))
        send(Message(COMMAND, 0, 0, amf0.encode("neverHeardOf") + b"\xff"))
        send(Message(DATA, 0, stream_id, amf0.encode("@setDataFrame") + METADATA + STRAY))
        await publisher.send_video(stream_id, 0, AVC_HEADER)
        await publisher.send_video(stream_id, 0, key_frame(1))
        await player.wait_for(events.VideoReceived, lambda event: event.payload == key_frame(1))
        relayed = [event.payload for event in player.of(events.DataReceived) if event.name == "onMetaData"]
        assert relayed == [METADATA]
        assert (await app.event("rtmp.metadata", connection=1))["metadata"]["width"] == 640.0
        async with RtmpClient(port=port) as late:
            await late.connect("live")
            await late.play("cam1")
            await late.wait_for(events.VideoReceived)
            assert [event.payload for event in late.of(events.DataReceived) if event.name == "onMetaData"] == [METADATA]
        assert not publisher.closed
    noted = [message for message in caplog.messages if "not understood" in message]
    assert len(noted) == 1
    assert f"{len(STRAY)} bytes of a message of type {COMMAND}" in noted[0]
