"""What players are sent: data messages without secrets, codecs and tracks that they take."""

from contextlib import suppress
from typing import Any

import pytest

from ingest.rtmp import Message, events
from ingest.rtmp.amf import Amf3, EcmaArray, TypedObject, amf0
from ingest.rtmp.media import write_video
from tests.pure.live.test_extended import MOD_EX, MULTITRACK, SENT, expected, picture
from tests.rtmp_client import Refused, RtmpClient
from tests.server.app import ScriptedApp
from tests.server.clients import connected, playing, publishing
from tests.server.media import AAC_HEADER, AVC_HEADER, key_frame

KEY = "rk_7Qd4abcdefghijklmnopqrstuvwxyz0"
IMPORTED = "my-old-camera-key"
DATA, DATA_AMF3 = 18, 15


@pytest.fixture
def cam1(app: ScriptedApp) -> ScriptedApp:
    """Every publisher is admitted as live/cam1, whatever it publishes as."""
    app.change("rtmp.publish", path="live/cam1")
    return app


@pytest.mark.parametrize(
    ("name", "credential"), [(KEY, KEY), (IMPORTED, IMPORTED), (f"cam1?key={IMPORTED}", IMPORTED), ("cam1?key=x", KEY)]
)
async def test_key_quoted_in_data_is_masked_for_players(
    cam1: ScriptedApp, port: int, name: str, credential: str
) -> None:
    async with publishing(port, name=name) as (publisher, stream_id), playing(port) as player:
        url = f"rtmp://host/live/{credential}"
        await publisher.send_metadata(stream_id, {"url": url, "width": 640.0, "deep": {"list": [f"see {credential}"]}})
        publisher.protocol.send_data(stream_id, 5, "onTextData", {"text": "rtmp://host/live?key=whatever"})
        publisher.protocol.send_data(stream_id, 6, "onCuePoint", EcmaArray({"name": "plain", "url": url}))
        await publisher.flush()
        await player.wait_for(events.DataReceived, lambda event: event.name == "onCuePoint")
        found = {event.name: event for event in player.of(events.DataReceived)}
        assert credential.encode() not in b"".join(event.payload for event in found.values())
        metadata = found["onMetaData"].values[0]
        assert (metadata["width"], metadata["url"][:17]) == (640.0, "rtmp://host/live/")
        assert found["onTextData"].timestamp == 5
        assert found["onTextData"].values == [{"text": "rtmp://host/live?key=wh…"}]
        cue = found["onCuePoint"].values[0]
        assert (type(cue), cue["name"]) == (EcmaArray, "plain")


async def test_metadata_event_for_the_application_masks_the_key(cam1: ScriptedApp, port: int) -> None:
    async with publishing(port, name=IMPORTED) as (client, stream_id):
        await client.send_metadata(stream_id, {"url": f"rtmp://host/live/{IMPORTED}", "width": 640.0})
        await client.send_video(stream_id, 0, AVC_HEADER)
        event = await cam1.event("rtmp.metadata")
        assert event["metadata"]["width"] == 640.0
        assert IMPORTED not in repr(event)


async def test_data_without_secrets_are_relayed_byte_for_byte(port: int) -> None:
    """Also in forms that encoding anew would change, and with the name of a publisher that needs no key."""
    metadata = amf0.encode("onMetaData") + bytes.fromhex("08 000000ff 0001 61 0101 000009")
    text = amf0.encode("onTextData", TypedObject("Note", {"cam1": "cam1 at https://host/cam1?keys=1"}))
    async with publishing(port) as (publisher, stream_id), playing(port) as player:
        for payload in (metadata, text):
            publisher.protocol.send_message(Message(DATA, 0, stream_id, payload))
        await publisher.flush()
        await player.wait_for(events.DataReceived, lambda event: event.name == "onTextData")
        relayed = [event.payload for event in player.of(events.DataReceived) if event.name != "|RtmpSampleAccess"]
        assert relayed == [metadata, text]


