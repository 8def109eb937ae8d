"""FLV files of numbered filler, an application that has them played, and a player of them."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ingest.flv import FlvWriter
from ingest.rtmp import events
from ingest.rtmp.messages.control import UserControl
from ingest.server.vod.library import READING_THREADS, Library
from tests.rtmp_client import RtmpClient
from tests.server.app import ScriptedApp
from tests.server.media import AAC_HEADER, AVC_HEADER, inter_frame, key_frame, sound

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


def record(app: ScriptedApp, path: Path, **fields: Any) -> None:
    """From now on players are offered the file."""
    plays(app, {"recording": 1, "name": path.stem, "file": str(path), "duration_ms": 0}, **fields)


def plays(app: ScriptedApp, recording: dict[str, Any] | None, **fields: Any) -> None:
    app.change("rtmp.play", recording=recording, **fields)


HOURS_MS = 36_000_000
"""rtmpdump's buffer: as fast as it goes."""


class Viewer(RtmpClient):
    stream_id = 0

    async def watch(
        self, name: str = "clip", start: float = 0, duration: float = -1, *, buffer_ms: int | None = HOURS_MS, **kw: Any
    ) -> None:
        """Ask for it; what comes of it is awaited by the test."""
        await self.connect("live")
        self.stream_id = await self.create_stream()
        self.protocol.play(self.stream_id, name, start, duration, **kw)
        if buffer_ms is not None:
            self.protocol.set_buffer_length(self.stream_id, buffer_ms)
        await self.flush()

    async def watch_all(self, *arguments: Any, **options: Any) -> None:
        """Ask for it, and wait for its end."""
        await self.watch(*arguments, **options)
        await self.until_over()

    async def hurry(self) -> None:
        """From now on as fast as it goes."""
        self.protocol.set_buffer_length(self.stream_id, HOURS_MS)
        await self.flush()

    async def finish(self, *, after: int = 0, timeout_s: float = 5) -> None:
        """As fast as it goes, to its end."""
        await self.hurry()
        await self.until_over(after=after, timeout_s=timeout_s)

    async def begin(self, buffer_ms: int, **asked: Any) -> None:
        """Ask for it, and wait until it has begun."""
        await self.watch(buffer_ms=buffer_ms, **asked)
        await self.wait_for(events.VideoReceived)

    async def command(self, name: str, *arguments: Any) -> int:
        """On the message stream; where in `received` its answers begin."""
        after = len(self.received)
        self.protocol.send_command(self.stream_id, name, 0, None, *arguments)
        await self.flush()
        return after

    async def until_code(self, code: str, *, after: int = 0, timeout_s: float = 5) -> events.StatusReceived:
        return await self.wait_for(
            events.StatusReceived, lambda event: event.code == code, after=after, timeout_s=timeout_s
        )

    async def until_over(self, *, after: int = 0, timeout_s: float = 5) -> None:
        await self.until_code("NetStream.Play.Stop", after=after, timeout_s=timeout_s)

    def media(self, after: int = 0) -> Made:
        kinds = {events.AudioReceived: AUDIO, events.VideoReceived: VIDEO}
        return [
            (kinds[type(event)], event.timestamp, event.payload)
            for event in self.received[after:]
            if isinstance(event, events.AudioReceived | events.VideoReceived)
        ]

    def story(self, after: int = 0) -> list[str]:
        """What came of this message stream: control events, codes, names of data messages; media as one word."""
        words: list[str] = []
        for event in self.received[after:]:
            word = next((tell(event) for kind, tell in WORDS.items() if isinstance(event, kind)), "")
            if word and (word != "media" or words[-1:] != ["media"]):
                words.append(word)
        return words


def _data(event: events.DataReceived) -> str:
    if event.name == "onPlayStatus":
        return str(event.values[0]["code"])
    return event.name


WORDS: dict[type, Callable[[Any], str]] = {
    events.StatusReceived: lambda event: event.code,
    events.UserControlReceived: lambda event: UserControl(event.event).name if event.values[0] else "",
    events.DataReceived: _data,
    events.AudioReceived: lambda _event: "media",
    events.VideoReceived: lambda _event: "media",
}


@contextmanager
def hanging(library: Library) -> Iterator[threading.Event]:
    """All threads that read files are held until it is set, or the block ends."""
    gives = threading.Event()
    try:
        for _ in range(READING_THREADS):
            library.submit(lambda: bool(gives.wait(20)))
        yield gives
    finally:
        gives.set()
