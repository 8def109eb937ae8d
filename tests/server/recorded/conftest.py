"""FLV files of numbered filler, an application that has players sent them, and a player."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from ingest.flv import FlvWriter
from tests.rtmp_client import AUDIO, VIDEO
from tests.server.app import ScriptedApp
from tests.server.clients import Made, Viewer
from tests.server.media import AAC_HEADER, AVC_HEADER, inter_frame, key_frame, sound


def made(seconds: float, *, gop_ms: int = 1000, fps: int = 10, key_bytes: int = 400, start: int = 0) -> Made:
    """Make headers, then pictures, each with a sound 7 ms later, and a keyframe each `gop_ms`."""
    messages: Made = [(VIDEO, start, AVC_HEADER), (AUDIO, start, AAC_HEADER)]
    for number, time_ms in enumerate(range(0, round(seconds * 1000), 1000 // fps)):
        picture = inter_frame(number) if time_ms % gop_ms else key_frame(number, key_bytes)
        messages += [(VIDEO, start + time_ms, picture), (AUDIO, start + time_ms + 7, sound(number))]
    return messages


CLIP = made(5)


def write(path: Path, messages: Made, *, finished: bool = True) -> Path:
    with path.open("wb") as stream:
        writer = FlvWriter.begin(stream, {"width": 640.0})
        for message in messages:
            writer.write(*message)
        if finished:
            writer.finish()
    return path


def record(app: ScriptedApp, path: Path, **fields: Any) -> None:
    """Offer the file to players from now on."""
    recording = {"recording": 1, "name": path.stem, "file": str(path), "duration_ms": 0}
    app.change("rtmp.play", recording=recording, **fields)


@pytest.fixture
def clip(app: ScriptedApp, tmp_path: Path) -> Path:
    path = write(tmp_path / "clip.flv", CLIP)
    record(app, path)
    return path


@pytest_asyncio.fixture
async def viewer(port: int) -> AsyncIterator[Viewer]:
    async with Viewer(port=port) as made:
        yield made
