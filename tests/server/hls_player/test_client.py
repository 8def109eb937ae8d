"""The player, against an origin that comes part by part."""

import asyncio
import io
import re
import time
from collections.abc import AsyncIterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import av
import pytest
import pytest_asyncio

from tests.hls.client import HELD_UP_S, LOOK_S, FollowError, Player
from tests.hls.clip import FPS, PART_S, PARTS, Clip, clip


def _wanted(asked: dict[str, list[str]], count: int) -> int | None:
    """How many parts have to be there; None: too many, or it can't be read."""
    try:
        msn, part = int(asked["_HLS_msn"][0]), int(asked.get("_HLS_part", [str(PARTS - 1)])[0])
    except (KeyError, ValueError):
        return None
    wanted = msn * PARTS + part + 1
    return wanted if wanted <= count + 3 * PARTS else None


class Origin:
    """Serves the clip at `url`, as if it had begun `ahead_s` before the block."""

    def __init__(self, made: Clip, ahead_s: float = 8.0) -> None:
        self._clip = made
        self._ahead_s = ahead_s
        self.requests: list[str] = []
        self.url = ""
        self.port = 0

    async def __aenter__(self) -> "Origin":
        self.began = time.monotonic() - self._ahead_s
        self.began_at = datetime.now(UTC) - timedelta(seconds=self._ahead_s)
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/hls/live/demo/index.m3u8"
        self._tasks: set[asyncio.Task[None]] = set()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # Transports close.

    @property
    def _count(self) -> int:
        return min(len(self._clip.parts), int((time.monotonic() - self.began) / PART_S))

    async def _until(self, count: int) -> None:
        await asyncio.sleep(self.began + min(count, len(self._clip.parts)) * PART_S - time.monotonic() + 0.001)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        with suppress(ConnectionError, asyncio.IncompleteReadError), closing(writer):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                target = head.split(b" ", 2)[1].decode()
                self.requests.append(target)
                status, kind, body = await self._answer(target)
                fields = f"Content-Type: {kind}\r\nContent-Length: {len(body)}"
                writer.write(f"HTTP/1.1 {status}\r\n{fields}\r\n\r\n".encode() + body)
                await writer.drain()
        self._tasks.discard(task)

    async def _answer(self, target: str) -> tuple[str, str, bytes]:
        parts = urlsplit(target)
        name, asked = parts.path.rpartition("/")[2], parse_qs(parts.query)
        if name == "index.m3u8":
            return "200 OK", "application/vnd.apple.mpegurl", self._clip.multivariant().encode()
        if name == "v0.m3u8":
            if "_HLS_msn" in asked or "_HLS_part" in asked:
                wanted = _wanted(asked, self._count)
                if wanted is None:
                    return "400 Bad Request", "text/plain", b""
                await self._until(wanted)
            count = self._count
            ended = count == len(self._clip.parts)
            delta = asked.get("_HLS_skip") == ["YES"] and not ended
            text = self._clip.playlist(count, delta=delta, ended=ended, began=self.began_at)
            return "200 OK", "application/vnd.apple.mpegurl", text.encode()
        if name == "init.mp4":
            return "200 OK", "video/mp4", self._clip.init
        if found := re.fullmatch(r"p(\d+)\.(\d+)\.m4s", name):
            place = int(found[1]) * PARTS + int(found[2])
            await self._until(place + 1)
            if place < self._count:
                return "200 OK", "video/mp4", self._clip.parts[place]
        elif (found := re.fullmatch(r"s(\d+)\.m4s", name)) and (int(found[1]) + 1) * PARTS <= self._count:
            return "200 OK", "video/mp4", self._clip.segment(int(found[1]))
        return "404 Not Found", "text/plain", b""


@pytest_asyncio.fixture
async def origin() -> AsyncIterator[Origin]:
    async with Origin(clip()) as found:
        yield found


async def test_player_follows_part_by_part(origin: Origin) -> None:
    async with Player(origin.url) as player, asyncio.timeout(8):
        video = await player.open()
        await video.follow(lambda: len(video.received) >= 12)
        await video.fetch_wholes()
    assert video.received[0].part == 0, "it begins with a part that is independent"
    places = [one.segment.msn * PARTS + one.part for one in video.received]
    assert places == list(range(places[0], places[0] + 12))
    assert [one.body for one in video.received] == clip().parts[places[0] : places[-1] + 1]
    assert player.findings() == []
    pictures = round(12 * PART_S * FPS)
    assert video.decoded("video") == pictures
    with av.open(io.BytesIO(video.joined()[0]), "r") as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
    times = [float((packet.pts or 0) * (packet.time_base or 0)) for packet in packets]
    assert times == pytest.approx([places[0] * PART_S + number / FPS for number in range(pictures)])
    assert any("_HLS_skip=YES" in request for request in origin.requests)
    assert all(fetch.asked is not None for fetch in video.fetches[1:])


async def test_hinted_parts_are_requested_ahead(origin: Origin) -> None:
    async with Player(origin.url) as player, asyncio.timeout(8):
        video = await player.open()
        await video.follow(lambda: len(video.received) >= 12)
        assert max(one.answer.elapsed.total_seconds() for one in video.received) > PART_S / 2


async def test_player_ends_with_the_stream() -> None:
    async with Origin(clip(), ahead_s=15) as origin, Player(origin.url) as player, asyncio.timeout(8):
        video = await player.open()
        await video.follow(lambda: False)
        assert video.playlist.is_ended
        assert (video.received[-1].segment.msn, video.received[-1].part) == (15, 4)
        assert player.findings() == []


async def test_player_notices_that_its_own_loop_was_held_up(origin: Origin) -> None:
    async with Player(origin.url) as player, asyncio.timeout(8):
        video = await player.open()
        await video.reload()
        time.sleep(0.3)  # noqa: ASYNC251 - it is what holds up the loop.
        await asyncio.sleep(2 * LOOK_S)
        await video.reload()
        assert video.fetches[1].held_up_s - video.fetches[0].held_up_s >= 0.3 - LOOK_S - HELD_UP_S


async def test_missing_playlist_raises_follow_error_404(origin: Origin) -> None:
    async with Player(origin.url.replace("index", "other")) as player:
        with pytest.raises(FollowError, match="404"):
            await player.open()


async def test_player_that_sleeps_too_long_fails_as_segments_are_gone() -> None:
    async with Origin(clip(), ahead_s=2) as origin, Player(origin.url) as player, asyncio.timeout(8):
        video = await player.open()
        await video.follow(lambda: len(video.received) >= 2)
        origin.began -= 13  # The rest of the clip is there at once.
        with pytest.raises(FollowError, match="gone"):
            await video.follow(lambda: False)
