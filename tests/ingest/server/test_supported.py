"""Players that list their codecs in `connect`, and streams that are sent by others (Enhanced RTMP)."""

from typing import Any

import pytest

from ingest.rtmp import events
from ingest.rtmp.media import write_video
from tests.ingest.live.extended import MOD_EX, MULTITRACK, SENT, expected, picture
from tests.ingest.server.app import ScriptedApplication
from tests.ingest.server.media import AAC_HEADER, AVC_HEADER, key_frame
from tests.rtmp_client import Refused, RtmpClient

HEVC_HEADER = bytes.fromhex("9068766331") + b"header"
AVC_BY_FOURCC = bytes.fromhex("9061766331") + AVC_HEADER[5:]
OPUS_HEADER = bytes.fromhex("904f707573") + b"OpusHead" + bytes.fromhex("0102000080bb0000000000")
NOT_SUPPORTED = "NetStream.Play.NoSupportedTrackFound"
DECODE, ENCODE, FORWARD = 1, 2, 4


async def publish(client: RtmpClient, *, video: bytes = b"", audio: bytes = b"") -> int:
    await client.connect("live")
    stream_id = await client.publish("cam1")
    await send(client, stream_id, video=video, audio=audio)
    return stream_id


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
        (
            {"videoFourCcInfoMap": {"av01": DECODE}, "fourCcList": ["hvc1"]},
            {"video": HEVC_HEADER},
            "video is H.265 (hvc1)",
        ),
        ({"audioFourCcInfoMap": {"mp4a": DECODE}}, {"audio": OPUS_HEADER}, "audio is Opus (Opus)"),
    ],
    ids=str,
)
async def test_a_player_is_refused_what_it_does_not_list(
    app: ScriptedApplication, port: int, said: dict[str, Any], sent: dict[str, bytes], named: str
) -> None:
    async with RtmpClient(port=port) as publisher, RtmpClient(port=port) as player:
        await publish(publisher, **sent)
        await player.connect("live", **said)
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
async def test_a_player_gets_what_it_lists_or_says_nothing_of(
    port: int, said: dict[str, Any], sent: dict[str, bytes]
) -> None:
    async with RtmpClient(port=port) as publisher, RtmpClient(port=port) as player:
        await publish(publisher, **sent)
        await player.connect("live", **said)
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
async def test_tracks_and_extensions_go_to_players_that_say_so(port: int, said: dict[str, Any], takes: int) -> None:
    """To others the main track goes, as a message of its own and without extensions; to those that come late, too."""
    wanted = expected(takes)
    async with RtmpClient(port=port) as publisher, RtmpClient(port=port) as early, RtmpClient(port=port) as late:
        await early.connect("live", **said)
        await early.play("cam1")
        await publisher.connect("live")
        stream_id = await publisher.publish("cam1")
        for number, (message, _, _) in enumerate(SENT):
            await publisher.send_video(stream_id, 40 * number, write_video(message))
        await early.wait_count(events.VideoReceived, len(wanted))
        await late.connect("live", **said)
        await late.play("cam1")
        await late.wait_count(events.VideoReceived, len(wanted))
        await publisher.send_video(stream_id, 400, write_video(picture(10)))
        for player in (early, late):
            await player.wait_count(events.VideoReceived, len(wanted) + 1)
            assert [event.payload for event in player.of(events.VideoReceived)] == [*wanted, write_video(picture(10))]


async def test_a_codec_that_is_known_later_ends_those_that_do_not_take_it(app: ScriptedApplication, port: int) -> None:
    """With the first header, with the next publisher, or when an encoder changes its settings."""
    async with RtmpClient(port=port) as publisher, RtmpClient(port=port) as old, RtmpClient(port=port) as new:
        for player, listed in ((old, ["av01"]), (new, ["av01", "hvc1"])):
            await player.connect("live", fourCcList=listed)
            await player.play("cam1")
        stream_id = await publish(publisher, video=AVC_HEADER)
        await publisher.send_video(stream_id, 0, key_frame(0))
        await old.wait_count(events.VideoReceived, 2)
        await send(publisher, stream_id, video=HEVC_HEADER)
        status = await old.wait_for(events.StatusReceived, lambda event: event.level == "error")
        assert (status.code, "H.265 (hvc1)" in status.description) == (NOT_SUPPORTED, True)
        await old.wait_closed()
        await new.wait_for(events.VideoReceived, lambda event: event.payload == HEVC_HEADER)
        assert not new.closed
    await app.event("rtmp.stop", connection=1)
    stops = {event["reason"] for connection in app.connections for event in connection.of("rtmp.stop")}
    assert stops == {"unsupported_codec", "tcp_reset"}
