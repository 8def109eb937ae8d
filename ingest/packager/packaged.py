"""A live stream that is packaged: it takes what a player would, once for all of its viewers, and answers what they ask
for, at once or when it comes into being."""

import asyncio
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from ingest import clock
from ingest.hls import HlsSettings, Packaging, Rendition, Segment
from ingest.live import LiveStream, QueueLimits, Subscriber
from ingest.live.counters import Audience
from ingest.live.message import STREAM_ID, SharedMessage
from ingest.live.publication import Publication
from ingest.packager.answers import Body, Content, make_body
from ingest.packager.requests import Target
from ingest.packager.rewind import Key, NotReady
from ingest.packager.settings import PackagerSettings
from ingest.packager.viewers import Viewer
from ingest.rtmp.limits import MIB
from ingest.server.connection_base import Server

QUEUE: Final = QueueLimits(messages=100_000, size_bytes=256 * MIB, seconds=60.0, disposable_at=1.0, slow_share=1.0)
"""Nothing is left in it for longer than a turn of the loop: what is joined may be a long group of pictures."""

BATCH_BYTES: Final = 16 * MIB
EPOCH_BYTES: Final = 4


PLAIN_SEGMENTS: Final = 2
"""Whole ones that a first playlist has. FFmpeg, GStreamer and hls.js fail with parts alone, and GStreamer's hlsdemux2
(1.22) does not go on from a playlist of one. Pages are given one: who begins with parts needs no more."""


@dataclass(frozen=True, eq=False, slots=True)
class Waiter:
    is_over: Callable[[], bool]
    release: Callable[[], None]
    until: float
    """The loop's time, after which it waits no longer."""


class Connection(Protocol):
    viewer: str
    """The id of the one whose playlists were asked for by it last."""


