"""A live stream in memory: one publisher, its log, and the fan-out to all players; and all live streams of a node.

Players outlive publishers. When one leaves they are kept, and their time goes on with the next one's (see
`timeline`)."""

from collections.abc import Callable
from math import inf

from ingest.contracts import Labels, MediaCounters, Sample, StreamState, Totals
from ingest.live.counters import NOTHING_COUNTED, NOTHING_READ, Audience, Publisher, sum_counters
from ingest.live.fanout import Several
from ingest.live.media_path import MediaPath
from ingest.live.message import Kind
from ingest.live.meter import Meter
from ingest.live.publication import LiveSettings, Publication
from ingest.live.relayed import RelayedAudience, sum_audiences
from ingest.live.stream_log import LogMemory
from ingest.live.subscriber import Subscriber


class Busy(Exception):  # noqa: N818
    """The stream has a publisher."""


class NotPublishing(LookupError):  # noqa: N818
    """The session does not publish the stream (any more)."""


Wake = Callable[["LiveStream", bool], object]
"""A stream has something to deliver: soon, or (True) with the next turn. Called once for each, until it delivers."""


class LiveStream(MediaPath):
    """Its publisher, its players, and what is told of it once a second."""

    def __init__(self, path: str, labels: Labels, registry: "Registry") -> None:
        super().__init__(registry.settings, registry.caches, registry.wake)
        self.path = path
        self.app, _, self.name = path.partition("/")
        self.labels = labels
        self.node = registry.node
        self.is_relayed = False
        """It is published on another node, which tells of it: here only its players are."""
        self.told_keyframes_s: float | None = None
        """How far apart its keyframes are, as the node said from which it comes."""
        self.beyond = RelayedAudience()
        self._audience = Audience()
        """The players here."""
        self._received = NOTHING_COUNTED
        """Of the sessions that are over."""
        self.idle_since: float | None = None
        """Since when there has been neither publisher nor player, as the registry saw it."""
        self.left_at: float | None = None
        """When the latest of its publishers that sent media left; None: none has."""
        self._departures = 0
        """The number of publishers that have sent media and left."""
        self._finished: list[Sample] = []

    @property
    def publisher(self) -> Publisher | None:
        return self.publication.publisher if self.publication is not None else None

    @property
    def keyframe_interval_s(self) -> float | None:
        """The longest time between two keyframes of late; None: it is not known yet."""
        intervals = self.publication.meter.keyframe_intervals if self.publication is not None else ()
        return max(intervals, default=self.told_keyframes_s)

    # --- The publisher ---

    def start(self, publisher: Publisher, now: float) -> None:
        """A publisher begins. Raises Busy while there is one."""
        if self.publication is not None:
            raise Busy(self.path)
        self._forget()
        self.labels = publisher.labels
        meter = Meter(publisher, now, self._count_audience(now), self.node, self.app, self.name)
        self.publication = Publication(meter, self._settings)
        arrival = self.time.latest_arrival
        if arrival is not None and any(subscriber.has_media for subscriber in self.subscribers):
            self._begin_time((self.time.latest, arrival))
        else:
            self._begin_time(None)
        self._without_video = True
        self._fanout.all_leave_live_edge()
        for subscriber in self._everyone:
            subscriber.wait_for_keyframe()

    def stop(self, session_id: str, now: float) -> Totals:
        """The session ends; players are kept and wait. Raises NotPublishing.

        The time since the last tick becomes a last sample, which the next tick hands out.
        """
        publication = self.publication
        if publication is None or publication.publisher.session_id != session_id:
            raise NotPublishing(session_id)
        meter = publication.meter
        try:
            self.deliver()
            self.gather()
            last = publication.last(now, self._count_audience(now))
            if not self.is_relayed:
                self._finished.append(last)
        finally:  # Whatever happens, the name is free for the next publisher.
            self._received = self.counters
            if meter.has_media:
                self.left_at = now
                self._departures += 1
            self.publication = self.told_keyframes_s = None
            self._forget()
            for subscriber in self._everyone:
                if subscriber.on_unpublished is not None:
                    subscriber.on_unpublished()
        return meter.totals

    def pause(self, now: float) -> None:
        if self.publication is not None:
            self.publication.meter.pause(now)

    def resume(self, now: float) -> None:
        if self.publication is not None:
            self.publication.meter.resume(now)

    # --- Players ---

    @property
    def subscribers(self) -> Several:
        return self._fanout.players

    @property
    def _everyone(self) -> Several:
        return (*self._taps.players, *self._fanout.players)

    @property
    def player_count(self) -> int:
        """Those of other nodes included."""
        return self._fanout.count + self.beyond.total.players

    @property
    def audience(self) -> Audience:
        """All players, here and beyond, as of the latest tick."""
        return sum_audiences((self._audience, self.beyond.total))

    def subscribe(self, subscriber: Subscriber, now: float, *, cached: bool = True) -> None:
        """A player joins: it is given the headers and the group of pictures so far, or waits for a publisher.

        Without what is `cached` it is given what comes from now on; `cache` has what was before.
        """
        self.deliver()
        subscriber.departures = self._departures
        if cached:
            self._begin(subscriber, now)
        else:
            subscriber.begin((), now, at_keyframe=self.lacks_keyframes)
        self._fanout.join(subscriber)
        if len(self.subscribers) == 1:
            self._notify_publisher()

    def unsubscribe(self, subscriber: Subscriber) -> None:
        self._fanout.leave(subscriber)
        self.beyond.leave(subscriber)
        if not self.subscribers:
            self._notify_publisher()

    def _notify_publisher(self) -> None:
        if self.publisher is not None and self.publisher.on_watched is not None:
            self.publisher.on_watched()

    def catch_up(self, subscriber: Subscriber) -> None:
        """It has taken all that it was given, and its peer takes more: it may be given the same as others."""
        self._fanout.catch_up(subscriber, without_video=self._without_video)

    def tap(self, subscriber: Subscriber, now: float) -> None:
        """Media go to `subscriber` too, from the last keyframe on; it counts as no player and keeps no stream."""
        self.gather()
        self._begin(subscriber, now)
        self._taps.join(subscriber)

    def untap(self, subscriber: Subscriber) -> None:
        self.gather()
        self._taps.leave(subscriber)

    def has_ended(self, subscriber: Subscriber, now: float, patience_s: float) -> bool:
        """Return whether the stream is over for this player: it has everything, and its publisher is gone for good.

        The publisher has left after the player joined, and has been away for `patience_s`. A player that joined after
        the publisher had left waits for the next one.
        """
        left_at = self.left_at
        if self.publisher is not None or left_at is None or subscriber.pending_messages:
            return False
        return subscriber.departures < self._departures and now - left_at >= patience_s

    def mute(self, subscriber: Subscriber, kinds: frozenset[Kind], now: float) -> None:
        """The player is sent none of these kinds any more, of what waits for it neither, and all of the others.

        What it is sent again begins with the headers that have changed meanwhile, video then at its next keyframe, if
        one is to be waited for.
        """
        if kinds == subscriber.muted.keys():
            return
        self.deliver()
        wanted = self._fanout.mute(subscriber, kinds, now)
        subscriber.forget(kinds)
        if wanted:
            headers = self.cache.headers_for(subscriber, self.time.latest)
            subscriber.catch_up(header for header in headers if header.arrived >= wanted.get(header.kind, inf))
        if "video" in wanted:
            if self.lacks_keyframes:
                subscriber.begin_anywhere()
            else:
                subscriber.wait_for_keyframe()

    def _begin(self, subscriber: Subscriber, now: float) -> None:
        self.cache.begin(subscriber, now, self.time.latest, anywhere=self.lacks_keyframes)

    # --- Once a second ---

    @property
    def state(self) -> StreamState:
        if self.publication is not None and self.publication.is_live:
            return "live"
        return "waiting" if self.publication is not None or self.subscribers else "offline"

    @property
    def lacks_keyframes(self) -> bool:
        """Who waits for video waits for no keyframe: there is none to come."""
        return self.publication is not None and self.publication.meter.lacks_keyframes

    @property
    def counters(self) -> MediaCounters:
        """Since the stream was made, whoever published it; as of the latest tick."""
        before, now = self._received, self.publication.meter.reading if self.publication else NOTHING_READ
        return MediaCounters(
            received_bytes=before["received_bytes"] + now.video_bytes + now.audio_bytes + now.data_bytes,
            sent_bytes=self._audience.out_bytes + self.beyond.here.out_bytes,
            video_frames=before["video_frames"] + now.video_frames,
            audio_frames=before["audio_frames"] + now.audio_frames,
            dropped_frames=self._audience.dropped_frames,
        )

    def tick(self, now: float, wall: float) -> list[Sample]:
        """Samples since the last tick: the last ones of sessions that ended, and one of the session that goes on."""
        samples, self._finished = self._finished, []
        kbps = self.publication.meter.wire_kbps if self.publication is not None else None
        audience = self._count_audience(now, kbps)
        if self.publication is not None:
            sample = self.publication.tick(now, wall, audience)
            if not self.is_relayed:
                samples.append(sample)
        if self._log.is_read and self.lacks_keyframes:
            for subscriber in self._everyone:
                subscriber.begin_anywhere()
        return samples

    def _count_audience(self, now: float, kbps: float | None = None) -> Audience:
        self._audience = self._fanout.audience(now, kbps)
        self.beyond.forget_silent(now)
        return self.audience

    @property
    def is_idle(self) -> bool:
        return self.publication is None and not self.subscribers and not self._finished


