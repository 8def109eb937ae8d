"""Several media nodes as processes: a stream of one is played on another, whatever becomes of the nodes and of the way
between them. SQLite is all that they share: media need no more.
"""

import asyncio
import json
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ingest.rtmp import events
from tests import loops
from tests.background import free_port
from tests.ingest.clients import go_live, sending, watch_live
from tests.production.parts import MediaNode
from tests.production.settings import LONG
from tests.programs import key_url, publishing
from tests.rtmp_client import RtmpClient
from tests.server.media import AVC_HEADER
from tests.server.test_links import Link
from tests.server_process import Installation, program, wait_for
from tests.tools import require_tool

pytestmark = [pytest.mark.production, pytest.mark.timeout(300)]

BACK_S = 15.0
"""From an encoder's first frame at another node until players that waited have media."""


class Nodes:
    """By name, in a data folder of their own."""

    def __init__(self, folder: Path, names: Sequence[str], own: "Own", environment: Mapping[str, str]) -> None:
        self.installation = Installation(folder / "data", RTMPWEB_LOG_LEVEL="INFO", **environment)
        self.installation.put_tables()
        self.installation.manage("application", "set", "live")
        self.key = self.installation.create_key("live/cam")
        shared = self.installation.environment
        self.by_name = {name: MediaNode(name, folder, {**shared, **own.get(name, {})}) for name in names}

    def __getitem__(self, name: str) -> MediaNode:
        return self.by_name[name]

    def client(self, name: str) -> RtmpClient:
        return RtmpClient(port=self[name].port, timeout_s=20)


FORGET_SOCKETS = "UPDATE ingest_node SET local = '' WHERE local <> '' RETURNING name"
"""By which processes of one machine, as these are, would go past the network."""

KNOWN = "SELECT count(*) FROM ingest_node WHERE local <> ''"

Own = Mapping[str, Mapping[str, str]]
NOTHING: Own = {}


@contextmanager
def running(folder: Path, *names: str, own: Own = NOTHING, **environment: str) -> Iterator[Nodes]:
    """`own`: the settings of one node, by its name; `environment`: those of all."""
    made = Nodes(folder, names, own, environment)
    with ExitStack() as stack:
        for node in made.by_name.values():
            node.launch()
            stack.callback(node.kill)
        for node in made.by_name.values():
            node.wait_ready()
        wait_for(lambda: made.installation.rows(KNOWN) == [(len(names),)], timeout_s=10, what="the nodes' rows")
        made.installation.rows(FORGET_SOCKETS)
        yield made


def packets(source: str) -> list[dict[str, Any]]:
    """Until its end, by ffprobe: stream, timestamps, flags and the hash of each."""
    entries = "packet=codec_type,pts,dts,flags,size,data_hash"
    command = ["ffprobe", "-v", "error", "-show_entries", entries, "-show_data_hash", "MD5", "-of", "json", source]
    done = subprocess.run(command, check=True, capture_output=True, timeout=120)
    found: list[dict[str, Any]] = json.loads(done.stdout)["packets"]
    return found


