"""Publishers and players of the server, through sockets."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from ingest.rtmp import Message, events
from ingest.rtmp.messages import control
from ingest.server import RtmpServer
from ingest.server.connection import Connection
from ingest.server.playing import Playing
from tests.rtmp_client import RtmpClient, SendingClient
from tests.server.app import ScriptedApp
from tests.server.media import AAC_HEADER, AVC_HEADER, inter_frame, key_frame, sound
from tests.server.waiting import becomes

At = RtmpServer | int
"""Where clients connect to: a server's plain port, or any."""


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
    """And its message stream, by which it has sent this video, all of time 0."""
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
    """Publishes; `send` gives the next picture, with sound 7 ms later."""

    def __init__(self, client: RtmpClient, stream_id: int, begins_at: int) -> None:
        self.client = client
        self.stream_id = stream_id
        self.time = begins_at
        self.number = 0

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
        """The latest picture, if it was one."""
        return key_frame(self.number)


class Viewer:
    """One message stream of a client that plays."""

    def __init__(self, client: RtmpClient) -> None:
        self.client = client
        self.stream_id = 1

    async def ask(self, procedure: str, *arguments: Any) -> None:
        self.client.protocol.notify(procedure, *arguments, stream_id=self.stream_id)
        await self.client.flush()

    async def call(self, procedure: str, *arguments: Any) -> events.ResultReceived:
        transaction = self.client.protocol.call(procedure, *arguments, stream_id=self.stream_id)
        await self.client.flush()
        return await self.client.wait_for(events.ResultReceived, lambda found: found.transaction == transaction)

    async def ask_at_once(self, procedure: str, *arguments: Any, times: int) -> None:
        for _ in range(times):
            self.client.protocol.notify(procedure, *arguments, stream_id=self.stream_id)
        await self.client.flush()

    async def pause(self) -> events.StatusReceived:
        await self.ask("pause", True, 0.0)
        return await self.status("NetStream.Pause.Notify")

    async def unpause(self) -> None:
        await self.ask("pause", False, 0.0)
        await self.status("NetStream.Unpause.Notify")

    async def switch(self, name: str, **options: Any) -> events.StatusReceived:
        """By play2, which is accepted; the new one has not come yet."""
        after = len(self.client.received)
        await self.ask("play2", {"streamName": name, "transition": "switch", **options})
        return await self.status("NetStream.Play.Transition", after=after)

    async def sees(self, camera: Camera) -> events.VideoReceived:
        """The keyframe that the camera sends now."""
        await camera.send(key=True)
        return await self.picture(camera.key_frame)

    async def hears(self, camera: Camera) -> None:
        """The sound that the camera sends now, behind a keyframe."""
        await camera.send(key=True)
        await self.hear(camera.number)

    async def status(self, code: str, *, after: int = 0) -> events.StatusReceived:
        return await self.client.wait_for(events.StatusReceived, lambda status: status.code == code, after=after)

    async def play_status(self, code: str) -> dict[str, Any]:
        def matches(data: events.DataReceived) -> bool:
            return data.name == "onPlayStatus" and data.values[0]["code"] == code

        info: dict[str, Any] = (await self.client.wait_for(events.DataReceived, matches)).values[0]
        return info

    async def picture(self, payload: bytes) -> events.VideoReceived:
        return await self.client.wait_for(events.VideoReceived, lambda video: video.payload == payload)

    async def hear(self, number: int) -> events.AudioReceived:
        return await self.client.wait_for(events.AudioReceived, lambda audio: audio.payload == sound(number))

    @property
    def codes(self) -> list[str]:
        return [status.code for status in self.client.of(events.StatusReceived)]

    @property
    def play_codes(self) -> list[str]:
        return [data.values[0]["code"] for data in self.client.of(events.DataReceived) if data.name == "onPlayStatus"]

    @property
    def video(self) -> list[bytes]:
        return [event.payload for event in self.client.of(events.VideoReceived)]

    @property
    def times(self) -> list[int]:
        """Of the frames, in the order in which they came."""
        return [
            event.timestamp
            for event in self.client.received
            if isinstance(event, events.VideoReceived | events.AudioReceived)
        ]


ROOM_FRAMES = 60
ROOM_FRAME_BYTES = 5_000