class PackagedStream:
    def __init__(
        self,
        server: Server,
        live: LiveStream,
        settings: PackagerSettings,
        hls: HlsSettings,
        *,
        is_always: bool = False,
        keep: Callable[[Key, bytes], None] | None = None,
    ) -> None:
        """`keep`: takes each segment, for viewers who go back further than memory does."""
        self._server, self.live, self._settings = server, live, settings
        self._loop = server.loop
        self.is_always = is_always
        self.viewers = 0
        self.asked_at = self._loop.time()
        """By the latest request."""
        self.epoch = secrets.token_hex(EPOCH_BYTES)
        self.packaging = Packaging(
            hls,
            epoch=self.epoch,
            first_msn=int(clock.now()),
            on_change=self._changed,
            on_segment=partial(self._keep, keep) if keep is not None else None,
        )
        self._publication: Publication | None = None
        """Whose media were taken last."""
        self._waiting: dict[str, dict[Waiter, None]] = {}
        """By rendition."""
        self._starting: set[asyncio.Future[None]] = set()
        self._playlists: dict[tuple[str, bool], tuple[str, Body]] = {}
        self.sent_bytes = self._told_bytes = 0
        self.is_closed = False
        now = self._loop.time()
        self.subscriber = Subscriber(
            STREAM_ID,
            QUEUE,
            lambda _subscriber: self._take_soon(),
            is_counted=False,
            passes_on_to="viewers",
            on_unpublished=self._take_soon,
        )
        live.subscribe(self.subscriber, now)
        live.beyond.join(self.subscriber, "")

    # --- What comes ---

    def _take_soon(self) -> None:
        """What came, or that nothing more comes of this publisher."""
        self._loop.call_soon(self._take)

    def _take(self) -> None:
        if self.is_closed:
            return
        wall, packaging = clock.now(), self.packaging
        while self.subscriber.pending_messages:
            for message in self.subscriber.take_messages(BATCH_BYTES):
                if self._publication is not self.live.publication and not self._is_of_former(message):
                    self._follow_publisher()
                packaging.take(message.kind, message.timestamp, message.payload, wall)
        self._follow_publisher()
        if self._starting and (packaging.is_ready or packaging.is_unfit):
            _release(self._starting)

    def _is_of_former(self, message: SharedMessage) -> bool:
        """Whether what waited is of the publisher before, who has left meanwhile."""
        publication = self.live.publication
        if self._publication is None:
            return False
        return publication is None or message.arrived < publication.meter.started

    def _follow_publisher(self) -> None:
        publication = self.live.publication
        if publication is self._publication:
            return
        if self._publication is not None:
            self.packaging.end(for_good=False)
        self._publication = publication
        if publication is not None:
            self.packaging.begin(clock.now(), self.live.keyframe_interval_s)

    def tick(self, now: float) -> None:
        """Each second."""
        self._take()
        if self._publication is None and self.live.has_ended(
            self.subscriber, now, self._server.config.deadlines.end_players_s
        ):
            self.packaging.end(for_good=True)
        for name in self._waiting:
            self._release_waiters(name, lambda waiter: waiter.until <= now)
        sent, self._told_bytes = self.sent_bytes - self._told_bytes, self.sent_bytes
        who = Audience(players=self.viewers, viewers=self.viewers, out_bytes=sent)
        self.live.beyond.tell(self.subscriber, who, now)

    @property
    def loop_time(self) -> float:
        return self._loop.time()

    @property
    def has_ended(self) -> bool:
        renditions = self.packaging.renditions.values()
        return bool(renditions) and all(rendition.is_ended for rendition in renditions)

    @property
    def is_published(self) -> bool:
        return self.live.publication is not None

    def touch(self, viewer: Viewer | None, by: Connection | None) -> None:
        """Its playlist was asked for. `by`: the connection, of which that viewer's other requests may be."""
        self.asked_at = self._loop.time()
        if viewer is not None and viewer.path == self.live.path:
            viewer.asked_at = self.asked_at
            if by is not None:
                by.viewer = viewer.id

    def count(self, viewer: Viewer | None, size_bytes: int) -> None:
        """So much is sent of it."""
        self.sent_bytes += size_bytes
        if viewer is not None and viewer.path == self.live.path:
            viewer.sent_bytes += size_bytes

    def is_idle(self, now: float) -> bool:
        if self.viewers or (self.is_always and not self.has_ended):
            return False
        return now - self.asked_at >= self._settings.idle_s

    def _keep(self, keep: Callable[[Key, bytes], None], rendition: Rendition, segment: Segment) -> None:
        data = rendition.segment(segment.msn)
        if data is not None:
            keep(Key(self.epoch, rendition.name, segment.msn), data)

    def close(self) -> None:
        self.is_closed = True
        self.live.unsubscribe(self.subscriber)
        for name in self._waiting:
            self._release_waiters(name, lambda waiter: True)
        _release(self._starting)

    # --- What is asked for ---

    def _changed(self, rendition: Rendition) -> None:
        if self._waiting.get(rendition.name):
            self._release_waiters(rendition.name, lambda waiter: waiter.is_over())

    def _release_waiters(self, name: str, is_over: Callable[[Waiter], bool]) -> None:
        waiting = self._waiting[name]
        over = [waiter for waiter in waiting if is_over(waiter)]
        for waiter in over:
            del waiting[waiter]
        for waiter in over:
            waiter.release()

    async def ready(self) -> None:
        """Once it can be watched. Raises NotReady: not in time, or not at all."""
        if not self.packaging.is_ready and not self.packaging.is_unfit:
            future = self._loop.create_future()
            self._starting.add(future)
            try:
                await self._wait(future, self._settings.ready_s)
            finally:
                self._starting.discard(future)
        if not self.packaging.is_ready:
            raise NotReady

    async def wait_for(self, rendition: Rendition, msn: int, part: int | None) -> None:
        """Returns when it is there, or nothing more will come, or it takes too long."""
        await self._wait_until(rendition, lambda: rendition.is_ended or rendition.has(msn, part))

    async def wait_for_segments(self, rendition: Rendition, count: int) -> None:
        """The same, for so many whole ones in all, while there is a publisher."""
        msn = rendition.media_sequence + count - 1
        await self._wait_until(rendition, lambda: self.live.publication is None or rendition.has(msn))

    async def wait_for_part(self, rendition: Rendition, msn: int, part: int) -> None:
        """The same, of a part that a hint has named: its segment may end before it."""
        await self._wait_until(rendition, lambda: not rendition.awaits(msn, part))

    async def _wait_until(self, rendition: Rendition, is_over: Callable[[], bool]) -> None:
        if self.is_closed or is_over():
            return
        future = self._loop.create_future()
        cancel = self.hold(rendition, is_over, partial(_release, [future]))
        try:
            await future
        finally:
            cancel()

    def hold(
        self, rendition: Rendition, is_over: Callable[[], bool], release: Callable[[], None]
    ) -> Callable[[], object]:
        """`release` is called once: when it is over, or lasts too long, or the stream is packaged no more. What is
        returned is for who waits no longer."""
        most_s = min(self._settings.blocked_s, 3.0 * rendition.targets.duration_s)
        waiter = Waiter(is_over, release, self._loop.time() + most_s)
        waiting = self._waiting.setdefault(rendition.name, {})
        waiting[waiter] = None
        return partial(waiting.pop, waiter, None)

    async def _wait(self, future: "asyncio.Future[None]", most_s: float) -> None:
        timer = self._loop.call_later(most_s, _release, [future])
        try:
            await future
        finally:
            timer.cancel()

    def playlist(self, rendition: Rendition, *, skip: bool = False) -> Body:
        """Made once for all who ask."""
        text = rendition.playlist(skip=skip)
        found = self._playlists.get((rendition.name, skip))
        if found is None or found[0] is not text:
            found = self._playlists[rendition.name, skip] = (text, make_body(text))
        return found[1]

    def content(self, rendition: Rendition, target: Target) -> Content | None:
        """Of a file that is in memory, of which there is one copy for all."""
        if target.kind == "init":
            return rendition.init(target.number)
        if target.kind == "part":
            return rendition.part(target.number, target.part)
        return rendition.segment(target.number)


def _release(futures: "Iterable[asyncio.Future[None]]") -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
