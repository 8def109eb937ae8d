"""The embedded server's broker: the filesystem transport, whose messages are there whole or not at all.

Kombu's own writes a message under the name by which a worker finds it; a worker that looks meanwhile takes it away
unwritten, can't read it and ends. Here it gets its name when it is whole. It is taken by another change of its name,
which only one worker can do and which is done at once, whatever the folder of the system's temporary files is. One that
can't be read all the same (the machine lost power) is left out: tables tell what is undone, not the broker.
"""

import fcntl
import logging
import os
import uuid
from contextlib import suppress
from pathlib import Path
from queue import Empty
from time import monotonic
from typing import Any

from kombu.transport import TRANSPORT_ALIASES, filesystem
from kombu.transport.virtual import BrokerState
from kombu.utils.json import dumps, loads

logger = logging.getLogger(__name__)

LONGEST_WAIT_S = 0.5
"""Until a worker looks whether it is to end."""


class Channel(filesystem.Channel):
    def _put(self, queue: str, payload: Any, **_: Any) -> None:  # type: ignore[override]  # Kombu's differ in a name.
        """Raises OSError, which Celery tries again."""
        folder = Path(self.data_folder_out)
        name = f"{round(monotonic() * 1000)}_{uuid.uuid4()}"
        unready = folder / f"{name}.unready"
        unready.write_bytes(dumps(payload).encode())
        os.replace(unready, folder / f"{name}.{queue}.msg")

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str | None, queue: str) -> None:
        """Kombu's own makes the file of an exchange's queues empty and then fills it: who reads it meanwhile fails."""
        file = self.control_folder / f"{exchange}.exchange"
        self.control_folder.mkdir(exist_ok=True)
        with (self.control_folder / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not file.exists():
                unready = file.with_suffix(".unready")
                unready.write_text("[]")
                unready.replace(file)
        super()._queue_bind(exchange, routing_key, pattern, queue)

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        """The oldest message. Raises queue.Empty."""
        folder = Path(self.data_folder_in)
        for found in _waiting(folder, queue):
            taken = (folder / found).with_suffix(".taken")
            try:
                (folder / found).rename(taken)
            except FileNotFoundError:
                continue  # Another worker was first.
            text = taken.read_bytes()
            taken.unlink()
            try:
                return loads(text.decode())
            except ValueError as error:
                logger.warning("A message of the queue %s could not be read, and is left out: %s", queue, error)
        raise Empty


class Transport(filesystem.Transport):
    Channel = Channel

    def __init__(self, client: Any, **options: Any) -> None:
        """With a state of its own: of one that all connections share, another thread's says that a queue is bound just
        before it is, and the first message is put nowhere."""
        super().__init__(client, **options)
        self.state = BrokerState()

    def drain_events(self, connection: Any, timeout: float | None = None, **_: Any) -> None:
        """Celery's worker waits here for 2 s, up to twice when it is to end, before it looks whether it is."""
        super().drain_events(connection, None if timeout is None else min(timeout, LONGEST_WAIT_S))


def _waiting(folder: Path, queue: str) -> list[str]:
    """The names of a queue's messages, the oldest first. Looked for several times a second, all day: not by a glob."""
    return sorted(name for name in os.listdir(folder) if name.endswith(f".{queue}.msg"))


def has_message(folder: Path, queue: str) -> bool:
    with suppress(FileNotFoundError):  # As before the first start.
        return bool(_waiting(folder, queue))
    return False


def register_transports() -> None:
    """For URLs that begin with `filesystem:`, `redis:` and `rediss:`. Redis's libraries are loaded where it is used."""
    TRANSPORT_ALIASES["filesystem"] = f"{__name__}:Transport"
    TRANSPORT_ALIASES["redis"] = TRANSPORT_ALIASES["rediss"] = "rtmpweb.redis_broker:Transport"