class Room:
    """A publisher and a player of its stream, on a server with a small window."""

    def __init__(self, server: RtmpServer, protocol: SendingClient | None = None) -> None:
        self.server = server
        self.player = RtmpClient(port=port_of(server))
        if protocol:
            self.player.protocol = protocol
        self.frames = [key_frame(number, ROOM_FRAME_BYTES) for number in range(ROOM_FRAMES)]
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Room":
        self.publisher, self.stream_id = await self._stack.enter_async_context(publishing(self.server, name="cam"))
        await self._stack.enter_async_context(self.player)
        await self.player.connect("live")
        await self.player.play("cam")
        await self.publisher.send_video(self.stream_id, 0, AVC_HEADER)
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._stack.aclose()

    async def show(self) -> None:
        for number, frame in enumerate(self.frames):
            await self.publisher.send_video(self.stream_id, number * 40, frame)

    @property
    def playing(self) -> Playing:
        return next(session for session in self.server.sessions.values() if isinstance(session, Playing))

    @property
    def connection(self) -> Connection:
        found = self.playing.connection
        assert isinstance(found, Connection)
        return found

    async def tell(self, message: Message) -> None:
        self.player.protocol.send_message(message)
        await self.player.flush()

    async def acknowledge(self, sequence_number: int) -> None:
        """And wait until the server has read it."""
        await self.tell(control.acknowledgement(sequence_number))
        self.player.protocol.call("_checkbw")
        await self.player.flush()
        await self.player.wait_for(events.ResultReceived, lambda event: event.procedure == "_checkbw")

    async def acknowledge_once(self) -> None:
        """And never again."""
        self.player.protocol.acknowledging.interval = 1 << 40
        await self.acknowledge(0)

    async def saw_all(self) -> None:
        await self.player.wait_count(events.VideoReceived, 1 + ROOM_FRAMES)
        assert [event.payload for event in self.player.of(events.VideoReceived)] == [AVC_HEADER, *self.frames]
        assert self.playing.subscriber.dropped_frames == 0


class Stage:
    """Publishers and players of one server; all of them leave at the end."""

    def __init__(self, at: At) -> None:
        self.at = at
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Stage":
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._stack.aclose()

    @property
    def server(self) -> RtmpServer:
        assert isinstance(self.at, RtmpServer)
        return self.at

    @property
    def plays(self) -> list[str]:
        """The sessions of all players."""
        return [key for key in self.server.sessions if key.startswith("play")]

    async def client(self) -> RtmpClient:
        return await self._stack.enter_async_context(connected(self.at))

    async def camera(self, name: str, begins_at: int = 0, avc: bytes = AVC_HEADER) -> Camera:
        client = await self.client()
        camera = Camera(client, await client.publish(name), begins_at)
        await camera.headers(avc)
        return camera

    async def refreshing_camera(self, name: str, **options: Any) -> Camera:
        """One that refreshes its pictures by parts, and has marked no keyframe for long."""
        camera = await self.camera(name, **options)
        await becomes(lambda: f"live/{name}" in self.server.registry.streams)
        live = self.server.registry.streams[f"live/{name}"]
        live.video(0, inter_frame(0), asyncio.get_running_loop().time() - 20)
        await camera.send()
        await becomes(lambda: live.lacks_keyframes)
        return camera

    async def viewer(self, name: str = "", *arguments: Any) -> Viewer:
        """With a name it plays that."""
        viewer = Viewer(await self.client())
        viewer.stream_id = await viewer.client.create_stream()
        if name:
            await viewer.ask("play", name, *arguments)
            await viewer.status("NetStream.Play.Start")
        return viewer


async def check_a_stuck_player_is_closed(app: ScriptedApp, at: At, *, tls: ssl.SSLContext | None = None) -> None:
    """Within some seconds; its publisher goes on. The server's `write_s` should be short."""
    async with publishing(at, tls=tls) as (publisher, stream_id), playing(at, tls=tls) as stuck:
        stuck.pause_reading()
        await publisher.send_video(stream_id, 0, AVC_HEADER)
        async with asyncio.timeout(10):
            while not app.connections[1].of("rtmp.stop"):
                await publisher.send_video(stream_id, 0, key_frame(0, 60_000))
        assert app.connections[1].of("rtmp.stop")[0]["reason"] == "too_slow"
        assert not publisher.closed


@asynccontextmanager
async def programs(*commands: str) -> AsyncIterator[list[asyncio.subprocess.Process]]:
    """Other players and publishers, which run until the end of the block at most."""
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
