"""Streams that go on while a test takes parts away, measured by a process of its own (see `measurer`)."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

from tests.background import Dialog
from tests.production.parts import MediaNode

LATE_MS = 50.0
"""Holds where the measuring process may run before all others: as root, or with CAP_SYS_NICE. As anyone else it waits
for its turn like the rest, and a busy machine may break this without the server's doing."""

PLAYERS = 2

MESSAGES_S = 73
"""A stream's messages in a second: 30 of video, 43 of audio."""


@dataclass(frozen=True)
class Measured:
    """What was away, from when to when (microseconds since the epoch), and what came of it (`measurer.Window`)."""

    what: str
    began_us: float
    over_us: float
    window: dict[str, Any]

    @property
    def waited_us(self) -> float:
        """What others had the processors while the node was ready to run: all of its threads, and the host."""
        waited_ms: float = self.window["waited_ms"] + self.window["stolen_ms"]
        return waited_ms * 1000


class Steady(Dialog):
    """One publisher for each key, each with PLAYERS players, until `stop`."""

    def __init__(self, node: MediaNode, keys: Mapping[str, Mapping[str, Any]]) -> None:
        """`keys`: what `streamkey create` says, by the stream's name; all of the application `live`. `node`: where they
        publish; it runs for as long as this.
        """
        super().__init__("-m", "tests.production.outages.measurer")
        self.names = list(keys)
        self._order = {
            "server": node.url,
            "pid": node.pid,
            "app": "live",
            "keys": {name: key["key"] for name, key in keys.items()},
            "players": PLAYERS,
        }
        self.measured: list[Measured] = []

    @property
    def sessions(self) -> int:
        """How many there are: publishers' and players'."""
        return len(self.names) * (1 + PLAYERS)

    def __enter__(self) -> Self:
        self.ask(json.dumps(self._order))
        return self

    def stop(self) -> dict[str, int]:
        """Ends the streams; {name: messages that its publisher sent, with the two headers}."""
        self.input.close()
        sent: dict[str, int] = json.loads(self.read())
        return sent

    def window(self) -> dict[str, Any]:
        """What was measured since the window before: `measurer.Window`."""
        found: dict[str, Any] = json.loads(self.ask("window"))
        return found

    @contextmanager
    def undisturbed(self, what: str) -> Iterator[None]:
        """While the block runs, no message may be lost or late."""
        self.window()
        began = time.time()
        yield
        found = self.window()
        self.measured.append(Measured(what, began * 1e6, time.time() * 1e6, found))
        streams = len(self.names)
        assert not found["faults"], found
        assert found["sent"] >= 0.98 * MESSAGES_S * streams * found["seconds"], found
        assert found["received"] == PLAYERS * found["sent"] + found["waiting"] - found["left"], found
        assert found["late_ms"] <= LATE_MS, found
