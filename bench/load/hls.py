"""Viewers of one stream by low-latency HLS, in a process of their own: each asks for the playlist that has the next
part, and then for that part, on two connections that stay open. Of a playlist they read the few tags that say what is
next.

    python -m bench.load.hls http://127.0.0.1:8002/hls/APP/NAME/index.m3u8 --viewers 500 --seconds 30

It says `begin` when all have joined and the window opens, and then what happened in it, as JSON (`Watched`). With an
`index.json` that such a load has saved, the same requests go to files: at the times at which the answers came then.
"""

import argparse
import asyncio
import json
import re
import resource
import sys
import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, cast
from urllib.parse import urljoin, urlsplit

import uvloop

JOIN_S: Final = 2.0
"""Within these they come."""
SETTLE_S: Final = 3.0
DRAIN_S: Final = 1.0
FILES_EACH: Final = 2
"""Connections of a viewer."""
SPARE_FILES: Final = 100
BY_SCRIPT: Final = b"Origin: https://player.example\r\n"
"""As a page of another origin asks: others wait for more segments at first."""
PART_URI: Final = re.compile(rb'#EXT-X-PART:[^\n]*?URI="([^"]+)"')
BUFFER: Final = memoryview(bytearray(256 * 1024))
"""All connections read into it."""

Place = tuple[int, int]
"""A media sequence number, and how many parts are there of that segment, or the number of one."""


@dataclass(slots=True)
class Watched:
    """What happened in the window."""

    seconds: float = 0.0
    viewers: int = 0
    reloads: int = 0
    parts: int = 0
    bytes_in: int = 0
    late_ms: list[float] = field(default_factory=list)
    """Of each reload, sorted: from when its part was there (the first that any viewer heard of it), or it was asked for
    if that was later, to its answer's last byte."""
    part_ms: list[float] = field(default_factory=list)
    """Of each part, sorted: from the request to the last byte."""
    errors: list[str] = field(default_factory=list)
    """Since the beginning: other answers than 200, and connections that were lost."""
    own_cpu: float = 0.0
    """The generator's share of a core."""


class Connection(asyncio.BufferedProtocol):
    """One request after another (HTTP/1.1). `done` gets the answer's body, empty unless it `keeps` bodies, and when the
    last byte came."""

    def __init__(self, load: "Load", keeps: bool, done: Callable[[bytes, float], None]) -> None:
        self._load = load
        self._keeps = keeps
        self._done = done
        self._head = bytearray()
        self._body = bytearray()
        self._left = -1
        """Bytes of the body that are to come; -1: the head is not whole; -2: the body is in chunks."""
        self.asked_at = 0.0
        self.bytes_read = 0

    async def open(self) -> None:
        await asyncio.get_running_loop().create_connection(lambda: self, *self._load.address)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._load.fail("the server closed a connection")

    def get(self, target: str) -> None:
        self.asked_at = time.monotonic()
        self._transport.write(b"GET %b HTTP/1.1\r\nHost: %b\r\n%b\r\n" % (target.encode(), self._load.host, BY_SCRIPT))

    def close(self) -> None:
        self._transport.close()

    def get_buffer(self, sizehint: int) -> memoryview:
        return BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        self.bytes_read += nbytes
        data = BUFFER[:nbytes]
        if self._left == -1:
            self._head += data
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return
            head, rest = bytes(self._head[:end]).lower(), bytes(self._head[end + 4 :])
            self._head.clear()
            self._begin(head)
            data = memoryview(rest)
        if self._left == -2:
            self._body += data
            if self._body.endswith(b"\r\n0\r\n\r\n") or self._body == b"0\r\n\r\n":
                self._finish(unchunked(bytes(self._body)))
            return
        if self._keeps:
            self._body += data
        self._left -= len(data)
        if self._left <= 0:
            self._finish(bytes(self._body))

    def _begin(self, head: bytes) -> None:
        status = head[9:12]
        if status != b"200":
            self._load.fail(f"the server answered {status.decode(errors='replace')}")
        place = head.find(b"\r\ncontent-length:")
        self._left = int(head[place + 17 :].split(b"\r\n", 1)[0]) if place >= 0 else -2

    def _finish(self, body: bytes) -> None:
        self._left = -1
        self._body.clear()
        self._done(body, time.monotonic())


def unchunked(data: bytes) -> bytes:
    found, place = bytearray(), 0
    while True:
        end = data.index(b"\r\n", place)
        size = int(data[place:end].split(b";")[0], 16)
        if size == 0:
            return bytes(found)
        found += data[end + 2 : end + 2 + size]
        place = end + 4 + size


def number(playlist: bytes, tag: bytes) -> int:
    """The one behind it; 0 without it."""
    place = playlist.find(tag)
    if place < 0:
        return 0
    place += len(tag)
    end = place
    while playlist[end : end + 1].isdigit():
        end += 1
    return int(playlist[place:end] or b"0")


