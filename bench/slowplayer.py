"""What a player gets whose network carries less than the stream: by the queue as it is, and by other ways to drop.

Simulated, without sockets and clocks: the same figures on any machine. The real queue is offered a stream frame by
frame; behind it are the buffers of the connection and the kernel, and a network that carries a part of its bitrate.
Measured from BEGIN_S on: all ways begin alike, with a queue that fills.

- pictures: frames a second that arrive
- hole: the longest time between two pictures that follow one another, and the part of the time that is in such holes
  of more than HOLE_S
- delay: from a picture's arrival at the server to its arrival at the player, the 95th percentile
- ended: after so many seconds as too slow
"""

import argparse
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isnan, nan
from statistics import quantiles

from ingest.live import QueueLimits, SharedMessage, Subscriber
from ingest.live.player_queue import Gate, offer
from ingest.server import ServerConfig

FPS, AUDIO_FPS = 30, 48_000 / 1024
KEY_WEIGHT = 8.0
"""Of a keyframe, by another frame; a disposable one has half of that."""
AUDIO_BYTES = 341
"""128 kbit/s."""
HEADER_BYTES = 12
KERNEL_BYTES = 128 * 1024
"""What the system takes for a slow receiver."""
STEP_S = 0.01
HOLE_S = 1.0
BEGIN_S = 30.0
CONFIG = ServerConfig(node="bench")
SHARES = (0.95, 0.8, 0.6, 0.4, 0.25, 0.15)


@dataclass(frozen=True, slots=True)
class Broadcast:
    """`has_spares`: each second frame between two keyframes is disposable."""

    kbps: int = 2500
    gop_s: float = 2.0
    has_spares: bool = False

    def messages(self, seconds: float) -> Iterator[SharedMessage]:
        """Video and audio in the order of their arrival."""
        gop = round(self.gop_s * FPS)
        weights = [KEY_WEIGHT, *(0.5 if self.has_spares and number % 2 else 1.0 for number in range(1, gop))]
        unit = self.kbps * 125 * self.gop_s / sum(weights)
        video, sounds = 0, 0
        while min(video / FPS, sounds / AUDIO_FPS) < seconds:
            if video / FPS <= sounds / AUDIO_FPS:
                at, place = video / FPS, video % gop
                first = b"\x17" if place == 0 else b"\x37" if self.has_spares and place % 2 else b"\x27"
                payload = first + b"\x01" + bytes(round(unit * weights[place]))
                yield SharedMessage("video", round(at * 1000), payload, at, is_frame=True, is_keyframe=place == 0)
                video += 1
            else:
                at = sounds / AUDIO_FPS
                yield SharedMessage("audio", round(at * 1000), b"\xaf\x01" + bytes(AUDIO_BYTES), at, is_frame=True)
                sounds += 1


class KeyframesOnly(Subscriber):
    """A slow player gets keyframes and sound."""

    __slots__ = ()

    def _withholds(self, message: SharedMessage) -> bool:
        if not self._is_slow:
            return super()._withholds(message)
        self._gate = Gate.WAIT_KEYFRAME
        if not message.is_keyframe:
            self.dropped_video += message.is_frame
        return not message.is_keyframe

    def _set_slow(self, slow: bool) -> None:
        super()._set_slow(slow)
        if slow:
            self._gate = Gate.WAIT_KEYFRAME


@dataclass(frozen=True, slots=True)
class Way:
    name: str
    limits: QueueLimits
    queue: type[Subscriber] = Subscriber


AS_IT_IS = Way("beginnings, 1 s (as it is)", CONFIG.queue)
WHOLE = replace(CONFIG.queue, slow_share=1.0)
WAYS = (
    Way("whole bounds, 10 s", WHOLE),
    Way("whole bounds, 3 s", replace(WHOLE, seconds=3.0)),
    Way("keyframes only", CONFIG.queue, KeyframesOnly),
    Way("beginnings, 3 s", replace(CONFIG.queue, slow_share=0.3)),
    Way("beginnings, 2 s", replace(CONFIG.queue, slow_share=0.2)),
    AS_IT_IS,
)
"""The others keep the whole bounds, or less of them, whatever happens; or send a slow player keyframes and sound alone;
or the beginnings of groups of pictures, but are further behind."""


@dataclass(frozen=True, slots=True)
class Outcome:
    pictures: float
    """A second."""
    longest_hole_s: float
    in_holes: float
    """The share of the time."""
    delay_s: float
    lost_sounds: int
    ended_s: float
    """NaN: it plays on."""
    sheds: int
    slow_looks: float
    """The part of the looks, one a second, in which the player counts as slow."""


