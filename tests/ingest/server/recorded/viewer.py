"""A player of recordings: what it was sent, in order, in short."""

from collections.abc import Callable
from typing import Any

from ingest.rtmp import events
from ingest.rtmp.messages.control import UserControl
from tests.ingest.server.recorded.files import AUDIO, VIDEO, Made
from tests.rtmp_client import RtmpClient

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
