"""Whose picture is made next, looked at once a second, and what becomes of it.

A stream is due when it has had no picture for `watched_s`, or `unwatched_s` where nobody looks at it, and a keyframe
has come since. Of those that are due, the most overdue go first; so with more streams than the pace allows each has its
turn less often. It costs the event loop a look at each stream and a copy of some keyframes, each second.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from math import inf
from typing import Any

from ingest.contracts import NodeThumbnail
from ingest.live import LiveStream, Publisher, Registry
from ingest.server.thumbs.process import PROGRAM, Answer, Job, LostError, Painter
from ingest.server.thumbs.request import request_of
from ingest.server.thumbs.settings import ThumbnailSettings

logger = logging.getLogger(__name__)

WARN_S = 60.0
"""Between two lines of the log on processes that were lost."""


@dataclass(slots=True)
class _Turn:
    """A stream's last try."""

    session: str = ""
    at: float = -inf
    keyframe: float = -inf
    """When it arrived."""
    failures: int = 0
    """One after the other; a new session is tried at once, but they count on."""
    is_waiting: bool = False
    """For the decoder."""


class Thumbnails:
    """For one node. `tell` hands an event to its application."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        registry: Registry,
        settings: ThumbnailSettings,
        tell: Callable[[Any], object],
        program: tuple[str, ...] = PROGRAM,
    ) -> None:
        self._loop = loop
        self._registry = registry
        self._settings = settings
        self._tell = tell
        self._painter = Painter(settings, program)
        self._turns: dict[str, _Turn] = {}
        self._watched: frozenset[str] = frozenset()
        self._waiting: dict[int, int] = {}
        """Bytes of each keyframe that waits for the decoder, by its number."""
        self._asked = 0
        self._warned = -inf
        self._closed = False

    def watch(self, paths: Collection[str]) -> None:
        """From now on somebody looks at these, and at no others."""
        self._watched = frozenset(paths)

    def tick(self, now: float) -> None:
        """Once a second: asks for the pictures of those that are most overdue, until enough wait."""
        settings, streams = self._settings, self._registry.streams
        if len(self._turns) > 2 * len(streams) + 100:
            self._turns = {path: turn for path, turn in self._turns.items() if path in streams}
        due = [(overdue, stream) for stream in streams.values() if (overdue := self._due(stream, now)) >= 1]
        for _, stream in sorted(due, key=lambda each: -each[0]):
            if len(self._waiting) >= settings.per_s or sum(self._waiting.values()) >= settings.waiting_bytes:
                return
            self._ask(stream, stream.publisher, now)

    def _due(self, stream: LiveStream, now: float) -> float:
        """How much of its interval is over: from 1 on it is due."""
        if stream.publisher is None:
            return 0.0
        turn = self._turns.get(stream.path)
        if turn is None or turn.session != stream.publisher.session_id:
            return inf
        if turn.is_waiting:
            return 0.0
        settings = self._settings
        interval_s = settings.watched_s if stream.path in self._watched else settings.unwatched_s
        if turn.failures:
            interval_s = min(max(interval_s, settings.unwatched_s) * 2.0 ** min(turn.failures, 16), settings.again_s)
        return (now - turn.at) / interval_s

    def _ask(self, stream: LiveStream, publisher: Publisher | None, now: float) -> None:
        """Has the decoder look at the stream's keyframe, if another has come and may be decoded."""
        turn = self._turns.setdefault(stream.path, _Turn())
        if publisher is not None and turn.session != publisher.session_id:
            turn.session, turn.is_waiting = publisher.session_id, False
            turn.at = turn.keyframe = -inf
        found = stream.keyframe(turn.keyframe, self._settings.keyframe_bytes)
        if found is None:
            return
        turn.at, turn.keyframe = now, found.arrived
        request = request_of(found, self._settings.side)
        if request is None:
            return
        self._asked += 1
        number = self._asked
        turn.is_waiting = True
        self._waiting[number] = len(request.header) + len(request.keyframe)
        picture: NodeThumbnail = {
            "type": "node.thumbnail",
            "path": stream.path,
            "session_id": turn.session,
            "at_ms": time.time_ns() // 1_000_000,
            "image": b"",
        }

        def done(answer: Answer | LostError) -> None:
            self._loop.call_soon_threadsafe(self._done, number, picture, answer)

        self._painter.submit(Job(request, done))

    def _done(self, number: int, picture: NodeThumbnail, answer: Answer | LostError) -> None:
        del self._waiting[number]
        turn = self._turns.get(picture["path"])
        if self._closed or turn is None or turn.session != picture["session_id"]:
            return
        turn.is_waiting = False
        if isinstance(answer, Answer) and answer.image:
            turn.failures = 0
            self._tell(picture | {"image": answer.image})
            return
        turn.failures += 1
        if isinstance(answer, LostError):
            self._warn(picture["path"], answer)
        else:
            logger.debug("No thumbnail of %s: %s", picture["path"], answer.reason)

    def _warn(self, path: str, error: LostError) -> None:
        now = self._loop.time()
        if now - self._warned >= WARN_S:
            self._warned = now
            logger.warning(
                "The thumbnails' decoder was lost over a keyframe of %s: %s. It starts again with the next picture; "
                "media are not concerned. RTMPWEB_THUMBNAILS_S=0 does without thumbnails.",
                path,
                error,
            )

    async def close(self, timeout_s: float) -> None:
        """Returns when the process has ended."""
        self._closed = True
        await asyncio.to_thread(self._painter.close, timeout_s)
