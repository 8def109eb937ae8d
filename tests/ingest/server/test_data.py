"""Data messages through the server: relayed as they came, unless they quote what players must not see."""

from contextlib import suppress
from typing import Any

import pytest

from ingest.rtmp import Message, events
from ingest.rtmp.amf import amf0
from tests.ingest.server.app import Instance, ScriptedApplication
from tests.ingest.server.media import AVC_HEADER, key_frame
from tests.rtmp_client import RtmpClient

KEY = "rk_7Qd4abcdefghijklmnopqrstuvwxyz0"
IMPORTED = "my-old-camera-key"
DATA, DATA_AMF3 = 18, 15


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


async def test_data_that_cannot_be_written_without_the_key_are_left_out(cam1: ScriptedApplication, port: int) -> None:
    """A name that isn't UTF-8 grows as it is read, here over what a name in AMF0 may have."""
    name = bytes.fromhex("7530") + b"\xff" * 30_000
    payload = amf0.encode("onTextData", KEY) + b"\x03" + name + b"\x05" + bytes.fromhex("000009")
    async with RtmpClient(port=port) as publisher, RtmpClient(port=port) as player:
        await publisher.connect("live")
        stream_id = await publisher.publish(KEY)
        await player.connect("live")
        await player.play("cam1")
        publisher.protocol.send_message(Message(DATA, 0, stream_id, payload))
        publisher.protocol.send_data(stream_id, 1, "onTextData", "after")
        await publisher.flush()
        event = await player.wait_for(events.DataReceived, lambda event: event.name == "onTextData")
        assert event.values == ["after"]
        assert not publisher.closed


async def watched(publisher: RtmpClient, player: RtmpClient) -> int:
    """The publisher's message stream, which the player plays from its first message on."""
    await player.connect("live")
    await player.play("cam1")
    await publisher.connect("live")
    return await publisher.publish("cam1")


def of(player: RtmpClient, name: str) -> list[Any]:
    """The values of all data of a name that the player was sent."""
    return [event.values for event in player.of(events.DataReceived) if event.name == name]


async def test_metadata_that_is_repeated_replaces_what_later_players_get(port: int) -> None:
    """GStreamer sends it dozens of times."""
    async with RtmpClient(port=port) as publisher, RtmpClient(port=port) as early, RtmpClient(port=port) as late:
        stream_id = await watched(publisher, early)
        await publisher.send_video(stream_id, 0, AVC_HEADER)
        await publisher.send_video(stream_id, 0, key_frame(0))
        for number in range(60):
            await publisher.send_metadata(stream_id, {"width": 640.0, "videodatarate": float(number)})
        await early.wait_until(lambda: len(early.of(events.DataReceived)) == 61)
        await late.connect("live")
        await late.play("cam1")
        await late.wait_count(events.VideoReceived, 2)
        assert of(late, "onMetaData") == [[{"width": 640.0, "videodatarate": 59.0}]]
        assert [values[0]["videodatarate"] for values in of(early, "onMetaData")] == list(range(60))


