"""Live streams by HTTP and by WebSocket: what arrives, when it ends, and what the application hears of it."""

import asyncio
from functools import partial

import pytest

from ingest.flv.tags import tag_bytes
from ingest.rtmp import events
from ingest.rtmp.media import write_video
from ingest.server import RtmpServer
from ingest.server.media import live_viewer as module
from tests.pure.live.test_extended import SENT, expected
from tests.rtmp_client import RtmpClient
from tests.server.app import Instance, ScriptedApp
from tests.server.clients import playing, publishing
from tests.server.conftest import Serve
from tests.server.media import AAC_HEADER, AVC_HEADER, inter_frame, key_frame, sound
from tests.server.viewers.browser import SocketViewer, Viewer, ask, both
from tests.server.waiting import set_deadlines

CAM = "/live/live/cam1.flv"
HEADS = [AAC_HEADER, AVC_HEADER]


def has_ended(told: Instance) -> bool:
    return bool(told.of("rtmp.disconnect"))


def has_last(viewer: Viewer, payload: bytes) -> bool:
    return [tag.payload for tag in viewer.tags[-1:]] == [payload]


async def test_http_and_websocket_viewers_get_what_an_rtmp_player_gets(
    media_port: int, port: int, publisher: RtmpClient
) -> None:
    async with playing(port) as player, both(media_port, CAM) as viewers:
        await publisher.send_metadata(1, {"width": 640.0})
        await publisher.send_video(1, 40, key_frame(1))
        await publisher.send_audio(1, 45, sound(2))
        await publisher.send_video(1, 80, inter_frame(3))

        def played() -> list[tuple[str, int, bytes]]:
            return [
                (type(event).__name__, event.timestamp, event.payload)
                for event in player.received
                if isinstance(event, events.AudioReceived | events.VideoReceived)
                or (isinstance(event, events.DataReceived) and event.name == "onMetaData")
            ]

        await player.wait_until(lambda: len(played()) >= 6)
        names = {8: "AudioReceived", 9: "VideoReceived", 18: "DataReceived"}
        for viewer in viewers:
            tags = await viewer.wait_tags(6)
            assert sorted((names[tag.type_id], tag.timestamp, tag.payload) for tag in tags) == sorted(played())
            assert [tag.payload for tag in tags][-3:] == [key_frame(1), sound(2), inter_frame(3)]


async def test_late_viewer_gets_the_sequence_headers_and_the_current_gop(media_port: int, shown: RtmpClient) -> None:
    await shown.send_video(1, 80, inter_frame(2))
    async with both(media_port, CAM) as viewers:
        for viewer in viewers:
            tags = await viewer.wait_tags(4)
            assert [tag.payload for tag in tags] == [*HEADS, key_frame(1), inter_frame(2)]


async def test_browser_viewers_get_only_the_main_track_without_extensions(
    media_port: int, publisher: RtmpClient
) -> None:
    async with both(media_port, CAM) as viewers:
        for message, _, _ in SENT:
            await publisher.send_video(1, 0, write_video(message))
        for viewer in viewers:
            tags = await viewer.wait_tags(len(HEADS) + len(expected(0)))
            assert [tag.payload for tag in tags] == [*HEADS, *expected(0)]


@pytest.mark.parametrize(
    ("kinds", "flags"), [(("video", "audio"), 5), (("video",), 1), (("audio",), 4)], ids=["both", "video", "audio"]
)
async def test_flv_header_flags_name_the_media_that_the_stream_has(
    media_port: int, port: int, kinds: tuple[str, ...], flags: int
) -> None:
    """A browser's player waits for all that the header names."""
    async with Viewer(media_port, CAM) as viewer, publishing(port) as (client, _):
        await client.send_metadata(1, {"encoder": "x"})
        if "video" in kinds:
            await client.send_video(1, 0, AVC_HEADER)
        if "audio" in kinds:
            await client.send_audio(1, 0, AAC_HEADER)
            await client.send_audio(1, 5, sound(1))
        if "video" in kinds:
            await client.send_video(1, 40, key_frame(1))
        await viewer.wait_tags(2 * len(kinds) + 1)
        assert viewer.body[:13] == b"FLV\x01" + bytes([flags]) + b"\0\0\0\x09" + b"\0\0\0\0"


