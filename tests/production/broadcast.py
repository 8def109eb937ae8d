"""A publisher with players that check every message, in a thread of its own while a test stops parts of the form.

    with on_air(node.url, key, players=2) as show:
        ...
    show.check(late_s=0.05)

Each video message carries its number and the time it was sent at; a player notes which came, and how late.
"""

import asyncio
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from ingest.rtmp import events
from tests.loops import LoopThread
from tests.programs import ADMITTED_S, admitted
from tests.rtmp_client import RtmpClient
from tests.rtmpweb.processes import thread_waited_s
from tests.server_process import wait_for

STAMP = struct.Struct(">QQ")
"""A message's number and its time of sending (monotonic, ns), after the 5 bytes of FLV's header and the NAL's 5."""
STAMP_AT = 10

HEADER = bytes.fromhex(
    "17000000000142c014ffe100216742c014da05067e7c0440000003004000000f392000c3500186b924801e28554001000468ce3c80"
)
"""AVCDecoderConfigurationRecord of 320 x 180, as x264 has it: so it goes into MP4, too."""

FPS = 25
BYTES = 2000
"""Of a message: 400 kbit/s."""

ARRIVED_S = 10.0
"""For what is on its way when the publisher has sent its last."""


def frame(number: int, size: int = BYTES) -> bytes:
    """A video message, a keyframe each second, stamped with now."""
    head = bytes.fromhex("1701000000" if number % FPS == 0 else "2701000000")
    filler = size - STAMP_AT - STAMP.size
    nal = (b"\x65" if number % FPS == 0 else b"\x41") + STAMP.pack(number, time.monotonic_ns()) + b"\x55" * filler
    return head + len(nal).to_bytes(4, "big") + nal


@dataclass
class Reception:
    """What one player got. `delays_s`: each message's way from the publisher's write to the player's reader."""

    numbers: list[int] = field(default_factory=list)
    delays_s: list[float] = field(default_factory=list)
    ended: str = ""
    """Why it ended before it was asked to."""

    def take(self, event: events.Event) -> None:
        if isinstance(event, events.VideoReceived) and len(event.payload) == BYTES:
            number, sent_ns = STAMP.unpack_from(event.payload, STAMP_AT)
            self.numbers.append(number)
            self.delays_s.append((time.monotonic_ns() - sent_ns) / 1e9)

    def has(self, number: int) -> bool:
        """Whether it is the last that came."""
        return self.numbers[-1:] == [number]

    @property
    def missing(self) -> list[int]:
        """The numbers between the first and the last that came which did not come, or not in order."""
        if not self.numbers:
            return []
        wanted = range(self.numbers[0], self.numbers[-1] + 1)
        return sorted(set(wanted) - set(self.numbers)) if self.numbers != list(wanted) else []


class Show:
    """One publisher of `name`, by its key, and its players."""

    def __init__(self, url: str, key: Mapping[str, Any], players: int, play_at: str) -> None:
        self.port = urlsplit(url).port or 0
        self.play_port = urlsplit(play_at).port or 0
        self.app, _, self.name = str(key["stream"]).partition("/")
        self.secret = str(key["key"])
        self.receptions = [Reception() for _ in range(players)]
        self.over = asyncio.Event()
        self.sent = 0
        self.ended = ""
        """Why the publisher ended before it was asked to."""
        self.waited_s = 0.0
        """When all of it is over: what its thread waited for a processor."""

    @property
    def playing(self) -> bool:
        return all(reception.numbers for reception in self.receptions)

    @property
    def played(self) -> int:
        """How many messages the player that has the fewest has got."""
        return min(len(reception.delays_s) for reception in self.receptions)

    def check(self, *, late_s: float, skip: int = FPS) -> None:
        """Nothing was lost, nothing came later than `late_s`. `skip`: first messages, which come from the cache."""
        assert not self.ended, f"{self.name}: its publisher ended: {self.ended}"
        for number, reception in enumerate(self.receptions):
            who = f"player {number} of {self.name}"
            assert not reception.ended, f"{who} ended: {reception.ended}"
            assert not reception.missing, f"{who} missed {len(reception.missing)}: {reception.missing[:10]} ..."
            assert reception.numbers[-1] == self.sent - 1, f"{who} has {reception.numbers[-1]} of {self.sent}"
            worst = max(reception.delays_s[skip:])
            assert worst <= late_s, f"{who}: a message was {worst * 1000:.0f} ms late"

    async def run(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                come = partial(admitted, app=self.app)
                publishing = come(self.port, lambda client: client.publish(self.secret))
                publisher, stream_id = await stack.enter_async_context(publishing)
                await publisher.send_video(stream_id, 0, HEADER)
                sending = asyncio.create_task(self._send(publisher, stream_id))
                players = []
                for reception in self.receptions:
                    playing = come(self.play_port, lambda client: client.play(self.name), listener=reception.take)
                    player, _ = await stack.enter_async_context(playing)
                    players.append(player)
                await sending
                if not self.ended:
                    with suppress(TimeoutError, ConnectionError):
                        for player, reception in zip(players, self.receptions, strict=True):
                            await player.wait_until(partial(reception.has, self.sent - 1), ARRIVED_S)
                for player, reception in zip(players, self.receptions, strict=True):
                    reception.ended = "the server closed the connection" if player.closed else ""
        except Exception as error:
            self.ended = self.ended or f"{type(error).__name__}: {error}"
        finally:
            self.waited_s = thread_waited_s()

    async def _send(self, publisher: RtmpClient, stream_id: int) -> None:
        began = time.monotonic()
        while not self.over.is_set():
            if publisher.closed:
                self.ended = "the server closed the connection"
                return
            await publisher.send_video(stream_id, self.sent * 1000 // FPS, frame(self.sent))
            self.sent += 1
            await asyncio.sleep(max(0.0, began + self.sent / FPS - time.monotonic()))


@contextmanager
def on_air(url: str, key: Mapping[str, Any], *, players: int = 1, play_at: str = "") -> Iterator[Show]:
    """On the node at `url` while the block runs; its players on that at `play_at`, if it is another. Play has to be
    allowed without a token."""
    show = Show(url, key, players, play_at or url)
    with LoopThread("broadcast") as loop:
        running = loop.start(show.run())
        try:
            wait_for(lambda: show.playing or show.ended, timeout_s=ADMITTED_S, what="every player has media")
            assert not show.ended, show.ended
            yield show
        finally:
            loop.call(show.over.set)
            running.result(30)
