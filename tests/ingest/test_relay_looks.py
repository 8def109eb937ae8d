"""What a node's application tells its server each second, of streams that are played there and published elsewhere."""

from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from ingest.consumers import relaying
from ingest.consumers.relaying import Relaying
from ingest.contracts import RelayFigures
from ingest.models import Node, Stream
from ingest.services import nodes
from tests.ingest.admitting import hold

pytestmark = pytest.mark.usefixtures("process")

HERE, THERE, MID = "node-a", "node-b", "node-m"
PATH = "live/cam1"


def relay(**fields: Any) -> RelayFigures:
    base: Any = {"stream": 1, "path": PATH, "source": "", "state": "connecting", "since": 0.0, "failure": ""}
    figures = dict.fromkeys(("players", "here", "in_kbps", "out_kbps"), 0)
    return base | figures | {"relayed_to": []} | fields  # type: ignore[no-any-return]


class Looking:
    """A node, and what its server was told."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.relaying = Relaying(HERE, self._send)

    async def _send(self, message: Any) -> None:
        self.told.append(message)

    async def look(self, *relays: RelayFigures) -> list[Any]:
        """What it is told by one look, with these relays there are."""
        self.told = []
        self.relaying.observe({PATH}, relays)
        await self.relaying.look()
        return self.told


def ways(message: Any) -> list[str]:
    return [source["node"] for source in message["streams"][PATH]["sources"]]


@sync_to_async
def publish_there(stream: Stream, **node: Any) -> None:
    Node.objects.create(name=HERE, url="rtmp://a.example.net")
    Node.objects.create(name=THERE, **{"url": "rtmp://b.example.net"} | node)
    now = timezone.now()
    hold(stream, THERE, started_at=now, expires_at=now + timedelta(seconds=60))


async def test_relay_order_is_sent_once_while_the_relay_proceeds(stream: Stream) -> None:
    await publish_there(stream)
    looking = Looking()
    (told,) = await looking.look()
    assert ways(told) == [THERE]
    assert await looking.look(relay()) == []
    assert await looking.look(relay(state="live", source=THERE)) == []


async def test_relay_order_is_repeated_while_the_relay_fails(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server may have forgotten the order, as a node between has lost the stream, and itself then."""
    monkeypatch.setattr(relaying, "AGAIN_S", dict.fromkeys(relaying.AGAIN_S, 0.0))
    await publish_there(stream)
    looking = Looking()
    await looking.look()
    for state in ("connecting", "failing"):
        (told,) = await looking.look(relay(state=state))
        assert ways(told) == [THERE]


async def test_players_of_a_stream_without_a_relay_way_are_sent_away(stream: Stream) -> None:
    await publish_there(stream, url="")
    (told,) = await Looking().look(relay())
    assert told["type"] == "node.elsewhere"
    assert told["streams"][PATH].endswith(f"Play it from {THERE}.")
    assert await Looking().look(relay(state="live", source=MID)) == []


async def test_node_relaying_the_stream_from_this_one_is_not_asked_for_it(stream: Stream, settings: Any) -> None:
    """Both are told of a publisher that has moved at about the same time, and each may ask the other first."""
    settings.RELAY_VIA = [MID]
    await publish_there(stream)
    await Node.objects.acreate(name=MID, url="rtmp://m.example.net", process=str(nodes.own_process()))
    (told,) = await Looking().look(relay())
    assert ways(told) == [MID, THERE]
    (told,) = await Looking().look(relay(relayed_to=[{"node": MID, "players": 3}]))
    assert ways(told) == [THERE]
