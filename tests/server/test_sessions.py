"""Publishing and playing through the server: decisions first, media relayed as it came, each end reported once."""

from collections.abc import Awaitable, Callable

import pytest

from ingest.management.commands import testpattern
from ingest.rtmp import events
from ingest.server import RtmpServer
from tests.rtmp_client import Refused, RtmpClient
from tests.server.app import Message, ScriptedApp
from tests.server.clients import connected, playing, publishing
from tests.server.media import AAC_HEADER, AVC_HEADER, inter_frame, key_frame, sound

KEY = "rk_7Qd4abcdefghijklmnopqrstuvwxyz0"


async def test_a_player_gets_what_was_published(port: int) -> None:
    async with publishing(port) as (publisher, stream_id), playing(port) as player:
        await publisher.send_metadata(stream_id, {"width": 640.0, "encoder": "test"})
        await publisher.send_video(stream_id, 0, AVC_HEADER)
        await publisher.send_audio(stream_id, 0, AAC_HEADER)
        video = [(40 * n, key_frame(n, 70_000) if n % 5 == 0 else inter_frame(n)) for n in range(20)]
        audio = [(40 * n + 7, sound(n)) for n in range(20)]
        for (video_at, frame), (audio_at, block) in zip(video, audio, strict=True):
            await publisher.send_video(stream_id, video_at, frame)
            await publisher.send_audio(stream_id, audio_at, block)
        await player.wait_count(events.AudioReceived, 21)
        assert [(e.timestamp, e.payload) for e in player.of(events.VideoReceived)] == [(0, AVC_HEADER), *video]
        assert [(e.timestamp, e.payload) for e in player.of(events.AudioReceived)] == [(0, AAC_HEADER), *audio]
        (metadata,) = [event for event in player.of(events.DataReceived) if event.name == "onMetaData"]
        assert metadata.values[0]["width"] == 640.0


async def test_play_start_comes_before_any_media(app: ScriptedApp, port: int) -> None:
    async with publishing(port) as (publisher, stream_id), connected(port) as player:
        await publisher.send_metadata(stream_id, {"width": 640.0})
        await publisher.send_video(stream_id, 0, AVC_HEADER)
        await publisher.send_video(stream_id, 0, key_frame(1))
        await app.event("rtmp.metadata", connection=0)
        await player.play("cam1")
        await player.wait_count(events.VideoReceived, 2)
        kinds = [type(event) for event in player.received]
        started = player.received.index(player.of(events.StatusReceived)[-1])
        assert player.of(events.StatusReceived)[-1].code == "NetStream.Play.Start"
        assert started < kinds.index(events.DataReceived) < kinds.index(events.VideoReceived)


async def test_players_wait_for_their_publisher_and_stay_when_it_comes_back(app: ScriptedApp, port: int) -> None:
    async with playing(port) as player:
        for number in range(2):
            async with publishing(port, AVC_HEADER, key_frame(number)):
                await player.wait_count(events.VideoReceived, 2 * number + 2)
            await app.event("rtmp.disconnect")
        assert [e.code for e in player.of(events.StatusReceived)] == ["NetStream.Play.Start"]
        times = [event.timestamp for event in player.of(events.VideoReceived)]
        assert times == sorted(times)


async def test_play_of_another_stream_ends_the_former_play(app: ScriptedApp, port: int) -> None:
    async with connected(port) as publisher, RtmpClient(port=port) as player:
        first, second = await publisher.publish("cam1"), await publisher.publish("cam2")
        await player.connect("live")
        stream_id = await player.play("cam1")
        await publisher.send_video(first, 0, AVC_HEADER)
        await player.wait_count(events.VideoReceived, 1)
        await player.play("cam2", stream_id=stream_id)
        ended = await app.event("rtmp.stop", connection=1)
        assert (ended["reason"], ended["description"]) == ("client_unpublish", "The client sent play.")
        await publisher.send_video(first, 40, key_frame(0, 100))
        await publisher.send_video(second, 0, AVC_HEADER)
        await publisher.send_video(second, 40, key_frame(1, 100))
        await player.wait_until(lambda: player.of(events.VideoReceived)[-1].payload == key_frame(1, 100))
        assert len(player.of(events.VideoReceived)) == 3


async def test_single_connection_publishes_or_plays_several_streams(port: int) -> None:
    async with connected(port) as publisher, connected(port) as player:
        ids = {name: await publisher.publish(name) for name in ("cam1", "cam2", "cam3")}
        played = {name: await player.play(name) for name in ids}
        for number, stream_id in enumerate(ids.values()):
            await publisher.send_video(stream_id, 0, AVC_HEADER)
            await publisher.send_video(stream_id, 0, key_frame(number))
        await player.wait_count(events.VideoReceived, 6)
        for number, stream_id in enumerate(played.values()):
            got = [event.payload for event in player.of(events.VideoReceived, stream_id=stream_id)]
            assert got == [AVC_HEADER, key_frame(number)]


