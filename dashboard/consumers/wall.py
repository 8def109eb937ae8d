"""/ws/live/: the wall."""

import logging
from typing import Any

from dashboard.consumers.database import reading
from dashboard.consumers.relay import AWAY, Relay
from dashboard.marks import marks, no_marks
from dashboard.snapshots import marks_text, wall_text
from dashboard.streams import Now, known_streams
from ingest.consumers.pages import WALL
from ingest.livestore import get_livestore

logger = logging.getLogger(__name__)

read_known = reading(known_streams)
read_marks = reading(marks)


def is_whole(message: dict[str, Any]) -> bool:
    """Whether a node of the version before sent it, as during an upgrade: `text` alone, its streams with all fields."""
    return "node" not in message


class LiveConsumer(Relay):
    """All streams that nodes know of, then each second what changed: of a stream the fields that did.

    So no update of a node may be missing: each names the tick `prior` to it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.told: dict[str, float] = {}
        """The tick of each node that the snapshot was of,"""
        self.heard: dict[str, float] = {}
        """and the latest one that was sent."""

    def group(self) -> str:
        return WALL

    async def snapshot(self) -> str:
        known = await read_known()
        now = Now.of(await get_livestore().aread())
        self.told = {node["node"]: node["at"] for node in now.nodes}
        self.heard = dict(self.told)
        return await wall_text(now, known, await read_marks(now.by_id.values()))

    def is_told(self, message: dict[str, Any]) -> bool:
        if is_whole(message):
            return False
        # To hear twice that a stream has gone is no harm, to miss it is.
        return bool(message["at"] <= self.told.get(message["node"], 0.0)) and not message["gone"]

    def is_next(self, message: dict[str, Any]) -> bool:
        if is_whole(message):
            return '"gone":[]' in message["text"]  # Of which node a stream has gone, a snapshot says.
        node, former = message["node"], self.heard.get(message["node"], 0.0)
        if message["at"] <= former:
            return True
        self.heard[node] = message["at"]
        return message["prior"] in (None, former)

    async def live_tick(self, message: dict[str, Any]) -> None:
        await self.relay(message)

    async def live_marks(self, message: dict[str, Any]) -> None:
        """Somebody did something to a stream."""
        if self.closed:
            return
        try:
            now = Now.of(await get_livestore().aread())
            snapshot = now.by_id.get(message["stream"])
            found = await read_marks([snapshot] if snapshot else [])
        except AWAY as error:
            logger.warning("No marks for %s: %s", self.scope["path"], type(error).__name__)
        else:
            await self.send_timed(marks_text(now.at, {message["stream"]: found.get(message["stream"]) or no_marks()}))
