"""A live stream in memory: one publisher, its cached start for late players, and the fan-out to all players.

Players outlive publishers. When one leaves they are kept, and their time goes on with the next one's (see `repair`).
"""

from collections.abc import Mapping
from math import inf
from typing import Any, Final

from ingest.contracts import Health, HealthRule, Issue, Labels, MediaCounters, MediaInfo, Sample, StreamState, Totals
from ingest.live.cache import CacheMemory, HeaderCache, Keyframe, PictureCache, last_keyframe
from ingest.live.counted import NOTHING_COUNTED, Audience, added
from ingest.live.description import Description, MediaKind
from ingest.live.extended import EVERYTHING, ExtendedMessage, fitting
from ingest.live.headers import TOLD_BY_KEYFRAMES
from ingest.live.judging import Judging
from ingest.live.media import Tag, audio_tag, video_tag
from ingest.live.metadata import METADATA, DataFrames, claimed, encoder_name, sanitise
from ingest.live.meter import Meter, Second
from ingest.live.publisher import Publisher
from ingest.live.queue import offer
from ingest.live.repair import PlayersTime
from ingest.live.settings import LiveSettings
from ingest.live.shared import METADATA_AT, METADATA_SLOT, Kind, SharedMessage
from ingest.live.subscriber import Subscriber
from ingest.live.takers import Several, Takers
from ingest.rtmp.media.kinds import NO_TRACK

CLEAR: Final = "@clearDataFrame"
NOT_RELAYED: Final = frozenset({"|RtmpSampleAccess", "onStatus", "onPlayStatus"})
"""Data messages by which a server speaks to its players: a publisher's would end or mute them."""

MOST_FPS, MOST_KBPS = 1000, 1_000_000
"""What metadata may claim and be believed."""


class Busy(Exception):  # noqa: N818
    """The stream has a publisher."""


class NotPublishing(LookupError):  # noqa: N818
    """The session does not publish the stream (any more)."""


