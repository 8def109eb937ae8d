"""One message stream that publishes: what arrives on it goes to its live stream.

Audio and video come straight from the protocol, whose sink it is; all else by the connection's events.
"""

import time
from typing import Any

from ingest.contracts import EndReason, MediaInfo, PublishAccept, Totals
from ingest.live import LiveStream, Publisher, SocketFigures
from ingest.rtmp import amf0
from ingest.server.credentials import may_hold_secret, scrub, scrub_text
from ingest.server.endings import PUBLISHER_STATUS, Status
from ingest.server.ports import Link
from ingest.server.tcpinfo import tcp_info


class Publishing:
    """A publish session from its accept to its end."""

    event = "rtmp.unpublish"

    def __init__(
        self, connection: Link, stream_id: int, credential: str, accept: PublishAccept, live: LiveStream
    ) -> None:
        self.connection = connection
        self.stream_id = stream_id
        self.session_id = accept["session_id"]
        self.path = accept["path"]
        self.live = live
        self.idle_timeout_s = accept["limits"]["idle_timeout_s"]
        self.publisher = Publisher(
            session_id=self.session_id,
            address=connection.peer[0],
            encoder=connection.flash_ver,
            labels=accept["labels"],
            limits=accept["limits"],
            started=time.time(),
            socket=self._socket,
            described=self._described,
        )
        # Where no key is needed the credential may be the public name, which is nothing to hide.
        self._secret = "" if accept["path"].endswith(f"/{credential}") else credential
        self._masked_bytes = connection.server.config.masked_data_bytes
        self.last_media = 0.0
        self.has_media = False
        self._time = connection.loop.time
        self._description: tuple[dict[str, Any], MediaInfo] | None = None

    def start(self, now: float) -> None:
        self.last_media = now
        self.live.start(self.publisher, now)

    def audio(self, timestamp: int, payload: bytes) -> None:
        self.last_media = now = self._time()
        self.has_media = True
        self.live.audio(timestamp, payload, now)

    def video(self, timestamp: int, payload: bytes) -> None:
        self.last_media = now = self._time()
        self.has_media = True
        self.live.video(timestamp, payload, now)

    def data(self, timestamp: int, name: str, values: list[Any], payload: bytes, now: float) -> None:
        """Relayed as it came, unless it quotes a secret: some encoders put the whole URL into their metadata."""
        if may_hold_secret(payload, self._secret):
            if len(payload) > self._masked_bytes:
                return
            name, values = scrub_text(name, self._secret), scrub(values, self._secret)
            payload = amf0.encode(name, *values)
        self.live.data(timestamp, name, values, payload, now)

    @property
    def is_unwatched(self) -> bool:
        """Whether media come and nobody plays them."""
        return self.has_media and not self.live.subscribers

    def stop(self, now: float) -> Totals:
        """Leave the live stream, whose players stay."""
        try:
            self.report_description()
        finally:
            totals = self.live.stop(self.session_id, now)
        return totals

    def status_of(self, reason: EndReason) -> Status | None:
        return PUBLISHER_STATUS.get(reason)

    def report_description(self) -> None:
        """Tell the application what the publisher sends, if that has changed. Asked once a second."""
        if self._description:
            metadata, media = self._description
            self._description = None
            self.connection.described(self, metadata, media)

    def _described(self, metadata: dict[str, Any], media: MediaInfo) -> None:
        self._description = (metadata, media)

    def _socket(self) -> SocketFigures:
        connection = self.connection
        found = tcp_info(connection.transport.get_extra_info("socket"))
        return SocketFigures(connection.rtmp.bytes_received, found.rtt_ms, found.retransmits)