async def test_viewer_waits_for_the_publisher_and_goes_on_with_the_next(media_port: int, port: int) -> None:
    async with Viewer(media_port, CAM) as viewer:
        await viewer.wait_accepted()
        for frame in (key_frame(1), key_frame(2)):
            async with publishing(port, AVC_HEADER) as (client, _):
                await client.send_video(1, 40, frame)
                await viewer.wait_until(partial(has_last, viewer, frame))
        assert [tag.payload for tag in viewer.tags] == [AVC_HEADER, key_frame(1), AVC_HEADER, key_frame(2)]
        times = [tag.timestamp for tag in viewer.tags]
        assert times == sorted(times)


async def test_a_tag_is_made_once_for_all_viewers(
    media_port: int, publisher: RtmpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[bytes] = []

    def make(kind: int, time: int, payload: bytes) -> bytes:
        made.append(payload)
        return tag_bytes(kind, time, payload)

    monkeypatch.setattr(module, "tag_bytes", make)
    async with both(media_port, CAM) as first, both(media_port, CAM) as second:
        await publisher.send_video(1, 40, key_frame(1))
        for viewer in (*first, *second):
            await viewer.wait_tags(3)
    assert made.count(key_frame(1)) == 1


async def test_viewer_scope_and_events_hold_the_token_only_as_the_credential(
    media_port: int, app: ScriptedApp, shown: RtmpClient
) -> None:
    for kind, scheme in ((Viewer, "http"), (SocketViewer, "ws")):
        async with kind(media_port, f"{CAM}?token=secret-token&x=1") as viewer:
            await viewer.wait_tags(3)
            told = app.connections[-1]
            scope = told.scope
            assert (scope["scheme"], scope["app"]) == (scheme, "live")
            assert scope["client"][0] == "127.0.0.1"
            assert scope["server"][1] == media_port
            assert scope["query"]["x"] == "1"
            (asked,) = told.of("rtmp.play")
            assert (asked["name"], asked["credential"], asked["start"]) == ("cam1", "secret-token", -1)
            assert "secret-token" not in repr([scope, *(e for e in told.events if e["type"] != "rtmp.play")])
            assert "secret-token" not in repr({**asked, "credential": ""})
        await app.event("rtmp.disconnect")
        assert told.kinds == ["rtmp.connect", "rtmp.play", "rtmp.stop", "rtmp.disconnect"]
        (stopped,) = told.of("rtmp.stop")
        assert stopped["reason"] == "tcp_reset"
        assert stopped["totals"]["video_frames"] == 1
        assert stopped["totals"]["bytes_out"] > 0


@pytest.mark.parametrize(("path", "name"), [("caf%C3%A9%201", "café 1"), ("room/cam1", "room/cam1")])
async def test_names_are_percent_decoded_and_may_have_an_instance(
    media_port: int, app: ScriptedApp, path: str, name: str
) -> None:
    async with Viewer(media_port, f"/live/live/{path}.flv") as viewer:
        await viewer.wait_accepted()
        assert app.connections[-1].scope["app"] == "live"
        assert (await app.event("rtmp.play"))["name"] == name


@pytest.mark.parametrize(
    ("reason", "code"), [("kicked", 4403), ("key_revoked", 4403), ("node_shutdown", 1001), ("lease_lost", 1012)]
)
async def test_viewer_closed_by_the_application_gets_an_orderly_end_and_close_code(
    media_port: int, app: ScriptedApp, shown: RtmpClient, reason: str, code: int
) -> None:
    async with both(media_port, CAM, 3) as (by_http, by_socket):
        for told in app.connections[-2:]:
            await told.send({"type": "rtmp.close", "reason": reason})
        await by_http.wait_closed()
        assert by_http.over
        await by_socket.wait_until(lambda: by_socket.close_code == code)
    for told in app.connections[-2:]:
        await app.wait_until(partial(has_ended, told))
        assert [event["reason"] for event in told.events[-2:]] == [reason, reason]


@pytest.mark.usefixtures("shown")
async def test_kick_by_the_node_ends_the_viewer(media_port: int, server: RtmpServer, app: ScriptedApp) -> None:
    async with Viewer(media_port, CAM) as viewer:
        await viewer.wait_tags(3)
        (session,) = (name for name in server.sessions if name.startswith("play-"))
        await app.node.send({"type": "node.drop", "session_id": session, "reason": "kicked"})
        await viewer.wait_closed()
        assert viewer.over
    assert (await app.event("rtmp.stop"))["reason"] == "kicked"


async def test_viewers_end_as_completed_when_the_stream_ends(
    media_port: int, server: RtmpServer, app: ScriptedApp, shown: RtmpClient
) -> None:
    async with both(media_port, CAM, 3) as (by_http, by_socket):
        await shown.delete_stream(1)
        await app.event("rtmp.unpublish", connection=0)
        assert not by_http.closed, "its encoder may come back"
        set_deadlines(server, end_players_s=0.0)
        await by_http.wait_closed()
        assert by_http.over
        await by_socket.wait_until(lambda: by_socket.close_code == 1000)
    for told in app.connections[-2:]:
        await app.wait_until(partial(has_ended, told))
        assert told.of("rtmp.stop")[0]["reason"] == "completed"


async def test_viewer_waiting_for_a_stream_of_another_node_is_sent_away(media_port: int, app: ScriptedApp) -> None:
    async with both(media_port, CAM) as (by_http, by_socket):
        await app.node.send({"type": "node.elsewhere", "streams": {"live/cam1": "Play it from there."}})
        await by_http.wait_closed()
        assert by_http.over
        await by_socket.wait_until(lambda: by_socket.close_code == 4404)


async def test_viewers_are_among_the_node_s_players(media_port: int, app: ScriptedApp, shown: RtmpClient) -> None:
    async with both(media_port, CAM, 3):
        tick = await app.next_tick(2)
        assert len(tick["players"]) == 2
        assert tick["figures"]["connections"] == 3
        assert tick["streams"][0]["players"] == 2


async def test_operator_preview_is_sent_media_but_not_counted_as_a_player(
    media_port: int, app: ScriptedApp, shown: RtmpClient
) -> None:
    app.change("rtmp.play", preview=True)
    async with both(media_port, CAM, 3):
        tick = await app.next_tick(2)
        assert tick["streams"][0]["players"] == 0
        assert tick["samples"][0].players == 0
        assert tick["streams"][0]["out_kbps"] > 0


async def test_a_stop_ends_viewers_in_order(serve: Serve, app: ScriptedApp) -> None:
    server = await serve(config={"media": ("127.0.0.1", 0)})
    async with both(server, CAM) as (by_http, by_socket):
        stopping = asyncio.create_task(server.stop(grace_s=2))
        await by_http.wait_closed()
        await by_socket.wait_until(lambda: by_socket.close_code == 1001)
        assert by_http.over
    await stopping
    assert [told.events[-1]["reason"] for told in app.connections] == ["node_shutdown"] * 2


async def test_a_drain_takes_no_more_viewers_and_resume_does(serve: Serve) -> None:
    server = await serve(config={"media": ("127.0.0.1", 0)})
    async with Viewer(server, CAM) as viewer:
        await viewer.wait_accepted()
        server.drain(60)
        with pytest.raises(OSError):  # noqa: PT011 - refused, or reset.
            await ask(server, CAM)
        assert not viewer.closed
        server.resume()
        while True:
            try:
                async with Viewer(server, CAM) as other:
                    await other.wait_accepted()
                break
            except (OSError, AssertionError):
                await asyncio.sleep(0.02)


async def test_a_head_is_answered_like_its_get(media_port: int, app: ScriptedApp) -> None:
    answer = await ask(media_port, CAM, method="HEAD")
    assert (answer.status, answer.headers["content-type"], bytes(answer.body)) == (200, "video/x-flv", b"")
    assert (await app.event("rtmp.stop"))["reason"] == "client_unpublish"
    app.refuse("play", "NetStream.Play.StreamNotFound", "No.")
    assert (await ask(media_port, CAM, method="HEAD")).status == 404


async def test_http_1_0_client_gets_a_body_without_chunked_encoding(media_port: int, shown: RtmpClient) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", media_port)
    writer.write(f"GET {CAM} HTTP/1.0\r\n\r\n".encode())
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
    assert b"chunked" not in head
    assert (await asyncio.wait_for(reader.readexactly(4), 5)) == b"FLV\x01"
    writer.close()
