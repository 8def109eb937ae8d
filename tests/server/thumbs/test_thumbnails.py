"""Whose turn it is: which streams' keyframes go to the decoder, how often, and what the application hears."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import imageio_ffmpeg
import pytest
import pytest_asyncio

from ingest.live import LiveStream, Registry
from ingest.server import thumbnail_decoder
from ingest.server.config import ThumbnailSettings
from ingest.server.thumbnails import PROGRAM, Thumbnails
from tests.pure.live.payloads import LABELS, publisher
from tests.rtmpweb.processes import children, command
from tests.server.app import ScriptedApp
from tests.server.clients import programs
from tests.server.conftest import Serve
from tests.server.thumbs import test_decoder as decoding

SETTINGS = ThumbnailSettings(share=1.0, per_s=10, picture_s=30.0)

KEYFRAME_BYTES = 21

START = "import socket, struct, time; connection = socket.socket(fileno=0); connection.sendall(b'\\1');"
HEAD = thumbnail_decoder.REQUEST
ASKED = f"head = struct.unpack('{HEAD.format}', connection.recv({HEAD.size}, socket.MSG_WAITALL));"
ASKED += "body = connection.recv(head[4] + head[5], socket.MSG_WAITALL);"
ECHO = f"{START}\nwhile True:\n  {ASKED} connection.sendall(struct.pack('>BI', 1, 1) + body[-1:])"
REFUSE = f"{START}\nwhile True:\n  {ASKED} connection.sendall(struct.pack('>BI', 0, 3) + b'bad')"
HANG = f"{START}\ntime.sleep(600)"


def stub(text: str) -> tuple[str, ...]:
    """A decoder that does as little as it can: its pictures are the keyframe's last byte."""
    return (sys.executable, "-I", "-S", "-c", text)


class Node:
    """Thumbnails of some streams, at whatever time the test says it is."""

    def __init__(self, settings: ThumbnailSettings, program: tuple[str, ...]) -> None:
        self.registry = Registry("node-1")
        self.told: list[dict[str, Any]] = []
        self.heard = asyncio.Event()
        self.thumbnails = Thumbnails(asyncio.get_running_loop(), self.registry, settings, self._tell, program)

    def _tell(self, event: dict[str, Any]) -> None:
        self.told.append(event)
        self.heard.set()

    def stream(self, path: str, session: str = "") -> LiveStream:
        """One that somebody publishes."""
        stream = self.registry.get_or_create(path, LABELS)
        if stream.publisher is not None:
            stream.stop(stream.publisher.session_id, 0.0)
        stream.start(publisher(session or path), 0.0)
        return stream

    def keyframe(self, stream: LiveStream, now: float, mark: int = 0) -> None:
        stream.video(0, b"\x91vp08" + bytes(KEYFRAME_BYTES - 1) + bytes((mark,)), now)

    async def tick(self, now: float, pictures: int) -> list[str]:
        """Of which streams there are so many pictures then."""
        self.told.clear()
        self.thumbnails.tick(now)
        async with asyncio.timeout(30):  # The decoder lets all other processes go first.
            while len(self.told) < pictures:
                self.heard.clear()
                await self.heard.wait()
        await asyncio.sleep(0.02)  # What is one too many would be here.
        return [event["path"] for event in self.told]


Make = Callable[..., Node]


@pytest_asyncio.fixture
async def node() -> AsyncIterator[Make]:
    made: list[Node] = []

    def make(settings: ThumbnailSettings = SETTINGS, text: str = ECHO) -> Node:
        made.append(Node(settings, stub(text)))
        return made[-1]

    yield make
    for each in made:
        began = time.monotonic()
        await each.thumbnails.close(20)
        assert time.monotonic() - began < 10
    assert not [pid for pid in children(os.getpid()) if "-S" in command(pid).split()]


async def test_a_stream_has_a_picture_at_once_and_then_when_it_is_due(node: Make) -> None:
    whole = node()
    stream = whole.stream("live/a")
    assert await whole.tick(0.0, 0) == []
    whole.keyframe(stream, 0.5, 7)
    assert await whole.tick(1.0, 1) == ["live/a"]
    assert (whole.told[0]["image"], whole.told[0]["session_id"]) == (b"\7", "live/a")
    assert abs(whole.told[0]["at_ms"] / 1000 - time.time()) < 5
    whole.keyframe(stream, 20.0)
    assert await whole.tick(20.0, 0) == [], "nobody looks at it"
    assert await whole.tick(31.0, 1) == ["live/a"]
    assert await whole.tick(90.0, 0) == [], "no other keyframe has come"


async def test_watched_stream_gets_pictures_more_often(node: Make) -> None:
    whole = node()
    streams = {path: whole.stream(path) for path in ("live/a", "live/b")}
    for at in (0.0, 1.0):
        for stream in streams.values():
            whole.keyframe(stream, at)
        await whole.tick(at, 2 if at == 0.0 else 0)
    whole.thumbnails.watch(["live/b"])
    assert await whole.tick(4.9, 0) == []
    assert await whole.tick(5.0, 1) == ["live/b"]


async def test_a_new_session_has_its_own_picture(node: Make) -> None:
    whole = node()
    whole.keyframe(whole.stream("live/a"), 0.0, 1)
    await whole.tick(0.0, 1)
    stream = whole.stream("live/a", "another")
    assert await whole.tick(1.0, 0) == []
    whole.keyframe(stream, 1.5, 2)
    assert await whole.tick(2.0, 1) == ["live/a"]
    assert (whole.told[0]["image"], whole.told[0]["session_id"]) == (b"\2", "another")


