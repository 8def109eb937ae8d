"""Nodes that ask one another for a stream before they ask the one where it is published."""

import asyncio
from typing import Any

import pytest

from ingest.consumers import relaying
from ingest.models import Stream
from ingest.rtmp import events
from ingest.server.config import RelaySettings
from ingest.server.relay_playing import RelayPlaying
from ingest.services import refusals, relays
from ingest.services.keys import NewKey
from ingest.services.relays import RelayPass
from tests.ingest.clients import go_live, sending, watch_live
from tests.ingest.control import cluster, serving
from tests.ingest.test_relays import (
    HERE,
    OTHER,
    THERE,
    client,
    media,
    publish_some,
    relayed,
    snapshots,
)
from tests.ingest.ticks import until
from tests.rtmp_client import Refused

pytestmark = pytest.mark.usefixtures("process")


async def test_a_node_asks_another_first(key: NewKey, settings: Any) -> None:
    settings.RELAY_VIA = [OTHER]
    async with (
        cluster(HERE, THERE, OTHER) as (here, there, middle),
        client(there) as encoder,
        client(here) as player,
    ):
        await publish_some(encoder, key.secret)
        await watch_live(player)
        await player.wait_count(events.VideoReceived, 6)
        assert (len(there.sessions), len(middle.sessions)) == (2, 1)

        def counted() -> bool:
            return [snapshot["players"] for snapshot in snapshots(THERE)] == [1]

        await until(counted)
        assert [(each["source"], each["players"], each["here"]) for each in relayed(OTHER)] == [(THERE, 1, 0)]
        assert relayed(OTHER)[0]["relayed_to"] == [{"node": HERE, "players": 1}]
        assert snapshots(THERE)[0].get("relayed_to") == [{"node": OTHER, "players": 1}]


async def test_a_node_between_that_has_lost_the_stream_is_passed_over(
    key: NewKey, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says that the stream has ended, as far as it knows, and sends away who waits there. The publisher is live."""
    settings.RELAY_VIA = [OTHER]
    monkeypatch.setitem(relaying.AGAIN_S, "connecting", 0.1)
    quick: Any = {"relay": RelaySettings(begin_s=0.5, send_away_s=0.5)}
    async with (
        cluster(HERE, THERE, OTHER, **quick) as (here, there, _),
        client(there) as encoder,
        client(here) as player,
    ):
        async with sending(encoder, await go_live(encoder, key.secret)):
            await watch_live(player)
            looks = 0
            places = relays.places

            def look(**wanted: Any) -> Any:
                nonlocal looks
                looks += wanted["node"] == HERE
                return places(**wanted)

            monkeypatch.setattr(relays, "places", look)
            await until(lambda: looks > 2)  # It was told where the stream is, and does not need to be any more.
            check = relays.check_hops

            def cut(relay: RelayPass, *, node: str) -> None:
                if (relay.by, node) == (OTHER, THERE):
                    raise refusals.Refused("play", "elsewhere", stream=relay.stream, key=None, where="nowhere")
                check(relay, node=node)

            monkeypatch.setattr(relays, "check_hops", cut)
            (between,) = (session for session in there.sessions.values() if isinstance(session, RelayPlaying))
            between.connection.transport.abort()
            await until(lambda: [each["source"] for each in relayed(HERE)] == [THERE])
            count = len(media(player))
            await player.wait_count(events.VideoReceived, count + 3)
        assert not player.closed


async def test_nodes_configured_to_ask_each_other_both_get_the_stream(key: NewKey, settings: Any) -> None:
    settings.RELAY_VIA = [HERE, OTHER]
    async with (
        cluster(HERE, THERE, OTHER, relay=RelaySettings(begin_s=1.0)) as (here, there, other),
        client(there) as encoder,
        client(here) as player,
        client(other) as opposite,
    ):
        await asyncio.gather(watch_live(player), watch_live(opposite))
        async with sending(encoder, await go_live(encoder, key.secret)):
            await player.wait_count(events.VideoReceived, 3, timeout_s=10)
            await opposite.wait_count(events.VideoReceived, 3, timeout_s=10)


async def test_nodes_asking_each_other_at_the_same_time_both_get_the_stream(key: NewKey, settings: Any) -> None:
    settings.RELAY_VIA = [HERE, OTHER]
    async with (
        cluster(HERE, THERE, OTHER) as (here, there, other),
        client(there) as encoder,
        client(here) as player,
        client(other) as opposite,
        sending(encoder, await go_live(encoder, key.secret)),
    ):
        await player.connect("live")
        await opposite.connect("live")
        await asyncio.gather(player.play("cam1"), opposite.play("cam1"))
        await player.wait_count(events.VideoReceived, 3, timeout_s=4)
        await opposite.wait_count(events.VideoReceived, 3, timeout_s=4)


@pytest.mark.parametrize(("by", "at", "reason"), [(THERE, HERE, "invalid"), (HERE, HERE, "circle")])
async def test_relay_token_for_another_node_or_in_a_circle_is_refused(
    stream: Stream, by: str, at: str, reason: str
) -> None:
    token = relays.issue(RelayPass(stream.pk, by, ()), {at if reason == "circle" else OTHER})
    words = {"invalid": "play token|token", "circle": "come back"}[reason]
    await stream.application.__class__.objects.aupdate(play_policy="token")
    async with serving(HERE) as server, client(server) as player:
        await player.connect("live")
        with pytest.raises(Refused, match=words):
            await player.play(f"cam1?token={token}")
