"""A stream that is published here is published on other servers as well: what they are sent, and until when."""

import pytest

from ingest.rtmp import Message, events
from ingest.rtmp.amf import amf0
from ingest.rtmp.media import write_video
from ingest.server import RtmpServer
from tests.pure.live.test_extended import MULTITRACK, SENT, expected
from tests.server.app import ScriptedApp
from tests.server.clients import Camera, Stage, playing, publishing
from tests.server.media import AAC_HEADER, AVC_HEADER, inter_frame, key_frame, sound
from tests.server.push.conftest import KEY, becomes_state, changes, only_push, order, push
from tests.server.push.plain_server import PlainServer
from tests.server.test_relaying import HEVC_HEADER
from tests.server.waiting import becomes

DATA = 18


async def test_a_stream_is_published_on_another_server(
    app: ScriptedApp, target_app: ScriptedApp, server: RtmpServer, target: RtmpServer, quiet: None
) -> None:
    """Byte for byte, from the headers and the last keyframe on, and what the publisher has kept as such."""
    metadata = amf0.encode("onMetaData") + bytes.fromhex("08 000000ff 0001 61 0101 000009")
    async with playing(target, name=KEY) as there, publishing(server) as (publisher, stream_id):
        camera = Camera(publisher, stream_id, 0)
        publisher.protocol.send_message(Message(DATA, 0, stream_id, amf0.encode("@setDataFrame") + metadata))
        publisher.protocol.send_data(stream_id, 0, "@setDataFrame", "onTitle", "Final")
        await camera.headers()
        await camera.send(key=True, count=3)
        await push(app, order(target))
        assert (await becomes_state(app, "live"))["code"] == ""
        await camera.send(count=40)
        await camera.send(key=True)
        publisher.protocol.send_data(stream_id, camera.time, "onCuePoint", {"name": "goal"})
        await publisher.flush()
        await there.wait_for(events.DataReceived, lambda event: event.name == "onCuePoint")
        frames = [key_frame(1), *map(inter_frame, range(2, 44)), key_frame(44)]
        assert [event.payload for event in there.of(events.VideoReceived)] == [AVC_HEADER, *frames]
        heard = [event.payload for event in there.of(events.AudioReceived)]
        assert heard == [AAC_HEADER, *map(sound, range(1, 45))]
        times = [event.timestamp for event in there.of(events.VideoReceived)]
        assert times[1:] == list(range(40, 45 * 40, 40))
        data = {event.name: event for event in there.of(events.DataReceived)}
        assert data["onMetaData"].payload == metadata
        assert data["onTitle"].values == ["Final"]
        async with playing(target, name=KEY) as late:
            found = await late.wait_for(events.DataReceived, lambda event: event.name == "onTitle")
            assert found.values == ["Final"]
    connect = target_app.connections[1].scope
    assert (connect["app"], connect["flash_ver"]) == ("live", "FMLE/3.0 (compatible; rtmpweb)")
    assert connect["tc_url"] == f"rtmp://127.0.0.1:{target.addresses[0][1]}/live"
    assert set(connect["connect"]["object"]) == {"app", "type", "flashVer", "tcUrl"}
    assert connect["connect"]["object"]["type"] == "nonprivate"


async def test_push_ends_with_fcunpublish_when_its_publisher_ends(
    app: ScriptedApp, target_app: ScriptedApp, server: RtmpServer, target: RtmpServer, quiet: None
) -> None:
    async with publishing(server, AVC_HEADER, key_frame(0)) as (publisher, stream_id):
        await push(app, order(target))
        await becomes_state(app, "live")
        await publisher.delete_stream(stream_id)
        ended = await target_app.event("rtmp.unpublish")
    assert (ended["reason"], ended["description"]) == ("client_unpublish", "The client sent FCUnpublish.")
    tick = await app.next_tick(2)
    assert tick["pushes"] == []
    assert [change["state"] for change in changes(app)] == ["live"]


async def test_push_removed_from_the_order_ends_and_the_others_go_on(
    app: ScriptedApp, target_app: ScriptedApp, server: RtmpServer, target: RtmpServer, quiet: None
) -> None:
    first, second = (order(target, target=number, name=f"out-{number}") for number in (1, 2))
    async with publishing(server, AVC_HEADER, key_frame(0)) as (publisher, stream_id):
        await push(app, first, second)
        await becomes_state(app, "live")
        await becomes_state(app, "live", target=2)
        kept = next(each for each in server.node.pushes if each.order["target"] == 2)
        await push(app, second)
        await becomes(lambda: "live/out-1" not in {session.path for session in target.sessions.values()})
        assert list(server.node.pushes) == [kept]
        async with playing(target, name="out-2") as there:
            await there.wait_count(events.VideoReceived, 2)
            await publisher.send_video(stream_id, 40, inter_frame(1))
            await there.wait_count(events.VideoReceived, 3)
        await push(app, order(target, target=2, name="out-3"))
        await becomes(lambda: {session.path for session in target.sessions.values()} == {"live/out-3"})
        await push(app)
        await becomes(lambda: not target.sessions)
    assert not list(server.node.pushes)


