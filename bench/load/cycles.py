"""Connect, createStream, publish, close: as often as a server allows, by some clients at once."""

import asyncio
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.load.client import Client, Refused, Target
from bench.load.run import Watcher

CLIENTS = 20
NAMES = 20
"""Each client takes turns with so many names, so that the end of a session has its time before the name comes again."""
SETTLE_S = 3.0
"""Every name was published once by then: what a first time costs is not counted."""


@dataclass(slots=True)
class Cycles:
    seconds: float = 0.0
    count: int = 0
    """Of Publish.Start in the window."""
    errors: list[str] = field(default_factory=list)
    """Of all that were refused, in the window or before."""
    own_cpu: float = 0.0
    """The generator's share of a core."""


def names(keys: Sequence[str] = (), clients: int = CLIENTS) -> list[Sequence[str]]:
    """What each client publishes, in turn: some of the keys, or names of its own."""
    several = keys or [f"cycle{number}" for number in range(clients * NAMES)]
    return [several[number::clients] for number in range(clients)]


async def run_cycles(
    target: Target, seconds: float, watcher: Watcher, turns: Sequence[Sequence[str]], *, settle_s: float = SETTLE_S
) -> Cycles:
    """`turns`: what each client publishes."""
    cycles = Cycles()
    tasks = [asyncio.create_task(_repeat(target, those, cycles)) for those in turns]
    await asyncio.sleep(settle_s)
    watcher.begin()
    before, began, cpu = cycles.count, time.monotonic(), time.process_time()
    await asyncio.sleep(seconds)
    cycles.count -= before
    cycles.seconds = time.monotonic() - began
    cycles.own_cpu = (time.process_time() - cpu) / cycles.seconds
    watcher.end()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return cycles


async def _repeat(target: Target, those: Sequence[str], cycles: Cycles) -> None:
    for name in itertools.cycle(those):
        client = None
        try:
            client = await Client.open(target)
            await client.publish(name)
            cycles.count += 1
        except (Refused, TimeoutError) as error:
            cycles.errors.append(str(error) or "no answer")
            await asyncio.sleep(0.1)
        finally:
            if client:
                client.close()
