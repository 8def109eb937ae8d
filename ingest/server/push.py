"""A live stream that is published on another server as well, as an encoder would do it.

It is one more reader of the stream's log, and is sent the bytes that players are; what its publisher has kept for
later players comes as that sent it (`live.republish`). If the other server takes less than that, frames are dropped for
it, up to the next keyframe, as for a player: the stream never waits.

Enhanced RTMP is spoken of in `connect` only where the stream needs it, as it is sent by a FourCC. With any other, a
server is asked nothing that servers were not asked before there was such; FFmpeg does the same."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from typing import Any, Final

from ingest.contracts import PushChange, PushFigures, PushOrder
from ingest.live import LiveStream, Subscriber
from ingest.live.message import OUT_CHUNK_SIZE
from ingest.live.republish import as_published, taken
from ingest.rtmp import ClientConnection, Message, MessageType, events
from ingest.rtmp.capabilities import CLIENT_CAPABILITIES
from ingest.rtmp.chunk_writer import CSID_DATA, encode_message
from ingest.rtmp.status import PUBLISH_START, UNPUBLISH_SUCCESS
from ingest.server.config import PushSettings
from ingest.server.connection_base import Server
from ingest.server.dial_rules import DialRules
from ingest.server.dialling import Failure
from ingest.server.outgoing import Patience
from ingest.server.output import flush_one, write_waiting
from ingest.server.remote import Remote, Slots
from ingest.server.sockets import UNKNOWN, tcp_info

logger = logging.getLogger(__name__)

ENDED: Final = frozenset({UNPUBLISH_SUCCESS, "NetConnection.Connect.Closed"})
"""By which servers say, without an error, that it is over."""

TOO_MANY: Final = Failure(
    "limit", "", "The node pushes as many streams as it may: raise RTMPWEB_MAX_PUSHES, or add a node."
)

TOO_SLOW: Final = Failure("slow", "", "The server took less than it was sent, for too long.")

Tell = Callable[[PushChange], object]


class Push(Remote):
    """Of one publisher's session to one target."""

    def __init__(
        self,
        server: Server,
        rules: DialRules,
        live: LiveStream,
        session_id: str,
        order: PushOrder,
        tell: Tell,
        slots: Slots,
    ) -> None:
        self.settings: PushSettings = server.config.push
        super().__init__(
            server, self.settings, rules, order["url"], order["name"], private_allowed=order["private_allowed"]
        )
        self.live = live
        self.session_id = session_id
        self.order = order
        self._tell = tell
        self._slots = slots
        self._stream = live.labels["stream"]
        self.label = f"Push of {live.path} to target {order['target']}"
        self.patience = Patience(self.settings.begin_s, inf, inf)
        self._fourccs = live.fourccs
        """As they were looked at last."""
        self._is_enhanced = False
        """Whether it was told of Enhanced RTMP, by the connection that there is."""
        self._subscriber: Subscriber | None = None
        self._is_ending = self.is_over = False
        self._sent = self._dropped = 0
        """By its former connections."""
        self._ticked = 0
        self._kbps = 0.0
        self.dial()

    # --- The connection ---

    def dial(self) -> None:
        """Not before there are media, by which codecs are known, and for which the other server need not wait."""
        publication = self.live.publication
        if publication is None or not publication.meter.has_media:
            self._retry = self._server.loop.call_later(self.settings.media_s, self.dial)
        else:
            self._fourccs = self.live.fourccs
            self._is_enhanced = bool(self._fourccs)
            super().dial()

    def may_dial(self) -> Failure | None:
        return None if self._slots.take(self) else TOO_MANY

    @property
    def properties(self) -> Mapping[str, Any]:
        return CLIENT_CAPABILITIES.properties() if self._is_enhanced else {}

    def prepare(self, rtmp: ClientConnection) -> None:
        """What encoders say, in their order. Some servers refuse it, or give no answer: nothing depends on that."""
        rtmp.send_chunk_size(OUT_CHUNK_SIZE)
        rtmp.call("releaseStream", self.order["name"])
        rtmp.call("FCPublish", self.order["name"])

    def created(self, stream_id: int) -> None:
        connection = self._connection
        if connection is None:
            return
        self._stream_id = stream_id
        if not self._check_codecs():
            connection.rtmp.publish(stream_id, self.order["name"])

    def status(self, event: events.StatusReceived) -> None:
        """Its message stream is the only one: some servers name another."""
        connection = self._connection
        if connection is None:
            return
        if event.code == PUBLISH_START and self._subscriber is None and self._stream_id:
            connection.begun()
            connection.write()
            self._begin()
        elif event.code in ENDED and self._subscriber is not None:
            connection.lose(Failure("lost", event.code, event.description or "The server has ended it."))

    def gone(self) -> None:
        subscriber, self._subscriber, self._stream_id = self._subscriber, None, 0
        if subscriber is not None:
            self.live.unsubscribe(subscriber)
            self._sent += subscriber.sent_bytes
            self._dropped += subscriber.dropped_frames

    def fail(self, failure: Failure) -> None:
        if self._is_ending:
            self._finish()
        else:
            super().fail(failure)

    def changed(self) -> None:
        change = PushChange(
            type="node.pushed",
            target=self.order["target"],
            session_id=self.session_id,
            stream=self._stream,
            state=self.state,
            code="",
            description="",
        )
        failure = self.failure
        if failure is not None and self.state in ("retrying", "stopped"):
            change["failure"], change["code"], change["description"] = failure.kind, failure.code, failure.description
        self._tell(change)

    # --- What it is sent ---

    def _begin(self) -> None:
        connection, server = self._connection, self._server
        if connection is None:
            return
        outlet = connection.outlet
        self._subscriber = Subscriber(
            self._stream_id,
            server.config.queue,
            lambda _subscriber: server.flusher.mark(self),
            write=outlet.write_shared,
            form=as_published(self._stream_id),
            held=outlet.held_bytes,
            is_counted=False,
            passes_on_to="server",
            takes=connection.capabilities.caps_ex or 0,
        )
        self.lives()
        self.live.subscribe(self._subscriber, server.loop.time())

    def flush(self) -> None:
        subscriber, connection = self._subscriber, self._connection
        if subscriber is None or connection is None or not connection.outlet.is_open:
            return
        most = self._server.config.write_high_bytes
        if not write_waiting(connection.outlet, subscriber, partial(taken, subscriber), most):
            self.resumed()
        elif self._is_ending:
            self._finish()
        elif connection.outlet.is_open:
            self.live.catch_up(subscriber)

    def resumed(self) -> None:
        subscriber, connection = self._subscriber, self._connection
        if subscriber is None or connection is None or not connection.outlet.is_open:
            return
        if subscriber.pending_messages or self._is_ending:
            self._server.loop.call_soon(flush_one, self)

    def broken(self, error: Exception) -> None:
        logger.error("%s: given up", self.label, exc_info=error)
        if self._connection is not None:
            self._connection.lose(Failure("lost", "", "It broke here, by a fault of this server: its log tells more."))

    def cleared(self, payload: bytes) -> None:
        """What was kept for later players is not any more (`@clearDataFrame`): told before what still waits."""
        connection = self._connection
        if self._subscriber is None or connection is None or self._is_ending:
            return
        message = Message(MessageType.DATA_AMF0, self.live.time.latest, self._stream_id, payload)
        data = encode_message(message, chunk_stream_id=CSID_DATA, chunk_size=OUT_CHUNK_SIZE)
        connection.rtmp.window.sent += len(data)
        connection.tell(data)

    def described(self) -> None:
        """The codecs may be others: to who was told nothing of Enhanced RTMP, it is told by a new connection."""
        if self._connection is None or self._is_ending or self.live.fourccs is self._fourccs:
            return
        self._fourccs = self.live.fourccs
        if self._fourccs and not self._is_enhanced:
            self._close_in_order()
            self.dial()
        else:
            self._check_codecs()

    def _check_codecs(self) -> bool:
        """Whether it is over, as the other server has listed codecs, and not the stream's."""
        connection, live = self._connection, self.live
        for kind, fourcc in live.fourccs.items() if connection is not None else ():
            if connection is not None and not connection.capabilities.takes(kind, fourcc):
                codec = live.media.get("video_codec" if kind == "video" else "audio_codec", fourcc)
                why = f"The stream's {kind} is {codec} ({fourcc}), and the server doesn't list that."
                connection.lose(Failure("refused", "", why))
                return True
        return False

    # --- Its end ---

    def end(self) -> None:
        """The publisher has left, or nobody wants it there any more. What waits is still sent, for a while."""
        if self.is_over or self._is_ending:
            return
        self._slots.free(self)
        self.cancel_retry()
        subscriber = self._subscriber
        if subscriber is None or not subscriber.pending_messages:
            self._finish()
            return
        self.live.unsubscribe(subscriber)
        self._is_ending = True
        self._retry = self._server.loop.call_later(self.settings.end_s, self._finish)

    def finish(self) -> None:
        """At once."""
        if not self.is_over:
            self._finish()

    def _finish(self) -> None:
        self._is_ending = self.is_over = True
        self._close_in_order()

    def _close_in_order(self) -> None:
        if self._connection is not None and self._subscriber is not None:
            rtmp = self._connection.rtmp
            rtmp.call("FCUnpublish", self.order["name"])
            rtmp.delete_stream(self._stream_id)
        self.hang_up()
        self.gone()

    # --- Once a second ---

    def tick(self, now: float, elapsed_s: float) -> None:
        subscriber, connection = self._subscriber, self._connection
        sent = self.sent_bytes
        self._kbps, self._ticked = round((sent - self._ticked) * 8 / 1000 / elapsed_s, 1), sent
        if subscriber is not None and connection is not None and subscriber.is_too_slow(now):
            connection.lose(TOO_SLOW)

    @property
    def sent_bytes(self) -> int:
        return self._sent + (self._subscriber.sent_bytes if self._subscriber is not None else 0)

    @property
    def figures(self) -> PushFigures:
        subscriber, connection = self._subscriber, self._connection
        found = tcp_info(connection.tcp_socket) if connection is not None else UNKNOWN
        return PushFigures(
            target=self.order["target"],
            session_id=self.session_id,
            stream=self._stream,
            state=self.state,
            since=self.since,
            kbps=self._kbps,
            sent_bytes=self.sent_bytes,
            dropped_frames=self._dropped + (subscriber.dropped_frames if subscriber is not None else 0),
            behind_ms=subscriber.behind_ms if subscriber is not None else 0,
            rtt_ms=found.rtt_ms,
            tries=self.tries,
            retry_at=self.retry_at,
        )