async def test_long_data_that_quote_a_key_are_left_out(cam1: ScriptedApp, port: int) -> None:
    async with publishing(port, name=KEY) as (publisher, stream_id), playing(port) as player:
        for text in (f"{KEY} {'x' * 70_000}", "x" * 70_000):
            publisher.protocol.send_data(stream_id, 0, "onTextData", text)
        await publisher.flush()
        event = await player.wait_for(events.DataReceived, lambda event: event.name == "onTextData")
        assert event.values == ["x" * 70_000]


async def test_data_that_cannot_be_written_without_the_key_are_left_out(cam1: ScriptedApp, port: int) -> None:
    """A name that isn't UTF-8 grows as it is read, here over what a name in AMF0 may have."""
    name = bytes.fromhex("7530") + b"\xff" * 30_000
    payload = amf0.encode("onTextData", KEY) + b"\x03" + name + b"\x05" + bytes.fromhex("000009")
    async with publishing(port, name=KEY) as (publisher, stream_id), playing(port) as player:
        publisher.protocol.send_message(Message(DATA, 0, stream_id, payload))
        publisher.protocol.send_data(stream_id, 1, "onTextData", "after")
        await publisher.flush()
        event = await player.wait_for(events.DataReceived, lambda event: event.name == "onTextData")
        assert event.values == ["after"]
        assert not publisher.closed


def of(player: RtmpClient, name: str) -> list[Any]:
    """The values of all data of a name that the player was sent."""
    return [event.values for event in player.of(events.DataReceived) if event.name == name]


async def test_metadata_that_is_repeated_replaces_what_later_players_get(port: int) -> None:
    """GStreamer sends it dozens of times."""
    async with playing(port) as early, publishing(port, AVC_HEADER, key_frame(0)) as (publisher, stream_id):
        for number in range(60):
            await publisher.send_metadata(stream_id, {"width": 640.0, "videodatarate": float(number)})
        await early.wait_until(lambda: len(early.of(events.DataReceived)) == 61)
        async with playing(port) as late:
            await late.wait_count(events.VideoReceived, 2)
            assert of(late, "onMetaData") == [[{"width": 640.0, "videodatarate": 59.0}]]
        assert [values[0]["videodatarate"] for values in of(early, "onMetaData")] == list(range(60))


async def test_set_data_frames_reach_later_players_until_they_are_cleared(port: int) -> None:
    """Until it is cleared; a cue point belongs to its place in the stream, and comes with the pictures around it."""
    async with playing(port) as early, publishing(port) as (publisher, stream_id):
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
        async with playing(port) as late:
            await late.wait_until(lambda: len(late.of(events.DataReceived)) == 4)
            assert of(late, "onScore") == [[{"home": 2.0}]]
            assert of(late, "onCuePoint") == [[{"name": "within"}]]
            assert of(late, "onMetaData") == [[{"width": 640.0}]]
        assert [values[0]["name"] for values in of(early, "onCuePoint")] == ["before", "within"]
        assert len(of(early, "onScore")) == 2
        send(stream_id, 80, "@clearDataFrame")
        send(stream_id, 80, "@clearDataFrame", "onScore")
        await publisher.create_stream()
        async with playing(port) as later:
            await later.wait_count(events.VideoReceived, 2)
            assert of(later, "onScore") == of(later, "onMetaData") == []


async def test_kept_data_frames_are_bounded_in_size_and_number(port: int) -> None:
    """More of it is relayed, and not kept."""
    async with playing(port) as early, publishing(port) as (publisher, stream_id):
        publisher.protocol.send_data(stream_id, 0, "@setDataFrame", "onLong", "x" * 70_000)
        for number in range(20):
            publisher.protocol.send_data(stream_id, 0, "@setDataFrame", f"on{number}", float(number))
        await publisher.send_video(stream_id, 0, AVC_HEADER)
        await early.wait_for(events.VideoReceived)
        assert len(early.of(events.DataReceived)) == 1 + 21
        async with playing(port) as late:
            await late.wait_for(events.VideoReceived)
            kept = [event.name for event in late.of(events.DataReceived)][1:]
        assert kept == [f"on{number}" for number in range(8)]


