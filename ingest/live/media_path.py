"""What a live stream's publisher sends, on its way into the stream's log: the media path. Everything else is rare.

Frames that are like those before are told by their first bytes alone (`KnownFrames`): the shortest way.

Where a message begins as one did that was a plain frame of the main track, it is one too: with a codec id the first two
bytes tell all of it, with a FourCC the first five (see `ingest.live.media`). So what was found out about one message
need not be found out again, until something changes.

Each message is told by its first bytes, counted, given the players' time, and appended to the log, from where players
and recorders are given it (see `fanout`)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from ingest.contracts import MediaInfo
from ingest.live.description import METADATA, SIZED_BY_KEYFRAMES, Description, MediaKind
from ingest.live.fanout import Fanout
from ingest.live.gop_cache import GopCache
from ingest.live.media import Tag, audio_tag, video_tag
from ingest.live.message import AUDIO, METADATA_AT, METADATA_SLOT, VIDEO, Kind, SharedMessage, message_of
from ingest.live.publication import LiveSettings, Publication
from ingest.live.stream_log import LogMemory, StreamLog
from ingest.live.subscriber import Batch
from ingest.live.timeline import MASK, SMALL_MS, PlayersTime
from ingest.rtmp.media_tags import EX_AUDIO
from ingest.rtmp.run_reader import Run

FOURCC_BYTES: Final = 5
"""Packet type and FourCC (Enhanced RTMP v2, "Enhanced Audio" and "Enhanced Video")."""
EX_VIDEO: Final = 0x80
"""From here on the first byte of a video message tells of a FourCC."""


@dataclass(eq=False, repr=False, slots=True)
class KnownFrames:
    """Of one publisher's main track of a kind."""

    is_video: bool
    _by_codec: set[int] = field(default_factory=set)
    _by_fourcc: set[bytes] = field(default_factory=set)

    def add(self, payload: bytes) -> None:
        if len(payload) < FOURCC_BYTES:
            return
        first = payload[0]
        if first >= EX_VIDEO if self.is_video else first >> 4 == EX_AUDIO:
            self._by_fourcc.add(payload[:FOURCC_BYTES])
        else:
            self._by_codec.add(first << 8 | payload[1])

    def has(self, data: memoryview, at: int) -> bool:
        """Whether the message that begins here, of some bytes at least (`rtmp.run_reader`), is another."""
        if data[at] << 8 | data[at + 1] in self._by_codec:
            return True
        return bool(self._by_fourcc) and data[at : at + FOURCC_BYTES].tobytes() in self._by_fourcc

    def clear(self) -> None:
        """Something has changed: a header, the tracks, or what is known of the stream."""
        self._by_codec.clear()
        self._by_fourcc.clear()


CLEAR: Final = "@clearDataFrame"
KEYFRAMES: Final = "onRelayKeyframes"
"""By which a node tells another, that relays the stream, how far apart its keyframes are: seconds."""
NOT_RELAYED: Final = frozenset({"|RtmpSampleAccess", "onStatus", "onPlayStatus", KEYFRAMES})
"""Data messages by which a server speaks to its players: a publisher's would end or mute them."""

MOST_PENDING_BYTES: Final = 1024 * 1024
"""What may wait in the log for recorders, however seldom they ask."""
SOUND_ALONE_S: Final = 1.0
"""A stream whose last frame of video is so old has its sound delivered at once."""


