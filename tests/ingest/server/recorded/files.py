"""FLV files of numbered filler, what is in them by their own tables, and an application that has them played."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from ingest.flv import FlvWriter
from tests.ingest.server.app import Instance, Message, ScriptedApplication
from tests.ingest.server.media import AAC_HEADER, AVC_HEADER, inter_frame, key_frame, sound

AUDIO, VIDEO, DATA = 8, 9, 18

Made = list[tuple[int, int, bytes]]
"""Type, timestamp and payload of each message."""


def made(seconds: float, *, gop_ms: int = 1000, fps: int = 10, key_bytes: int = 400, start: int = 0) -> Made:
    """Headers, then as many pictures as sounds, each sound 7 ms after its picture; a keyframe each `gop_ms`."""
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


def record(app: ScriptedApplication, path: Path, **fields: Any) -> None:
    """From now on players are offered the file."""
    plays(app, {"recording": 1, "name": path.stem, "file": str(path), "duration_ms": 0}, **fields)


def plays(app: ScriptedApplication, recording: dict[str, Any] | None, **fields: Any) -> None:
    async def decide(instance: Instance, event: Message) -> Message:
        return {**await app.accept_play(instance, event), "recording": recording, **fields}

    app.on["rtmp.play"] = decide


Decide = Callable[[Instance, Message], Awaitable[Message | None]]
