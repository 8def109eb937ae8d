"""`manage.py testpattern`: publishes FFmpeg's moving test picture and tone, to try an installation with.

By this project's own RTMP client: FFmpeg writes FLV into a pipe, and this process publishes it, so that the key never
stands on a command line, which every user of the machine can read."""

import asyncio
import os
import signal
from argparse import ArgumentParser
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar
from urllib.parse import urlsplit

import imageio_ffmpeg
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from ingest.flv import FlvError, TagReader
from ingest.management import base
from ingest.rtmp import ClientConnection, Message, MessageType, RemoteProtocolError
from ingest.rtmp.events import Event, HandshakeCompleted, ResultReceived, StatusReceived
from ingest.services import actions as services_actions
from ingest.services import audit, media_urls

NONCE_BYTES = 1528
READ_BYTES = 64 * 1024
ANSWER_S = 10.0
"""How long the server may take for each answer."""

STARTED = "NetStream.Publish.Start"
RTMP_PORT = 1935

SET_DATA_FRAME = b"\x02\x00\x0d@setDataFrame"
"""Before a data tag's body: the server keeps it for later players."""


T = TypeVar("T", bound=Event)


class PublishFailed(Exception):  # noqa: N818 - it reads as what it says.
    """The server refused or ended the publishing, or can't be reached."""


@dataclass(frozen=True, slots=True)
class Picture:
    width: int = 1280
    height: int = 720
    fps: int = 30
    video_kbps: int = 2500
    keyframe_s: int = 2


def ffmpeg_command(picture: Picture, duration_s: float | None) -> list[str]:
    """FFmpeg's command line: test picture with a running clock, a 440 Hz tone, in real time, as FLV to its output."""
    size = f"{picture.width}x{picture.height}"
    rate = f"{picture.video_kbps}k"
    encode = ["-c:v", "libx264", "-preset", "veryfast", "-tune", "zerolatency", "-pix_fmt", "yuv420p"]
    encode += ["-b:v", rate, "-maxrate", rate, "-bufsize", rate, "-g", str(picture.fps * picture.keyframe_s)]
    return [
        imageio_ffmpeg.get_ffmpeg_exe(),
        *("-hide_banner", "-loglevel", "error", "-nostdin"),
        *("-re", "-f", "lavfi", "-i", f"testsrc2=size={size}:rate={picture.fps}"),
        *("-re", "-f", "lavfi", "-i", "sine=frequency=440:sample_rate=44100"),
        *encode,
        *("-c:a", "aac", "-b:a", "128k", "-ac", "2"),
        *(("-t", str(duration_s)) if duration_s else ()),
        *("-f", "flv", "-flvflags", "no_duration_filesize", "pipe:1"),
    ]


async def publish_picture(server: str, secret: str, picture: Picture, duration_s: float | None = None) -> None:
    """Publishes until the time is over or the task is cancelled. `server`: rtmp://host[:port]/app."""
    url = urlsplit(server)
    app = url.path.strip("/")
    try:
        async with asyncio.timeout(ANSWER_S):
            reader, writer = await asyncio.open_connection(url.hostname, url.port or RTMP_PORT)
    except (OSError, TimeoutError):
        raise PublishFailed(f"Nothing answers at {server}.") from None
    session = _Publishing(reader, writer)
    ffmpeg: Process | None = None
    try:
        stream_id = await session.begin(app, server, secret)
        ffmpeg = await asyncio.create_subprocess_exec(*ffmpeg_command(picture, duration_s), stdout=PIPE)
        await session.run(stream_id, ffmpeg)
    except (ConnectionError, RemoteProtocolError) as error:
        raise PublishFailed(f"The connection was lost: {type(error).__name__}.") from None
    except FlvError as error:
        raise PublishFailed(f"What FFmpeg wrote can't be published: {error}.") from None
    finally:
        if ffmpeg is not None and ffmpeg.returncode is None:
            ffmpeg.kill()
            await ffmpeg.wait()
        writer.close()


