"""A live stream in memory: one publisher, its cached start for late players, and the fan-out to all players.

Players outlive publishers. When one leaves they are kept, and the next one's timestamps are shifted so that the
players' time goes on; where no player has a timeline yet, timestamps are relayed as they are.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from ingest.contracts import Health, Labels, MediaInfo, Sample, StreamState, Totals
from ingest.live.cache import CacheLimits, HeaderCache, PictureCache
from ingest.live.headers import (
    AUDIO_FIELDS,
    TOLD_BY_KEYFRAMES,
    VIDEO_FIELDS,
    Readings,
    describe_audio,
    describe_video,
)
from ingest.live.health import CHECKS, WARM_UP_S, Check, Figures, HealthEngine
from ingest.live.limit import BitrateLimit, LimitSettings
from ingest.live.media import Tag, audio_tag, video_tag
from ingest.live.metadata import claimed, sanitise
from ingest.live.meter import Audience, Meter
from ingest.live.publisher import Publisher
from ingest.live.shared import Kind, SharedMessage
from ingest.live.subscriber import QueueLimits, Subscriber, offer
from ingest.live.timeline import WRAP, difference

METADATA: Final = "onMetaData"
CLEAR: Final = "@clearDataFrame"
NOT_RELAYED: Final = frozenset({"|RtmpSampleAccess", "onStatus", "onPlayStatus"})
"""Data messages by which a server speaks to its players: a publisher's would end or mute them."""

SMALLEST_STEP_MS: Final = 40
"""Between the last message of one publisher and the first of the next, on the players' timeline."""
SETTLING_S: Final = 10.0
"""For so long after a change of publisher, a message that would go back before the change is held at it."""

FRESH_TRACK: Final = 256
"""More than any track id."""

MOST_FPS, MOST_KBPS = 1000, 1_000_000
"""What metadata may claim and be believed."""


class Busy(Exception):  # noqa: N818
    """The stream has a publisher."""


class NotPublishing(LookupError):  # noqa: N818
    """The session does not publish the stream (any more)."""


@dataclass(frozen=True, slots=True)
class LiveSettings:
    cache: CacheLimits = field(default_factory=CacheLimits)
    queue: QueueLimits = field(default_factory=QueueLimits)
    absence_s: float = 60.0
    """How long a stream without publisher and players is kept, and the longest gap put into the players' timeline."""
    checks: tuple[Check, ...] = CHECKS
    warm_up_s: float = WARM_UP_S
    """For so long a new session's health is not judged."""
    limit: LimitSettings = field(default_factory=LimitSettings)
    """How a key's bitrate limit is measured and held."""


