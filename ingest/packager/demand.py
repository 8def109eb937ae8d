"""Streams on demand that viewers wait for: their pull sources are asked for, as often as is needed to keep them so.

Of each source it is written once in AGAIN_S, however many ask. What the database does not take is asked again by who
goes on waiting."""

import asyncio
import logging
from typing import Final

from ingest.consumers import decisions
from ingest.log_records import Bound, more
from ingest.services import database, pulls

logger = logging.getLogger(__name__)

AGAIN_S: Final = pulls.WANTED.total_seconds() / 4
MOST: Final = 1_000
"""Sources that are remembered."""

FAILED: Final = Bound(1, 10.0)
"""Lines."""


class Demand:
    def __init__(self) -> None:
        self._asked_at: dict[int, float] = {}
        """By source, the loop's time."""
        self._writing: set[asyncio.Task[None]] = set()

    def ask(self, source: int) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now - self._asked_at.get(source, -AGAIN_S) < AGAIN_S:
            return
        if len(self._asked_at) >= MOST:
            self._asked_at.clear()
        self._asked_at[source] = now
        task = loop.create_task(self._write(source))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _write(self, source: int) -> None:
        try:
            await decisions.run(lambda: pulls.want(source, now=database.shared_now()), executor=decisions.WRITE)
        except Exception as error:
            self._asked_at.pop(source, None)
            if (left_out := FAILED.take()) is not None:
                logger.warning("What viewers wait for can't be asked for: %s%s", type(error).__name__, more(left_out))
