"""Streams that are published on one node and played on others: what players there see, and what both nodes tell."""

from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import OperationalError

from ingest.consumers import upkeep
from ingest.contracts import NodeFigures, RelayFigures, StreamSnapshot
from ingest.live_store import get_livestore
from ingest.models import Attempt, Lease, Node, Session, Stream
from ingest.rtmp import events
from ingest.server import RtmpServer
from ingest.server.config import RelaySettings
from ingest.server.relay_playing import RelayPlaying
from ingest.services import keys, relays
from ingest.services.keys import NewKey
from tests.certificates import make_pair
from tests.ingest.clients import go_live, sending, watch_live
from tests.ingest.control import cluster, serving
from tests.ingest.ticks import until
from tests.rtmp_client import VIDEO, Refused, RtmpClient
from tests.server.media import AAC_HEADER, AVC_HEADER, inter_frame, key_frame, sound
from tests.server.viewers.browser import both

pytestmark = pytest.mark.usefixtures("process")

HERE, THERE, OTHER = "node-a", "node-b", "node-c"
SOON: Any = {"relay": RelaySettings(idle_s=0.5, send_away_s=0.5)}


def client(server: RtmpServer, **options: Any) -> RtmpClient:
    return RtmpClient(port=server.addresses[0][1], **options)


def shown() -> dict[str, NodeFigures]:
    return {figures["node"]: figures for figures in get_livestore().read().nodes}


def relayed(node: str) -> list[RelayFigures]:
    """What it fetches, as it told last."""
    figures = shown().get(node)
    return figures.get("relays", []) if figures is not None else []


def snapshots(node: str) -> list[StreamSnapshot]:
    return [each for each in get_livestore().read().streams if each["node"] == node]


def media(player: RtmpClient) -> list[tuple[type, int, bytes]]:
    kinds = (events.VideoReceived, events.AudioReceived)
    return [(type(each), each.timestamp, each.payload) for each in player.received if isinstance(each, kinds)]


def times(player: RtmpClient) -> list[int]:
    return [timestamp for _, timestamp, payload in media(player) if payload != AVC_HEADER]


def data(player: RtmpClient) -> list[tuple[str, bytes]]:
    return [(each.name, each.payload) for each in player.received if isinstance(each, events.DataReceived)]


def pictures(server: RtmpServer) -> int:
    """That were published there."""
    live = server.registry.get("live/cam1")
    return live.publication.meter.video_line.frames if live is not None and live.publication is not None else 0


async def publish_some(encoder: RtmpClient, secret: str) -> int:
    """Metadata, headers, a group of pictures with sound and data of its own; then another keyframe."""
    await encoder.connect("live")
    stream_id = await encoder.publish(secret)
    protocol = encoder.protocol
    protocol.send_metadata(stream_id, 0, {"width": 640.0, "encoder": "Test"})
    protocol.send_data(stream_id, 0, "@setDataFrame", "onTitle", "Sunday service")
    await encoder.send_video(stream_id, 0, AVC_HEADER)
    await encoder.send_audio(stream_id, 0, AAC_HEADER)
    for number in range(10):
        frame = key_frame(number, 80_000) if number in (0, 5) else inter_frame(number)
        await encoder.send_video(stream_id, 1000 + 40 * number, frame)
        await encoder.send_audio(stream_id, 1001 + 40 * number, sound(number))
    return stream_id


# --- What players see ---


async def test_a_late_player_is_sent_the_same_as_where_it_is_published(key: NewKey) -> None:
    async with cluster(HERE, THERE) as (here, there), client(there) as encoder, client(there) as near:
        stream_id = await publish_some(encoder, key.secret)
        await until(lambda: pictures(there) == 10)
        await watch_live(near)
        await near.wait_count(events.VideoReceived, 6)
        async with client(here) as first, client(here) as second:
            await watch_live(first)
            await first.wait_count(events.VideoReceived, 6)
            await watch_live(second)
            await second.wait_count(events.VideoReceived, 6)
            for number in range(10, 14):
                await encoder.send_video(stream_id, 1000 + 40 * number, inter_frame(number))
            encoder.protocol.send_data(stream_id, 1600, "onCuePoint", "now")
            encoder.protocol.send_data(stream_id, 1600, "@setDataFrame", "onTitle", "The end")
            await encoder.send_video(stream_id, 1640, inter_frame(99))
            for player in (near, first, second):
                await player.wait_for(events.VideoReceived, lambda video: video.payload == inter_frame(99))
            assert media(first) == media(near)
            assert media(second) == media(near)
            assert data(first) == data(near)
            assert [name for name, _ in data(second)] == [name for name, _ in data(near)], "it was kept there, too"
        assert len(there.sessions) == 3, "the publisher, one player, and one relay for two others"


