"""Publishers and players of the server, through sockets."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from typing import Any

from ingest.rtmp import events
from ingest.rtmp.messages.control import UserControl
from ingest.server import RtmpServer
from tests.rtmp_client import AUDIO, VIDEO, RtmpClient
from tests.server.media import AAC_HEADER, AVC_HEADER, inter_frame, key_frame, sound

At = RtmpServer | int
"""A server, or a port."""


HOURS_MS = 36_000_000
"""rtmpdump's buffer length: the server sends as fast as it can."""

Made = list[tuple[int, int, bytes]]
"""Type, timestamp and payload of media messages."""


def port_of(at: At) -> int:
    return at if isinstance(at, int) else at.addresses[0][1]


@asynccontextmanager
async def connected(
    at: At, *, app: str = "live", tls: ssl.SSLContext | None = None, **properties: Any
) -> AsyncIterator[RtmpClient]:
    async with RtmpClient(port=port_of(at), tls=tls) as client:
        await client.connect(app, **properties)
        yield client


@asynccontextmanager
async def publishing(
    at: At, *video: bytes, name: str = "cam1", kind: str = "live", **options: Any
) -> AsyncIterator[tuple[RtmpClient, int]]:
    """Yield a publisher and its message stream, on which it has sent this video at time 0."""
    async with connected(at, **options) as client:
        stream_id = await client.publish(name, kind)
        for payload in video:
            await client.send_video(stream_id, 0, payload)
        yield client, stream_id


@asynccontextmanager
async def playing(at: At, *, name: str = "cam1", **options: Any) -> AsyncIterator[RtmpClient]:
    async with connected(at, **options) as client:
        await client.play(name)
        yield client


class Camera:
    """A publisher of numbered pictures, each with a sound 7 ms later."""

    def __init__(self, client: RtmpClient, stream_id: int, begins_at: int) -> None:
        self.client, self.stream_id = client, stream_id
        self.time, self.number = begins_at, 0

    async def headers(self, avc: bytes = AVC_HEADER) -> None:
        await self.client.send_video(self.stream_id, self.time, avc)
        await self.client.send_audio(self.stream_id, self.time, AAC_HEADER)

    async def send(self, *, key: bool = False, count: int = 1) -> None:
        for number in range(count):
            self.time += 40
            self.number += 1
            frame = key_frame(self.number) if key and number == 0 else inter_frame(self.number)
            await self.client.send_video(self.stream_id, self.time, frame)
            await self.client.send_audio(self.stream_id, self.time + 7, sound(self.number))

    @property
    def key_frame(self) -> bytes:
        """The latest picture's payload, if it was a keyframe."""
        return key_frame(self.number)


