"""What a node's application does with thumbnails: it keeps them, and tells the server which of them are looked at."""

import logging
from collections.abc import Sequence

from ingest.contracts import NodeThumbnail, NodeWatch, StreamSnapshot
from ingest.livestore import Thumbnail, get_livestore

logger = logging.getLogger(__name__)


class Thumbnails:
    """Of one node."""

    def __init__(self) -> None:
        self._kept: dict[str, int] = {}
        """When the last picture of each publisher was taken, by session: once it can be had."""
        self._watched: list[str] = []
        self._is_failing = False

    async def keep(self, event: NodeThumbnail) -> None:
        try:
            await get_livestore().put_thumbnail(event["path"], Thumbnail(event["at_ms"], event["image"]))
        except Exception as error:
            if not self._is_failing:
                logger.warning(
                    "The live store takes no thumbnails: %s. Pages show the former ones.", type(error).__name__
                )
            self._is_failing = True
        else:
            self._is_failing = False
            self._kept[event["session_id"]] = event["at_ms"]

    def stamp(self, streams: Sequence[StreamSnapshot]) -> None:
        """Says in each snapshot when the picture of its publisher was taken."""
        kept, self._kept = self._kept, {}
        for snapshot in streams:
            session = snapshot["session_id"]
            at_ms = snapshot["thumbnail"] = kept.get(session) if session else None
            if session and at_ms is not None:
                self._kept[session] = at_ms

    async def watched(self) -> NodeWatch | None:
        """What to tell the server, if that has changed. Raises what the store does."""
        watched = sorted(await get_livestore().awatched())
        if watched == self._watched:
            return None
        self._watched = watched
        return {"type": "node.watch", "paths": watched}