def edge(playlist: bytes) -> Place:
    """The segment that is not whole yet, and how many of its parts are there: what is next to ask for."""
    last = max(0, playlist.rfind(b"#EXTINF:"))
    msn = number(playlist, b"#EXT-X-MEDIA-SEQUENCE:") + number(playlist, b"SKIPPED-SEGMENTS=")
    return msn + playlist.count(b"#EXTINF:"), playlist.count(b"#EXT-X-PART:", last)


class Viewer:
    """Follows the stream at `load.url`. `record`: gets each playlist, its parts and when they came."""

    def __init__(self, load: "Load", record: "Record | None" = None) -> None:
        self.load = load
        self.record = record
        self.lists = Connection(load, True, self._answered)
        self.media = Connection(load, record is not None, self._received)
        self._url = load.url
        self._playlist = ""
        """The media playlist's URL; "" before the multivariant playlist has come."""
        self._asked: Place = (-1, -1)
        self._newest = b""
        """The part that was listed last."""
        self._wanted: list[str] = []

    async def join(self) -> None:
        await self.lists.open()
        await self.media.open()
        self.begin()

    def begin(self) -> None:
        self.lists.get(target(self._url))

    def _answered(self, body: bytes, at: float) -> None:
        if not body:
            return  # It failed, and was told.
        if not self._playlist:
            lines = body.split(b"\n")
            uris = [line.strip() for line in lines if line.strip() and not line.startswith(b"#")]
            if not uris:
                self.load.fail("the multivariant playlist names no other")
                return
            self._playlist = urljoin(self._url, uris[0].decode())
            self.lists.get(target(self._playlist))
            return
        if b"#EXTM3U" not in body:
            self.load.fail("an answer is no playlist")
            return
        place = edge(body)
        self.load.reloaded(self._asked, place, self.lists.asked_at, at)
        parts = self._new(body)
        if self.record:
            self.record.playlist(body, at)
        if b"#EXT-X-ENDLIST" in body:
            self.load.fail("the stream has ended")
            return
        joint = "&" if "?" in self._playlist else "?"
        self._asked = place
        self.lists.get(f"{target(self._playlist)}{joint}_HLS_msn={place[0]}&_HLS_part={place[1]}&_HLS_skip=YES")
        self._want(parts)

    def _new(self, body: bytes) -> list[str]:
        """The parts that came since; at first the last one."""
        since = body.find(self._newest) if self._newest else -1
        uris = PART_URI.findall(body, max(0, since))
        if not uris:
            return []
        found = uris if since >= 0 else uris[-1:]
        self._newest = uris[-1]
        return [urljoin(self._playlist, uri.decode()) for uri in found]

    def _want(self, parts: list[str]) -> None:
        is_idle = not self._wanted
        self._wanted += parts
        if is_idle and self._wanted:
            self.media.get(target(self._wanted[0]))

    def _received(self, body: bytes, at: float) -> None:
        self.load.received(self.media.asked_at, at)
        if self.record:
            self.record.part(body)
        self._wanted.pop(0)
        if self._wanted:
            self.media.get(target(self._wanted[0]))

    def close(self) -> None:
        self.lists.close()
        self.media.close()


class Repeater(Viewer):
    """Asks for files at the times that the load gives."""

    _parts: list[str]

    def begin(self) -> None:
        """It waits for its steps."""

    def step(self, place: int, playlist: str, parts: list[str]) -> None:
        self._asked = (place, 0)
        self._parts = parts
        self.lists.get(playlist)

    def _answered(self, body: bytes, at: float) -> None:
        self.load.reloaded(self._asked, (self._asked[0], 1), self.lists.asked_at, at)
        self._want(self._parts)


