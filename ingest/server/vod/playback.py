"""A play session of a recording (RTMP 1.0, sections 7.2.2.1, 7.2.2.4, 7.2.2.5, 7.2.2.7 and 7.2.2.8).

What is sent: onMetaData with the duration, headers, messages from the keyframe at or before the wanted time on, by the
clock and as far ahead as the client wants. Timestamps are the file's time, which begins at 0, so what players show is
what they seek by. But from the start that a `play` asks for they count from 0, until the client seeks: librtmp adds the
start to them, as Flash Media Server's clients do, and `rtmpdump --resume` needs that.

Nothing is dropped for a slow player: it is sent what it takes. What is kept for it is bounded by `AHEAD_BYTES`, one
message, and the transport's buffer.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

from ingest.contracts import PlayAccept, PlayerSample, RecordedFile, Totals
from ingest.contracts.figures import NO_TOTALS
from ingest.flv import FlvError
from ingest.log_records import about
from ingest.rtmp import status
from ingest.rtmp.messages.control import UserControl
from ingest.server.asgi import Status
from ingest.server.connection import Connection
from ingest.server.output import flush_one
from ingest.server.player import Player
from ingest.server.vod.flv_source import AUDIO, VIDEO, Batch, Span
from ingest.server.vod.library import ReadAhead
from ingest.server.vod.pacing import ChunkLane, Pacing, PlaybackQueue

logger = logging.getLogger(__name__)

AHEAD_BYTES: Final = 256 * 1024
"""Read ahead; a batch more is fetched below it."""
DRY_S: Final = 2.0
"""Without anything from the disk: then the client is told that there are no data for a while."""

UNKNOWN_YET: Final = (
    "The disk hangs, or the file is long and was not closed in order: then it can be played some minutes later, "
    "once it is looked through. It was waited"
)

TYPES: Final[dict[Literal["audio", "video"], int]] = {"audio": AUDIO, "video": VIDEO}

NOT_FOUND: Final = Status("error", status.PLAY_STREAM_NOT_FOUND, "The recording's file is missing.")
BROKEN: Final = Status("error", status.PLAY_FILE_STRUCTURE_INVALID, "The recording can't be played any further.")
UNREADABLE: Final = Status("error", status.PLAY_FAILED, "The recording can't be read.")


class Playback(Player):
    def __init__(
        self,
        connection: Connection,
        stream_id: int,
        accept: PlayAccept,
        recording: RecordedFile,
        span: Span,
        finished: Callable[..., None],
    ) -> None:
        super().__init__(connection, stream_id, accept, finished)
        self.file = recording["file"]
        self._counts_from_start = True
        self._outlet = connection.outlet
        library = connection.server.library
        lanes = [session.queue.chunk_lane for session in connection.sessions.values() if isinstance(session, Playback)]
        lane = ChunkLane.beside(lanes, stream_id)
        self.queue: PlaybackQueue = PlaybackQueue(lane, self._outlet, library, span.start_ms)
        stream = connection.rtmp.streams.get(stream_id)
        self._pacing = Pacing(stream.buffer_ms if stream else None)
        takes = connection.rtmp.capabilities.caps_ex or 0
        self._read_ahead = ReadAhead(library, Path(self.file), self._fetched, takes=takes)
        self._span = span
        self._joined = 0.0
        self._arrived: Batch | Exception | None = None
        self._is_fresh = True
        """Nothing was fetched since it began, or began anew."""
        self._is_described = False
        """The client was sent the metadata: once, as FFmpeg takes those of another time than 0 for a track."""
        self._is_last = False
        self._fault = ""
        self._asked_ms: float | None = None
        """A seek that came before it was known how long the recording is."""
        self._paused_ms: float | None = None
        """While paused: the client's time then."""
        self._is_dry = False
        self._is_over = False
        self._sent_all: float | None = None
        """Since when the client has all, and may go back in it."""
        self._next_slice: asyncio.Handle | None = None

    # --- The session ---

    def start(self, now: float) -> None:
        self._joined = now
        self._read_ahead.begin(self._span)

    def stop(self, now: float) -> Totals:
        self._is_over = True
        self._quiet()
        self._read_ahead.close()
        self.queue.finish_message()
        return {
            **NO_TOTALS,
            "bytes_out": self.queue.sent_bytes,
            "video_frames": self.queue.frames[VIDEO],
            "audio_frames": self.queue.frames[AUDIO],
            "keyframes": self.queue.keyframes,
            "duration_ms": round((now - self._joined) * 1000),
        }

    def sample(self) -> PlayerSample:
        return self._sample(self.queue.sent_bytes)

    def reached(self, now: float) -> int | None:
        queue = self.queue
        return (queue.position_ms + queue.shift_ms) & 0xFFFFFFFF if queue.had_ms else None

    def take_over(self, former: Player, now: float) -> None:
        """What decoding needs of the time before counts as of the first frame, so that the client's time goes on."""
        reached, start_ms = former.reached(now), self._span.start_ms
        if reached is not None:
            self.queue.shift_ms, self._counts_from_start = reached - start_ms, False
            self._span = replace(self._span, had_ms={AUDIO: start_ms})
        self.start(now)

    # --- What it is asked ---

    def pause(self, paused: bool, at_ms: float, now: float) -> bool:
        """It goes on where it was, or where the client says, if that is elsewhere than where it paused. What was sent
        ahead of its pause a client still has."""
        self.queue.finish_message()
        self._note_pause(paused, now)
        if paused:
            self._quiet()
            self._pacing.pause(now)
            self._paused_ms = at_ms
            self._send(now, Status("status", status.PAUSE_NOTIFY, "Paused."))
            return True
        self._send(now, Status("status", status.UNPAUSE_NOTIFY, "Playing goes on."))
        paused_ms, self._paused_ms = self._paused_ms, None
        self._pacing.resume(now)
        if paused_ms is not None and at_ms and at_ms != paused_ms:
            self._begin(Span(self._file_ms(at_ms), self._span.stop_ms))
        self.resume()
        return True

    def seek(self, at_ms: float, now: float) -> bool:
        info = self._read_ahead.info
        if info is None:
            self._asked_ms = at_ms
            return True
        time_ms = round(at_ms) if self._counts_from_start else self._file_ms(at_ms)
        if not 0 <= time_ms <= info.duration_ms:
            reason = f"The recording has {info.duration_ms / 1000:g} s."
            self._send(now, Status("error", status.SEEK_INVALID_TIME, reason))
            return True
        self.queue.finish_message()
        self.connection.rtmp.send_user_control(UserControl.STREAM_EOF, self.stream_id)
        self._send_jump(now, f"Seeking {at_ms:g} ms.")
        if self._counts_from_start:
            self.queue.shift_ms, self._counts_from_start = 0, False
        if self._paused_ms is not None:
            self._paused_ms = at_ms
        self._begin(Span(time_ms, self._span.stop_ms))
        return True

    def receive(self, kind: Literal["audio", "video"], wanted: bool, now: float) -> bool:
        """Pictures come again from a keyframe on, at the time that the sound has reached."""
        type_id, queue = TYPES[kind], self.queue
        if not wanted:
            queue.wanted.discard(type_id)
            return True
        self.queue.finish_message()
        self._send_jump(now, f"Sending {kind}.")
        if type_id not in queue.wanted:
            had = {**queue.had_ms, AUDIO: queue.position_ms} if kind == "audio" else {AUDIO: queue.sound_ms}
            queue.wanted.add(type_id)
            self._begin(Span(queue.position_ms, self._span.stop_ms, had_ms=had))
        return True

    def set_buffer(self, length_ms: int) -> None:
        self._pacing.set_ahead(length_ms)
        self.resume()

    def _file_ms(self, client_ms: float) -> int:
        return round(client_ms - self.queue.shift_ms)

    def _begin(self, span: Span) -> None:
        self._quiet()
        self._sent_all, self.is_complete = None, False
        self.queue.begin(span.start_ms)
        self._is_last = False
        self._fault = ""
        self._is_fresh = True
        self._span = span
        self._read_ahead.begin(span)

    def _send(self, now: float, *statuses: Status) -> None:
        super()._send(now, *statuses)
        self.connection.write_control()

    def _send_jump(self, now: float, description: str) -> None:
        """As Flash Media Server does: FFmpeg drops all until Seek.Notify."""
        connection = self.connection
        connection.rtmp.send_status(self.stream_id, "status", status.SEEK_NOTIFY, description)
        connection.rtmp.send_user_control(UserControl.STREAM_IS_RECORDED, self.stream_id)
        connection.rtmp.send_user_control(UserControl.STREAM_BEGIN, self.stream_id)
        self._send(now, Status("status", status.PLAY_START, description))

    # --- What is fetched ---

    def _fetched(self, found: Batch | Exception) -> None:
        self._arrived = found
        flush_one(self)

    def _receive_batch(self, batch: Batch, now: float) -> None:
        self.queue.add(batch.pieces[1:] if self._is_fresh and self._is_described else batch.pieces)
        self._is_described = True
        self._is_last = batch.is_last
        self._fault = batch.fault
        if self._is_fresh:
            self._is_fresh = False
            self._pacing.begin(now, batch.pieces[0].time_ms if batch.pieces else self._span.start_ms)
        self._is_dry = False
        if self._asked_ms is not None:
            asked_ms, self._asked_ms = self._asked_ms, None
            self.seek(asked_ms, now)
            self.connection.process((), now)

    # --- What is sent ---

    def resume(self) -> None:
        self._quiet()
        if not self._is_over:
            self._next_slice = self.connection.loop.call_soon(flush_one, self)

    def broken(self, error: Exception) -> None:
        self.connection.broken(error)

    def flush(self) -> None:
        """Send what may be sent now; then see what is next."""
        self._quiet()
        if self._is_over or self._sent_all is not None:
            return
        now = self.connection.loop.time()
        arrived, self._arrived = self._arrived, None
        if isinstance(arrived, Exception):
            self._give_up(arrived, now)
            return
        if arrived is not None:
            self._receive_batch(arrived, now)
        if self._paused_ms is None:
            self.queue.write(self._pacing.until_ms(now))
            self._schedule(now)

    # --- What is next ---

    def _schedule(self, now: float) -> None:
        queue, loop = self.queue, self.connection.loop
        if queue.queued_bytes < AHEAD_BYTES and not self._is_last:
            self._read_ahead.more()
        if not queue.is_empty:
            if self._outlet.is_open:  # Else at `resume`.
                next_ms = queue.next_ms
                is_due = next_ms is None or next_ms <= self._pacing.until_ms(now)
                self._next_slice = loop.call_later(
                    0 if is_due else self._pacing.wait_s(next_ms or 0, now), flush_one, self
                )
        elif self._is_last:
            if self._fault:
                self._give_up(FlvError(self._fault), now)
            else:
                self._finished(self, now)

    def _quiet(self) -> None:
        if self._next_slice:
            self._next_slice.cancel()
            self._next_slice = None

    def check_deadlines(self, now: float) -> None:
        """A disk that hangs: the client is told, and waits no longer than `disk_s`."""
        super().check_deadlines(now)
        if self._sent_all is not None:
            self._check_end(self._sent_all, now)
            return
        since = self._read_ahead.waiting_since
        if since is None or not self.queue.is_empty:
            return
        deadline_s = self.connection.server.config.deadlines.disk_s
        if now - since >= deadline_s:
            why = UNKNOWN_YET if self._read_ahead.info is None else "Nothing came from the disk"
            self._give_up(TimeoutError(f"{why} for {deadline_s:g} s."), now)
        elif now - since >= DRY_S and not self._is_dry and self._paused_ms is None:
            self._is_dry = True
            self.connection.rtmp.send_user_control(UserControl.STREAM_DRY, self.stream_id)
            self.connection.write_control()

    def stay(self, now: float) -> bool:
        stays = self._sent_all is None
        if stays:
            self._sent_all, self.is_complete = now, True
        return stays

    def _check_end(self, sent_all: float, now: float) -> None:
        """The client has added to its playlist, or had its time."""
        deadlines = self.connection.server.config.deadlines
        behind_s = (self._pacing.played_ms(now) - self.queue.position_ms) / 1000
        is_late = behind_s >= deadlines.back_s or now - sent_all >= deadlines.most_back_s
        if is_late or self.connection.rtmp.has_next_item(self.stream_id):
            self._finished(self, now)

    def completion(self) -> dict[str, Any]:
        span, info = self._span, self._read_ahead.info
        whole_ms = info.duration_ms if info else 0
        sent_ms = max(min(span.stop_ms or whole_ms, whole_ms) - span.start_ms, 0)
        return {"duration": sent_ms / 1000, "bytes": float(self.queue.sent_bytes)}

    def _give_up(self, error: Exception, now: float) -> None:
        failure = next((status for kind, status in FAILURES.items() if isinstance(error, kind)), None)
        if failure is None:
            raise error
        with about(session_id=self.session_id):
            logger.warning("%s can't be played: %s", self.file, error)
        self._finished(self, now, failure=failure, detail=f"The recording can't be played: {error}")


FAILURES: Final[dict[type[Exception], Status]] = {
    FlvError: BROKEN,
    FileNotFoundError: NOT_FOUND,
    OSError: UNREADABLE,
}
