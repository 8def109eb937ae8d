"""What becomes of recordings: rows by the history writer, events of their sessions, and a node's care for its files."""

import asyncio
import logging
import uuid
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from django.conf import settings
from django.db import Error as AnyDatabaseError
from django.db import connection

from ingest import clock
from ingest.consumers import recorder
from ingest.consumers.active import ACTIVE, COUNTS, ActiveSession
from ingest.contracts import StatusSend
from ingest.contracts.connection import RecordEvent
from ingest.log_records import about
from ingest.models import Session
from ingest.services import recordings, sessions
from ingest.services.history import RecordRow
from ingest.services.history_writer import get_history
from ingest.thread_pool import ThreadPool

if TYPE_CHECKING:
    from ingest.telemetry.reading import Sampled

logger = logging.getLogger(__name__)

TIDY_S = 60.0

READ_S = 10.0
"""For the samples of one session."""
AFTER = timedelta(minutes=2)
"""They are looked for until so long after the end: that is when the node was last seen to write to the database."""
CLOSE = timedelta(minutes=1)
"""Samples that come as near to where they are looked for go on behind it."""
MOST_TRIES = 3
"""So often they are looked for. A lake that isn't shared has none of another node's."""

LEVELS = {"started": "status", "closed": "status", "failed": "error"}

NOT_ALLOWED = "The application does not allow recordings; the stream is live all the same."

WRITING: dict[str, ActiveSession] = {}
"""By session id: those that are recorded, from their accept until their last file is closed, which may be long after
their end."""

MOST_WRITING: Final = 10_000
"""A session whose publisher had gone when it was accepted is never said to be over: the oldest make room."""


def not_recorded(stream_id: int) -> StatusSend:
    """Tells a publisher of type record or append that it is only live. A status of level `error` would end FFmpeg."""
    return {
        "type": "rtmp.status.send",
        "stream_id": stream_id,
        "level": "warning",
        "code": "NetStream.Record.NoAccess",
        "description": NOT_ALLOWED,
    }


def expect(session: ActiveSession) -> None:
    if len(WRITING) >= MOST_WRITING:
        del WRITING[next((known for known in WRITING if known not in ACTIVE), next(iter(WRITING)))]
    WRITING[str(session.id)] = session


def note(event: RecordEvent) -> None:
    if event["state"] == "over":
        WRITING.pop(event["session_id"], None)
        return
    COUNTS.recorded(event["state"])
    get_history().put(RecordRow(uuid.UUID(event["session_id"]), clock.utc_now(), event))
    session = ACTIVE.get(event["session_id"]) or WRITING.get(event["session_id"])
    if session is None:  # The row needs no more than the id. The event does, whose number would be a guess.
        logger.warning(
            "Recording %s: %s. Its session %s is not known.", event["name"], event["state"], event["session_id"]
        )
        return
    if event["state"] == "failed":
        with about(session_id=event["session_id"], stream=session.path):
            logger.error("Recording %s failed: %s", session.path, event["description"])
    detail = {name: event[name] for name in ("name", "file", "duration_ms", "size_bytes", "dropped_frames")}
    happened = recorder.event_now(
        f"record.{event['state']}",
        level=LEVELS[event["state"]],
        code=event["code"],
        description=event["description"],
        detail=detail,
    )
    recorder.record(session, happened)


class RecordingMaintenance:
    """A node's rounds over what needs the disk, in a thread of their own: nothing waits for it.

    Recordings that a former process left open are closed first; what can't be closed yet is tried again each round. And
    sessions whose node died get the totals that their samples add up to.
    """

    def __init__(self, node: str) -> None:
        self._node = node
        self._due = 0.0
        self._has_recovered = False
        self._tried: Counter[uuid.UUID] = Counter()
        """How often samples were looked for in vain, by session."""
        self._is_ending = False
        self._thread = ThreadPool(1, "recording")
        self._idle = asyncio.Event()
        self._idle.set()

    def resume(self, now: float) -> None:
        """To be called each second or so, once the sessions that a former process left open have been ended; `now`:
        seconds of the loop's clock.
        """
        if self._idle.is_set() and now >= self._due:
            self._due = now + TIDY_S
            self._idle.clear()
            loop = asyncio.get_running_loop()
            writing = [session.id for session in WRITING.values()]
            self._thread.submit(lambda: self._run(loop, writing))

    async def stop(self, timeout_s: float) -> None:
        """Waits for the round that is under way, for so long at most."""
        self._is_ending = True
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), timeout_s)
        self._thread.close()

    def _run(self, loop: asyncio.AbstractEventLoop, writing: list[uuid.UUID]) -> None:
        try:
            self._round(writing)
        except AnyDatabaseError as error:
            logger.info("Recordings are looked after when the database answers: %s", type(error).__name__)
        finally:
            connection.close()
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._idle.set)

    def _round(self, writing: list[uuid.UUID]) -> None:
        if not self._has_recovered:
            left = list(recordings.unfinished(node=self._node, writing=writing))
            closed = sum(recordings.recover(recording) for recording in left)
            self._has_recovered = closed == len(left)
            if closed:
                logger.warning("Closed %d recordings that a former process of this node left open.", closed)
            if not self._has_recovered:
                logger.info(
                    "%d recordings can't be closed yet: they have another writer, or the folder fails.",
                    len(left) - closed,
                )
        tidied = recordings.tidy(
            now=clock.utc_now(), days=settings.RECORDINGS_DAYS, gib=settings.RECORDINGS_GIB, node=self._node
        )
        if tidied.count:
            logger.info(
                "Deleted recordings: %d replaced by newer ones, %d too old, %d over the size.",
                tidied.superseded,
                tidied.old,
                tidied.large,
            )
        self._fill_in()

    def _fill_in(self) -> None:
        """However many there are, each is looked for once a round."""
        now, filled = clock.utc_now(), 0
        done = {session for session, times in self._tried.items() if times >= MOST_TRIES}
        while rows := sessions.uncounted(now=now, besides=done, node=self._node):
            for row in rows:
                if self._is_ending:
                    return
                filled += self._fill(row, now)
                done.add(row.pk)
        if filled:
            logger.info("Filled in what %d sessions of dead nodes had counted, from their samples.", filled)

    def _fill(self, row: Session, now: datetime) -> bool:
        until = min((row.ended_at or now) + AFTER, now)
        sampled = _sampled(row, until)
        if sampled is not None and sampled.last_at > (until - CLOSE).timestamp():
            sampled = _sampled(row, now)  # It went on while the database was away that has its end.
        if sampled is None:
            self._tried[row.pk] += 1
            return False
        last_at = datetime.fromtimestamp(sampled.last_at, UTC)
        return sessions.fill_in(session=row.pk, totals=sampled.totals, last_at=last_at, now=now)


def _sampled(row: Session, until: datetime) -> "Sampled | None":
    from ingest.telemetry.reading import read_totals  # Arrow is loaded where samples are read.

    node = row.node.name if row.node is not None else ""
    since_us, until_us = (int(at.timestamp() * 1e6) for at in (row.started_at, until))
    return read_totals(settings.LAKE_DIR, str(row.pk), since_us, until_us, node=node, budget_s=READ_S)