async def test_what_is_set_reaches_later_players_and_what_is_said_once_does_not(port: int) -> None:
    """Until it is cleared; a cue point belongs to its place in the stream, and comes with the pictures around it."""
    async with RtmpClient(port=port) as publisher, RtmpClient(port=port) as early:
        stream_id = await watched(publisher, early)
        send = publisher.protocol.send_data
        send(stream_id, 0, "onCuePoint", {"name": "before"})
        send(stream_id, 0, "@setDataFrame", "onScore", {"home": 1.0})
        send(stream_id, 0, "@setDataFrame", "onScore", {"home": 2.0})
        send(stream_id, 0, "@setDataFrame", "onTitle", "Final")
        await publisher.send_metadata(stream_id, {"width": 640.0})
        await publisher.send_video(stream_id, 0, AVC_HEADER)
        await publisher.send_video(stream_id, 0, key_frame(0))
        send(stream_id, 40, "onCuePoint", {"name": "within"})
        send(stream_id, 40, "@clearDataFrame", "onTitle")
        await publisher.create_stream()
        async with RtmpClient(port=port) as late:
            await late.connect("live")
            await late.play("cam1")
            await late.wait_until(lambda: len(late.of(events.DataReceived)) == 4)
            assert of(late, "onScore") == [[{"home": 2.0}]]
            assert of(late, "onCuePoint") == [[{"name": "within"}]]
            assert of(late, "onMetaData") == [[{"width": 640.0}]]
        assert [values[0]["name"] for values in of(early, "onCuePoint")] == ["before", "within"]
        assert len(of(early, "onScore")) == 2
        send(stream_id, 80, "@clearDataFrame")
        send(stream_id, 80, "@clearDataFrame", "onScore")
        await publisher.create_stream()
        async with RtmpClient(port=port) as later:
            await later.connect("live")
            await later.play("cam1")
            await later.wait_count(events.VideoReceived, 2)
            assert of(later, "onScore") == of(later, "onMetaData") == []


async def test_what_is_set_is_bounded(port: int) -> None:
    """More of it is relayed, and not kept."""
    async with RtmpClient(port=port) as publisher, RtmpClient(port=port) as early, RtmpClient(port=port) as late:
        stream_id = await watched(publisher, early)
        publisher.protocol.send_data(stream_id, 0, "@setDataFrame", "onLong", "x" * 70_000)
        for number in range(20):
            publisher.protocol.send_data(stream_id, 0, "@setDataFrame", f"on{number}", float(number))
        await publisher.send_video(stream_id, 0, AVC_HEADER)
        await early.wait_for(events.VideoReceived)
        assert len(early.of(events.DataReceived)) == 1 + 21
        await late.connect("live")
        await late.play("cam1")
        await late.wait_for(events.VideoReceived)
        kept = [event.name for event in late.of(events.DataReceived)][1:]
        assert kept == [f"on{number}" for number in range(8)]


async def test_amf3_reaches_players_of_amf0_as_amf0(port: int) -> None:
    """Of a publisher that connected with AMF3, as Flash Player does."""
    async with RtmpClient(port=port) as publisher, RtmpClient(port=port) as player:
        await player.connect("live")
        await player.play("cam1")
        await publisher.connect("live", objectEncoding=3)
        stream_id = await publisher.publish("cam1")
        cue = amf0.encode("onCuePoint", amf0.Amf3({"name": "goal", "at": [1, 2]}))
        publisher.protocol.send_message(Message(DATA_AMF3, 5, stream_id, b"\x00" + cue))
        await publisher.flush()
        event = await player.wait_for(events.DataReceived, lambda event: event.name == "onCuePoint")
        assert event.values == [{"name": "goal", "at": [1.0, 2.0]}]
        assert event.payload == amf0.encode("onCuePoint", {"name": "goal", "at": [1.0, 2.0]})


async def test_a_flood_of_data_ends_the_publisher_and_not_its_players(app: ScriptedApplication, port: int) -> None:
    """Each costs what it takes to read; what an encoder sends is far below (see test_rates)."""
    async with RtmpClient(port=port) as publisher, RtmpClient(port=port) as player:
        stream_id = await watched(publisher, player)
        await publisher.send_video(stream_id, 0, AVC_HEADER)
        await player.wait_for(events.VideoReceived)
        player.pause_reading()
        with suppress(OSError):
            for number in range(300):
                publisher.protocol.send_data(stream_id, number, "onFlood", "x" * 60_000)
                await publisher.flush()
        await publisher.wait_closed()
        event = await app.event("rtmp.unpublish")
        assert (event["reason"], "messages" in event["description"]) == ("protocol_error", True)
        player.resume_reading()
        await player.wait_for(events.DataReceived, lambda event: event.name == "onFlood")
        assert await player.create_stream()
