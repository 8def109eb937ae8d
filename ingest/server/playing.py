"""One message stream that plays: a subscriber's queue on one side, the connection's transport on the other."""

from ingest.contracts import EndReason, PlayAccept, Totals
from ingest.live import LiveStream, Subscriber
from ingest.server.endings import PLAYER_STATUS, Status
from ingest.server.ports import Link


class Playing:
    """A play session from its accept to its end. Without a publisher it waits in silence."""

    event = "rtmp.stop"

    def __init__(self, connection: Link, stream_id: int, accept: PlayAccept, live: LiveStream) -> None:
        self.connection = connection
        self.stream_id = stream_id
        self.session_id = accept["session_id"]
        self.path = accept["path"]
        self.live = live
        config = connection.server.config
        self.subscriber = Subscriber(stream_id, config.queue, self._wake, session_id=self.session_id)
        self._batch_bytes = config.write_high_bytes
        self._stopped = False

    def start(self, now: float) -> None:
        self.live.subscribe(self.subscriber, now)

    def _wake(self, _subscriber: Subscriber) -> None:
        self.connection.server.flusher.mark(self)

    def flush(self) -> None:
        """Write what waits, unless the peer is behind: what stays in the queue can still be dropped."""
        connection = self.connection
        if connection.write_blocked_since is None and not self._stopped:
            connection.write_media(self.subscriber.take(self._batch_bytes))
            self.resume()

    def broken(self, error: Exception) -> None:
        self.connection.broken(error)

    def resume(self) -> None:
        """Go on with what is left, if there is anything and the peer takes it."""
        if self.subscriber.pending_messages and self.connection.write_blocked_since is None:
            self.connection.loop.call_soon(self.flush)

    def stop(self, now: float) -> Totals:
        self._stopped = True
        totals = self.subscriber.totals(now)
        self.live.unsubscribe(self.subscriber)
        return totals

    def status_of(self, reason: EndReason) -> Status | None:
        return PLAYER_STATUS.get(reason)