async def test_push_order_for_an_ended_session_starts_nothing(
    app: ScriptedApp, server: RtmpServer, target: RtmpServer
) -> None:
    await push(app, order(target), session_id="publish-7")
    assert (await app.next_tick())["pushes"] == []


async def test_no_server_is_dialled_before_there_are_media(
    app: ScriptedApp, target_app: ScriptedApp, server: RtmpServer, target: RtmpServer, quiet: None
) -> None:
    async with publishing(server) as (publisher, stream_id):
        await push(app, order(target))
        await app.next_tick()
        assert not target_app.connections
        await publisher.send_video(stream_id, 0, AVC_HEADER)
        await publisher.send_video(stream_id, 0, key_frame(0))
        await becomes_state(app, "live")


async def test_push_figures_count_as_node_traffic_but_not_as_a_player(
    app: ScriptedApp, server: RtmpServer, target: RtmpServer, quiet: None
) -> None:
    """It counts as no player, though what it is sent is traffic of the node."""
    async with Stage(server) as stage:
        camera = await stage.camera("cam1")
        await camera.send(key=True)
        await push(app, order(target))
        await becomes_state(app, "live")
        await camera.send(key=True, count=50)
        await app.next_tick(2)
        await app.wait_until(lambda: app.ticks[-1]["pushes"][0]["behind_ms"] == 0)  # A busy machine may hold it up.
        tick = app.ticks[-1]
        (figures,) = tick["pushes"]
        assert (figures["target"], figures["session_id"], figures["stream"]) == (1, "publish-1", 1)
        assert (figures["state"], figures["tries"], figures["retry_at"]) == ("live", 0, None)
        assert figures["sent_bytes"] > 50 * 300
        assert any(each["pushes"][0]["kbps"] > 0 for each in app.ticks if each["pushes"])
        assert (figures["dropped_frames"], figures["behind_ms"]) == (0, 0)
        assert figures["rtt_ms"] is not None
        assert (tick["players"], tick["streams"][0]["players"]) == ([], 0)
        assert tick["figures"]["counters"]["sent_bytes"] >= figures["sent_bytes"]


async def test_push_url_with_app_instance_and_query_reaches_the_target_unchanged(
    app: ScriptedApp, target_app: ScriptedApp, server: RtmpServer, target: RtmpServer, quiet: None
) -> None:
    url = f"rtmp://127.0.0.1:{target.addresses[0][1]}/live/studio?event=7"
    async with publishing(server, AVC_HEADER, key_frame(0)):
        await push(app, order(url, name="out?adbe-live-event=x"))
        await becomes_state(app, "live")
    scope = target_app.connections[0].scope
    assert (scope["app"], scope["query"], scope["tc_url"]) == ("live/studio", {"event": "7"}, url)
    asked = target_app.connections[0].of("rtmp.publish")[0]
    assert asked["query"] == {"adbe-live-event": "x"}


async def test_push_of_a_returned_publisher_continues_the_timestamps(
    app: ScriptedApp, server: RtmpServer, target: RtmpServer, quiet: None
) -> None:
    """With the players' time, which goes on."""
    async with playing(server) as here, playing(target, name=KEY) as there:
        for number in (1, 2):
            async with publishing(server, AVC_HEADER, key_frame(number)) as (publisher, stream_id):
                await here.wait_count(events.VideoReceived, 2 * number)
                session_id = next(key for key in server.sessions if key.startswith("publish"))
                await push(app, order(target), session_id=session_id)
                await there.wait_count(events.VideoReceived, 2 * number)
                assert there.of(events.VideoReceived)[-1].payload == key_frame(number)
                await publisher.delete_stream(stream_id)
                await becomes(lambda: not list(server.node.pushes))
        times = [event.timestamp for event in there.of(events.VideoReceived)]
        assert times == sorted(times)


async def test_tracks_and_extensions_are_passed_on(
    app: ScriptedApp, server: RtmpServer, target: RtmpServer, quiet: None
) -> None:
    """To a server that takes them, as ours does: all that a player gets that says so."""
    wanted = expected(MULTITRACK | 4)
    async with playing(target, name=KEY, capsEx=15) as there, publishing(server) as (publisher, stream_id):
        for number, (message, _, _) in enumerate(SENT):
            await publisher.send_video(stream_id, 40 * number, write_video(message))
            if number == 0:
                await push(app, order(target))
                await becomes_state(app, "live")
        await there.wait_count(events.VideoReceived, len(wanted))
        assert [event.payload for event in there.of(events.VideoReceived)] == wanted