async def test_publisher_scope_and_events_are_complete_and_mask_the_key(app: ScriptedApp, port: int) -> None:
    async with RtmpClient(port=port) as client:
        await client.connect(
            f"live/?key={KEY}&x=1",
            tc_url=f"rtmp://host/live/?key={KEY}",
            flashVer="FMLE/3.0 (compatible; FMSc/1.0)",
            swfUrl=f"rtmp://host/live?key={KEY}",
            fourCcList=["hvc1"],
            audioCodecs=4071,
            videoCodecs="all",
            capsEx=1,
        )
        stream_id = await client.publish("cam1?y=2")
        await client.send_metadata(stream_id, {"width": 640.0, "comment": f"with {KEY}"})
        await client.send_video(stream_id, 0, AVC_HEADER)
        await client.send_video(stream_id, 0, key_frame(1))
        await client.send_audio(stream_id, 10, sound(1))
        await app.event("rtmp.metadata")
        await client.delete_stream(stream_id)
        await app.event("rtmp.unpublish")
    await app.event("rtmp.disconnect")
    instance = app.connections[-1]
    scope = instance.scope
    assert (scope["app"], scope["scheme"], scope["node"]) == ("live", "rtmp", "node-1")
    assert scope["client"][0] == scope["server"][0] == "127.0.0.1"
    assert scope["server"][1] == port
    assert scope["query"] == {"key": "rk_7Qd4…", "x": "1"}
    assert scope["flash_ver"] == "FMLE/3.0 (compatible; FMSc/1.0)"
    assert scope["capabilities"] == {"fourCcList": ["hvc1"], "capsEx": 1, "audioCodecs": 4071}
    assert instance.events[0] == {"type": "rtmp.connect", "credential": KEY, "login": None}
    (asked,) = instance.of("rtmp.publish")
    assert (asked["name"], asked["credential"], asked["credential_is_name"]) == ("cam1", KEY, False)
    assert (asked["query"], asked["publish_type"]) == ({"y": "2"}, "live")
    others = [event for event in instance.events if event["type"] not in ("rtmp.connect", "rtmp.publish")]
    assert KEY not in repr([scope, *others])
    assert [event["code"] for event in instance.of("rtmp.status")] == [
        "NetConnection.Connect.Success",
        "NetStream.Publish.Start",
        "NetStream.Unpublish.Success",
    ]
    (ended,) = instance.of("rtmp.unpublish")
    assert ended["reason"] == "client_unpublish"
    assert [ended["totals"][each] for each in ("video_frames", "keyframes", "audio_frames")] == [1, 1, 1]
    assert instance.events[-1]["reason"] == "client_unpublish"
    assert instance.kinds[-3:] == ["rtmp.status", "rtmp.unpublish", "rtmp.disconnect"]


async def test_a_key_as_the_name_is_masked(app: ScriptedApp, port: int) -> None:
    async with publishing(port, name=KEY):
        (asked,) = app.connections[-1].of("rtmp.publish")
        assert (asked["name"], asked["credential"], asked["credential_is_name"]) == ("rk_7Qd4…", KEY, True)


async def test_no_success_before_the_decision(app: ScriptedApp, port: int) -> None:
    decide = app.hold("rtmp.publish")
    async with playing(port) as player, connected(port) as publisher:
        stream_id = await publisher.create_stream()
        publisher.protocol.publish(stream_id, "cam1", "live")
        publisher.protocol.send_video(stream_id, 0, AVC_HEADER)  # Pipelined, before any answer.
        publisher.protocol.send_video(stream_id, 0, key_frame(1))
        await publisher.flush()
        await app.event("rtmp.publish", connection=1)
        assert publisher.of(events.StatusReceived) == []
        assert player.of(events.VideoReceived) == []
        decide.set()
        await player.wait_count(events.VideoReceived, 2)


ASKS: dict[str, Callable[[RtmpClient], Awaitable[object]]] = {
    "": lambda client: client.connect("live"),
    "publish": lambda client: client.publish("cam1"),
    "play": lambda client: client.play("cam1"),
}


@pytest.mark.parametrize("kind", ASKS)
async def test_refusal_is_sent_and_the_connection_is_closed(app: ScriptedApp, server: RtmpServer, kind: str) -> None:
    app.refuse(kind, "NetStream.Publish.Denied", "No such key.")
    async with RtmpClient(port=server.addresses[0][1]) as client:
        if kind:
            await client.connect("live")
        with pytest.raises(Refused, match=r"NetStream\.Publish\.Denied: No such key\."):
            await ASKS[kind](client)
        await client.wait_closed()
    assert (await app.event("rtmp.disconnect"))["reason"] == "rejected"
    instance = app.connections[-1]
    assert instance.of("rtmp.status")[-1]["code"] == "NetStream.Publish.Denied"
    assert instance.of("rtmp.unpublish") == instance.of("rtmp.stop") == []
    assert server.registry.get("live/cam1") is None


