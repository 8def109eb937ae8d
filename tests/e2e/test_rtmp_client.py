"""What our client sends is read by others: by FFmpeg's server with short headers; by players, when it
gathers its media in aggregates and has its metadata in AMF3.
"""

import asyncio
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ingest.rtmp import MessageType
from ingest.rtmp.amf.amf3 import Array, Externalizable
from ingest.rtmp.messages import AggregatePart
from tests.background import free_port
from tests.media import assert_begins, of_kind, read_packets
from tests.programs import Keys, own_client, playing
from tests.rtmp_client import RtmpClient
from tests.rtmpdecode import Decoded, messages_of
from tests.server_process import ServerProcess, program, wait_for
from tests.tools import require_tool

pytestmark = [pytest.mark.serve, pytest.mark.clients, pytest.mark.timeout(180)]

GATHERED = 20
"""Messages that wait before they are sent."""
START_S = 15


async def send(port: int, tags: list[Decoded], chunk_size: int) -> None:
    """Publishes audio and video as soon as somebody listens."""
    client = RtmpClient(port=port, timeout_s=START_S)
    async with asyncio.timeout(START_S):
        while True:
            try:
                await client.open()
                break
            except ConnectionRefusedError:  # FFmpeg takes one connection only: this has to be the first.
                await asyncio.sleep(0.05)
    await client.connect("live")
    stream_id = await client.publish("cam")
    client.protocol.send_chunk_size(chunk_size)
    senders = {MessageType.VIDEO: client.protocol.send_video, MessageType.AUDIO: client.protocol.send_audio}
    for number, tag in enumerate(tag for tag in tags if tag.type_id in senders):
        senders[MessageType(tag.type_id)](stream_id, tag.timestamp, tag.payload)
        if number % GATHERED == 0:
            await client.flush()
    await client.flush()
    await client.close()


@pytest.mark.parametrize("chunk_size", [128, 4096])
def test_ffmpeg_server_receives_every_packet_of_the_rtmp_client(clip: Path, tmp_path: Path, chunk_size: int) -> None:
    port, found = free_port(), tmp_path / "received.flv"
    source = f"rtmp://127.0.0.1:{port}/live/cam"
    tags = messages_of(clip)
    options = ["-nostdin", "-v", "error", "-listen", "1"]
    with program(require_tool("ffmpeg"), *options, "-i", source, "-c", "copy", str(found)) as ffmpeg:
        asyncio.run(send(port, tags, chunk_size))
        said, _ = ffmpeg.communicate(timeout=START_S)
    sent, received = read_packets(str(clip)), read_packets(str(found))
    for kind in ("audio", "video"):
        assert of_kind(received, kind) == of_kind(sent, kind), said


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


async def publish(server: ServerProcess, key: dict[str, Any], clip: Path) -> None:
    media = [AggregatePart(tag.type_id, tag.timestamp, tag.payload) for tag in messages_of(clip) if tag.type_id != DATA]
    async with own_client(server, key, objectEncoding=3) as (client, stream_id):
        assert client.protocol.amf3
        await client.send_metadata(stream_id, METADATA)
        for start in range(0, len(media), PER_AGGREGATE):
            client.protocol.send_aggregate(stream_id, *media[start : start + PER_AGGREGATE])
            await client.flush()
            await asyncio.sleep(0.01)  # About twenty times as fast as it is, not the whole clip at once.


def test_players_read_aggregates_and_metadata_that_came_in_amf3(
    server: ServerProcess, keys: Keys, clip: Path, tmp_path: Path
) -> None:
    """Every packet from the first. FFmpeg has no form for bytes: what comes after them is read all the same."""
    require_tool("ffprobe")
    require_tool("rtmpdump")
    url = f"{server.rtmp}/live/gathered"
    outputs = {player: tmp_path / f"{player}.flv" for player in ("ffmpeg", "rtmpdump")}
    with ExitStack() as stack:
        ends = [stack.enter_context(playing(player, url, out)) for player, out in outputs.items()]
        asked = ("-show_entries", "format_tags", "-of", "json")
        ffprobe = stack.enter_context(program("ffprobe", "-v", "error", *asked, url))
        wait_for(lambda: server.stream("live/gathered")["players"] == 3, timeout_s=30, what="three players wait")
        asyncio.run(publish(server, keys["gathered"], clip))
        found, _ = ffprobe.communicate(timeout=30)
        for end in ends:
            end()
    for player, out in outputs.items():
        assert_begins(read_packets(str(out)), read_packets(str(clip)), who=player)
    tags = json.loads(found)["format"]["tags"]
    shown = {name: text for name, text in tags.items() if not name.startswith("|")}
    places, by = {"first": "seven", "0": "7", "1": "8"}, {"author": "somebody", "id": "-5"}
    assert shown == {"title": "Gathered", **places, **by, "comment": "the last"}
