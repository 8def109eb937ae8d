"""A publish session's recording: from its order to its end, with what the client and the application are told."""

from math import inf
from typing import Final

from ingest.contracts.recording import RecordEvent, RecordOrder
from ingest.live import LiveStream
from ingest.rtmp.status import Level
from ingest.server.ports import Link
from ingest.server.recording.recorder import Recorder
from ingest.server.recording.recording import Order
from ingest.server.recording.reports import FAILED, START, STOP, Report

MISSING_FOR_S: Final = 30.0
"""For so long frames that the disk was too slow for are told as a failure."""
NOT_SET_UP: Final = "This server has no folder of recordings."


class SessionRecording:
    """Nothing in here ends a client: FFmpeg gives up at any status of level `error`, so that failures are warnings."""

    def __init__(self, connection: Link, stream_id: int, session_id: str, live: LiveStream, order: RecordOrder) -> None:
        self._connection = connection
        self._stream_id = stream_id
        self._session_id = session_id
        self._live = live
        self._order = Order(live.app, live.name, order["mode"], order["file"])
        self._is_on = self._is_over = False
        self._recorder: Recorder | None = None
        self._failure = ""
        """Why nothing is written, as a sentence, since the last failure; "": since then something was."""
        self._is_stall = False
        """That was a disk that hangs, which tells nothing when it goes on."""
        self._dropped = 0
        """Frames that were missing when it was last asked why, and since when."""
        self._dropped_at = -inf

    def start(self, now: float) -> None:
        """The session has begun."""
        recorders = self._connection.server.recorders
        if recorders is None:
            failure = Report("failed", code=FAILED, description=NOT_SET_UP)
            self._connection.loop.call_soon(self._told, failure)  # After Publish.Start: GStreamer wants no other first.
        else:
            self._recorder = recorders.begin(self._order, self._live, now, self._told)

    def stop(self) -> None:
        """The session ends: what there is of it is still written, and told of when it is."""
        if self._recorder is not None:
            self._recorder.stop()
        if self._is_on:
            self._say("status", STOP, "Recording has stopped.")
        self._is_over = True
        if self._recorder is None:
            self._told(Report("over"))

    def failure(self) -> str:
        """Why it is not recorded, or not all of it, as a sentence; "": it is. To be asked once a second."""
        recorder, now = self._recorder, self._connection.loop.time()
        if recorder is None:
            return self._failure
        if self._is_stall and not recorder.is_stalled:
            self._failure, self._is_stall = "", False
        if recorder.dropped_frames > self._dropped:
            self._dropped, self._dropped_at = recorder.dropped_frames, now
        if not self._failure and now - self._dropped_at < MISSING_FOR_S:
            return f"{self._dropped:,} of its frames are missing so far, as the disk is behind."
        return self._failure

    def _told(self, report: Report) -> None:
        if report.state == "failed":
            self._failure = report.description
            self._is_stall = self._recorder is not None and self._recorder.is_stalled
        else:
            self._failure = ""
        if report.state == "started" and not self._is_on and not self._is_over:
            self._is_on = True
            self._say("status", START, f"Recording {report.name}.")
            self._write()
        elif report.state == "failed" and not self._is_over:
            self._is_on = False
            self._say("warning", report.code, report.description)
            self._write()
        connection, order = self._connection, self._order
        event: RecordEvent = {
            "type": "rtmp.record",
            "session_id": self._session_id,
            "stream_id": self._stream_id,
            "state": report.state,
            "mode": order.mode,
            "name": report.name,
            "file": report.file,
            "began": report.began,
            "is_continued": report.is_continued,
            "duration_ms": report.duration_ms,
            "size_bytes": report.size_bytes,
            "dropped_frames": report.dropped_frames,
            "code": report.code,
            "description": report.description,
        }
        if not connection.control.tell(event) and connection.server.recorders is not None:
            connection.server.recorders.tell_node(event)

    def _say(self, level: Level, code: str, description: str) -> None:
        """Queues an onStatus."""
        connection = self._connection
        if not connection.lost and not connection.ending:
            connection.rtmp.send_status(self._stream_id, level, code, description)
            connection.collect_statuses(connection.loop.time())

    def _write(self) -> None:
        """What was queued from outside of the connection's own turn."""
        connection = self._connection
        if not connection.lost and not connection.ending:
            connection.process((), connection.loop.time())