async def test_push_announces_enhanced_rtmp_only_for_codecs_that_need_it(
    app: ScriptedApp, target_app: ScriptedApp, server: RtmpServer, target: RtmpServer, quiet: None
) -> None:
    """And when a codec becomes one that needs it, by a new connection."""
    async with playing(target, name=KEY) as there, publishing(server, AVC_HEADER, key_frame(0)) as (client, stream_id):
        await push(app, order(target))
        await becomes_state(app, "live")
        assert "capsEx" not in target_app.connections[1].scope["capabilities"]
        await client.send_video(stream_id, 40, HEVC_HEADER)
        await client.send_video(stream_id, 80, bytes.fromhex("93 68766331") + b"picture")
        await there.wait_for(events.VideoReceived, lambda event: event.payload == HEVC_HEADER)
        await becomes_state(app, "live", after=1)
        assert target_app.connections[-1].scope["capabilities"]["capsEx"] & MULTITRACK


async def test_a_codec_that_goes_to_and_fro_makes_one_new_connection(
    app: ScriptedApp, target_app: ScriptedApp, server: RtmpServer, target: RtmpServer, quiet: None
) -> None:
    """However often a publisher changes it: a server that was told of Enhanced RTMP need not be told again."""
    async with playing(target, name=KEY) as there, publishing(server, AVC_HEADER, key_frame(0)) as (client, stream_id):
        await push(app, order(target))
        await becomes_state(app, "live")
        live = only_push(server).live
        for number in range(1, 4):
            await client.send_video(stream_id, 80 * number, HEVC_HEADER)
            await becomes(lambda: "video" in live.fourccs)
            await becomes_state(app, "live", after=1)
            await client.send_video(stream_id, 80 * number + 40, AVC_HEADER)
            await becomes(lambda: not live.fourccs)
        await client.send_video(stream_id, 400, key_frame(9))
        await there.wait_for(events.VideoReceived, lambda event: event.payload == key_frame(9))
        assert len(target_app.connections) == 1 + 2


async def test_cleared_data_frame_is_cleared_at_the_push_target(
    app: ScriptedApp, server: RtmpServer, target: RtmpServer, quiet: None
) -> None:
    async with publishing(server) as (publisher, stream_id):
        publisher.protocol.send_data(stream_id, 0, "@setDataFrame", "onTitle", "Final")
        await publisher.send_video(stream_id, 0, AVC_HEADER)
        await publisher.send_video(stream_id, 0, key_frame(0))
        await push(app, order(target))
        await becomes_state(app, "live")
        async with playing(target, name=KEY) as there:
            await there.wait_for(events.DataReceived, lambda event: event.name == "onTitle")
        publisher.protocol.send_data(stream_id, 0, "@clearDataFrame", "onTitle")
        await publisher.send_video(stream_id, 40, inter_frame(1))
        async with playing(target, name=KEY) as late:
            await late.wait_for(events.VideoReceived, lambda event: event.payload == inter_frame(1))
            assert not [event for event in late.of(events.DataReceived) if event.name == "onTitle"]


async def test_push_sends_its_backlog_after_the_publisher_leaves(
    app: ScriptedApp, target_app: ScriptedApp, server: RtmpServer, target: RtmpServer, quiet: None
) -> None:
    async with playing(target, name=KEY) as there, publishing(server, AVC_HEADER, key_frame(0)) as (client, stream_id):
        await push(app, order(target))
        await becomes_state(app, "live")
        transports = [each.transport for each in target.connections]
        for transport in transports:
            transport.pause_reading()
        frames = [key_frame(number, 100_000) for number in range(1, 60)]
        for number, frame in enumerate(frames, 1):
            await client.send_video(stream_id, 40 * number, frame)
        await becomes(lambda: only_push(server).figures["behind_ms"] > 0 or only_push(server).sent_bytes > 5_000_000)
        await client.delete_stream(stream_id)
        await app.event("rtmp.unpublish")
        for transport in transports:
            transport.resume_reading()
        await there.wait_count(events.VideoReceived, 2 + len(frames))
        ended = await target_app.event("rtmp.unpublish")
        assert ended["description"] == "The client sent FCUnpublish."


@pytest.mark.parametrize("answer", ["error", "nothing"])
async def test_push_works_with_targets_that_do_not_support_release_stream(
    app: ScriptedApp, server: RtmpServer, answer: str, quiet: None
) -> None:
    """nginx-rtmp gives no answer; others an error."""
    async with PlainServer() as plain, publishing(server, AVC_HEADER, key_frame(0)):
        plain.fails = {"releaseStream", "FCPublish"} if answer == "error" else set()
        await push(app, order(plain.port))
        await becomes_state(app, "live")
        assert plain.names == ["connect", "releaseStream", "FCPublish", "createStream", "publish"]
        assert plain.chunk_size == 60_000