async def test_picture_of_an_ended_session_is_discarded(node: Make) -> None:
    whole = node()
    whole.keyframe(whole.stream("live/a"), 0.0, 1)
    whole.thumbnails.tick(0.0)
    whole.keyframe(whole.stream("live/a", "another"), 0.0, 2)
    whole.thumbnails.tick(1.0)
    assert await whole.tick(1.0, 1) == ["live/a"]
    assert whole.told[0]["image"] == b"\2"


async def test_with_many_streams_each_has_its_turn(node: Make) -> None:
    """100 streams, whose keyframes have room for 50 at a time."""
    whole = node(replace(SETTINGS, per_s=2000, waiting_bytes=50 * KEYFRAME_BYTES, watched_s=1.0))
    paths = [f"live/{number}" for number in range(100)]
    streams = [whole.stream(path) for path in paths]
    whole.thumbnails.watch(paths)
    seen: list[str] = []
    for second in range(4):
        for stream in streams:
            whole.keyframe(stream, float(second))
        found = await whole.tick(float(second), 50)
        assert len(found) == 50
        seen += found
    assert set(seen[:100]) == set(seen[100:]) == set(paths)


async def test_limit_of_pictures_per_second_is_kept(node: Make) -> None:
    whole = node(replace(SETTINGS, per_s=20))
    for number in range(10):
        whole.keyframe(whole.stream(f"live/{number}"), 0.0)
    left = 10 - len(await whole.tick(0.0, 1))  # On a busy machine the second comes before the first is noticed.
    began = time.monotonic()
    await whole.tick(1.0, left)
    assert time.monotonic() - began > 0.9 * (left - 1) / 20


async def test_long_keyframes_are_left_out_and_others_wait_within_a_bound(node: Make) -> None:
    whole = node(replace(SETTINGS, keyframe_bytes=1000, waiting_bytes=1500))
    for number in range(5):
        whole.stream(f"live/{number}").video(0, b"\x91vp08" + bytes(900), 0.0)
    whole.stream("live/long").video(0, b"\x91vp08" + bytes(1001), 0.0)
    assert len(await whole.tick(0.0, 2)) == 2
    assert len(await whole.tick(1.0, 2)) == 2
    assert len(await whole.tick(2.0, 1)) == 1
    assert await whole.tick(3.0, 0) == []


@pytest.mark.parametrize("text", [REFUSE, HANG], ids=["no picture", "hanging"])
async def test_a_stream_that_gives_no_picture_is_tried_ever_less_often(node: Make, text: str) -> None:
    whole = node(replace(SETTINGS, picture_s=0.05, again_s=120.0), text)
    stream = whole.stream("live/a")
    tries = []
    for second in range(400):
        whole.keyframe(stream, float(second))
        whole.thumbnails.tick(float(second))
        if whole.thumbnails._waiting:
            tries.append(second)
            async with asyncio.timeout(5):
                while whole.thumbnails._waiting:  # noqa: ASYNC110 - nothing is told of what failed.
                    await asyncio.sleep(0.01)
    assert tries == [0, 60, 180, 300]
    assert whole.told == []


async def test_a_hanging_decoder_holds_up_neither_loop_nor_stop(node: Make) -> None:
    """The fixture asserts that `close` waits for nothing."""
    whole = node(text=HANG)
    whole.keyframe(whole.stream("live/a"), 0.0)
    began = time.monotonic()
    whole.thumbnails.tick(0.0)
    await asyncio.sleep(0.3)  # The loop comes back to it.
    assert time.monotonic() - began < 10, "far less than a picture may take"


BARS = (
    f"{imageio_ffmpeg.get_ffmpeg_exe()} -v error -re -f lavfi -i smptebars=size=1280x720:rate=10"
    " -c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 2 -f flv rtmp://127.0.0.1:{port}/live/bars"
)


async def test_stream_published_by_ffmpeg_gets_correct_thumbnails(serve: Serve, app: ScriptedApp) -> None:
    server = await serve(config={"thumbnails": ThumbnailSettings(watched_s=0.3)})
    async with programs(BARS.format(port=server.addresses[0][1])):
        await app.wait_until(lambda: bool(app.node.of("node.thumbnail")), 20)
        first = app.node.of("node.thumbnail")[0]
        assert first["path"] == "live/bars"
        assert first["session_id"] == "publish-1"
        assert decoding.picture(first["image"]).shape == (180, 320, 3)
        assert decoding.shows_bars(first["image"]), decoding.bars_of(first["image"])
        await app.node.send({"type": "node.watch", "paths": ["live/bars"]})
        await app.wait_until(lambda: len(app.node.of("node.thumbnail")) == 3, 10)
        times = [event["at_ms"] for event in app.node.of("node.thumbnail")]
        assert times == sorted(set(times))
    assert [pid for pid in children(os.getpid()) if PROGRAM[-1] in command(pid)]
    await server.stop(grace_s=2)
    assert not [pid for pid in children(os.getpid()) if PROGRAM[-1] in command(pid)]


async def test_thumbnails_are_off_without_settings(serve: Serve, app: ScriptedApp) -> None:
    server = await serve()
    async with programs(BARS.format(port=server.addresses[0][1])):
        await app.wait_until(lambda: any(sample.keyframes for sample in app.samples), 20)
        await app.node.send({"type": "node.watch", "paths": ["live/bars"]})
        await app.next_tick(2)
    assert not app.node.of("node.thumbnail")