class MediaPath:
    """Of one stream, through all of its publishers."""

    publication: Publication | None = None
    """None while nobody publishes it."""
    time: PlayersTime

    def __init__(self, settings: LiveSettings, memory: LogMemory, wake: Callable[[Any, bool], object] | None) -> None:
        """`wake` is told, with the stream, that there is something to deliver: soon, or (True) with the next turn.
        None: each message is delivered as it comes."""
        self._settings = settings
        self._wake = wake
        self._log = StreamLog(settings.log, memory)
        self._fanout = Fanout(self._log)
        self._taps = Fanout(self._log)
        """Recorders: they ask for what came, in larger pieces, and count as no players."""
        self.cache = GopCache(self._log)
        self._description = Description(self._notify)
        self._known_video, self._known_audio = KnownFrames(is_video=True), KnownFrames(is_video=False)
        self._is_awaited = self._is_urgent = False
        """Somebody was told that there is something to deliver; and that it is urgent."""
        self._without_video = True
        """As far as this publisher has sent any."""
        self._begin_time(None)

    @property
    def media(self) -> MediaInfo:
        return self._description.media

    @property
    def fourccs(self) -> dict[MediaKind, str]:
        """By which codecs sound and picture are sent; not those sent by a codec id. Replaced as a whole."""
        return self._description.fourccs

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
        self.cache.clear()
        self._description.clear()
        self._forget_known()

    # --- The media path ---

    def video(self, timestamp: int, payload: bytes, now: float) -> None:
        publication = self.publication
        if publication is None or not payload:
            return
        tag, cache = video_tag(payload), self.cache
        # The lowest track stands for the stream: others add to the bitrate, not to frames and keyframes.
        is_main = tag.track == cache.video_track or self._becomes_main("video", tag)
        is_keyframe = tag.is_keyframe and is_main
        is_frame = tag.is_frame and is_main
        publication.meter.video(timestamp, len(payload), now, is_frame, is_keyframe)
        if tag.is_header:
            self._header("video", tag, timestamp, payload, now)
            if is_main and tag.is_sequence_start:
                self._description.video(tag, payload, now)
            return
        if is_keyframe and ("width" not in self.media or tag.codec in SIZED_BY_KEYFRAMES):
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
        tag, cache = audio_tag(payload), self.cache
        is_main = tag.track == cache.audio_track or self._becomes_main("audio", tag)
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
        publication.meter.data_bytes += len(payload)
        if name == CLEAR:
            cleared = values[0] if values else METADATA
            self.cache.drop_data(cleared)
            if cleared == METADATA:
                publication.withdraw()
                self._notify()
        elif name in NOT_RELAYED:
            return
        elif (kept or name == METADATA) and (slot := self.cache.slot(name, len(payload))) is not None:
            self._header("data", Tag("", is_header=True, slot=slot), timestamp, payload, now)
            if name == METADATA:
                publication.claim(values[0] if values else None)
                self._notify()
        else:
            at = self.time.beside(timestamp)
            self._log.add("data", at, payload, now, is_frame=False)
            if self._log.is_read:
                self._came(urgent=False)

    def _becomes_main(self, kind: MediaKind, tag: Tag) -> bool:
        cache, is_video = self.cache, kind == "video"
        self._forget_known()
        if tag.is_faulty or tag.track > (cache.video_track if is_video else cache.audio_track):
            return False
        if is_video:
            cache.video_track = tag.track
            self._video_time = self.time.track(kind, tag.track, is_main=True)
        else:
            cache.audio_track = tag.track
            self._audio_time = self.time.track(kind, tag.track, is_main=True)
        self._update_tracks()
        return True

    def _is_sound_alone(self, now: float) -> bool:
        last = self.publication.meter.last_video if self.publication is not None else None
        return last is None or now - last > SOUND_ALONE_S

    def _came(self, *, urgent: bool) -> None:
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
            fanout.deliver(Batch(self._log, span), self.cache.main)
            self._log.given()

    def _begin_video(self) -> None:
        """Its first: who was given sound alone has to wait for a keyframe now."""
        self.deliver()
        self._without_video = False
        self._fanout.all_leave_live_edge()

    def _note(self, kind: MediaKind, tag: Tag, payload: bytes, now: float) -> None:
        """A faulty message, one of several tracks, or with extensions."""
        self._forget_known()
        if tag.needs and not self._log.is_extended:
            self.deliver()
            self._log.is_extended = True
            self._fanout.all_leave_live_edge()
        if tag.is_faulty and self.publication is not None:
            self.publication.meter.media_faults += 1
        if self._description.several(kind, tag, payload, now):
            self._update_tracks()

    def _update_tracks(self) -> None:
        self._description.set_tracks(self.cache.video_track, self.cache.audio_track)

    def _header(self, kind: Kind, tag: Tag, timestamp: int, payload: bytes, now: float) -> None:
        self._forget_known()
        if tag.is_notable and kind != "data":
            self._note(kind, tag, payload, now)
        is_kept = self.cache.takes(kind, tag.slot, len(payload))
        is_metadata = is_kept and kind == "data" and tag.slot == METADATA_SLOT
        at = METADATA_AT if is_metadata else self.time.beside(timestamp)
        make = message_of if tag.needs else SharedMessage
        self.cache.put(make(kind, at, payload, now, is_header=is_kept, slot=tag.slot))
        self._log.add(kind, at, payload, now, is_frame=False, slot=tag.slot if is_kept else None)
        if self._log.is_read:
            self._came(urgent=False)

    def _time_beside(self, kind: MediaKind, tag: Tag, timestamp: int, now: float) -> int:
        """The players' time of what is no frame of the main track."""
        if tag.is_frame:
            return self.time.track(kind, tag.track).at(timestamp, now)
        return self.time.beside(timestamp)

    def _notify(self) -> None:
        if self.publication is not None:
            self.publication.notify(self.media)
