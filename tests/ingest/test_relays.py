"""Streams that are published on one node and played on another."""

import pytest

from ingest.models import Node
from ingest.rtmp import events
from ingest.services.keys import NewKey
from tests.ingest.clients import go_live, watch_live
from tests.ingest.control import listening
from tests.ingest.server.media import AVC_HEADER, key_frame
from tests.ingest.ticks import until
from tests.rtmp_client import RtmpClient

pytestmark = pytest.mark.usefixtures("process")

THERE = "node-b"


async def test_a_player_on_another_node_is_sent_it(key: NewKey) -> None:
    async with (
        listening() as here,
        listening(THERE) as there,
        RtmpClient(port=there) as encoder,
        RtmpClient(port=here) as player,
    ):
        await until(Node.objects.filter(name=THERE).exclude(url="").exists)
        await go_live(encoder, key.secret)
        await watch_live(player)
        await player.wait_count(events.VideoReceived, 2)
        found = [event.payload for event in player.received if isinstance(event, events.VideoReceived)]
        assert found == [AVC_HEADER, key_frame(0)]