async def test_data_cleared_by_the_publisher_is_not_sent_to_late_relay_players(key: NewKey) -> None:
    async with cluster(HERE, THERE) as (here, there), client(there) as encoder, client(here) as early:
        stream_id = await publish_some(encoder, key.secret)
        await watch_live(early)
        await early.wait_count(events.VideoReceived, 6)
        encoder.protocol.send_data(stream_id, 0, "@clearDataFrame", "onTitle")
        await encoder.send_video(stream_id, 2000, key_frame(20))
        await early.wait_for(events.VideoReceived, lambda video: video.payload == key_frame(20))
        async with client(here) as late:
            await watch_live(late)
            await late.wait_count(events.VideoReceived, 2)
            assert "onTitle" in dict(data(early))
            assert "onTitle" not in dict(data(late))
            assert "onMetaData" in dict(data(late))


async def test_waiting_player_receives_a_stream_later_published_on_another_node(key: NewKey) -> None:
    async with cluster(HERE, THERE) as (here, there), client(here) as player, client(there) as encoder:
        await watch_live(player)
        stream_id = await go_live(encoder, key.secret)
        async with sending(encoder, stream_id):
            await player.wait_count(events.VideoReceived, 5, timeout_s=10)


async def test_the_publisher_goes_on_at_a_third_node(stream: Stream, key: NewKey) -> None:
    """Its players keep their connection, and their time goes on."""
    async with (
        cluster(HERE, THERE, OTHER) as (here, there, other),
        client(there) as encoder,
        client(other) as again,
        client(here) as player,
    ):
        async with sending(encoder, await go_live(encoder, key.secret)):
            await watch_live(player)
            await player.wait_count(events.VideoReceived, 5)
        await encoder.close()
        async with sending(again, await go_live(again, key.secret)):
            count = len(media(player))
            await player.wait_count(events.VideoReceived, count + 5, timeout_s=10)
        assert times(player) == sorted(times(player))
        assert not player.closed
        await until(lambda: [each["source"] for each in relayed(HERE)] == [OTHER])


async def test_an_encoder_that_comes_to_the_players_node_takes_the_relays_place(
    stream: Stream, key: NewKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "SILENT_MS", 60_000)  # The machine may be slow, the encoder is live.
    await Stream.objects.aupdate(takeover="replace")
    second = await sync_to_async(keys.create)(stream=stream)
    async with (
        cluster(HERE, THERE) as (here, there),
        client(there) as encoder,
        client(here) as player,
        client(here) as closer,
    ):
        async with sending(encoder, await go_live(encoder, key.secret)):
            await watch_live(player)
            await player.wait_count(events.VideoReceived, 3)
            stream_id = await go_live(closer, second.secret)
        async with sending(closer, stream_id):
            count = len(media(player))
            await player.wait_count(events.VideoReceived, count + 5, timeout_s=10)
        await until(lambda: [each["node"] for each in get_livestore().read().streams if each["session_id"]] == [HERE])
        assert relayed(HERE) == []
        assert not player.closed


async def test_relay_connection_survives_the_publishers_return(key: NewKey) -> None:
    """By the same connection of the relay, which has waited for it."""
    async with (
        cluster(HERE, THERE) as (here, there),
        client(there) as encoder,
        client(there) as again,
        client(here) as player,
    ):
        async with sending(encoder, await go_live(encoder, key.secret)):
            await watch_live(player)
            await player.wait_count(events.VideoReceived, 3)
        (relay,) = (session for session in there.sessions.values() if isinstance(session, RelayPlaying))
        await encoder.close()
        await until(lambda: there.registry.streams["live/cam1"].publisher is None)
        async with sending(again, await go_live(again, key.secret)):
            count = len(media(player))
            await player.wait_count(events.VideoReceived, count + 3, timeout_s=10)
            await until(lambda: [each["source"] for each in relayed(HERE)] == [THERE])
        assert relay.session_id in there.sessions
        assert times(player) == sorted(times(player))