class _Publishing:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._client = ClientConnection(nonce=os.urandom(NONCE_BYTES))

    async def begin(self, app: str, server: str, secret: str) -> int:
        """Handshake, connect, createStream, publish; returns the message stream's id."""
        client = self._client
        async with asyncio.timeout(ANSWER_S):
            await self._until(HandshakeCompleted)
            client.connect(app, server)
            await self._result()
            client.create_stream()
            created = await self._result()
            stream_id = int(created.values[-1])
            client.publish(stream_id, secret)
            status = await self._until(StatusReceived)
            if status.code != STARTED:
                raise PublishFailed(f"{status.code}: {status.description}")
        return stream_id

    async def run(self, stream_id: int, ffmpeg: Process) -> None:
        """Sends what FFmpeg writes until it ends, and heeds the server meanwhile."""
        listening = asyncio.ensure_future(self._listen())
        sending = asyncio.ensure_future(self._send(stream_id, ffmpeg))
        try:
            done, _ = await asyncio.wait({listening, sending}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (listening, sending):
                task.cancel()
            await asyncio.gather(listening, sending, return_exceptions=True)

    async def _send(self, stream_id: int, ffmpeg: Process) -> None:
        assert ffmpeg.stdout is not None  # noqa: S101 - it was asked for.
        async for message in flv_messages(ffmpeg.stdout, stream_id):
            self._client.send_message(message)
            self._flush()
            await self._writer.drain()
        self._client.delete_stream(stream_id)
        self._flush()
        await self._writer.drain()

    async def _listen(self) -> None:
        while data := await self._reader.read(READ_BYTES):
            for event in self._client.receive_data(data):
                if isinstance(event, StatusReceived) and event.level == "error":
                    raise PublishFailed(f"{event.code}: {event.description}")
            self._flush()
        raise PublishFailed("The server ended the publishing.")

    def _flush(self) -> None:
        self._writer.write(self._client.data_to_send())

    async def _until(self, kind: type[T]) -> T:
        while True:
            self._flush()
            data = await self._reader.read(READ_BYTES)
            if not data:
                raise PublishFailed("The server closed the connection.")
            for event in self._client.receive_data(data):
                if isinstance(event, kind):
                    return event

    async def _result(self) -> ResultReceived:
        result = await self._until(ResultReceived)
        if not result.succeeded:
            info = result.values[-1] if result.values and isinstance(result.values[-1], dict) else {}
            raise PublishFailed(f"{info.get('code', 'refused')}: {info.get('description', '')}")
        return result


async def flv_messages(flv: asyncio.StreamReader, stream_id: int) -> AsyncIterator[Message]:
    """The tags of an FLV file as RTMP messages: their types have the same numbers."""
    reader = TagReader()
    while data := await flv.read(READ_BYTES):
        for tag in reader.feed(data):
            payload = SET_DATA_FRAME + tag.payload if tag.type_id == MessageType.DATA_AMF0 else tag.payload
            yield Message(tag.type_id, tag.timestamp, stream_id, payload)


LIFETIME = timedelta(hours=24)
"""What is left of the key if this process is killed; also the longest that the picture runs."""


class Command(BaseCommand):
    help = (
        "Publishes a moving test picture with a tone to APP/NAME of the server at RTMPWEB_RTMP, until Ctrl-C. It makes "
        "a key for itself, which is revoked at the end, and which appears on no command line. The stream is made if it "
        "isn't there."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("stream", metavar="APP/NAME")
        parser.add_argument("--duration", type=float, metavar="SECONDS", help="stop after so long")
        parser.add_argument("--size", default="1280x720", metavar="WxH")
        parser.add_argument("--fps", type=int, default=30)
        parser.add_argument("--kbps", type=int, default=2500, help="the video's bitrate, kbit/s")
        parser.add_argument("--keyframe", type=int, default=2, metavar="SECONDS", help="between keyframes")
        parser.add_argument("--server", metavar="URL", help="rtmp://host[:port], if not this installation's own")

    def handle(self, *args: Any, **options: Any) -> None:
        width, by, height = options["size"].partition("x")
        if not (by and width.isdigit() and height.isdigit()):
            raise CommandError("--size takes WIDTHxHEIGHT, such as 1280x720.")
        picture = Picture(int(width), int(height), options["fps"], options["kbps"], options["keyframe"])
        actor = audit.command("testpattern")
        stream = base.stream_of(options["stream"], make=actor)
        new_key = services_actions.create_key(
            actor, stream=stream, label="test pattern", expires_at=timezone.now() + LIFETIME
        )
        server = f"{(options['server'] or media_urls.server_base()).rstrip('/')}/{stream.application.name}"
        try:
            asyncio.run(self._publish(server, new_key.secret, picture, options["duration"]))
        except PublishFailed as error:
            raise CommandError(str(error)) from None
        finally:
            services_actions.revoke_key(actor, new_key.key)

    async def _publish(self, server: str, secret: str, picture: Picture, duration_s: float | None) -> None:
        publishing = asyncio.ensure_future(publish_picture(server, secret, picture, duration_s))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, publishing.cancel)
        self.stdout.write(f"Publishing a test picture to {server}; Ctrl-C ends it.")
        self.stdout.flush()
        with suppress(asyncio.CancelledError):
            await publishing