async def test_amf3_reaches_players_of_amf0_as_amf0(port: int) -> None:
    """Of a publisher that connected with AMF3, as Flash Player does."""
    async with playing(port) as player, publishing(port, objectEncoding=3) as (publisher, stream_id):
        cue = amf0.encode("onCuePoint", Amf3({"name": "goal", "at": [1, 2]}))
        publisher.protocol.send_message(Message(DATA_AMF3, 5, stream_id, b"\x00" + cue))
        await publisher.flush()
        event = await player.wait_for(events.DataReceived, lambda event: event.name == "onCuePoint")
        assert event.values == [{"name": "goal", "at": [1.0, 2.0]}]
        assert event.payload == amf0.encode("onCuePoint", {"name": "goal", "at": [1.0, 2.0]})


async def test_a_flood_of_data_ends_the_publisher_and_not_its_players(app: ScriptedApp, port: int) -> None:
    """Each costs what it takes to read; what an encoder sends is far below (see test_rates)."""
    async with playing(port) as player, publishing(port, AVC_HEADER) as (publisher, stream_id):
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


HEVC_HEADER = bytes.fromhex("9068766331") + b"header"
AVC_BY_FOURCC = bytes.fromhex("9061766331") + AVC_HEADER[5:]
OPUS_HEADER = bytes.fromhex("904f707573") + b"OpusHead" + bytes.fromhex("0102000080bb0000000000")
NOT_SUPPORTED = "NetStream.Play.NoSupportedTrackFound"
DECODE, ENCODE, FORWARD = 1, 2, 4


async def send(client: RtmpClient, stream_id: int, *, video: bytes = b"", audio: bytes = b"") -> None:
    """And wait until it has been read."""
    if video:
        await client.send_video(stream_id, 0, video)
    if audio:
        await client.send_audio(stream_id, 0, audio)
    await client.create_stream()


@pytest.mark.parametrize(
    ("said", "sent", "named"),
    [
        ({"fourCcList": ["av01", "vp09"]}, {"video": HEVC_HEADER}, "video is H.265 (hvc1)"),
        ({"fourCcList": []}, {"video": HEVC_HEADER}, "video is H.265 (hvc1)"),
        ({"fourCcList": ["hvc1"]}, {"video": AVC_BY_FOURCC}, "video is H.264 (avc1)"),
        ({"fourCcList": ["hvc1", "fLaC"]}, {"video": HEVC_HEADER, "audio": OPUS_HEADER}, "audio is Opus (Opus)"),
        ({"videoFourCcInfoMap": {"av01": DECODE}}, {"video": HEVC_HEADER}, "video is H.265 (hvc1)"),
        ({"videoFourCcInfoMap": {"hvc1": ENCODE}}, {"video": HEVC_HEADER}, "video is H.265 (hvc1)"),
        ({"videoFourCcInfoMap": {"av01": 1}, "fourCcList": ["hvc1"]}, {"video": HEVC_HEADER}, "video is H.265 (hvc1)"),
        ({"audioFourCcInfoMap": {"mp4a": DECODE}}, {"audio": OPUS_HEADER}, "audio is Opus (Opus)"),
    ],
    ids=str,
)
async def test_play_of_a_codec_that_the_player_does_not_list_is_refused(
    app: ScriptedApp, port: int, said: dict[str, Any], sent: dict[str, bytes], named: str
) -> None:
    async with publishing(port) as (publisher, stream_id), connected(port, **said) as player:
        await send(publisher, stream_id, **sent)
        with pytest.raises(Refused) as refused:
            await player.play("cam1")
        assert (refused.value.code, named in refused.value.description) == (NOT_SUPPORTED, True)
        await player.wait_closed()
        assert not publisher.closed
    ended = await app.event("rtmp.stop")
    assert (ended["reason"], named in ended["description"]) == ("unsupported_codec", True)
    assert [event["code"] for event in app.connections[-1].of("rtmp.status")][-1] == NOT_SUPPORTED