class Registry:
    def __init__(self, node: str, settings: LiveSettings | None = None, wake: Wake | None = None) -> None:
        self.node = node
        self.settings = settings or LiveSettings()
        self.caches = LogMemory(self.settings.caches_bytes)
        self.wake = wake
        self.streams: dict[str, LiveStream] = {}
        """By path: app/name."""
        self.forgotten = NOTHING_COUNTED
        """What was counted of the streams that are no longer here."""

    def get(self, path: str) -> LiveStream | None:
        return self.streams.get(path)

    def get_or_create(self, path: str, labels: Labels) -> LiveStream:
        """A player may be the first to ask for a stream; it waits in it for the publisher."""
        stream = self.streams.get(path)
        if stream is None:
            stream = self.streams[path] = LiveStream(path, labels, self)
        return stream

    def discard_idle(self, now: float) -> list[LiveStream]:
        """Forget, and return, the streams that nobody has published or played for longer than the absence allowed."""
        gone: list[LiveStream] = []
        for stream in self.streams.values():
            if not stream.is_idle:
                stream.idle_since = None
            elif stream.idle_since is None:
                stream.idle_since = now
            elif now - stream.idle_since > self.settings.absence_s:
                gone.append(stream)
        for stream in gone:
            del self.streams[stream.path]
        if gone:
            self.forgotten = sum_counters((self.forgotten, *(stream.counters for stream in gone)))
        return gone
