"""A connection by which media come to be published here: of an encoder, or one that this server has made (a pull)."""

from typing import Any

from ingest.server.asgi import Status
from ingest.server.connection_base import BaseConnection


class PublisherConnection(BaseConnection):
    """What a session that publishes asks of it, whichever it is."""

    __slots__ = ("flash_ver", "round_trip_ms")

    flash_ver: str
    round_trip_ms: float | None
    """As measured by the protocol; None: it was not."""

    @property
    def received_bytes(self) -> int:
        """All that came of the peer."""
        raise NotImplementedError

    def read_at_once(self) -> None:
        """Players of what it publishes have come, or gone; or it ends."""

    def send_status(self, stream_id: int, status: Status, now: float, **info: Any) -> None:
        """Tell the peer, if its protocol has words for that."""

    def process(self, found: Any, now: float) -> None:
        """Write what was queued for the peer."""