@pytest.mark.parametrize(
    ("said", "sent"),
    [
        ({}, {"video": HEVC_HEADER, "audio": OPUS_HEADER}),
        ({"capsEx": 1}, {"video": HEVC_HEADER, "audio": OPUS_HEADER}),
        ({"fourCcList": ["*"]}, {"video": HEVC_HEADER, "audio": OPUS_HEADER}),
        ({"fourCcList": ["hvc1"]}, {"video": HEVC_HEADER, "audio": OPUS_HEADER}),
        ({"fourCcList": ["Opus"]}, {"video": HEVC_HEADER, "audio": OPUS_HEADER}),
        ({"fourCcList": ["av01"]}, {"video": AVC_HEADER, "audio": AAC_HEADER}),
        ({"fourCcList": []}, {"video": AVC_HEADER, "audio": AAC_HEADER}),
        ({"videoFourCcInfoMap": {"*": FORWARD}}, {"video": HEVC_HEADER, "audio": OPUS_HEADER}),
        ({"videoFourCcInfoMap": {"hvc1": DECODE}, "fourCcList": ["av01"]}, {"video": HEVC_HEADER}),
        ({"audioFourCcInfoMap": {"Opus": DECODE}, "fourCcList": ["hvc1", "fLaC"]}, {"audio": OPUS_HEADER}),
    ],
    ids=str,
)
async def test_player_gets_listed_codecs_legacy_ones_and_all_without_a_list(
    port: int, said: dict[str, Any], sent: dict[str, bytes]
) -> None:
    async with publishing(port) as (publisher, stream_id), connected(port, **said) as player:
        await send(publisher, stream_id, **sent)
        await player.play("cam1")
        if "video" in sent:
            assert (await player.wait_for(events.VideoReceived)).payload == sent["video"]
        if "audio" in sent:
            assert (await player.wait_for(events.AudioReceived)).payload == sent["audio"]


@pytest.mark.parametrize(
    ("said", "takes"),
    [
        ({}, 0),
        ({"fourCcList": ["*"]}, 0),
        ({"capsEx": 0}, 0),
        ({"capsEx": 1}, 0),
        ({"capsEx": 2}, MULTITRACK),
        ({"capsEx": 4}, MOD_EX),
        ({"capsEx": 15}, MULTITRACK | MOD_EX),
    ],
    ids=str,
)
async def test_tracks_and_extensions_go_only_to_players_that_support_them(
    port: int, said: dict[str, Any], takes: int
) -> None:
    """To others the main track goes, as a message of its own and without extensions; to those that come late, too."""
    wanted = expected(takes)
    async with playing(port, **said) as early, publishing(port) as (publisher, stream_id):
        for number, (message, _, _) in enumerate(SENT):
            await publisher.send_video(stream_id, 40 * number, write_video(message))
        await early.wait_count(events.VideoReceived, len(wanted))
        wanted.append(write_video(picture(10)))
        async with playing(port, **said) as late:
            await late.wait_count(events.VideoReceived, len(wanted) - 1)
            await publisher.send_video(stream_id, 400, wanted[-1])
            for player in (early, late):
                await player.wait_count(events.VideoReceived, len(wanted))
                assert [event.payload for event in player.of(events.VideoReceived)] == wanted


async def test_codec_change_ends_players_that_do_not_list_the_new_codec(app: ScriptedApp, port: int) -> None:
    """With the first header, with the next publisher, or when an encoder changes its settings."""
    async with (
        playing(port, fourCcList=["av01"]) as old,
        playing(port, fourCcList=["av01", "hvc1"]) as new,
        publishing(port, AVC_HEADER, key_frame(0)) as (publisher, stream_id),
    ):
        await old.wait_count(events.VideoReceived, 2)
        await send(publisher, stream_id, video=HEVC_HEADER)
        status = await old.wait_for(events.StatusReceived, lambda event: event.level == "error")
        assert (status.code, "H.265 (hvc1)" in status.description) == (NOT_SUPPORTED, True)
        await old.wait_closed()
        await new.wait_for(events.VideoReceived, lambda event: event.payload == HEVC_HEADER)
        assert not new.closed
    await app.event("rtmp.stop", connection=1)
    assert {stop["reason"] for stop in app.stops} == {"unsupported_codec", "tcp_reset"}