class Viewer(RtmpClient):
    """A player on the message stream `stream_id`."""

    stream_id = 0

    # --- Commands on the message stream ---

    async def ask(self, procedure: str, *arguments: Any, times: int = 1) -> int:
        """Send a command. Return the index in `received` at which its answers begin."""
        after = len(self.received)
        for _ in range(times):
            self.protocol.notify(procedure, *arguments, stream_id=self.stream_id)
        await self.flush()
        return after

    async def call_on_stream(self, procedure: str, *arguments: Any) -> events.ResultReceived:
        transaction = self.protocol.call(procedure, *arguments, stream_id=self.stream_id)
        await self.flush()
        return await self.wait_for(events.ResultReceived, lambda found: found.transaction == transaction)

    async def pause(self) -> events.StatusReceived:
        await self.ask("pause", True, 0.0)
        return await self.status("NetStream.Pause.Notify")

    async def unpause(self) -> None:
        await self.ask("pause", False, 0.0)
        await self.status("NetStream.Unpause.Notify")

    async def switch(self, name: str, **options: Any) -> events.StatusReceived:
        """Send a play2. Return when it is accepted, before the new stream's media."""
        after = await self.ask("play2", {"streamName": name, "transition": "switch", **options})
        return await self.status("NetStream.Play.Transition", after=after)

    # --- Recordings ---

    async def watch(
        self, name: str = "clip", start: float = 0, duration: float = -1, *, buffer_ms: int | None = HOURS_MS, **kw: Any
    ) -> None:
        """Connect and ask for a recording, without waiting for the answer."""
        await self.connect("live")
        self.stream_id = await self.create_stream()
        self.protocol.play(self.stream_id, name, start, duration, **kw)
        if buffer_ms is not None:
            self.protocol.set_buffer_length(self.stream_id, buffer_ms)
        await self.flush()

    async def begin(self, buffer_ms: int) -> None:
        """Ask for the recording, and wait until it has begun."""
        await self.watch(buffer_ms=buffer_ms)
        await self.wait_for(events.VideoReceived)

    async def watch_all(self, *arguments: Any, **options: Any) -> None:
        await self.watch(*arguments, **options)
        await self.until_over()

    async def hurry(self) -> None:
        """Have the rest sent as fast as possible."""
        self.protocol.set_buffer_length(self.stream_id, HOURS_MS)
        await self.flush()

    async def finish(self, *, after: int = 0) -> None:
        await self.hurry()
        await self.until_over(after=after)

    async def until_over(self, *, after: int = 0, timeout_s: float = 5) -> None:
        await self.status("NetStream.Play.Stop", after=after, timeout_s=timeout_s)

    # --- What it received ---

    async def sees(self, camera: Camera) -> events.VideoReceived:
        """Receive the keyframe that the camera sends now."""
        await camera.send(key=True)
        return await self.picture(camera.key_frame)

    async def hears(self, camera: Camera) -> None:
        """Receive the sound that the camera sends now, after a keyframe."""
        await camera.send(key=True)
        await self.hear(camera.number)

    async def status(self, code: str, *, after: int = 0, timeout_s: float = 5) -> events.StatusReceived:
        return await self.wait_for(
            events.StatusReceived, lambda status: status.code == code, after=after, timeout_s=timeout_s
        )

    async def play_status(self, code: str) -> dict[str, Any]:
        await self.wait_until(lambda: code in self.play_codes)
        return next(info for info in self._play_statuses if info["code"] == code)

    async def picture(self, payload: bytes) -> events.VideoReceived:
        return await self.wait_for(events.VideoReceived, lambda video: video.payload == payload)

    async def hear(self, number: int) -> events.AudioReceived:
        return await self.wait_for(events.AudioReceived, lambda audio: audio.payload == sound(number))

    @property
    def codes(self) -> list[str]:
        return [status.code for status in self.of(events.StatusReceived)]

    @property
    def _play_statuses(self) -> list[dict[str, Any]]:
        return [data.values[0] for data in self.of(events.DataReceived) if data.name == "onPlayStatus"]

    @property
    def play_codes(self) -> list[str]:
        return [info["code"] for info in self._play_statuses]

    @property
    def video(self) -> list[bytes]:
        return [event.payload for event in self.of(events.VideoReceived)]

    @property
    def times(self) -> list[int]:
        """The frames' timestamps, in the order in which they came."""
        return [timestamp for _, timestamp, _ in self.media()]

    def media(self, after: int = 0) -> Made:
        found = [event for event in self.received[after:] if type(event) in KINDS]
        return [(KINDS[type(event)], event.timestamp, event.payload) for event in found]  # type: ignore[attr-defined]

    def story(self, after: int = 0) -> list[str]:
        """Return the control events, status codes, names of data messages, and "media", each run of it as one word."""
        words = [tell(event) for event in self.received[after:] for kind, tell in WORDS.items() if type(event) is kind]
        told = [word for word in words if word]
        return [word for before, word in pairwise(["", *told]) if (before, word) != ("media", "media")]


def _data_word(event: events.DataReceived) -> str:
    return str(event.values[0]["code"]) if event.name == "onPlayStatus" else event.name


KINDS = {events.AudioReceived: AUDIO, events.VideoReceived: VIDEO}
WORDS: dict[type, Callable[[Any], str]] = {
    events.StatusReceived: lambda event: event.code,
    events.UserControlReceived: lambda event: UserControl(event.event).name if event.values[0] else "",
    events.DataReceived: _data_word,
    events.AudioReceived: lambda _event: "media",
    events.VideoReceived: lambda _event: "media",
}


class Stage(AsyncExitStack):
    """Publishers and players of one server. All of them leave at the end."""

    def __init__(self, at: At) -> None:
        super().__init__()
        self.at = at

    @property
    def server(self) -> RtmpServer:
        assert isinstance(self.at, RtmpServer)
        return self.at

    @property
    def plays(self) -> list[str]:
        """The sessions of all players."""
        return [key for key in self.server.sessions if key.startswith("play")]

    async def client(self) -> RtmpClient:
        return await self.enter_async_context(connected(self.at))

    async def camera(self, name: str, begins_at: int = 0, avc: bytes = AVC_HEADER) -> Camera:
        client = await self.client()
        camera = Camera(client, await client.publish(name), begins_at)
        await camera.headers(avc)
        return camera

    async def viewer(self, name: str = "", *arguments: Any) -> Viewer:
        """Add a viewer that plays this name, or nothing yet."""
        viewer = await self.enter_async_context(Viewer(port=port_of(self.at)))
        await viewer.connect("live")
        viewer.stream_id = await viewer.create_stream()
        if name:
            await viewer.ask("play", name, *arguments)
            await viewer.status("NetStream.Play.Start")
        return viewer


@asynccontextmanager
async def programs(*commands: str) -> AsyncIterator[list[asyncio.subprocess.Process]]:
    """Run other players and publishers until the end of the block at most."""
    started: list[asyncio.subprocess.Process] = []
    try:
        for command in commands:
            words = command.split()
            started.append(await asyncio.create_subprocess_exec(*words, stdin=asyncio.subprocess.DEVNULL))
        yield started
    finally:
        for process in started:
            if process.returncode is None:
                process.kill()
                await process.wait()
