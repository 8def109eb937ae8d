"""A server of low-latency HLS whose stream comes part by part."""

import asyncio
import re
import time
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

from tests.hls.clip import PART_S, PARTS, Clip


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
        self.clip = made
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
        return min(len(self.clip.parts), int((time.monotonic() - self.began) / PART_S))

    async def _until(self, count: int) -> None:
        await asyncio.sleep(self.began + min(count, len(self.clip.parts)) * PART_S - time.monotonic() + 0.001)

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
            return "200 OK", "application/vnd.apple.mpegurl", self.clip.multivariant().encode()
        if name == "v0.m3u8":
            if "_HLS_msn" in asked or "_HLS_part" in asked:
                wanted = _wanted(asked, self._count)
                if wanted is None:
                    return "400 Bad Request", "text/plain", b""
                await self._until(wanted)
            count = self._count
            ended = count == len(self.clip.parts)
            delta = asked.get("_HLS_skip") == ["YES"] and not ended
            text = self.clip.playlist(count, delta=delta, ended=ended, began=self.began_at)
            return "200 OK", "application/vnd.apple.mpegurl", text.encode()
        if name == "init.mp4":
            return "200 OK", "video/mp4", self.clip.init
        if found := re.fullmatch(r"p(\d+)\.(\d+)\.m4s", name):
            place = int(found[1]) * PARTS + int(found[2])
            await self._until(place + 1)
            if place < self._count:
                return "200 OK", "video/mp4", self.clip.parts[place]
        elif (found := re.fullmatch(r"s(\d+)\.m4s", name)) and (int(found[1]) + 1) * PARTS <= self._count:
            return "200 OK", "video/mp4", self.clip.segment(int(found[1]))
        return "404 Not Found", "text/plain", b""
