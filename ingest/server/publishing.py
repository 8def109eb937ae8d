"""One message stream that publishes: what arrives on it goes to its live stream, and to its recording if there is one.

A recording goes from its order to its end, with what the client and the application are told of it.

Audio and video come straight from the protocol, whose sink it is; all else by the connection's events."""

from collections.abc import Callable
from dataclasses import asdict
from math import inf
from typing import Any, Final, cast

from ingest import clock
from ingest.contracts import EndReason, MediaInfo, PublishAccept, Totals
from ingest.contracts.connection import RecordEvent, RecordOrder
from ingest.credentials import may_hold_secret, scrub, scrub_text
from ingest.flv.recording import FAILED, START, STOP, Report
from ingest.live import LiveStream, Publisher, SocketFigures
from ingest.live.media_path import CLEAR
from ingest.rtmp import LocalProtocolError, events, status
from ingest.rtmp.amf import amf0
from ingest.rtmp.run_reader import Run
from ingest.rtmp.status import Level
from ingest.server.asgi import ENDS, Status, publish_event
from ingest.server.connection import Connection
from ingest.server.connection_base import BaseConnection
from ingest.server.context import Session
from ingest.server.live_players import LivePlayers
from ingest.server.publisher_connection import PublisherConnection
from ingest.server.recorder import Recorder
from ingest.server.recording_writer import Order
from ingest.server.sockets import tcp_info

MISSING_FOR_S: Final = 30.0
"""For so long frames that the disk was too slow for are told as a failure."""
NOT_SET_UP: Final = "This server has no folder of recordings."


class SessionRecording:
    """Nothing in here ends a client: FFmpeg gives up at any status of level `error`, so that failures are warnings."""

    def __init__(self, session: "Publishing", order: RecordOrder) -> None:
        self._session = session
        self._order = Order(session.live.app, session.live.name, order["mode"], order["file"])
        self._is_on = self._is_over = False
        self._recorder: Recorder | None = None
        self._failure = ""
        """Why nothing is written, as a sentence, since the last failure; "": since then something was."""
        self._is_stall = False
        """That was a disk that hangs, which tells nothing when it goes on."""
        self._dropped = 0
        """Frames that were missing when it was last asked why, and since when."""
        self._dropped_at = -inf

    def start(self) -> None:
        connection = self._session.connection
        recorders = connection.server.recorders
        if recorders is None:
            failure = Report("failed", code=FAILED, description=NOT_SET_UP)
            connection.loop.call_soon(self._reported, failure)  # GStreamer wants Publish.Start first.
        else:
            self._recorder = recorders.begin(self._order, self._session.live, self._reported)

    def stop(self) -> None:
        """The session ends: what there is of it is still written, and told of when it is."""
        if self._recorder is not None:
            self._recorder.stop()
        if self._is_on:
            self._send_status("status", STOP, "Recording has stopped.", is_own_turn=True)
        self._is_over = True
        if self._recorder is None:
            self._reported(Report("over"))

    def failure(self) -> str:
        """Why it is not recorded, or not all of it, as a sentence; "": it is. To be asked once a second."""
        recorder, now = self._recorder, self._session.connection.loop.time()
        if recorder is None:
            return self._failure
        if self._is_stall and not recorder.is_stalled:
            self._failure, self._is_stall = "", False
        if recorder.dropped_frames > self._dropped:
            self._dropped, self._dropped_at = recorder.dropped_frames, now
        if not self._failure and now - self._dropped_at < MISSING_FOR_S:
            return f"{self._dropped:,} of its frames are missing so far, as the disk is behind."
        return self._failure

    def _reported(self, report: Report) -> None:
        if report.state == "failed":
            self._failure = report.description
            self._is_stall = self._recorder is not None and self._recorder.is_stalled
        else:
            self._failure = ""
        if report.state == "started" and not self._is_on and not self._is_over:
            self._is_on = True
            self._send_status("status", START, f"Recording {report.name}.")
        elif report.state == "failed" and not self._is_over:
            self._is_on = False
            self._send_status("warning", report.code, report.description)
        connection, order = self._session.connection, self._order
        event = cast(
            "RecordEvent",
            {
                "type": "rtmp.record",
                "session_id": self._session.session_id,
                "stream_id": self._session.stream_id,
                "mode": order.mode,
                **asdict(report),
            },
        )
        if not connection.control.try_put(event) and connection.server.recorders is not None:
            connection.server.recorders.notify_node(event)

    def _send_status(self, level: Level, code: str, description: str, *, is_own_turn: bool = False) -> None:
        """`is_own_turn`: the connection writes what is queued, as it is at work."""
        connection, now = self._session.connection, self._session.connection.loop.time()
        if connection.lost or connection.ending:
            return
        connection.send_status(self._session.stream_id, Status(level, code, description), now)
        if not is_own_turn:
            connection.process((), now)


LATE_MEDIA_S: Final = 1.0
"""For so long after a `pause` media may come that was under way."""


