"""A publisher that gathers its media in aggregates and its metadata in AMF3: real players read both."""

import asyncio
import json
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ingest.rtmp import events
from ingest.rtmp.amf.amf3 import Array, Externalizable
from ingest.rtmp.messages import AggregatePart
from tests.e2e import accepted
from tests.e2e.programs import Keys
from tests.media import Packet, is_run_of, of_kind, read_packets
from tests.rtmpdecode import messages_of
from tests.server_process import ServerProcess, program, wait_for
from tests.tools import require_tool

pytestmark = [pytest.mark.serve, pytest.mark.clients, pytest.mark.timeout(120)]

DATA = 18
PER_AGGREGATE = 12

METADATA = {
    "title": "Gathered",
    "width": 640,
    "height": 360,
    "framerate": 30.0,
    "stereo": True,
    "picture": b"\x89PNG",
    "places": Array([7, 8], {"first": "seven"}),
    "by": Externalizable("flex.messaging.io.ObjectProxy", {"author": "somebody", "id": -5}),
    "comment": "the last",
}


def media_of(clip: Path) -> list[AggregatePart]:
    """The clip's audio and video."""
    return [AggregatePart(tag.type_id, tag.timestamp, tag.payload) for tag in messages_of(clip) if tag.type_id != DATA]


async def publish(port: int, key: str, clip: Path) -> None:
    async with accepted.client(port, key, objectEncoding=3) as (client, stream_id):
        assert client.protocol.amf3
        await client.send_metadata(stream_id, METADATA)
        media = media_of(clip)
        for start in range(0, len(media), PER_AGGREGATE):
            client.protocol.send_aggregate(stream_id, *media[start : start + PER_AGGREGATE])
            await client.flush()
            await asyncio.sleep(0.01)  # About twenty times as fast as it is, not the whole clip at once.
        await client.delete_stream(stream_id)
        await client.wait_for(events.StatusReceived, lambda event: event.code == "NetStream.Unpublish.Success")


@dataclass
class Played:
    by_player: dict[str, list[Packet]]
    tags: dict[str, Any]
    """By FFmpeg's reader of metadata."""


@pytest.fixture(scope="module")
def played(server: ServerProcess, keys: Keys, clip: Path, tmp_path_factory: pytest.TempPathFactory) -> Played:
    require_tool("ffprobe")
    require_tool("rtmpdump")
    folder = tmp_path_factory.mktemp("gathered")
    url = f"{server.rtmp}/live/gathered"
    outputs = {player: folder / f"{player}.flv" for player in ("ffmpeg", "rtmpdump")}
    with (
        program(
            "ffmpeg", "-v", "error", "-i", url, "-t", "4", "-c", "copy", "-f", "flv", str(outputs["ffmpeg"])
        ) as ffmpeg,
        program("rtmpdump", "-q", "--live", "-r", url, "-o", str(outputs["rtmpdump"])) as rtmpdump,
        program("ffprobe", "-v", "error", "-show_entries", "format_tags", "-of", "json", url) as ffprobe,
    ):
        wait_for(lambda: server.stream("live/gathered")["players"] == 3, timeout_s=30, what="three players wait")
        asyncio.run(publish(int(server.rtmp.rpartition(":")[2]), keys["gathered"]["key"], clip))
        assert ffmpeg.wait(30) == 0
        found, _ = ffprobe.communicate(timeout=30)
        rtmpdump.send_signal(signal.SIGINT)
        rtmpdump.wait(20)
    return Played(
        {player: read_packets(str(path)) for player, path in outputs.items()}, json.loads(found)["format"]["tags"]
    )


@pytest.mark.parametrize("player", ["ffmpeg", "rtmpdump"])
def test_players_get_every_packet_from_the_first(played: Played, clip: Path, player: str) -> None:
    sent = read_packets(str(clip))
    received = played.by_player[player]
    for kind in ("video", "audio"):
        packets = of_kind(received, kind)
        assert len(packets) > 60
        assert is_run_of(packets, of_kind(sent, kind)) == 0


def test_ffmpeg_reads_metadata_that_came_in_amf3(played: Played) -> None:
    """Bytes have no form that it could show; what comes after them is read all the same."""
    shown = {name: text for name, text in played.tags.items() if not name.startswith("|")}
    assert shown == {
        "title": "Gathered",
        "first": "seven",
        "0": "7",
        "1": "8",
        "author": "somebody",
        "id": "-5",
        "comment": "the last",
    }