async def test_refused_publish_does_not_end_the_connections_other_stream(app: ScriptedApp, port: int) -> None:
    async with publishing(port) as (client, stream_id):
        app.refuse("publish", "NetStream.Publish.BadName", "Busy.")
        with pytest.raises(Refused):
            await client.publish("cam2")
        await client.send_video(stream_id, 0, AVC_HEADER)
        await app.event("rtmp.metadata")
        assert not client.closed


async def test_a_second_publisher_that_is_admitted_replaces_the_first(app: ScriptedApp, port: int) -> None:
    async with playing(port) as player, publishing(port, AVC_HEADER, key_frame(1)) as (first, _):
        await player.wait_count(events.VideoReceived, 2)
        async with publishing(port, AVC_HEADER, key_frame(2)):
            await first.wait_closed()
            assert first.of(events.StatusReceived)[-1].code == "NetStream.Publish.BadName"
            await player.wait_for(events.VideoReceived, lambda event: event.payload == key_frame(2))
            assert (await app.event("rtmp.unpublish", connection=1))["reason"] == "replaced"
            assert app.connections[2].of("rtmp.unpublish") == []


@pytest.mark.parametrize(
    ("message", "reason", "code", "description"),
    [
        ({"type": "rtmp.close"}, "kicked", "Rejected", "Stopped by an operator."),
        ({"type": "rtmp.stream.stop", "stream_id": 1}, "key_revoked", "Denied", "The key is no longer valid."),
        (
            {"type": "node.drop", "session_id": "publish-1"},
            "lease_lost",
            "Failed",
            "The server lost its claim to the stream.",
        ),
    ],
)
async def test_the_application_ends_a_publisher(
    app: ScriptedApp, port: int, message: Message, reason: str, code: str, description: str
) -> None:
    async with publishing(port) as (client, _):
        instance = app.node if message["type"].startswith("node.") else app.connections[-1]
        await instance.send(message | {"reason": reason})
        status = await client.wait_for(events.StatusReceived, lambda event: event.level == "error")
        assert status.code == f"NetStream.Publish.{code}"
        await client.wait_closed()
    await app.event("rtmp.disconnect")
    instance = app.connections[-1]
    for kind in ("rtmp.unpublish", "rtmp.disconnect"):
        assert [(event["reason"], event["description"]) for event in instance.of(kind)] == [(reason, description)]


async def test_the_application_sends_a_status(app: ScriptedApp, port: int) -> None:
    async with publishing(port) as (client, stream_id):
        instance = app.connections[-1]
        slow = {"level": "warning", "code": "NetStream.Play.InsufficientBW", "description": "Slow."}
        await instance.send({"type": "rtmp.status.send", "stream_id": stream_id, **slow})
        status = await client.wait_for(events.StatusReceived, lambda event: event.level == "warning")
        assert (status.code, status.description) == ("NetStream.Play.InsufficientBW", "Slow.")
        await app.wait_until(lambda: len(instance.of("rtmp.status")) == 3)


async def test_unknown_message_from_the_application_raises_an_error_there(app: ScriptedApp, port: int) -> None:
    async with connected(port):
        with pytest.raises(ValueError, match="unknown message type"):
            await app.connections[-1].send({"type": "rtmp.nonsense"})


async def test_publish_accepted_after_the_client_left_is_reported_as_ended(
    app: ScriptedApp, server: RtmpServer
) -> None:
    """The session that the application began all the same is reported as ended, before the last event."""
    decide = app.hold("rtmp.publish")
    async with connected(server) as client:
        client.protocol.publish(await client.create_stream(), "cam1", "live")
        await client.flush()
        await app.event("rtmp.publish")
        next(iter(server.connections)).transport.abort()
        await client.wait_closed()
    instance = app.connections[-1]
    assert instance.of("rtmp.disconnect") == []
    decide.set()
    await app.event("rtmp.disconnect")
    assert instance.kinds[-2:] == ["rtmp.unpublish", "rtmp.disconnect"]
    assert instance.of("rtmp.unpublish")[0]["totals"]["bytes_in"] == 0


async def test_testpattern_reports_ffmpeg_output_that_is_no_flv(
    monkeypatch: pytest.MonkeyPatch, server: RtmpServer
) -> None:
    monkeypatch.setattr(testpattern, "ffmpeg_command", lambda *_: ["echo", "no FLV at all"])
    with pytest.raises(testpattern.PublishFailed, match="What FFmpeg wrote can't be published: no FLV"):
        await testpattern.publish_picture(
            f"rtmp://127.0.0.1:{server.addresses[0][1]}/live", "cam", testpattern.Picture()
        )