class LiveStream:
    """`audio`, `video` and `data` are the media path; everything else is rare."""

    def __init__(self, path: str, labels: Labels, *, node: str, settings: LiveSettings, caches: CacheMemory) -> None:
        self.path = path
        self.app, _, self.name = path.partition("/")
        self.labels = labels
        self.node = node
        self.publisher: Publisher | None = None
        self.meter: Meter | None = None
        self.judging: Judging | None = None
        self.encoder = ""
        """What the publisher's encoder is called."""
        self.metadata: dict[str, Any] = {}
        """onMetaData as the publisher claims it, safe as JSON. Replaced as a whole, never changed in place."""
        self._takers = Takers()
        self._audience = Audience()
        """As of the latest tick."""
        self._received = NOTHING_COUNTED
        """Of the sessions that are over."""
        self.idle_since: float | None = None
        """Since when there has been neither publisher nor player, as the registry saw it."""
        self.left_at: float | None = None
        """When the latest of its publishers that sent media left; None: none has."""
        self._settings = settings
        self._headers = HeaderCache()
        self._frames = DataFrames()
        self._pictures = PictureCache(settings.cache, caches)
        self._finished: list[Sample] = []
        self._video_track = self._audio_track = NO_TRACK
        self._description = Description(self._tell)
        self._begin_time(None)

    @property
    def media(self) -> MediaInfo:
        """What headers and frames say. Replaced as a whole, never changed in place."""
        return self._description.media

    @property
    def fourccs(self) -> dict[MediaKind, str]:
        """By which codecs sound and picture are sent; not those sent by a codec id. Replaced as a whole."""
        return self._description.fourccs

    # --- The publisher ---

    def start(self, publisher: Publisher, now: float) -> None:
        """A publisher begins. Raises Busy while there is one."""
        if self.publisher is not None:
            raise Busy(self.path)
        self._forget()
        self.publisher = publisher
        self.labels = publisher.labels
        self.encoder = publisher.encoder
        self.meter = Meter(publisher, now, self._takers.audience(now))
        self.judging = Judging(publisher, self.meter, self._settings, now)
        self._video_track = self._audio_track = NO_TRACK
        arrival = self.time.latest_arrival
        if arrival is not None and any(subscriber.has_media for subscriber in self.subscribers):
            self._begin_time((self.time.latest, arrival))
        else:
            self._begin_time(None)
        for subscriber in self._takers.everyone:
            subscriber.wait_for_keyframe()

    def stop(self, session_id: str, now: float) -> Totals:
        """The session ends; players are kept and wait. Raises NotPublishing.

        The time since the last tick becomes a last sample, which the next tick hands out.
        """
        publisher, meter = self.publisher, self.meter
        if publisher is None or meter is None or publisher.session_id != session_id:
            raise NotPublishing(session_id)
        try:
            self._finished.append(self._sample(meter, self._measure(meter, now), now))
        finally:  # Whatever happens, the name is free for the next publisher.
            self._received = added((self._received, meter.received))
            if meter.has_media:
                self.left_at = now
            self.publisher = self.meter = self.judging = None
            self._forget()
        return meter.totals

    def pause(self, now: float) -> None:
        """The publisher pauses: it is awaited, and not silent."""
        if self.meter is not None:
            self.meter.pause(now)

    def go_on(self, now: float) -> None:
        """The publisher's pause is over."""
        if self.meter is not None:
            self.meter.go_on(now)

    def _begin_time(self, follows: tuple[int, float] | None) -> None:
        self.time = PlayersTime(round(self._settings.absence_s * 1000), follows=follows)
        self._video_time = self.time.track("video", 0)
        self._audio_time = self.time.track("audio", 0)

    def _forget(self) -> None:
        """What a player can't use any more once its publisher is gone."""
        self._headers.clear()
        self._frames.clear()
        self._pictures.clear()
        self._pictures.is_extended = False
        self.metadata = {}
        self._description.clear()

    # --- The media path ---

    def video(self, timestamp: int, payload: bytes, now: float) -> None:
        """A message of type 9."""
        meter = self.meter
        if meter is None or not payload:
            return
        tag = video_tag(payload)
        # The lowest track stands for the stream: others add to the bitrate, not to frames and keyframes.
        is_main = tag.track == self._video_track or self._becomes_main("video", tag)
        is_keyframe = tag.is_keyframe and is_main
        is_frame = tag.is_frame and is_main
        meter.video(timestamp, len(payload), now, is_frame, is_keyframe)
        if tag.is_header:
            self._header("video", tag, timestamp, payload, now)
            if is_main and tag.is_sequence_start:
                self._description.video(tag, payload, now)
            return
        if is_keyframe and ("width" not in self.media or tag.codec in TOLD_BY_KEYFRAMES):
            self._description.video(tag, payload, now)
        if tag.is_notable:
            self._note("video", tag, payload, now)
        at = self._video_time.at(timestamp, now) if is_frame else self._time_beside("video", tag, timestamp, now)
        self._pictures.add("video", at, payload, now, is_frame, is_keyframe)
        if self._takers.video:
            if tag.needs:
                self._offer(ExtendedMessage("video", at, payload, now, is_frame, is_keyframe, needs=tag.needs))
            else:
                offer(SharedMessage("video", at, payload, now, is_frame, is_keyframe), self._takers.video)

    def audio(self, timestamp: int, payload: bytes, now: float) -> None:
        """A message of type 8. An empty one is relayed: it stands for silence."""
        meter = self.meter
        if meter is None:
            return
        tag = audio_tag(payload)
        is_main = tag.track == self._audio_track or self._becomes_main("audio", tag)
        is_frame = tag.is_frame and is_main
        meter.audio(timestamp, len(payload), now, is_frame)
        if tag.is_header:
            self._header("audio", tag, timestamp, payload, now)
            if is_main:
                self._description.audio(tag, payload, now)
            return
        if payload and payload[0] != self._description.audio_form and is_main:
            # Formats without a header tell what they are in each message.
            self._description.audio(tag, payload, now)
        if tag.is_notable:
            self._note("audio", tag, payload, now)
        at = self._audio_time.at(timestamp, now) if is_frame else self._time_beside("audio", tag, timestamp, now)
        self._pictures.add("audio", at, payload, now, is_frame)
        if self._takers.audio:
            if tag.needs:
                self._offer(ExtendedMessage("audio", at, payload, now, is_frame, needs=tag.needs))
            else:
                offer(SharedMessage("audio", at, payload, now, is_frame), self._takers.audio)

    def data(
        self, timestamp: int, name: str, values: list[Any], payload: bytes, now: float, *, kept: bool = False
    ) -> None:
        """A data message: `name` with its `values`, and `payload` as it is to be relayed; `kept`: for later players."""
        meter = self.meter
        if meter is None:
            return
        meter.data(len(payload))
        if name == CLEAR:
            self._clear_data(values[0] if values else METADATA)
        elif name in NOT_RELAYED:
            return
        elif (kept or name == METADATA) and (slot := self._frames.slot(name, len(payload))) is not None:
            self._header("data", Tag("", is_header=True, slot=slot), timestamp, payload, now)
            if name == METADATA:
                self.metadata = sanitise(values[0] if values else None)
                self.encoder = encoder_name(self.encoder, self.metadata)
                meter.call(self.encoder)
                self._tell()
        else:
            at = self.time.beside(timestamp)
            self._pictures.add("data", at, payload, now, is_frame=False)
            offer(SharedMessage("data", at, payload, now), self._takers.data)

    def _clear_data(self, name: Any) -> None:
        slot = self._frames.find(name)
        if slot is not None:
            self._headers.drop("data", slot)
        if name == METADATA:
            self.metadata = {}
            self._tell()

    def _becomes_main(self, kind: MediaKind, tag: Tag) -> bool:
        """Whether the track is lower than the main one so far."""
        is_video = kind == "video"
        if tag.is_faulty or tag.track > (self._video_track if is_video else self._audio_track):
            return False
        if is_video:
            self._video_track = tag.track
            self._video_time = self.time.track(kind, tag.track, is_main=True)
        else:
            self._audio_track = tag.track
            self._audio_time = self.time.track(kind, tag.track, is_main=True)
        self._tell_tracks()
        return True

    def _offer(self, message: ExtendedMessage) -> None:
        """To each as it takes it."""
        track = self._main[message.kind]
        for lacking, takers in self._takers.parted(message.kind, message.needs).items():
            if (sent := message.plain(lacking, track)) is not None:
                offer(sent, takers)

    @property
    def _main(self) -> dict[Kind, int]:
        """The main tracks."""
        return {"video": self._video_track, "audio": self._audio_track}

    def _note(self, kind: MediaKind, tag: Tag, payload: bytes, now: float) -> None:
        """A faulty message, one of several tracks, or with extensions."""
        if tag.needs:
            self._pictures.is_extended = True
        if tag.is_faulty and self.meter is not None:
            self.meter.fault()
        if self._description.several(kind, tag, payload, now):
            self._tell_tracks()

    def _tell_tracks(self) -> None:
        self._description.tell_tracks(self._video_track, self._audio_track)

    def _header(self, kind: Kind, tag: Tag, timestamp: int, payload: bytes, now: float) -> None:
        if tag.is_notable and kind != "data":
            self._note(kind, tag, payload, now)
        is_kept = self._headers.takes(kind, tag.slot, len(payload))
        is_metadata = is_kept and kind == "data" and tag.slot == METADATA_SLOT
        at = METADATA_AT if is_metadata else self.time.beside(timestamp)
        message = (
            ExtendedMessage(kind, at, payload, now, is_header=is_kept, slot=tag.slot, needs=tag.needs)
            if tag.needs
            else SharedMessage(kind, at, payload, now, is_header=is_kept, slot=tag.slot)
        )
        if not is_kept:
            self._headers.drop(kind, tag.slot)
            self._pictures.add(kind, at, payload, now, is_frame=False)
        elif self._headers.put(message) and kind != "data":
            # The cached group of pictures was coded under the former header.
            self._pictures.clear()
        if isinstance(message, ExtendedMessage):
            self._offer(message)
        else:
            offer(message, self._takers.of(kind))

    def _time_beside(self, kind: MediaKind, tag: Tag, timestamp: int, now: float) -> int:
        """The players' time of what is no frame of the main track."""
        if tag.is_frame:
            return self.time.track(kind, tag.track).at(timestamp, now)
        return self.time.beside(timestamp)

    def _tell(self) -> None:
        if self.publisher is not None and self.publisher.described is not None:
            self.publisher.described(self.metadata, self.media)

    # --- Players ---

    @property
    def subscribers(self) -> Several:
        """The players."""
        return self._takers.players

    @property
    def player_count(self) -> int:
        """Without those that are not counted."""
        return self._takers.count

    def subscribe(self, subscriber: Subscriber, now: float, *, cached: bool = True) -> None:
        """A player joins: it is given the headers and the group of pictures so far, or waits for a publisher.

        Without what is `cached` it is given what comes from now on; `headers_for` has what was before.
        """
        if cached:
            self._begin(subscriber, now)
        else:
            subscriber.begin((), now, at_keyframe=self.lacks_keyframes)
        self._takers.join(subscriber)

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """The player leaves. What it was sent stays in the stream's figures."""
        self._takers.leave(subscriber)

    def tap(self, subscriber: Subscriber, now: float) -> None:
        """Media go to `subscriber` too, from the last keyframe on; it counts as no player and keeps no stream."""
        self._begin(subscriber, now)
        self._takers.tap(subscriber)

    def untap(self, subscriber: Subscriber) -> None:
        self._takers.untap(subscriber)

    def has_ended(self, subscriber: Subscriber, now: float, patience_s: float) -> bool:
        """Whether it is over for this player, which has all of it: the publisher left for good, as none came back for
        so long. Who joined only then waits for the next one."""
        left_at = self.left_at
        if self.publisher is not None or left_at is None or subscriber.pending_messages:
            return False
        return subscriber.joined <= left_at and now - left_at >= patience_s

    def mute(self, subscriber: Subscriber, kinds: frozenset[Kind], now: float) -> None:
        """The player is sent none of these kinds any more, of what waits for it neither, and all of the others.

        What it is sent again begins with the headers that have changed meanwhile, video then at its next keyframe, if
        one is to be waited for.
        """
        if kinds == subscriber.muted.keys():
            return
        wanted = self._takers.mute(subscriber, kinds, now)
        subscriber.forget(kinds)
        if wanted:
            headers = self.headers_for(subscriber, self.time.latest)
            subscriber.catch_up(header for header in headers if header.arrived >= wanted.get(header.kind, inf))
        if "video" in wanted:
            if self.lacks_keyframes:
                subscriber.begin_anywhere()
            else:
                subscriber.wait_for_keyframe()

    def headers_for(self, subscriber: Subscriber, timestamp: int) -> list[SharedMessage]:
        """The newest header of each kind and slot, stamped so, as the player takes them."""
        return self._fitting(self._headers.at(timestamp), subscriber)

    def _fitting(self, messages: list[SharedMessage], subscriber: Subscriber) -> list[SharedMessage]:
        if self._pictures.is_extended and EVERYTHING & ~subscriber.takes:
            return fitting(messages, subscriber.takes, self._main)
        return messages

    def keyframe(self, after: float, most_bytes: int) -> Keyframe | None:
        """The last one of the main track, if it arrived after `after` and has at most so many bytes."""
        return last_keyframe(self._headers, self._pictures, after, most_bytes)

    def _begin(self, subscriber: Subscriber, now: float) -> None:
        pictures = self._pictures
        starts_at = pictures.starts_at
        headers = self._headers.at(self.time.latest if starts_at is None else starts_at)
        messages = self._fitting([*headers, *pictures.messages], subscriber)
        subscriber.begin(messages, now, at_keyframe=starts_at is not None or self.lacks_keyframes)

    # --- Once a second ---

    @property
    def state(self) -> StreamState:
        if self.meter is not None and self.meter.has_media and not self.meter.is_paused:
            return "live"
        return "waiting" if self.publisher is not None or self.subscribers else "offline"

    @property
    def lacks_keyframes(self) -> bool:
        """Who waits for video waits for no keyframe: there is none to come."""
        return self.meter is not None and self.meter.lacks_keyframes

    @property
    def issues(self) -> list[Issue]:
        """The open ones, worst first."""
        return self.judging.health.issues if self.judging is not None else []

    @property
    def health_word(self) -> Health:
        """The worst open issue; none while there is nothing to judge."""
        if self.meter is None or self.judging is None or not (self.meter.has_media or self.issues):
            return "none"
        return self.judging.health.worst

    @property
    def target_kbps(self) -> int | None:
        """Of the video: what the stream's settings say, else what the metadata claims."""
        if self.publisher is None:
            return None
        target = self.publisher.limits["target_kbps"] or self._claimed_kbps
        return round(target) if target else None

    @property
    def _claimed_kbps(self) -> float | None:
        return claimed(self.metadata, "videodatarate", most=MOST_KBPS)

    @property
    def counters(self) -> MediaCounters:
        """Since the stream was made, whoever published it; as of the latest tick."""
        sent: MediaCounters = {
            **NOTHING_COUNTED,
            "sent_bytes": self._audience.out_bytes,
            "dropped_frames": self._audience.dropped_frames,
        }
        now = self.meter.received if self.meter is not None else NOTHING_COUNTED
        return added((self._received, now, sent))

    def tick(self, now: float, wall: float) -> list[Sample]:
        """Samples since the last tick: the last ones of sessions that ended, and one of the session that goes on."""
        samples, self._finished = self._finished, []
        meter, judging = self.meter, self.judging
        if meter is not None and judging is not None:
            meter.set_wall(now, wall)
            second = self._measure(meter, now)
            if meter.lacks_keyframes:
                for subscriber in self._takers.everyone:
                    subscriber.begin_anywhere()
            judging.judge(now, wall, second, self._claimed_kbps)
            samples.append(self._sample(meter, second, now))
        else:
            self._audience = self._takers.audience(now)
        return samples

    def judge_by(self, rules: Mapping[str, HealthRule]) -> None:
        """The stream's own rules of health have changed."""
        if self.judging is not None:
            self.judging.follow(rules)

    def breach(self, now: float) -> str:
        """Why the publisher's session must end now, as a sentence; "" while it need not."""
        return self.judging.limit.breach(now) if self.judging is not None else ""

    def _measure(self, meter: Meter, now: float) -> Second:
        self._audience = self._takers.audience(now)
        return meter.measure(now, self._audience, claimed(self.metadata, "framerate", most=MOST_FPS))

    def _sample(self, meter: Meter, second: Second, now: float) -> Sample:
        return meter.sample(
            now,
            second,
            node=self.node,
            app=self.app,
            name=self.name,
            health=self.health_word,
            target_kbps=self.target_kbps,
        )

    @property
    def is_idle(self) -> bool:
        """Nobody publishes or plays, and no sample waits to be handed out."""
        return self.publisher is None and not self.subscribers and not self._finished
