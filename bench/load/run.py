"""A load for a while: everybody joins, it settles, and a window of it is measured."""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from bench.load.client import Client, Refused, Target, close_all
from bench.load.clip import Clip
from bench.load.player import Player
from bench.load.publisher import METADATA, Pacer, Publisher
from bench.load.reel import reel

NAME = "load"
"""Streams are this and a number."""
JOINING = 8
"""Connections that are opened at once."""
FIRST_PLAYERS = 16
"""What only the first players and the first seconds cost (threads, caches) is there before the others come."""
SETTLE_S = 3.0
"""After the last has joined: what a player is sent at its start (the last group of pictures) is over then. Also before
the players that come after the first."""

DRAIN_S = 1.0
"""After the last message: what is on its way arrives."""

C = TypeVar("C", bound=Client)


@dataclass(frozen=True, slots=True)
class Load:
    target: Target
    clip: Clip
    publishers: int
    chunk_size: int = 4096
    players: int = 0
    """Of the first publisher's stream, or of all."""
    each: bool = False
    """Players go round the streams, in place of all playing the first one."""
    play_at: tuple[Target, ...] = ()
    """Other nodes, which the players go round with that where the streams are published."""
    readers: int = 10
    """How many of the players read messages instead of counting bytes."""
    seconds: float = 10.0
    """The window's length."""
    settle_s: float = SETTLE_S
    metadata: Mapping[str, Any] = field(default_factory=lambda: METADATA)
    """What publishers say of themselves."""


@dataclass(slots=True)
class Window:
    """What happened in the window, and (`errors`) since the beginning."""

    seconds: float = 0.0
    messages: int = 0
    """Sent by the publishers."""
    bytes_in: int = 0
    """To the server, from the publishers, with chunk headers."""
    bytes_out: int = 0
    """From the server to the players."""
    reads: int = 0
    """By the players: about the server's sends to them."""
    delays_ms: list[float] = field(default_factory=list)
    """From sending to reading, of all readers, sorted."""
    delays_at_ms: dict[Target, list[float]] = field(default_factory=dict)
    """The same by where they play."""
    missing: int = 0
    """Stamped messages that readers did not get, from their first in the window to the last that was sent."""
    left_out: int = 0
    """Messages that publishers could not send, as the server did not read."""
    errors: list[str] = field(default_factory=list)
    """Connections that were refused or lost."""
    frames: dict[str, int] = field(default_factory=dict)
    """Audio and video frames that each publisher sent since its beginning, by its stream's name."""
    own_cpu: float = 0.0
    """The generator's share of a core."""
    lateness_ms: float = 0.0
    """The worst that a message was sent after its time."""


@dataclass(slots=True)
class _Counts:
    at: float
    cpu: float
    messages: int
    bytes_in: int
    bytes_out: int
    reads: int


class Watcher(Protocol):
    """Is called at the marks of a load: to read the server's own counters."""

    def joining(self) -> None:
        """The publishers and the first players are there; the other players come now."""

    def begin(self) -> None:
        """The window begins."""

    def end(self) -> None: ...


async def run(load: Load, watcher: Watcher | None = None) -> Window:
    """Raises Refused when nobody may publish."""
    window = Window()
    publishers = await _join(range(load.publishers), lambda number: _publish(load, number), window.errors)
    if not publishers:
        raise Refused("; ".join(sorted(set(window.errors))) or "no publishers")
    if load.players:
        publishers[0].log = {}
    stream = reel(load.clip, load.chunk_size, publishers[0].stream_id)
    pacer = Pacer(publishers, stream)
    log = publishers[0].log
    early, others = range(load.players)[:FIRST_PLAYERS], range(load.players)[FIRST_PLAYERS:]
    players = await _join(early, lambda number: _play(load, number, log), window.errors)
    if others:
        await asyncio.sleep(load.settle_s)
    if watcher:
        watcher.joining()
    players += await _join(others, lambda number: _play(load, number, log), window.errors)
    await asyncio.sleep(load.settle_s)
    gc.collect()
    gc.disable()
    try:
        pacer.lateness_s = 0.0
        for player in players:
            player.is_measuring = True
        if watcher:
            watcher.begin()
        first = _count(publishers, players)
        await asyncio.sleep(load.seconds)
        last = _count(publishers, players)
        if watcher:
            watcher.end()
        pacer.stop()
        await asyncio.sleep(DRAIN_S)
    finally:
        gc.enable()
    window.frames = {publisher.name: publisher.frames for publisher in publishers}
    window.missing = sum(player.missing_of(log) for player in players if log is not None)
    window.errors += [client.lost for client in [*publishers, *players] if client.lost]
    await close_all([*players, *publishers])
    window.seconds = last.at - first.at
    window.messages = last.messages - first.messages
    window.bytes_in = last.bytes_in - first.bytes_in
    window.bytes_out = last.bytes_out - first.bytes_out
    window.reads = last.reads - first.reads
    window.own_cpu = (last.cpu - first.cpu) / window.seconds
    window.lateness_ms = pacer.lateness_s * 1000
    window.delays_ms = sorted(delay / 1e6 for player in players for delay in player.delays_ns)
    for player in players:
        if player.delays_ns:
            window.delays_at_ms.setdefault(player.target, []).extend(delay / 1e6 for delay in player.delays_ns)
    window.left_out = sum(publisher.left_out for publisher in publishers)
    return window


async def _publish(load: Load, number: int) -> Publisher:
    publisher = await Publisher.open(load.target, load.chunk_size)
    await publisher.begin(f"{NAME}{number}", load.metadata)
    return publisher


async def _play(load: Load, number: int, log: dict[int, int] | None) -> Player:
    stream = number % load.publishers if load.each else 0
    reads = stream == 0 and number < load.readers  # Only the first publisher's messages can be told apart.
    targets = (load.target, *load.play_at)
    player = await Player.open(targets[number % len(targets)], log if reads else None)
    await player.play(f"{NAME}{stream}")
    return player


async def _join(numbers: range, join: Callable[[int], Awaitable[C]], errors: list[str]) -> list[C]:
    """Those that could join, in order."""
    gate = asyncio.Semaphore(JOINING)

    async def one(number: int) -> C | None:
        async with gate:
            try:
                return await join(number)
            except (Refused, TimeoutError) as error:
                errors.append(str(error) or "no answer")
                return None

    return [client for client in await asyncio.gather(*map(one, numbers)) if client]


def _count(publishers: list[Publisher], players: list[Player]) -> _Counts:
    return _Counts(
        time.monotonic(),
        time.process_time(),
        sum(publisher.messages for publisher in publishers),
        sum(publisher.bytes_sent for publisher in publishers),
        sum(player.bytes_read for player in players),
        sum(player.reads for player in players),
    )
