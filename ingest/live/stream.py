"""A live stream in memory: one publisher, its log, and the fan-out to all players.

Players outlive publishers. When one leaves they are kept, and their time goes on with the next one's (see `repair`).
"""

from collections.abc import Callable
from itertools import islice
from math import inf
from typing import Any, Final

from ingest.contracts import Labels, MediaCounters, MediaInfo, Sample, StreamState, Totals
from ingest.live.batch import Batch
from ingest.live.beginning import Beginning
from ingest.live.counted import NOTHING_COUNTED, NOTHING_READ, Audience
from ingest.live.description import Description, MediaKind
from ingest.live.extended import message_of
from ingest.live.fanout import Fanout, Several
from ingest.live.header_cache import Keyframe
from ingest.live.headers import TOLD_BY_KEYFRAMES
from ingest.live.known_frames import KnownFrames
from ingest.live.log_memory import LogMemory
from ingest.live.media import Tag, audio_tag, video_tag
from ingest.live.metadata import METADATA
from ingest.live.publication import Publication
from ingest.live.publisher import Publisher
from ingest.live.repair import MASK, SMALL_MS, PlayersTime
from ingest.live.settings import LiveSettings
from ingest.live.shared import METADATA_AT, METADATA_SLOT, Kind, SharedMessage
from ingest.live.stream_log import AUDIO, VIDEO, StreamLog
from ingest.live.subscriber import Subscriber
from ingest.rtmp.chunks.run_reader import Run

CLEAR: Final = "@clearDataFrame"
NOT_RELAYED: Final = frozenset({"|RtmpSampleAccess", "onStatus", "onPlayStatus"})
"""Data messages by which a server speaks to its players: a publisher's would end or mute them."""


class Busy(Exception):  # noqa: N818
    """The stream has a publisher."""


class NotPublishing(LookupError):  # noqa: N818
    """The session does not publish the stream (any more)."""


Wake = Callable[["LiveStream", bool], object]
"""A stream has something to deliver: soon, or (True) with the next turn. Called once for each, until it delivers."""


MOST_PENDING_BYTES: Final = 1024 * 1024
"""What may wait in the log for readers of whom none is a player."""
SOUND_ALONE_S: Final = 1.0
"""A stream whose last frame of video is so old has its sound delivered at once."""


