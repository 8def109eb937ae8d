"""One message stream that publishes: what arrives on it goes to its live stream.

Audio and video come straight from the protocol, whose sink it is; all else by the connection's events.
"""

from collections.abc import Iterator
from math import inf
from typing import Any, Final

from ingest import clock
from ingest.contracts import EndReason, MediaInfo, PublishAccept, Totals
from ingest.live import LiveStream, Publisher, SocketFigures
from ingest.rtmp import LocalProtocolError, amf0, status
from ingest.rtmp.chunks.run_reader import Run
from ingest.server.credentials import may_hold_secret, scrub, scrub_text
from ingest.server.endings import PUBLISHER_STATUS, Status
from ingest.server.playing import Playing
from ingest.server.ports import Link
from ingest.server.recording.session import SessionRecording
from ingest.server.tcpinfo import tcp_info

LATE_MEDIA_S: Final = 1.0
"""For so long after a `pause` media may come that was under way."""


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
        self.first_media_timeout_s = accept["limits"]["first_media_timeout_s"]
        order = accept["record"]
        self._recording = (
            SessionRecording(connection, stream_id, self.session_id, live, order) if order is not None else None
        )
        self.publisher = Publisher(
            session_id=self.session_id,
            address=connection.peer[0],
            encoder=connection.flash_ver,
            labels=accept["labels"],
            limits=accept["limits"],
            started=clock.now(),
            socket=self._socket,
            recording=self._recording.failure if self._recording is not None else None,
            watched=connection.read_at_once,
            described=self._described,
        )
        # Where no key is needed the credential may be the public name, which is nothing to hide.
        self.secret = "" if accept["path"].endswith(f"/{credential}") else credential
        self._masked_bytes = connection.server.config.masked_data_bytes
        self.last_media = 0.0
        self.has_media = False
        self.paused_since = inf
        """When it asked for a pause; `inf`: it is not paused."""
        self._paused_s = 0.0
        """How long it was paused since its latest media, but for the pause that lasts."""
        self._awaited_from = 0.0
        """What `last_media` became when its latest pause was over."""
        self._time = connection.loop.time
        self._description: tuple[dict[str, Any], MediaInfo] | None = None
        self._fourccs = live.fourccs

    def start(self, now: float) -> None:
        self.last_media = now
        self.live.start(self.publisher, now)
        if self.live.subscribers:
            self.connection.loop.call_soon(self._tell_players)  # Not in the midst of this connection's decision.
        if self._recording is not None:
            self._recording.start(now)

    def audio(self, timestamp: int, payload: bytes) -> None:
        self.last_media = now = self._time()
        self.has_media = True
        self.live.audio(timestamp, payload, now)

    def video(self, timestamp: int, payload: bytes) -> None:
        self.last_media = now = self._time()
        self.has_media = True
        self.live.video(timestamp, payload, now)

    def run(self, run: Run) -> None:
        self.last_media = now = self._time()
        self.has_media = True
        self.live.run(run, now)

    def data(self, timestamp: int, name: str, values: list[Any], payload: bytes, now: float, *, kept: bool) -> None:
        """Relayed as it came, unless it quotes a secret: some encoders put the whole URL into their metadata."""
        if may_hold_secret(payload, self.secret):
            if len(payload) > self._masked_bytes:
                return
            name, values = scrub_text(name, self.secret), scrub(values, self.secret)
            try:
                payload = amf0.encode(name, *values)
            except LocalProtocolError:  # A name that isn't UTF-8 may grow over what a name can be.
                return
        self.live.data(timestamp, name, values, payload, now, kept=kept)

    @property
    def is_watched(self) -> bool:
        """Whether somebody plays it."""
        return bool(self.live.subscribers)

    def stop(self, now: float) -> Totals:
        """Leave the live stream, whose players stay."""
        try:
            self.report_description()
        finally:
            if self._recording is not None:
                self._recording.stop()
            totals = self.live.stop(self.session_id, now)
        return totals

    def status_of(self, reason: EndReason) -> Status | None:
        return PUBLISHER_STATUS.get(reason)

    def pause(self, paused: bool, at_ms: float, now: float) -> bool:
        """Section 7.2.2.8, of what is published: players wait, and no media is missed until it goes on.

        Before its first media it has nothing to pause, but is told that it did.
        """
        rtmp = self.connection.rtmp
        if paused:
            if self.has_media and not self.is_paused(now):
                if self.last_media != self._awaited_from:
                    self._paused_s = 0.0
                self.paused_since = now
                self.live.pause(now)
            rtmp.send_status(self.stream_id, "status", status.PAUSE_NOTIFY, "Publishing is paused.")
        else:
            self._go_on(now)
            rtmp.send_status(self.stream_id, "status", status.UNPAUSE_NOTIFY, "Publishing goes on.")
        self.connection.collect_statuses(now)
        return True

    def is_paused(self, now: float) -> bool:
        """A publisher that goes on to send media, or sends some again, is not, whatever it said."""
        if self.paused_since < inf and self.last_media - self.paused_since > LATE_MEDIA_S:
            self._go_on(now)
        return self.paused_since < inf

    def paused_s(self, now: float) -> float:
        """For how long, with the pauses before that no media came between."""
        return self._paused_s + now - self.paused_since

    def _go_on(self, now: float) -> None:
        """Its silence before counts on."""
        if self.paused_since < inf:
            lasted = now - self.paused_since
            self._paused_s += lasted
            self.paused_since = inf
            self.last_media = self._awaited_from = min(self.last_media + lasted, now)
            self.live.go_on(now)

    def report_description(self) -> None:
        """Tell the application what the publisher sends, if that has changed. Asked once a second."""
        if self._description:
            metadata, media = self._description
            self._description = None
            self.connection.described(self, metadata, media)

    def _described(self, metadata: dict[str, Any], media: MediaInfo) -> None:
        self._description = (metadata, media)
        if self.live.fourccs is not self._fourccs:
            self._fourccs = self.live.fourccs
            self.connection.loop.call_soon(self._judge_players)  # Not while a message is on its way to them.

    def _judge_players(self) -> None:
        """Players that don't take the codec that is sent now end."""
        for player in self._players():
            player.judge()

    def _tell_players(self) -> None:
        """Those that were told of the stream's end are told that it goes on."""
        now = self._time()
        for player in self._players():
            player.published_again(now)

    def _players(self) -> Iterator[Playing]:
        """Those by RTMP."""
        sessions = self.connection.server.sessions
        for subscriber in self.live.subscribers:
            session = sessions.get(subscriber.session_id)
            if isinstance(session, Playing):
                yield session

    def _socket(self) -> SocketFigures:
        connection = self.connection
        found = tcp_info(connection.transport.get_extra_info("socket"))
        round_trip_ms = connection.round_trip_ms if found.rtt_ms is None else found.rtt_ms
        return SocketFigures(connection.rtmp.bytes_received, round_trip_ms, found.retransmits)
