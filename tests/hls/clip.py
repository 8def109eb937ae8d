"""A clip that FFmpeg makes once, its playlists of low-latency HLS, written by hand, and a server of both."""

import asyncio
import re
import subprocess
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import Final
from urllib.parse import parse_qs, urlsplit

import imageio_ffmpeg

from tests.hls.mp4 import boxes, read_init

FPS: Final = 25
PART_S, PARTS = 0.2, 5
"""Seconds of a part, and parts of a segment, which begins with a keyframe."""
WINDOW: Final = 9
"""Whole segments that are listed."""
BEGAN: Final = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MAKE: Final = (
    "-v error -f lavfi -i testsrc2=size=320x180:rate=25 -f lavfi -i sine=sample_rate=48000 -t 16 -pix_fmt yuv420p"
    " -c:v libx264 -preset ultrafast -tune zerolatency -b:v 300k -g 25 -keyint_min 25 -c:a aac -ac 2 -af asetpts=N+1024"
    " -f mp4 -movflags empty_moov+default_base_moof+skip_trailer -frag_duration 200000 pipe:1"
)
"""A fragment for each part. The encoder of AAC has a delay of 1,024 samples."""
MULTIVARIANT: Final = """#EXTM3U
#EXT-X-VERSION:9
#EXT-X-INDEPENDENT-SEGMENTS
#EXT-X-STREAM-INF:BANDWIDTH={bandwidth},CODECS="{codecs}",RESOLUTION=320x180,FRAME-RATE=25.000
v0.m3u8?viewer=1
"""


@dataclass(frozen=True)
class Clip:
    init: bytes
    parts: list[bytes]

    def playlist(self, count: int, *, delta: bool = False, ended: bool = False, began: datetime = BEGAN) -> str:
        """The playlist when `count` parts are there."""
        whole, rest = divmod(count, PARTS)
        first = max(0, whole - WINDOW)
        skipped = max(0, whole - first - 7) if delta else 0
        lines = [
            "#EXTM3U",
            f"#EXT-X-VERSION:{9 if skipped else 6}",
            "#EXT-X-TARGETDURATION:1",
            "#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,CAN-SKIP-UNTIL=6.0,HOLD-BACK=3.0,PART-HOLD-BACK=0.6",
            f"#EXT-X-PART-INF:PART-TARGET={PART_S}",
            f"#EXT-X-MEDIA-SEQUENCE:{first}",
            "#EXT-X-INDEPENDENT-SEGMENTS",
            f"#EXT-X-SKIP:SKIPPED-SEGMENTS={skipped}" if skipped else '#EXT-X-MAP:URI="init.mp4"',
        ]
        for msn in range(first + skipped, whole + bool(rest)):
            at = began + timedelta(seconds=msn * PARTS * PART_S)
            lines.append(f"#EXT-X-PROGRAM-DATE-TIME:{at.isoformat(timespec='milliseconds').replace('+00:00', 'Z')}")
            for place in range(PARTS if msn < whole else rest) if msn >= whole - 3 else ():
                independent = ",INDEPENDENT=YES" if place == 0 else ""
                lines.append(f'#EXT-X-PART:DURATION={PART_S:.5f},URI="p{msn}.{place}.m4s"{independent}')
            if msn < whole:
                lines += [f"#EXTINF:{PART_S * PARTS:.5f},", f"s{msn}.m4s"]
        last = "#EXT-X-ENDLIST" if ended else f'#EXT-X-PRELOAD-HINT:TYPE=PART,URI="p{whole}.{rest}.m4s"'
        return "\n".join([*lines, last, ""])

    def segment(self, msn: int) -> bytes:
        return b"".join(self.parts[msn * PARTS : (msn + 1) * PARTS])

    def multivariant(self) -> str:
        largest = max(len(self.segment(msn)) for msn in range(len(self.parts) // PARTS))
        codecs = ",".join(track.codec for track in read_init(self.init).values())
        return MULTIVARIANT.format(bandwidth=round(largest * 8 * 1.1), codecs=codecs)


@cache
def clip() -> Clip:
    """Sixteen seconds of H.264 and AAC."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), *MAKE.split()]
    data = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=60).stdout
    pairs = list(pairwise(boxes(data)))
    parts = [data[one.start : other.end] for one, other in pairs if one.kind == b"moof"]
    return Clip(data[: pairs[0][1].end], parts[: round(16 / PART_S)])


def _wanted(asked: dict[str, list[str]], count: int) -> int | None:
    """Return the number of parts that the answer needs, or None for a bad request."""
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
        wanted = min(count, len(self.clip.parts))
        while self._count < wanted:  # noqa: ASYNC110 - uvloop's sleep may end a millisecond early.
            await asyncio.sleep(self.began + wanted * PART_S - time.monotonic())

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