class Network:
    """The connection's buffers, and what lies behind them: bytes go through at one rate."""

    def __init__(self, player: Subscriber, kbps: float) -> None:
        self._player = player
        self._step_bytes = kbps * 125 * STEP_S
        self._taken = self._through = 0.0
        """Bytes that left the queue, and those that have arrived."""
        self._under_way: deque[tuple[float, SharedMessage]] = deque()
        """With the number of the last byte of each."""
        self._is_open = True
        self.arrived: list[tuple[float, SharedMessage]] = []
        """With when they did."""

    def step(self, now: float) -> None:
        self._through = min(self._taken, self._through + self._step_bytes)
        while self._under_way and self._under_way[0][0] <= self._through:
            self.arrived.append((now, self._under_way.popleft()[1]))
        if self._taken - self._through <= KERNEL_BYTES + CONFIG.write_low_bytes:
            self._is_open = True
        while self._is_open and self._player.pending_messages:
            for message in self._player.take_messages(CONFIG.write_high_bytes):
                self._taken += message.size + HEADER_BYTES
                self._under_way.append((self._taken, message))
            self._is_open = self._taken - self._through <= KERNEL_BYTES + CONFIG.write_high_bytes


def simulate(way: Way, share: float, seconds: float, broadcast: Broadcast) -> Outcome:
    """`share`: of the stream's bitrate, that the network carries."""
    player = way.queue(1, way.limits, lambda _: None)
    network = Network(player, share * (broadcast.kbps + AUDIO_BYTES * AUDIO_FPS / 125))
    looks: list[bool] = []
    looked = 0
    steps, ended = 0, nan
    for message in broadcast.messages(seconds):
        while steps * STEP_S < message.arrived:
            steps += 1
            network.step(steps * STEP_S)
        offer(message, (player,))
        if message.arrived >= looked + 1:
            looked += 1
            is_slow = player.is_slow(message.arrived)
            if message.arrived >= BEGIN_S:
                looks.append(is_slow)
            if isnan(ended) and player.is_too_slow(message.arrived):
                ended = message.arrived
    pictures = [(at, message) for at, message in network.arrived if message.is_video and message.arrived >= BEGIN_S]
    holes = [after - before for before, after in pairwise((BEGIN_S, *(message.arrived for _, message in pictures)))]
    delays = [at - message.arrived for at, message in pictures]
    return Outcome(
        pictures=len(pictures) / (seconds - BEGIN_S),
        longest_hole_s=max(holes, default=nan),
        in_holes=sum(hole for hole in holes if hole > HOLE_S) / (seconds - BEGIN_S),
        delay_s=quantiles(delays, n=20)[-1] if len(delays) > 1 else nan,
        lost_sounds=player.dropped_audio,
        ended_s=ended,
        sheds=player.sheds,
        slow_looks=sum(looks) / len(looks),
    )


def add_arguments(act: argparse.ArgumentParser) -> None:
    act.add_argument("--seconds", type=int, default=300, help="of the stream (300)")
    act.add_argument("--kbps", type=int, default=2500, help="of its video (2500)")
    act.add_argument("--gop", type=float, default=2.0, metavar="S", help="between its keyframes (2)")
    act.add_argument("--spares", action="store_true", help="each second frame is one that no other needs")
    act.add_argument("--shares", type=float, nargs="+", default=SHARES, help="of its bitrate, that the network carries")
    act.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    broadcast = Broadcast(options.kbps, options.gop, options.spares)
    for share in options.shares:
        found = [(way, simulate(way, share, options.seconds, broadcast)) for way in WAYS]
        print(f"\n{share:.0%} of {options.kbps} kbit/s, a keyframe each {options.gop:g} s\n\n{table(found)}")
    return 0


def table(found: Sequence[tuple[Way, Outcome]]) -> str:
    lines = [
        "| Way | pictures/s | longest hole s | in holes | delay s | lost sounds | ended s |",
        f"|---{'|---:' * 6}|",
    ]
    for way, outcome in found:
        ended = "-" if isnan(outcome.ended_s) else f"{outcome.ended_s:.0f}"
        lines.append(
            f"| {way.name} | {outcome.pictures:.1f} | {outcome.longest_hole_s:.1f} | {outcome.in_holes:.0%} "
            f"| {outcome.delay_s:.1f} | {outcome.lost_sounds} | {ended} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    sys.exit(run(parser.parse_args()))