async def test_http_and_websocket_viewers_receive_a_relayed_stream(key: NewKey) -> None:
    media: Any = {"media": ("127.0.0.1", 0)}
    async with cluster(HERE, THERE, **media) as (here, there), client(there) as encoder:
        await publish_some(encoder, key.secret)
        await until(lambda: pictures(there) == 10)
        async with both(here, "/live/live/cam1.flv") as viewers:
            for viewer in viewers:
                tags = await viewer.wait_tags(12)
                assert [tag.payload for tag in tags if tag.type_id == VIDEO][:2] == [AVC_HEADER, key_frame(5, 80_000)]


async def test_relay_by_tls_needs_a_trusted_certificate(tmp_path: Path, key: NewKey) -> None:
    """Whose certificate was signed by nobody whom the node knows is not played from."""
    (tmp_path / "other").mkdir()
    pair, other = make_pair(tmp_path), make_pair(tmp_path / "other")
    config: Any = {
        "rtmps": ("127.0.0.1", 0),
        "certificate": pair.chain,
        "certificate_key": pair.key,
        "relay": RelaySettings(ca=pair.chain, send_away_s=0.5),
    }
    async with cluster(HERE, THERE, **config) as (here, there), client(there) as encoder:
        secure = there.bound["rtmps"][0][1]
        await Node.objects.filter(name=THERE).aupdate(url=f"rtmps://localhost:{secure}")
        stream_id = await go_live(encoder, key.secret)
        async with sending(encoder, stream_id), client(here) as player:
            await watch_live(player)
            await player.wait_count(events.VideoReceived, 3)
            assert {session.connection.scheme for session in there.sessions.values()} == {"rtmp", "rtmps"}
    await Node.objects.aupdate(url="")
    config["relay"] = RelaySettings(ca=other.chain, send_away_s=0.5)
    async with cluster(HERE, THERE, **config) as (here, there), client(there) as encoder, client(here) as player:
        await Node.objects.filter(name=THERE).aupdate(url=f"rtmps://localhost:{there.bound['rtmps'][0][1]}")
        relays._recent.clear()
        await go_live(encoder, key.secret)
        await watch_live(player)
        status = await player.wait_for(events.StatusReceived, lambda status: status.level == "error", timeout_s=10)
        assert "The certificate is not valid: self-signed certificate" in status.description


# --- How it ends ---


async def test_a_relay_ends_some_time_after_its_last_player(key: NewKey) -> None:
    async with cluster(HERE, THERE, **SOON) as (here, there), client(there) as encoder:
        await go_live(encoder, key.secret)
        async with client(here) as player:
            await watch_live(player)
            await player.wait_count(events.VideoReceived, 2)
            assert len(there.sessions) == 2
        await until(lambda: len(there.sessions) == 1)
        await until(lambda: relayed(HERE) == [])


async def test_waiting_player_is_told_that_the_publishing_node_is_unreachable(stream: Stream, key: NewKey) -> None:
    async with cluster(HERE, THERE, **SOON) as (here, there), client(there) as encoder, client(here) as player:
        await go_live(encoder, key.secret)
        await Node.objects.filter(name=THERE).aupdate(url="rtmp://127.0.0.1:1")
        await watch_live(player)
        status = await player.wait_for(events.StatusReceived, lambda status: status.level == "error", timeout_s=10)
        assert status.code == "NetStream.Play.StreamNotFound"
        assert "From node node-b (rtmp://127.0.0.1:1): Nobody answers" in status.description
        await player.wait_closed()
        await until(Session.objects.filter(kind="play", end_reason="elsewhere").exists)


async def test_an_address_that_leads_elsewhere_is_found_out(key: NewKey) -> None:
    """Though everybody may play the stream: a node would fetch it from itself, and have it never."""
    async with cluster(HERE, THERE, **SOON) as (here, there), client(there) as encoder, client(here) as player:
        await go_live(encoder, key.secret)
        await Node.objects.filter(name=THERE).aupdate(url=f"rtmp://localhost:{here.addresses[0][1]}")
        await watch_live(player)
        status = await player.wait_for(events.StatusReceived, lambda status: status.level == "error", timeout_s=10)
        assert "leads to another node" in status.description
    assert not await Session.objects.filter(kind="play", encoder__contains="relay").aexists()