def of_kind(found: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [each for each in found if each["codec_type"] == kind]


def test_packets_played_on_either_node_equal_the_published_ones(tmp_path: Path, clip: Path) -> None:
    require_tool("ffprobe")
    with running(tmp_path, "node-a", "node-b", RTMPWEB_END_PLAYERS_S="1") as nodes:
        with program(*publishing(clip, key_url(nodes.key, nodes["node-a"].url))) as encoder:
            found = loops.run(_probe(nodes, "node-a", "node-b"))
            assert encoder.wait(30) == 0
        published = packets(str(clip))
    for kind in ("video", "audio"):
        sent = of_kind(published, kind)
        for node, got in found.items():
            here = of_kind(got, kind)
            assert len(here) > len(sent) / 2, f"{node}: {len(here)} packets of {kind}"
            tail = sent[-len(here) :]
            assert [each["data_hash"] for each in here] == [each["data_hash"] for each in tail], node
            assert [each["dts"] for each in here] == [each["dts"] for each in tail], node
            assert [each["pts"] for each in here] == [each["pts"] for each in tail], node


async def _probe(nodes: Nodes, *names: str) -> dict[str, list[dict[str, Any]]]:
    """At the same time, by node."""
    found = await asyncio.gather(*(asyncio.to_thread(packets, f"{nodes[name].url}/live/cam") for name in names))
    return dict(zip(names, found, strict=True))


@asynccontextmanager
async def on_air(nodes: Nodes, name: str) -> AsyncIterator[None]:
    """An encoder publishes to the node meanwhile."""
    async with nodes.client(name) as encoder:
        stream_id = await go_live(encoder, nodes.key["key"])
        async with sending(encoder, stream_id):
            yield


def times(player: RtmpClient) -> list[int]:
    return [each.timestamp for each in player.of(events.VideoReceived) if each.payload != AVC_HEADER]


async def more(player: RtmpClient, count: int, timeout_s: float) -> float:
    """Waits for so many more pictures; how long that took."""
    began = time.monotonic()
    await player.wait_count(events.VideoReceived, len(player.of(events.VideoReceived)) + count, timeout_s)
    return time.monotonic() - began


def test_when_a_node_is_killed_its_encoder_goes_on_at_another(tmp_path: Path) -> None:
    async def follow(nodes: Nodes) -> float:
        async with nodes.client("node-b") as player:
            async with on_air(nodes, "node-a"):
                await watch_live(player, "cam")
                await player.wait_count(events.VideoReceived, 5)
                nodes["node-a"].kill()
            async with on_air(nodes, "node-c"):
                took_s = await more(player, 5, BACK_S)
            assert not player.closed
            assert times(player) == sorted(times(player))
        return took_s

    with running(tmp_path, "node-a", "node-b", "node-c") as nodes:
        assert loops.run(follow(nodes)) < BACK_S


@pytest.mark.parametrize("cut_s", (5, 40, 120) if LONG else (5,))
def test_relayed_player_goes_on_after_a_cut_link_is_mended(tmp_path: Path, cut_s: int) -> None:
    """Its players wait, and go on by themselves. Where it lasts so long that they are told, they come again."""

    async def play(nodes: Nodes, link: Link) -> None:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(on_air(nodes, "node-a"))
            player = await stack.enter_async_context(nodes.client("node-b"))
            await watch_live(player, "cam")
            await player.wait_count(events.VideoReceived, 5)
            link.cut()
            await asyncio.sleep(cut_s)
            link.mend()
            if player.closed:
                assert cut_s > BACK_S
                assert "can't reach" in player.of(events.StatusReceived)[-1].description
                player = await stack.enter_async_context(nodes.client("node-b"))
                await watch_live(player, "cam")
            await more(player, 5, BACK_S)
            assert times(player) == sorted(times(player))
            assert link.connections >= 2

    async def run() -> None:
        way = free_port()
        with (
            running(
                tmp_path, "node-a", "node-b", own={"node-a": {"RTMPWEB_NODE_URL": f"rtmp://127.0.0.1:{way}"}}
            ) as nodes,
            Link(nodes["node-a"].port, delay_s=0.02, port=way) as link,
        ):
            await play(nodes, link)

    loops.run(run())


@pytest.mark.parametrize("name", ["node-a", "node-b", "node-c"])
def test_players_of_a_relay_chain_go_on_after_any_node_is_restarted(tmp_path: Path, name: str) -> None:
    """node-a has the stream, node-b plays it, and node-c plays what comes by node-b."""

    async def run(nodes: Nodes) -> None:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(on_air(nodes, "node-a"))
            players = {each: await stack.enter_async_context(nodes.client(each)) for each in ("node-b", "node-c")}
            for player in players.values():
                await watch_live(player, "cam")
                await player.wait_count(events.VideoReceived, 5)
            nodes[name].kill()
            await asyncio.to_thread(nodes[name].start)
            if name == "node-a":
                await stack.enter_async_context(on_air(nodes, "node-a"))
            for each, player in players.items():
                if each == name:
                    player = await stack.enter_async_context(nodes.client(each))
                    await watch_live(player, "cam")
                await more(player, 5, BACK_S)
                assert times(player) == sorted(times(player))

    with running(tmp_path, "node-a", "node-b", "node-c", own={"node-c": {"RTMPWEB_RELAY_VIA": "node-b"}}) as nodes:
        loops.run(run(nodes))
