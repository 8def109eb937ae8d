"""Connect, createStream, publish, close: as often as a server allows, by some clients at once."""

import asyncio
import time
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


async def run_cycles(
    target: Target, seconds: float, watcher: Watcher, *, clients: int = CLIENTS, settle_s: float = SETTLE_S
) -> Cycles:
    cycles = Cycles()
    tasks = [asyncio.create_task(_repeat(target, number, cycles)) for number in range(clients)]
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


async def _repeat(target: Target, number: int, cycles: Cycles) -> None:
    turn = 0
    while True:
        turn += 1
        client = None
        try:
            client = await Client.open(target)
            await client.publish(f"cycle{number}-{turn % NAMES}")
            cycles.count += 1
        except (Refused, TimeoutError) as error:
            cycles.errors.append(str(error) or "no answer")
            await asyncio.sleep(0.1)
        finally:
            if client:
                client.close()
