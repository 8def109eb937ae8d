"""One message stream on which another node plays a live stream, to publish it for its own players.

It is sent what any player is, in the same bytes, and what later players there need besides (`live.republish`). It is
told at once of the publisher's end, as that may go on at a third node; and it tells how many play by it."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from ingest.contracts import PlayAccept
from ingest.live import LiveStream
from ingest.live.counters import Audience
from ingest.live.media_path import KEYFRAMES
from ingest.live.republish import as_published, taken
from ingest.rtmp.messages import Message, MessageType
from ingest.rtmp.messages.commands import encode_data, number
from ingest.server.asgi import DESCRIPTIONS
from ingest.server.connection import Connection
from ingest.server.playing import Playing

AUDIENCE: Final = "onRelayAudience"
"""Each second: players, slow players, those of them that lose picture; bytes and dropped frames since the last one; and
how many of the players are viewers by HLS, which nodes of earlier versions neither tell nor read."""
MOST: Final = (10**7, 10**7, 10**7, 10**13, 10**9, 10**7)
"""Of each of these figures: the database holds the sum of many."""


class RelayPlaying(Playing):
    def __init__(
        self,
        connection: Connection,
        stream_id: int,
        accept: PlayAccept,
        live: LiveStream,
        finished: Callable[..., None],
    ) -> None:
        super().__init__(
            connection, stream_id, accept, live, finished, form=as_published(stream_id), passes_on_to="node"
        )
        self._node = accept.get("relay", "")

    def start(self, now: float) -> None:
        if (interval_s := self.live.keyframe_interval_s) is not None:
            told = encode_data(self.stream_id, self.live.time.latest, KEYFRAMES, interval_s)
            self.connection.rtmp.send_message(told)
        super().start(now)
        self.live.beyond.join(self.subscriber, self._node)

    def told(self, arguments: Sequence[Any]) -> None:
        """Its AUDIENCE, of which a figure that makes no sense counts as 0."""
        told = zip((*arguments[: len(MOST)], *(0,) * len(MOST)), MOST, strict=False)
        players, slow, losing, out_bytes, dropped, viewers = (
            int(found) if 0 <= (found := number(each, 0)) <= most else 0 for each, most in told
        )
        who = Audience(players, slow, losing, out_bytes, dropped, min(viewers, players))
        self.live.beyond.tell(self.subscriber, who, self.connection.loop.time())

    def unpublished(self, now: float) -> None:
        if self.subscriber.has_media and not self.is_complete:
            self._send_end(now)

    def cleared(self, payload: bytes) -> None:
        """Before what still waits for it, which is none the worse for that."""
        message = Message(MessageType.DATA_AMF0, self.live.time.latest, self.stream_id, payload)
        self.connection.rtmp.send_message(message)
        self.connection.write_control()

    def check_deadlines(self, now: float) -> None:
        """A node that drains does not wait for those that relay what nobody publishes there any more."""
        if self.connection.server.draining and self.live.publisher is None:
            self.connection.stop_session(self, "node_shutdown", DESCRIPTIONS["node_shutdown"])
        else:
            super().check_deadlines(now)

    def _taken(self, most: int) -> list[bytes]:
        return taken(self.subscriber, most)