class LiveStream:
    """`audio`, `video` and `data` are the media path; everything else is rare."""

    def __init__(self, path: str, labels: Labels, *, node: str, settings: LiveSettings) -> None:
        self.path = path
        self.app, _, self.name = path.partition("/")
        self.labels = labels
        self.node = node
        self.publisher: Publisher | None = None
        self.meter: Meter | None = None
        self.health: HealthEngine | None = None
        self.limit: BitrateLimit | None = None
        self.metadata: dict[str, Any] = {}
        """onMetaData as the publisher claims it, safe as JSON. Replaced as a whole, never changed in place."""
        self.media = MediaInfo()
        """What the sequence headers say; likewise."""
        self.subscribers: tuple[Subscriber, ...] = ()
        self.idle_since: float | None = None
        """Since when there has been neither publisher nor player, as the registry saw it."""
        self._settings = settings
        self._headers = HeaderCache()
        self._pictures = PictureCache(settings.cache)
        self._finished: list[Sample] = []
        self._departed = Audience()
        self._video_track = self._audio_track = FRESH_TRACK
        self._audio_form = -1
        self._readings = Readings()
        self._last_timestamp = 0
        self._last_arrival = 0.0
        self._shift = 0
        self._must_rebase = False
        self._before_first_frame = True
        self._floor = 0
        self._settled_at = 0.0

    # --- The publisher ---

    def start(self, publisher: Publisher, now: float) -> None:
        """A publisher begins. Raises Busy while there is one."""
        if self.publisher is not None:
            raise Busy(self.path)
        self._forget()
        self.publisher = publisher
        self.labels = publisher.labels
        self.meter = Meter(publisher, now, self.audience(now))
        self.health = HealthEngine(now, self._settings.checks, warm_up_s=self._settings.warm_up_s)
        self.limit = BitrateLimit(publisher.limits, self._settings.limit)
        self._video_track = self._audio_track = FRESH_TRACK
        self._audio_form = -1
        self._shift = 0
        self._must_rebase = any(subscriber.has_media for subscriber in self.subscribers)
        self._before_first_frame = True
        for subscriber in self.subscribers:
            subscriber.wait_for_keyframe()

    def stop(self, session_id: str, now: float) -> Totals:
        """The session ends; players are kept and wait. Raises NotPublishing.

        The time since the last tick becomes a last sample, which the next tick hands out.
        """
        publisher, meter = self.publisher, self.meter
        if publisher is None or meter is None or publisher.session_id != session_id:
            raise NotPublishing(session_id)
        try:
            self._finished.append(self._sample(meter, now))
        finally:  # Whatever happens, the name is free for the next publisher.
            self.publisher = self.meter = self.health = self.limit = None
            self._forget()
        return meter.totals

    def _forget(self) -> None:
        """What a player can't use any more once its publisher is gone."""
        self._headers.clear()
        self._pictures.clear()
        self.metadata = {}
        self.media = MediaInfo()

    # --- The media path ---

    def video(self, timestamp: int, payload: bytes, now: float) -> None:
        """A message of type 9."""
        meter = self.meter
        if meter is None or not payload:
            return
        tag = video_tag(payload)
        # The lowest track stands for the stream: others add to the bitrate, not to frames and keyframes.
        is_main = tag.track <= self._video_track
        if is_main:
            self._video_track = tag.track
        is_keyframe = tag.is_keyframe and is_main
        is_frame = tag.is_frame and is_main
        meter.video(timestamp, len(payload), now, is_frame, is_keyframe)
        if tag.is_header:
            self._header("video", tag, timestamp, payload, now)
            if is_main and tag.is_sequence_start and self._readings.allows(now):
                self._describe(describe_video(self.media, tag, payload), VIDEO_FIELDS)
            return
        if is_keyframe and ("width" not in self.media or tag.codec in TOLD_BY_KEYFRAMES) and self._readings.allows(now):
            self._describe(describe_video(self.media, tag, payload), VIDEO_FIELDS)
        at = self._timeline(timestamp, now, is_frame=tag.is_frame)
        self._pictures.add("video", at, payload, now, is_frame, is_keyframe)
        if self.subscribers:
            offer(SharedMessage("video", at, payload, now, is_frame, is_keyframe), self.subscribers)

    def audio(self, timestamp: int, payload: bytes, now: float) -> None:
        """A message of type 8. An empty one is relayed: it stands for silence."""
        meter = self.meter
        if meter is None:
            return
        tag = audio_tag(payload)
        is_main = tag.track <= self._audio_track
        if is_main:
            self._audio_track = tag.track
        is_frame = tag.is_frame and is_main
        meter.audio(timestamp, len(payload), now, is_frame)
        if tag.is_header:
            self._header("audio", tag, timestamp, payload, now)
            if is_main and self._readings.allows(now):
                self._audio_form = payload[0]
                self._describe(describe_audio(self.media, tag, payload), AUDIO_FIELDS)
            return
        if payload and payload[0] != self._audio_form and is_main and self._readings.allows(now):
            # Formats without a header tell what they are in each message.
            self._audio_form = payload[0]
            self._describe(describe_audio(self.media, tag, payload), AUDIO_FIELDS)
        at = self._timeline(timestamp, now, is_frame=tag.is_frame)
        self._pictures.add("audio", at, payload, now, is_frame)
        if self.subscribers:
            offer(SharedMessage("audio", at, payload, now, is_frame), self.subscribers)

    def data(self, timestamp: int, name: str, values: list[Any], payload: bytes, now: float) -> None:
        """A data message: `name` with its `values`, and `payload` as it is to be relayed."""
        meter = self.meter
        if meter is None:
            return
        meter.data(len(payload))
        if name == METADATA:
            self._header("data", METADATA_TAG, timestamp, payload, now)
            self.metadata = sanitise(values[0] if values else None)
            self._tell()
        elif name == CLEAR:
            self._headers.drop("data", METADATA_TAG.slot)
            self.metadata = {}
            self._tell()
        elif name not in NOT_RELAYED:
            at = self._timeline(timestamp, now, is_frame=False)
            self._pictures.add("data", at, payload, now, is_frame=False)
            offer(SharedMessage("data", at, payload, now), self.subscribers)

    def _header(self, kind: Kind, tag: Tag, timestamp: int, payload: bytes, now: float) -> None:
        at = self._timeline(timestamp, now, is_frame=False)
        if self._before_first_frame:
            # Who joins now is given the headers with the time that they came with, not the former publisher's.
            self._last_timestamp = at
        is_kept = self._headers.takes(kind, tag.slot)
        message = SharedMessage(kind, at, payload, now, is_header=is_kept, slot=tag.slot)
        if not is_kept:
            self._pictures.add(kind, at, payload, now, is_frame=False)
        elif self._headers.put(message) and kind != "data":
            # The cached group of pictures was coded under the former header.
            self._pictures.clear()
        offer(message, self.subscribers)

    def _timeline(self, timestamp: int, now: float, *, is_frame: bool) -> int:
        """The players' timestamp for the publisher's."""
        if self._must_rebase:
            if not is_frame:
                # Headers often carry a time that has nothing to do with the first frame's.
                return self._last_timestamp
            away_ms = min(round((now - self._last_arrival) * 1000), round(self._settings.absence_s * 1000))
            self._floor = (self._last_timestamp + max(away_ms, SMALLEST_STEP_MS)) % WRAP
            self._shift = (self._floor - timestamp) % WRAP
            self._settled_at = now + SETTLING_S
            self._must_rebase = False
        if self._shift:
            timestamp = (timestamp + self._shift) % WRAP
            if now < self._settled_at and difference(timestamp, self._floor) < 0:
                timestamp = self._floor
        if is_frame:
            self._last_timestamp = timestamp
            self._last_arrival = now
            self._before_first_frame = False
        return timestamp

    def _describe(self, info: MediaInfo, replaced: tuple[str, ...]) -> None:
        """Take over what a header says, in place of the fields that it replaces; tell when that changes anything."""
        media = MediaInfo(**{**{key: value for key, value in self.media.items() if key not in replaced}, **info})  # type: ignore[typeddict-item]
        if media != self.media:
            self.media = media
            self._tell()

    def _tell(self) -> None:
        if self.publisher is not None and self.publisher.described is not None:
            self.publisher.described(self.metadata, self.media)

    # --- Players ---

    def subscribe(self, subscriber: Subscriber, now: float) -> None:
        """A player joins: it is given the headers and the group of pictures so far, or waits for a publisher."""
        pictures = self._pictures
        starts_at = pictures.starts_at
        headers = self._headers.at(self._last_timestamp if starts_at is None else starts_at)
        subscriber.begin([*headers, *pictures.messages], now, at_keyframe=starts_at is not None)
        self.subscribers = (*self.subscribers, subscriber)

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """The player leaves. What it was sent stays in the stream's figures."""
        if subscriber in self.subscribers:
            self.subscribers = tuple(other for other in self.subscribers if other is not subscriber)
            self._departed = _joined(self._departed, (subscriber,))

    def audience(self, now: float) -> Audience:
        """The players' figures, those that left included in what was sent and dropped."""
        slow = sum(1 for subscriber in self.subscribers if subscriber.slow_since(now) is not None)
        return _joined(self._departed, self.subscribers, players=len(self.subscribers), slow_players=slow)

    # --- Once a second ---

    @property
    def state(self) -> StreamState:
        if self.meter is not None and self.meter.has_media:
            return "live"
        return "waiting" if self.publisher is not None or self.subscribers else "offline"

    @property
    def health_word(self) -> Health:
        """The worst open issue; none while there is nothing to judge."""
        if self.meter is None or self.health is None or not (self.meter.has_media or self.health.issues):
            return "none"
        return self.health.worst

    @property
    def target_kbps(self) -> int | None:
        """Of the video: what the key says, else what the metadata claims."""
        if self.publisher is None:
            return None
        target = self.publisher.limits["target_kbps"] or claimed(self.metadata, "videodatarate", most=MOST_KBPS)
        return round(target) if target else None

    def tick(self, now: float, wall: float) -> list[Sample]:
        """Samples since the last tick: the last ones of sessions that ended, and one of the session that goes on."""
        samples, self._finished = self._finished, []
        meter, health, limit, publisher = self.meter, self.health, self.limit, self.publisher
        if meter is not None and health is not None and limit is not None and publisher is not None:
            meter.set_wall(now, wall)
            health.update(
                Figures(
                    idle_s=meter.idle_s(now),
                    no_audio_s=meter.without_audio_s if publisher.limits["expect_audio"] else None,
                    no_video_s=meter.without_video_s if publisher.limits["expect_video"] else None,
                    keyframe_intervals=tuple(meter.keyframe_intervals),
                    open_gop_s=meter.open_gop_s,
                    sent_kbps=limit.kbps,
                    max_kbps=limit.max_kbps,
                ),
                now,
                wall,
            )
            sample = self._sample(meter, now)
            limit.add(sample.wire_bytes, sample.elapsed_ms, now)
            samples.append(sample)
        return samples

    def breach(self, now: float) -> str:
        """Why the publisher's session must end now, as a sentence; "" while it need not."""
        return self.limit.breach(now) if self.limit is not None else ""

    def _sample(self, meter: Meter, now: float) -> Sample:
        return meter.sample(
            now,
            node=self.node,
            app=self.app,
            name=self.name,
            audience=self.audience(now),
            health=self.health_word,
            claimed_fps=claimed(self.metadata, "framerate", most=MOST_FPS),
        )

    @property
    def is_idle(self) -> bool:
        """Nobody publishes or plays, and no sample waits to be handed out."""
        return self.publisher is None and not self.subscribers and not self._finished


METADATA_TAG: Final = Tag("", is_header=True)


def _joined(
    before: Audience, subscribers: tuple[Subscriber, ...], *, players: int = 0, slow_players: int = 0
) -> Audience:
    return Audience(
        players=players,
        slow_players=slow_players,
        out_bytes=before.out_bytes + sum(subscriber.sent_bytes for subscriber in subscribers),
        dropped_frames=before.dropped_frames + sum(subscriber.dropped_frames for subscriber in subscribers),
    )