class LiveStream:
    """`audio`, `video` and `data` are the media path; everything else is rare."""

    def __init__(
        self,
        path: str,
        labels: Labels,
        *,
        node: str,
        settings: LiveSettings,
        memory: LogMemory,
        wake: Wake | None = None,
    ) -> None:
        """`wake`: None: each message is delivered as it comes."""
        self.path = path
        self.app, _, self.name = path.partition("/")
        self.labels = labels
        self.node = node
        self.publication: Publication | None = None
        """None while nobody publishes it."""
        self._log = StreamLog(settings.log, memory)
        self._fanout = Fanout(self._log)
        self._taps = Fanout(self._log)
        """Recorders: they ask for what came, in larger pieces, and count as no players."""
        self._wake = wake
        self._is_awaited = self._is_urgent = False
        """Somebody was told that there is something to deliver; and that it is urgent."""
        self._without_video = True
        """As far as this publisher has sent any."""
        self._audience = Audience()
        """As of the latest tick."""
        self._received = NOTHING_COUNTED
        """Of the sessions that are over."""
        self.idle_since: float | None = None
        """Since when there has been neither publisher nor player, as the registry saw it."""
        self.left_at: float | None = None
        """When the latest of its publishers that sent media left; None: none has."""
        self._settings = settings
        self._beginning = Beginning(self._log)
        self._known_video, self._known_audio = KnownFrames(is_video=True), KnownFrames(is_video=False)
        self._finished: list[Sample] = []
        self._description = Description(self._tell)
        self._begin_time(None)

    @property
    def publisher(self) -> Publisher | None:
        return self.publication.publisher if self.publication is not None else None

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
        if self.publication is not None:
            raise Busy(self.path)
        self._forget()
        self.labels = publisher.labels
        audience = self._fanout.audience(now)
        self.publication = Publication(
            publisher, self._settings, now, audience, node=self.node, app=self.app, name=self.name
        )
        arrival = self.time.latest_arrival
        if arrival is not None and any(subscriber.has_media for subscriber in self.subscribers):
            self._begin_time((self.time.latest, arrival))
        else:
            self._begin_time(None)
        self._without_video = True
        self._fanout.all_fall_behind()
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
            self._audience = self._fanout.audience(now)
            self._finished.append(publication.last(now, self._audience))
        finally:  # Whatever happens, the name is free for the next publisher.
            self._received = self.counters
            if meter.has_media:
                self.left_at = now
            self.publication = None
            self._forget()
        return meter.totals

    def pause(self, now: float) -> None:
        """The publisher pauses: it is awaited, and not silent."""
        if self.publication is not None:
            self.publication.meter.pause(now)

    def go_on(self, now: float) -> None:
        """The publisher's pause is over."""
        if self.publication is not None:
            self.publication.meter.go_on(now)

    def _begin_time(self, follows: tuple[int, float] | None) -> None:
        self.time = PlayersTime(round(self._settings.absence_s * 1000), follows=follows)
        self._video_time = self.time.track("video", 0)
        self._audio_time = self.time.track("audio", 0)
        self._forget_known()

    def _forget_known(self) -> None:
        self._known_video.clear()
        self._known_audio.clear()

    def _forget(self) -> None:
        """What a player can't use any more once its publisher is gone."""
        self._beginning.clear()
        self._description.clear()
        self._forget_known()

    # --- The media path ---

    def video(self, timestamp: int, payload: bytes, now: float) -> None:
        """A message of type 9."""
        publication = self.publication
        if publication is None or not payload:
            return
        tag, beginning = video_tag(payload), self._beginning
        # The lowest track stands for the stream: others add to the bitrate, not to frames and keyframes.
        is_main = tag.track == beginning.video_track or self._becomes_main("video", tag)
        is_keyframe = tag.is_keyframe and is_main
        is_frame = tag.is_frame and is_main
        publication.meter.video(timestamp, len(payload), now, is_frame, is_keyframe)
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
        if self._without_video:
            self._begin_video()
        self._log.add("video", at, payload, now, is_frame, is_keyframe)
        if is_frame and not is_keyframe and not tag.is_notable:
            self._known_video.add(payload)
        if self._log.is_read:
            self._came(urgent=True)

    def audio(self, timestamp: int, payload: bytes, now: float) -> None:
        """A message of type 8. An empty one is relayed: it stands for silence."""
        publication = self.publication
        if publication is None:
            return
        tag, beginning = audio_tag(payload), self._beginning
        is_main = tag.track == beginning.audio_track or self._becomes_main("audio", tag)
        is_frame = tag.is_frame and is_main
        publication.meter.audio(timestamp, len(payload), now, is_frame)
        if tag.is_header:
            self._header("audio", tag, timestamp, payload, now)
            if is_main:
                self._description.audio(tag, payload, now)
            return
        if payload and payload[0] != self._description.audio_form and is_main:
            # Formats without a header tell what they are in each message.
            self._description.audio(tag, payload, now)
            self._known_audio.clear()
        if tag.is_notable:
            self._note("audio", tag, payload, now)
        at = self._audio_time.at(timestamp, now) if is_frame else self._time_beside("audio", tag, timestamp, now)
        self._log.add("audio", at, payload, now, is_frame)
        if is_frame and payload and payload[0] == self._description.audio_form and not tag.is_notable:
            self._known_audio.add(payload)
        if self._log.is_read:
            self._came(urgent=self._is_sound_alone(now))

    def run(self, run: Run, now: float) -> None:
        """Audio and video messages that were read at once. Those out of the ordinary go the way of each by itself."""
        messages, taken = run.messages, 0
        while taken < len(messages):
            taken += self._take_known(run, taken, now)
            if taken < len(messages):
                is_video, timestamp, start, size = messages[taken]
                take = self.video if is_video else self.audio
                take(timestamp, run.payload(start, size), now)
                taken += 1

    def _take_known(self, run: Run, first: int, now: float) -> int:
        """From the first of them on: how many are like those before, by regular steps."""
        publication, log = self.publication, self._log
        if publication is None or not log.takes:
            return 0
        meter, data, chunk_size = publication.meter, run.data, run.chunk_size
        video_time, audio_time = self._video_time, self._audio_time
        latest_video, latest_audio = video_time.latest, audio_time.latest
        # Where they differ, one of them has found something irregular, or there was no frame yet.
        video_line, audio_line = meter.video_line, meter.audio_line
        longest_video = min(video_line.regular_ms, SMALL_MS) if video_line.last == latest_video else -1.0
        longest_audio = min(audio_line.regular_ms, SMALL_MS) if audio_line.last == latest_audio else -1.0
        video_shift, audio_shift = video_time.shift, audio_time.shift
        video_steps: list[int] = []
        audio_steps: list[int] = []
        video_bytes = audio_bytes = 0
        count = 0
        for is_video, timestamp, start, size in islice(run.messages, first, None):
            if is_video:
                step = timestamp - latest_video
                if not 0 <= step <= longest_video or not self._known_video.has(data, start):
                    break
                at = (timestamp + video_shift) & MASK
                if not log.append(VIDEO, at, data, start, size, chunk_size, now):
                    break
                latest_video = timestamp
                video_steps.append(step)
                video_bytes += size
            else:
                step = timestamp - latest_audio
                if not 0 <= step <= longest_audio or not self._known_audio.has(data, start):
                    break
                at = (timestamp + audio_shift) & MASK
                if not log.append(AUDIO, at, data, start, size, chunk_size, now):
                    break
                latest_audio = timestamp
                audio_steps.append(step)
                audio_bytes += size
            count += 1
        if video_steps:
            video_time.advance(latest_video, now)
            meter.advance_video(latest_video, video_steps, video_bytes, now)
        if audio_steps:
            audio_time.advance(latest_audio, now)
            meter.advance_audio(latest_audio, audio_steps, audio_bytes, now)
        if count and log.is_read:
            self._came(urgent=bool(video_steps) or self._is_sound_alone(now))
        return count

    def data(
        self, timestamp: int, name: str, values: list[Any], payload: bytes, now: float, *, kept: bool = False
    ) -> None:
        """A data message: `name` with its `values`, and `payload` as it is to be relayed; `kept`: for later players."""
        publication = self.publication
        if publication is None:
            return
        publication.meter.data(len(payload))
        if name == CLEAR:
            self._clear_data(publication, values[0] if values else METADATA)
        elif name in NOT_RELAYED:
            return
        elif (kept or name == METADATA) and (slot := self._beginning.slot(name, len(payload))) is not None:
            self._header("data", Tag("", is_header=True, slot=slot), timestamp, payload, now)
            if name == METADATA:
                publication.claim(values[0] if values else None)
                self._tell()
        else:
            at = self.time.beside(timestamp)
            self._log.add("data", at, payload, now, is_frame=False)
            if self._log.is_read:
                self._came(urgent=False)

    def _clear_data(self, publication: Publication, name: Any) -> None:
        self._beginning.drop_data(name)
        if name == METADATA:
            publication.withdraw()
            self._tell()

    def _becomes_main(self, kind: MediaKind, tag: Tag) -> bool:
        """Whether the track is lower than the main one so far."""
        beginning, is_video = self._beginning, kind == "video"
        self._forget_known()
        if tag.is_faulty or tag.track > (beginning.video_track if is_video else beginning.audio_track):
            return False
        if is_video:
            beginning.video_track = tag.track
            self._video_time = self.time.track(kind, tag.track, is_main=True)
        else:
            beginning.audio_track = tag.track
            self._audio_time = self.time.track(kind, tag.track, is_main=True)
        self._tell_tracks()
        return True

    def _is_sound_alone(self, now: float) -> bool:
        last = self.publication.meter.last_video if self.publication is not None else None
        return last is None or now - last > SOUND_ALONE_S

    def _came(self, *, urgent: bool) -> None:
        """Something is to be delivered."""
        if self._wake is None:
            self.deliver()
            self.gather()
            return
        if self._log.pending_bytes(self._taps.place) > MOST_PENDING_BYTES:
            self.gather()
        if not self._fanout.players:
            return
        if not self._is_awaited or (urgent and not self._is_urgent):
            self._is_awaited, self._is_urgent = True, urgent
            self._wake(self, urgent)

    def deliver(self) -> None:
        """Give the readers what has come since the last time. To be called in the midst of no message."""
        self._is_awaited = self._is_urgent = False
        self._give(self._fanout)

    def gather(self) -> None:
        """The same for its taps."""
        self._give(self._taps)

    def _give(self, fanout: Fanout) -> None:
        span = self._log.take(fanout.place)
        if span is not None:
            fanout.deliver(Batch(self._log, span), self._beginning.main)
            self._log.given()

    def _begin_video(self) -> None:
        """Its first: who was given sound alone has to wait for a keyframe now."""
        self.deliver()
        self._without_video = False
        self._fanout.all_fall_behind()

    def _note(self, kind: MediaKind, tag: Tag, payload: bytes, now: float) -> None:
        """A faulty message, one of several tracks, or with extensions."""
        self._forget_known()
        if tag.needs and not self._log.is_extended:
            self.deliver()
            self._log.is_extended = True
            self._fanout.all_fall_behind()
        if tag.is_faulty and self.publication is not None:
            self.publication.meter.fault()
        if self._description.several(kind, tag, payload, now):
            self._tell_tracks()

    def _tell_tracks(self) -> None:
        self._description.tell_tracks(self._beginning.video_track, self._beginning.audio_track)

    def _header(self, kind: Kind, tag: Tag, timestamp: int, payload: bytes, now: float) -> None:
        self._forget_known()
        if tag.is_notable and kind != "data":
            self._note(kind, tag, payload, now)
        is_kept = self._beginning.takes(kind, tag.slot, len(payload))
        is_metadata = is_kept and kind == "data" and tag.slot == METADATA_SLOT
        at = METADATA_AT if is_metadata else self.time.beside(timestamp)
        make = message_of if tag.needs else SharedMessage
        self._beginning.put(make(kind, at, payload, now, is_header=is_kept, slot=tag.slot))
        self._log.add(kind, at, payload, now, is_frame=False, slot=tag.slot if is_kept else None)
        if self._log.is_read:
            self._came(urgent=False)

    def _time_beside(self, kind: MediaKind, tag: Tag, timestamp: int, now: float) -> int:
        """The players' time of what is no frame of the main track."""
        if tag.is_frame:
            return self.time.track(kind, tag.track).at(timestamp, now)
        return self.time.beside(timestamp)

    def _tell(self) -> None:
        if self.publication is not None:
            self.publication.tell(self.media)

    # --- Players ---

    @property
    def subscribers(self) -> Several:
        """The players."""
        return self._fanout.players

    @property
    def _everyone(self) -> Several:
        return (*self._taps.players, *self._fanout.players)

    @property
    def player_count(self) -> int:
        """Without those that are not counted."""
        return self._fanout.count

    def subscribe(self, subscriber: Subscriber, now: float, *, cached: bool = True) -> None:
        """A player joins: it is given the headers and the group of pictures so far, or waits for a publisher.

        Without what is `cached` it is given what comes from now on; `headers_for` has what was before.
        """
        self.deliver()
        if cached:
            self._begin(subscriber, now)
        else:
            subscriber.begin((), now, at_keyframe=self.lacks_keyframes)
        self._fanout.join(subscriber)
        if len(self.subscribers) == 1:
            self._tell_publisher()

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """The player leaves. What it was sent stays in the stream's figures."""
        self._fanout.leave(subscriber)
        if not self.subscribers:
            self._tell_publisher()

    def _tell_publisher(self) -> None:
        if self.publisher is not None and self.publisher.watched is not None:
            self.publisher.watched()

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
        self.deliver()
        wanted = self._fanout.mute(subscriber, kinds, now)
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
        return self._beginning.headers_for(subscriber, timestamp)

    def keyframe(self, after: float, most_bytes: int) -> Keyframe | None:
        """The last one of the main track, if it arrived after `after` and has at most so many bytes."""
        return self._beginning.keyframe(after, most_bytes)

    def _begin(self, subscriber: Subscriber, now: float) -> None:
        self._beginning.begin(subscriber, now, self.time.latest, anywhere=self.lacks_keyframes)

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
            sent_bytes=self._audience.out_bytes,
            video_frames=before["video_frames"] + now.video_frames,
            audio_frames=before["audio_frames"] + now.audio_frames,
            dropped_frames=self._audience.dropped_frames,
        )

    def tick(self, now: float, wall: float) -> list[Sample]:
        """Samples since the last tick: the last ones of sessions that ended, and one of the session that goes on."""
        samples, self._finished = self._finished, []
        self._audience = self._fanout.audience(now)
        if self.publication is not None:
            samples.append(self.publication.tick(now, wall, self._audience))
        if self._log.is_read and self.lacks_keyframes:
            for subscriber in self._everyone:
                subscriber.begin_anywhere()
        return samples

    @property
    def is_idle(self) -> bool:
        """Nobody publishes or plays, and no sample waits to be handed out."""
        return self.publication is None and not self.subscribers and not self._finished
