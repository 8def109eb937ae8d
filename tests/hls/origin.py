"""A small origin of low-latency HLS, for the tests of the tools themselves: a clip that is made once, and comes part by
part. What it says is written down here by hand, not by the server's code."""

import asyncio
import io
import re
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import cache
from typing import Final
from urllib.parse import parse_qs, urlsplit

import av
import numpy as np

from tests.hls.mp4 import IS_NOT_SYNC, Sample, boxes, read_fragments, read_init

FPS, RATE = 25, 48_000
PART_S, PARTS = 0.2, 5
"""Seconds of a part, and parts of a segment, which begins with a keyframe."""
WINDOW: Final = 9
"""Whole segments that are listed."""
SIZE: Final = (320, 180)
BEGAN: Final = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
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
        """As it is when `count` parts are there."""
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
        ]
        lines += [f"#EXT-X-SKIP:SKIPPED-SEGMENTS={skipped}"] if skipped else ['#EXT-X-MAP:URI="init.mp4"']
        for msn in range(first + skipped, whole):
            lines.append(_date(began, msn))
            if msn >= whole - 3:
                lines += [_part(msn, place) for place in range(PARTS)]
            lines += [f"#EXTINF:{PART_S * PARTS:.5f},", f"s{msn}.m4s"]
        if rest:
            lines += [_date(began, whole), *(_part(whole, place) for place in range(rest))]
        last = "#EXT-X-ENDLIST" if ended else f'#EXT-X-PRELOAD-HINT:TYPE=PART,URI="p{whole}.{rest}.m4s"'
        return "\n".join([*lines, last, ""])

    def segment(self, msn: int) -> bytes:
        return b"".join(self.parts[msn * PARTS : (msn + 1) * PARTS])

    def multivariant(self) -> str:
        sizes = [len(self.segment(msn)) for msn in range(len(self.parts) // PARTS)]
        codecs = ",".join(track.codec for track in read_init(self.init).values())
        return MULTIVARIANT.format(bandwidth=round(max(sizes) * 8 * 1.1), codecs=codecs)


def _date(began: datetime, msn: int) -> str:
    at = began + timedelta(seconds=msn * PARTS * PART_S)
    return f"#EXT-X-PROGRAM-DATE-TIME:{at.isoformat(timespec='milliseconds').replace('+00:00', 'Z')}"


def _part(msn: int, place: int) -> str:
    first = ",INDEPENDENT=YES" if place == 0 else ""
    return f'#EXT-X-PART:DURATION={PART_S:.5f},URI="p{msn}.{place}.m4s"{first}'


@cache
def clip(seconds: int = 16) -> Clip:
    """H.264 and AAC, made by PyAV."""
    file = io.BytesIO()
    options = {"movflags": "empty_moov+default_base_moof+frag_keyframe"}
    with av.open(file, "w", format="mp4", options=options) as container:
        video = container.add_stream("libx264", rate=FPS)
        video.width, video.height = SIZE
        video.pix_fmt = "yuv420p"
        gop = round(FPS * PART_S * PARTS)
        video.options = {"preset": "ultrafast", "tune": "zerolatency", "g": str(gop), "keyint_min": str(gop)}
        audio = container.add_stream("aac", rate=RATE)
        audio.layout = "stereo"
        sounds = _sounds(seconds)
        for number in range(FPS * seconds):
            picture = np.full((SIZE[1], SIZE[0], 3), number * 7 % 256, dtype=np.uint8)
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, FPS)
            container.mux(video.encode(frame))
            for _ in range(2):
                if sound := next(sounds, None):
                    container.mux(audio.encode(sound))
        container.mux(video.encode(None))
        container.mux(audio.encode(None))
    return _cut(file.getvalue())


def _sounds(seconds: int) -> Iterator[av.AudioFrame]:
    for number in range(seconds * RATE // 1024):
        tone = np.sin(np.arange(1024) * 0.05).astype(np.float32)
        frame = av.AudioFrame.from_ndarray(np.stack([tone, tone]), format="fltp", layout="stereo")
        frame.sample_rate, frame.pts, frame.time_base = RATE, (number + 1) * 1024, Fraction(1, RATE)
        yield frame


def _cut(data: bytes) -> Clip:
    """Into parts by the samples' times, a fragment of both tracks each."""
    top = list(boxes(data))
    init = b"".join(data[box.start : box.end] for box in top if box.kind in (b"ftyp", b"moov"))
    media = b"".join(data[box.start : box.end] for box in top if box.kind in (b"moof", b"mdat"))
    tracks = read_init(init)
    parts: dict[int, dict[int, list[Sample]]] = {}
    for run in (run for fragment in read_fragments(media, tracks) for run in fragment):
        for sample in run.samples:
            place = int(sample.dts / run.track.timescale / PART_S + 1e-6)
            parts.setdefault(place, {}).setdefault(run.track.number, []).append(sample)
    whole = len(parts) // PARTS * PARTS
    return Clip(init, [fragment(place, parts[place]) for place in range(whole)])


def box(kind: bytes, *content: bytes) -> bytes:
    data = b"".join(content)
    return struct.pack(">I4s", 8 + len(data), kind) + data


def fragment(number: int, runs: dict[int, list[Sample]]) -> bytes:
    """A moof with its mdat, of {track's number: its samples}."""

    def moof(offsets: list[int]) -> bytes:
        trafs = []
        for (track, samples), offset in zip(runs.items(), offsets, strict=True):
            tfhd = box(b"tfhd", struct.pack(">II", 0x20000, track))
            tfdt = box(b"tfdt", struct.pack(">IQ", 1 << 24, samples[0].dts))
            rows = [
                (one.duration, len(one.data), 0 if one.is_sync else IS_NOT_SYNC, one.pts - one.dts) for one in samples
            ]
            head = struct.pack(">IIi", 1 << 24 | 0xF01, len(samples), offset)
            trafs.append(box(b"traf", tfhd, tfdt, box(b"trun", head, *(struct.pack(">IIIi", *row) for row in rows))))
        return box(b"moof", box(b"mfhd", struct.pack(">II", 0, number + 1)), *trafs)

    sizes = [sum(len(sample.data) for sample in samples) for samples in runs.values()]
    begins = len(moof([0] * len(sizes))) + 8
    offsets = [begins + sum(sizes[:place]) for place in range(len(sizes))]
    return moof(offsets) + box(b"mdat", *(sample.data for samples in runs.values() for sample in samples))


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
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                target = head.split(b" ", 2)[1].decode()
                self.requests.append(target)
                status, kind, body = await self._answer(target)
                fields = f"Content-Type: {kind}\r\nContent-Length: {len(body)}"
                writer.write(f"HTTP/1.1 {status}\r\n{fields}\r\n\r\n".encode() + body)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # The player has gone.
        finally:
            writer.close()
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
