"""Clients that all come within a second or two, in a process of their own: they hold up no other load.

    python -m bench.load.joiners rtmp://host:port app publish|play SECONDS < names

Each line of the input is a name, or a key, of one client. All stay until the input ends. Writes one line of JSON, a
`Joined`, once each has its answer.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace

import uvloop

from bench.load.client import Client, Refused, Target
from bench.load.player import Player

ADDRESSES = 10
"""That they come from: a server takes so many connections of one only."""


@dataclass(slots=True)
class Joined:
    admitted: int = 0
    last_s: float = 0.0
    """From the first one's coming to the last one's Publish.Start or Play.Start."""
    slowest_s: float = 0.0
    """Of one alone, from its coming to that."""
    refused: dict[str, int] = field(default_factory=dict)


async def join(target: Target, act: str, names: Sequence[str], within_s: float, clients: list[Client]) -> Joined:
    """Each comes at its own time, evenly spread; those that are let in are added to `clients`."""
    targets = [replace(target, source=f"127.0.0.{2 + number}") for number in range(ADDRESSES)]
    joined, refused, began = Joined(), Counter[str](), time.monotonic()

    async def one(number: int, name: str) -> None:
        await asyncio.sleep(number * within_s / len(names))
        at, target = time.monotonic(), targets[number % ADDRESSES]
        try:
            if act == "publish":
                client = await Client.open(target)
                clients.append(client)
                await client.publish(name)
            else:
                client = await Player.open(target, None)
                clients.append(client)
                await client.play(name)
        except (Refused, TimeoutError) as error:
            refused[str(error) or "no answer"] += 1
            return
        joined.admitted += 1
        joined.last_s = time.monotonic() - began
        joined.slowest_s = max(joined.slowest_s, time.monotonic() - at)

    await asyncio.gather(*(one(number, name) for number, name in enumerate(names)))
    joined.refused = dict(refused)
    return joined


async def main(url: str, app: str, act: str, within_s: float, names: Sequence[str]) -> None:
    clients: list[Client] = []
    joined = await join(Target.of(url, app), act, names, within_s, clients)
    print(json.dumps(asdict(joined)), flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    those = iter(sys.stdin.readline, "\n")
    uvloop.run(main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]), [line.strip() for line in those]))
