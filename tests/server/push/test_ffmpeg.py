"""FFmpeg as the server to which a stream is pushed, and as its encoder."""

import asyncio
from pathlib import Path

import pytest

from ingest.server import RtmpServer
from tests.background import free_port
from tests.media import is_run_of, make_clip, of_kind, read_packets
from tests.server.app import ScriptedApp
from tests.server.clients import programs
from tests.server.push.conftest import KEY, becomes_state, order, push
from tests.tools import require_tool

pytestmark = pytest.mark.clients


async def test_ffmpeg_takes_what_is_pushed(app: ScriptedApp, server: RtmpServer, tmp_path: Path) -> None:
    """All that comes once it is live, to the last packet; and ends when the publisher does."""
    require_tool("ffmpeg")
    clip, port, kept = make_clip(tmp_path / "clip.flv", seconds=3, gop=15), free_port(), tmp_path / "kept.flv"
    here = f"rtmp://127.0.0.1:{server.addresses[0][1]}/live/cam1"
    there = f"rtmp://127.0.0.1:{port}/live/{KEY}"
    takes = f"ffmpeg -v error -y -listen 1 -f flv -i {there} -map 0 -c copy -f flv {kept}"
    sends = f"ffmpeg -v error -re -i {clip} -map 0 -c copy -f flv {here}"
    async with programs(takes) as (listening,), programs(sends):
        await app.event("rtmp.publish")
        await push(app, order(port))
        await becomes_state(app, "live")
        await asyncio.wait_for(listening.wait(), 8)
    sent, taken = read_packets(str(clip)), read_packets(str(kept))
    for kind in ("video", "audio"):
        packets, whole = of_kind(taken, kind), of_kind(sent, kind)
        assert len(packets) > len(whole) // 3
        at = is_run_of(packets, whole)
        assert at >= 0
        assert at + len(packets) == len(whole)
    assert next(packet for packet in taken if packet.kind == "video").is_keyframe