async def test_players_are_refused_or_sent_away_where_no_relay_way_exists(key: NewKey) -> None:
    async with cluster(HERE, THERE) as (here, there), client(here) as early, client(here) as late:
        await Node.objects.filter(name=THERE).aupdate(url="")
        await watch_live(early)
        async with client(there) as encoder:
            await go_live(encoder, key.secret)
            status = await early.wait_for(events.StatusReceived, lambda status: status.level == "error", timeout_s=10)
            assert status.code == "NetStream.Play.StreamNotFound"
            assert status.description.endswith("Play it from node-b.")
            await late.connect("live")
            with pytest.raises(Refused, match="StreamNotFound"):
                await late.play("cam1")
    assert await Attempt.objects.filter(reason="elsewhere", node=HERE).acount() == 1


async def test_relay_beyond_the_node_limit_is_refused_naming_the_setting(
    stream: Stream, key: NewKey, other_key: NewKey
) -> None:
    one: Any = {"relay": RelaySettings(most=1)}
    async with (
        cluster(HERE, THERE, **one) as (here, there),
        client(there) as encoder,
        client(there) as other,
        client(here) as player,
        client(here) as late,
    ):
        await go_live(encoder, key.secret)
        await go_live(other, other_key.secret)
        await watch_live(player)
        await player.wait_count(events.VideoReceived, 2)
        await watch_live(late, "cam2")
        status = await late.wait_for(events.StatusReceived, lambda status: status.level == "error")
        assert "RTMPWEB_MAX_RELAYS" in status.description
        assert not player.closed


# --- What is told ---


async def test_all_players_count_once_and_where_it_is_published(key: NewKey) -> None:
    async with (
        cluster(HERE, THERE, OTHER) as (here, there, other),
        client(there) as encoder,
        client(there) as near,
        client(here) as first,
        client(here) as second,
        client(other) as third,
    ):
        stream_id = await go_live(encoder, key.secret)
        async with sending(encoder, stream_id):
            for player in (near, first, second, third):
                await watch_live(player)
                await player.wait_count(events.VideoReceived, 2)
            await until(lambda: [each["players"] for each in snapshots(THERE)] == [4])
            await until(lambda: [shown()[node]["players"] for node in (HERE, THERE, OTHER)] == [2, 1, 1])
            await until(lambda: relayed(HERE)[0]["in_kbps"] > 0)
        assert snapshots(HERE) == snapshots(OTHER) == []
        assert shown()[HERE]["publishers"] == 0
        relay = relayed(HERE)[0]
        assert (relay["path"], relay["source"], relay["state"], relay["here"]) == ("live/cam1", THERE, "live", 2)
        relayed_to = snapshots(THERE)[0].get("relayed_to", [])
        assert {each["node"]: each["players"] for each in relayed_to} == {HERE: 2, OTHER: 1}
    assert await Session.objects.filter(kind="play").acount() == 4
    assert await Session.objects.filter(kind="publish").acount() == 1


def fail(**_: Any) -> Any:
    raise OperationalError("the database is away")


async def test_while_nothing_can_be_asked_of_the_database_the_publisher_is_followed(
    stream: Stream, key: NewKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what nodes tell one another through the live store."""
    async with (
        cluster(HERE, THERE, OTHER) as (here, there, other),
        client(there) as encoder,
        client(other) as again,
        client(here) as player,
    ):
        async with sending(encoder, await go_live(encoder, key.secret)):
            await watch_live(player)
            await player.wait_count(events.VideoReceived, 3)
            monkeypatch.setattr(relays, "places", fail)
        await encoder.close()
        async with sending(again, await go_live(again, key.secret)):
            count = len(media(player))
            await player.wait_count(events.VideoReceived, count + 3, timeout_s=10)


# --- An edge ---


async def test_an_edge_takes_no_encoders(key: NewKey, settings: Any) -> None:
    settings.ROLE = "edge"
    async with serving(HERE) as edge, client(edge) as encoder:
        await encoder.connect("live")
        with pytest.raises(Refused, match="takes players only") as refused:
            await encoder.publish(key.secret)
        assert refused.value.code == "NetStream.Publish.Denied"
        await until(Node.objects.filter(name=HERE, role=Node.Role.EDGE).exists)
    assert await Attempt.objects.filter(reason="edge_only").acount() == 1
    assert not await Lease.objects.aexists()