def target(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


@dataclass(frozen=True, slots=True)
class Step:
    """`at`: when the playlist came, by a clock of its own. The names of files."""

    at: float
    playlist: str
    parts: list[str] = field(default_factory=list)


class Record:
    """Writes what one viewer gets into a folder, for `Repeater`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._steps: list[Step] = []

    def playlist(self, body: bytes, at: float) -> None:
        name = f"{len(self._steps)}.m3u8"
        (self._folder / name).write_bytes(body)
        self._steps.append(Step(at, name))

    def part(self, body: bytes) -> None:
        parts = self._steps[-1].parts
        name = f"{len(self._steps)}.{len(parts)}.m4s"
        (self._folder / name).write_bytes(body)
        parts.append(name)

    def close(self) -> None:
        (self._folder / "index.json").write_text(json.dumps([asdict(step) for step in self._steps]))


class Load:
    def __init__(self, url: str, viewers: int, save: Path | None = None) -> None:
        parts = urlsplit(url)
        self.url = url
        self.address = (parts.hostname or "", parts.port or 80)
        self.host = parts.netloc.encode()
        self.watched = Watched(viewers=viewers)
        self._record = Record(save) if save else None
        self._is_measuring = self._is_over = False
        self._reloads: list[tuple[Place, float, float]] = []
        """What was asked for, when, and when it came."""
        self._heard: dict[Place, float] = {}
        """Of each edge, when it was first heard of."""

    # --- What viewers tell ---

    def fail(self, why: str) -> None:
        if not self._is_over:
            self.watched.errors.append(why)

    def reloaded(self, asked: Place, found: Place, asked_at: float, at: float) -> None:
        self._heard.setdefault(found, at)
        if self._is_measuring and asked[0] >= 0:
            self._reloads.append((asked, asked_at, at))

    def received(self, asked_at: float, at: float) -> None:
        if self._is_measuring:
            self.watched.part_ms.append((at - asked_at) * 1000)

    # --- The window ---

    async def run(self, seconds: float, begin: Callable[[], None]) -> Watched:
        is_live = not self.url.endswith("index.json")
        kind = Viewer if is_live else Repeater
        viewers = [kind(self, self._record if number == 0 else None) for number in range(self.watched.viewers)]
        steps = None if is_live else asyncio.create_task(self._repeat(cast("list[Repeater]", viewers)))
        await self._join(viewers)
        await asyncio.sleep(SETTLE_S)
        self._is_measuring = True
        begin()
        before, cpu, at = self._bytes(viewers), time.process_time(), time.monotonic()
        await asyncio.sleep(seconds)
        self._is_measuring = False
        self.watched.seconds = time.monotonic() - at
        self.watched.own_cpu = (time.process_time() - cpu) / self.watched.seconds
        self.watched.bytes_in = self._bytes(viewers) - before
        self._is_over = True
        if steps:
            steps.cancel()
        for viewer in viewers:
            viewer.close()
        await asyncio.sleep(DRAIN_S)
        if self._record:
            self._record.close()
        return self._judged()

    async def _join(self, viewers: list[Viewer]) -> None:
        for viewer in viewers:
            try:
                await viewer.join()
            except OSError as error:
                raise SystemExit(f"No connection to {self.url}: {error}") from None
            await asyncio.sleep(JOIN_S / len(viewers))

    async def _repeat(self, viewers: list[Repeater]) -> None:
        """Again and again from the first, where the window is longer than the record."""
        steps = await fetched(self.url)
        if len(steps) < 2:
            raise SystemExit(f"{self.url} has nothing to repeat.")
        base = urlsplit(self.url).path.rpartition("/")[0]
        first = steps[0].at
        length = steps[-1].at - first + (steps[1].at - first)
        await asyncio.sleep(JOIN_S + SETTLE_S / 2)
        begins, place = time.monotonic(), 0
        while True:
            lap, number = divmod(place, len(steps))
            step = steps[number]
            await asyncio.sleep(begins + lap * length + step.at - first - time.monotonic())
            parts = [f"{base}/{name}" for name in step.parts]
            for viewer in viewers:
                viewer.step(place, f"{base}/{step.playlist}", parts)
            place += 1

    @staticmethod
    def _bytes(viewers: list[Viewer]) -> int:
        return sum(viewer.lists.bytes_read + viewer.media.bytes_read for viewer in viewers)

    def _judged(self) -> Watched:
        """An edge that is heard of later than one behind it was there before that."""
        edges = sorted(self._heard)
        there = [self._heard[each] for each in edges]
        for number in range(len(there) - 2, -1, -1):
            there[number] = min(there[number], there[number + 1])
        for asked, asked_at, at in self._reloads:
            exists_at = there[bisect_right(edges, asked)] if edges[-1] > asked else at
            self.watched.late_ms.append((at - max(exists_at, asked_at)) * 1000)
        self.watched.late_ms.sort()
        self.watched.part_ms.sort()
        self.watched.reloads = len(self._reloads)
        self.watched.parts = len(self.watched.part_ms)
        return self.watched


async def fetched(url: str) -> list[Step]:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(f"GET {target(url)} HTTP/1.0\r\n\r\n".encode())
    body = (await reader.read()).partition(b"\r\n\r\n")[2]
    writer.close()
    return [Step(**each) for each in json.loads(body)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.load.hls", description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--viewers", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="what one viewer gets, and an index.json")
    options = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if options.viewers * FILES_EACH + SPARE_FILES > most:
        raise SystemExit(
            f"{options.viewers} viewers need more open files than the {most} that are allowed (ulimit -n)."
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    load = Load(options.url, options.viewers, options.save)
    watched = uvloop.run(load.run(options.seconds, lambda: print("begin", flush=True)))
    json.dump(asdict(watched), sys.stdout)


if __name__ == "__main__":
    main()
