"""Publishers, all paced by one timer."""

import asyncio
import heapq
import time
from collections.abc import Iterable, Mapping
from typing import Any

from bench.load.client import Client, Target
from bench.load.reel import Reel
from ingest.rtmp.messages.commands import SET_DATA_FRAME, encode_data

TICK_S = 0.001
BACKLOG_BYTES = 4 * 1024 * 1024
"""What may wait for a server that doesn't read; over it messages are left out, and counted."""

SPREAD_S = 2.0
GOLDEN = 0.618034
"""Multiples of it, modulo 1, are spread as evenly as can be and repeat nothing."""

METADATA = {"width": 1920, "height": 1080, "framerate": 30, "videocodecid": 7, "audiocodecid": 10, "encoder": "bench"}


class Publisher(Client):
    """Sends a reel round after round. `log`: the stamps that it sends, in order, if it stamps."""

    def __init__(self, target: Target, chunk_size: int) -> None:
        super().__init__(target)
        self.chunk_size = chunk_size
        self.name = ""
        self.messages = 0
        self.frames = 0
        """Messages but sequence headers."""
        self.bytes_sent = 0
        self.left_out = 0
        self.log: dict[int, int] | None = None
        """{stamp: its place}"""
        self.stream_id = 0
        self._is_full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.set_write_buffer_limits(BACKLOG_BYTES)

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False

    async def begin(self, name: str, metadata: Mapping[str, Any] = METADATA) -> None:
        """Publish; the media follow from `start`."""
        if self.chunk_size != 128:
            self.rtmp.send_chunk_size(self.chunk_size)
        self.name = name
        self.stream_id = await self.publish(name)
        self.rtmp.send_message(encode_data(self.stream_id, 0, SET_DATA_FRAME, "onMetaData", dict(metadata)))
        self._write()

    def close(self) -> None:
        """Unpublish and close: all that was sent is taken into account before."""
        if self.stream_id and not self.transport.is_closing():
            self.rtmp.delete_stream(self.stream_id)
            self._write()
        super().close()

    def start(self, reel: Reel, at: float) -> None:
        """`at`: time.monotonic() of the first message."""
        self.reel = reel
        self._round = reel.opening
        self._begin = at
        self._next = 0

    def send(self, now: float) -> float:
        """Send all that is due; when the next message is."""
        while True:
            if self._next == len(self._round):
                self._round = self.reel.repeat
                self._begin += self.reel.length_s
                self._next = 0
            packet = self._round[self._next]
            due = self._begin + packet.due_s
            if due > now:
                return due
            self._next += 1
            if self._is_full:
                self.left_out += 1
                continue
            data = packet.data
            if self.log is not None and packet.stamp:
                stamp = time.monotonic_ns()
                self.log[stamp] = len(self.log)
                data = packet.stamped(stamp)
            self.transport.write(data)
            self.messages += 1
            self.frames += bool(packet.stamp)
            self.bytes_sent += len(data)


class Pacer:
    """Lets each publisher send when a message of it is due. `lateness_s`: the worst that it was, since it was reset."""

    def __init__(self, publishers: Iterable[Publisher], reel: Reel) -> None:
        """They begin spread over the first two seconds, each at a phase of its own, so that keyframes don't meet."""
        begin = time.monotonic()
        self._due: list[tuple[float, int, Publisher]] = []
        for number, publisher in enumerate(publishers):
            at = begin + SPREAD_S * (number * GOLDEN % 1)
            publisher.start(reel, at)
            self._due.append((at, number, publisher))
        self.lateness_s = 0.0
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(0, self._tick)

    def stop(self) -> None:
        self._timer.cancel()

    def _tick(self) -> None:
        self._timer = self._loop.call_later(TICK_S, self._tick)
        due = self._due
        now = time.monotonic()
        while due and due[0][0] <= now:
            at, number, publisher = due[0]
            if publisher.lost:
                heapq.heappop(due)
                continue
            self.lateness_s = max(self.lateness_s, now - at)
            heapq.heapreplace(due, (publisher.send(now), number, publisher))
