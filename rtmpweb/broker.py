"""The broker of the embedded server: Kombu's filesystem transport, whose messages are there whole or not at all.

Kombu's own writes a message under the name by which a worker finds it; a worker that looks meanwhile takes it away
unwritten, can't read it and ends. Here it gets its name when it is whole. One that can't be read all the same (the
machine lost power) is left out: tables tell what is undone, not the broker.
"""

import logging
import os
import uuid
from pathlib import Path
from time import monotonic
from typing import Any

from kombu.transport import TRANSPORT_ALIASES, filesystem
from kombu.utils.json import dumps

logger = logging.getLogger(__name__)


class Channel(filesystem.Channel):
    def _put(self, queue: str, payload: Any, **_: Any) -> None:  # type: ignore[override]  # Kombu's differ in a name.
        """Raises OSError, which Celery tries again."""
        folder = Path(self.data_folder_out)
        name = f"{round(monotonic() * 1000)}_{uuid.uuid4()}"
        unready = folder / f"{name}.unready"
        unready.write_bytes(dumps(payload).encode())
        os.replace(unready, folder / f"{name}.{queue}.msg")

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        while True:  # Ends with a message, or by Empty.
            try:
                return super()._get(queue)
            except ValueError as error:
                logger.warning("A message of the queue %s could not be read, and is left out: %s", queue, error)


class Transport(filesystem.Transport):
    Channel = Channel


def use() -> None:
    """For URLs that begin with `filesystem:`."""
    TRANSPORT_ALIASES["filesystem"] = f"{__name__}:Transport"
