"""What our client sends, with short headers and with audio between the chunks of video, is read by FFmpeg's server."""

import asyncio
from pathlib import Path

import pytest

from ingest.rtmp import MessageType
from tests.background import free_port
from tests.media import of_kind, read_packets
from tests.rtmp_client import RtmpClient
from tests.rtmpdecode import Decoded, messages_of
from tests.server_process import program
from tests.tools import require_tool

pytestmark = [pytest.mark.clients, pytest.mark.timeout(60)]

GATHERED = 20
"""Messages that wait before they are sent, so that audio finds video to overtake."""
START_S = 15


async def send(port: int, tags: list[Decoded], chunk_size: int, limit: int) -> None:
    """Publishes audio and video as soon as somebody listens, taking about `limit` bytes at a time."""
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
            await client.flush(limit)
    await client.flush(limit)
    await client.close()


@pytest.mark.parametrize(("chunk_size", "limit"), [(128, 300), (4096, 1)])
def test_ffmpeg_receives_all(clip: Path, tmp_path: Path, chunk_size: int, limit: int) -> None:
    port, found = free_port(), tmp_path / "received.flv"
    source = f"rtmp://127.0.0.1:{port}/live/cam"
    tags = messages_of(clip)
    options = ["-nostdin", "-v", "error", "-listen", "1"]
    with program(require_tool("ffmpeg"), *options, "-i", source, "-c", "copy", str(found)) as ffmpeg:
        asyncio.run(send(port, tags, chunk_size, limit))
        said, _ = ffmpeg.communicate(timeout=START_S)
    sent, received = read_packets(str(clip)), read_packets(str(found))
    for kind in ("audio", "video"):
        assert of_kind(received, kind) == of_kind(sent, kind), said
