"""Data messages through the server: relayed as they came, unless they quote what players must not see."""

from typing import Any

import pytest

from ingest.rtmp import Message, amf0, events
from tests.ingest.server.app import Instance, ScriptedApplication
from tests.ingest.server.media import AVC_HEADER
from tests.rtmp_client import RtmpClient

KEY = "rk_7Qd4abcdefghijklmnopqrstuvwxyz0"
IMPORTED = "my-old-camera-key"
DATA = 18


@pytest.fixture
def cam1(app: ScriptedApplication) -> ScriptedApplication:
    """Every publisher is admitted as live/cam1, whatever it publishes as."""

    async def accept(instance: Instance, event: dict[str, Any]) -> dict[str, Any]:
        answer = await app.accept_publish(instance, event)
        return answer | {"path": "live/cam1"}

    app.on["rtmp.publish"] = accept
    return app


@pytest.mark.parametrize(
    ("name", "credential"), [(KEY, KEY), (IMPORTED, IMPORTED), (f"cam1?key={IMPORTED}", IMPORTED), ("cam1?key=x", KEY)]
)
async def test_a_player_is_not_sent_the_key_that_data_quote(
    cam1: ScriptedApplication, port: int, name: str, credential: str
) -> None:
    async with RtmpClient(port=port) as publisher, RtmpClient(port=port) as player:
        await publisher.connect("live")
        stream_id = await publisher.publish(name)
        await player.connect("live")
        await player.play("cam1")
        url = f"rtmp://host/live/{credential}"
        await publisher.send_metadata(stream_id, {"url": url, "width": 640.0, "deep": {"list": [f"see {credential}"]}})
        publisher.protocol.send_data(stream_id, 5, "onTextData", {"text": "rtmp://host/live?key=whatever"})
        publisher.protocol.send_data(stream_id, 6, "onCuePoint", amf0.EcmaArray({"name": "plain", "url": url}))
        await publisher.flush()
        await player.wait_for(events.DataReceived, lambda event: event.name == "onCuePoint")
        found = {event.name: event for event in player.of(events.DataReceived)}
        assert credential.encode() not in b"".join(event.payload for event in found.values())
        metadata = found["onMetaData"].values[0]
        assert (metadata["width"], metadata["url"][:17]) == (640.0, "rtmp://host/live/")
        assert found["onTextData"].timestamp == 5
        assert found["onTextData"].values == [{"text": "rtmp://host/live?key=wh…"}]
        cue = found["onCuePoint"].values[0]
        assert (type(cue), cue["name"]) == (amf0.EcmaArray, "plain")


async def test_what_pages_are_told_of_metadata_is_masked(cam1: ScriptedApplication, port: int) -> None:
    async with RtmpClient(port=port) as client:
        await client.connect("live")
        stream_id = await client.publish(IMPORTED)
        await client.send_metadata(stream_id, {"url": f"rtmp://host/live/{IMPORTED}", "width": 640.0})
        await client.send_video(stream_id, 0, AVC_HEADER)
        event = await cam1.event("rtmp.metadata")
        assert event["metadata"]["width"] == 640.0
        assert IMPORTED not in repr(event)


async def test_data_without_secrets_are_relayed_byte_for_byte(port: int) -> None:
    """Also in forms that encoding anew would change, and with the name of a publisher that needs no key."""
    metadata = amf0.encode("onMetaData") + bytes.fromhex("08 000000ff 0001 61 0101 000009")
    text = amf0.encode("onTextData", amf0.TypedObject("Note", {"cam1": "cam1 at https://host/cam1?keys=1"}))
    async with RtmpClient(port=port) as publisher, RtmpClient(port=port) as player:
        await publisher.connect("live")
        stream_id = await publisher.publish("cam1")
        await player.connect("live")
        await player.play("cam1")
        for payload in (metadata, text):
            publisher.protocol.send_message(Message(DATA, 0, stream_id, payload))
        await publisher.flush()
        await player.wait_for(events.DataReceived, lambda event: event.name == "onTextData")
        relayed = [event.payload for event in player.of(events.DataReceived) if event.name != "|RtmpSampleAccess"]
        assert relayed == [metadata, text]


async def test_long_data_that_quote_a_key_are_left_out(cam1: ScriptedApplication, port: int) -> None:
    async with RtmpClient(port=port) as publisher, RtmpClient(port=port) as player:
        await publisher.connect("live")
        stream_id = await publisher.publish(KEY)
        await player.connect("live")
        await player.play("cam1")
        for text in (f"{KEY} {'x' * 70_000}", "x" * 70_000):
            publisher.protocol.send_data(stream_id, 0, "onTextData", text)
        await publisher.flush()
        event = await player.wait_for(events.DataReceived, lambda event: event.name == "onTextData")
        assert event.values == ["x" * 70_000]