class Publishing(Session[PublisherConnection]):
    event = "rtmp.unpublish"

    def __init__(
        self,
        connection: PublisherConnection,
        stream_id: int,
        credential: str,
        accept: PublishAccept,
        live: LiveStream,
    ) -> None:
        super().__init__(connection, stream_id, accept["session_id"], accept["path"])
        self.live = live
        self.idle_timeout_s = accept["limits"]["idle_timeout_s"]
        self.first_media_timeout_s = accept["limits"]["first_media_timeout_s"]
        order = accept["record"]
        self._recording = SessionRecording(self, order) if order is not None else None
        self.publisher = Publisher(
            session_id=self.session_id,
            address=connection.peer[0],
            encoder=connection.flash_ver,
            labels=accept["labels"],
            limits=accept["limits"],
            started=clock.now(),
            socket=self._socket,
            recording=self._recording.failure if self._recording is not None else None,
            on_watched=connection.read_at_once,
            on_description=self._described,
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
        self._time = connection.loop.time
        self._description: tuple[dict[str, Any], MediaInfo] | None = None
        self._players = LivePlayers(connection.server, live)

    def start(self, now: float) -> None:
        self.last_media = now
        self.live.start(self.publisher, now)
        self._players.begun()
        if self._recording is not None:
            self._recording.start()

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
        if name == CLEAR:
            self._players.cleared(payload)

    @property
    def is_watched(self) -> bool:
        return bool(self.live.subscribers)

    def stop(self, now: float) -> Totals:
        try:
            self.report_description()
        finally:
            if self._recording is not None:
                self._recording.stop()
            totals = self.live.stop(self.session_id, now)
            self._players.ended()
        return totals

    def status_of(self, reason: EndReason) -> Status | None:
        return ENDS[reason].publisher

    def pause(self, paused: bool, at_ms: float, now: float) -> bool:
        """Section 7.2.2.8, of what is published: players wait, and no media is missed until it goes on.

        Before its first media it has nothing to pause, but is told that it did.
        """
        if paused:
            if self.has_media and not self.is_paused(now):
                if self.last_media != self._awaited_from:
                    self._paused_s = 0.0
                self.paused_since = now
                self.live.pause(now)
            notify = Status("status", status.PAUSE_NOTIFY, "Publishing is paused.")
        else:
            self._end_pause(now)
            notify = Status("status", status.UNPAUSE_NOTIFY, "Publishing goes on.")
        self.connection.send_status(self.stream_id, notify, now)
        return True

    def is_paused(self, now: float) -> bool:
        """A publisher that goes on to send media, or sends some again, is not, whatever it said."""
        if self.paused_since < inf and self.last_media - self.paused_since > LATE_MEDIA_S:
            self._end_pause(now)
        return self.paused_since < inf

    def paused_s(self, now: float) -> float:
        """For how long, with the pauses before that no media came between."""
        return self._paused_s + now - self.paused_since

    def _end_pause(self, now: float) -> None:
        """Its silence before counts on."""
        if self.paused_since < inf:
            lasted = now - self.paused_since
            self._paused_s += lasted
            self.paused_since = inf
            self.last_media = self._awaited_from = min(self.last_media + lasted, now)
            self.live.resume(now)

    def report_description(self) -> None:
        """Tell the application what the publisher sends, if that has changed. Asked once a second."""
        if self._description:
            metadata, media = self._description
            self._description = None
            self.connection.control.put(
                {"type": "rtmp.metadata", "stream_id": self.stream_id, "metadata": metadata, "media": media},
                droppable=True,
            )

    def _described(self, metadata: dict[str, Any], media: MediaInfo) -> None:
        self._description = (metadata, media)
        self._players.described()

    def _socket(self) -> SocketFigures:
        connection = self.connection
        found = tcp_info(connection.transport.get_extra_info("socket"))
        round_trip_ms = connection.round_trip_ms if found.rtt_ms is None else found.rtt_ms
        return SocketFigures(connection.received_bytes, round_trip_ms, found.retransmits)


def begin_publishing(
    connection: PublisherConnection, stream_id: int, credential: str, accept: PublishAccept, now: float
) -> Publishing:
    """What the application has accepted. It decides who publishes: a former one is displaced."""
    server, path = connection.server, accept["path"]
    server.relays.end(path)
    live = server.registry.get_or_create(path, accept["labels"])
    former = server.sessions.get(live.publisher.session_id) if live.publisher else None
    if former:
        former.connection.stop_session(former, "replaced", keep_open=former.connection is connection)
    session = Publishing(connection, stream_id, credential, accept, live)
    connection.control.begin(session, now)
    return session


def _requested(connection: Connection, event: events.PublishRequested, now: float) -> None:
    control = connection.control
    if not connection.ending:
        control.ask("publish", publish_event(event, control.caller), now)


def _media(connection: BaseConnection, event: events.AudioReceived | events.VideoReceived, _now: float) -> None:
    session = connection.sessions.get(event.stream_id)
    if type(session) is Publishing:
        take = session.audio if type(event) is events.AudioReceived else session.video
        take(event.timestamp, event.payload)


def _data(connection: BaseConnection, event: events.DataReceived, now: float) -> None:
    session = connection.sessions.get(event.stream_id)
    if type(session) is Publishing:
        session.data(event.timestamp, event.name, event.values, event.payload, now, kept=event.kept)


def _stopped(connection: Connection, event: events.PublishStopped | events.PlayStopped, now: float) -> None:
    session = connection.sessions.get(event.stream_id)
    if session:
        description = f"The client sent {event.command}."
        connection.end_session(session, "client_unpublish", description, now, notify=False)


PUBLISH_EVENTS: Final[dict[type, Callable[[Any, Any, float], None]]] = {
    events.PublishRequested: _requested,
    events.AudioReceived: _media,
    events.VideoReceived: _media,
    events.DataReceived: _data,
    events.PublishStopped: _stopped,
    events.PlayStopped: _stopped,
}
