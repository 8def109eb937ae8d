"""What a stream is (contracts.MediaInfo), gathered from its messages: at most so many of them are read in a second."""

import math
from collections.abc import Callable
from typing import Final, Literal

from ingest.contracts import MediaInfo, TrackInfo
from ingest.live.headers import AUDIO_FIELDS, VIDEO_FIELDS, describe_audio, describe_video
from ingest.live.media import Tag
from ingest.rtmp.media import ExtendedAudio, ExtendedVideo, read_audio, read_video
from ingest.rtmp.media.kinds import codec_name

MediaKind = Literal["audio", "video"]

MAX_READINGS_PER_S: Final = 20
"""Of a stream's headers and keyframes. A peer can make one cost over a millisecond; real headers come with keyframes at
the most. What goes over it is relayed like any, and not read."""

MAX_TRACKS: Final = 32
"""Of a stream, that are told."""
MAX_SLOTS: Final = 256
"""Kinds of messages of several tracks that are told apart."""


class Description:
    """Of one stream, through all of its publishers."""

    __slots__ = ("_changed", "_codecs", "_count", "_seen", "_since", "audio_form", "fourccs", "media")

    def __init__(self, changed: Callable[[], None]) -> None:
        """`changed` is called when `media` is another."""
        self.media = MediaInfo()
        """Replaced as a whole, never changed in place."""
        self._changed = changed
        self._since = -math.inf
        self._count = 0
        self.clear()

    def clear(self) -> None:
        """The publisher ends, or another begins; nobody is told."""
        self.media = MediaInfo()
        self.fourccs: dict[MediaKind, str] = {}
        """By which codec each main track is sent; without those that are sent by a codec id. Replaced as a whole."""
        self.audio_form = -1
        """First byte of the latest audio message that was read."""
        self._codecs: dict[tuple[MediaKind, int], str] = {}
        self._seen: set[tuple[MediaKind, int]] = set()

    def video(self, tag: Tag, payload: bytes, now: float) -> None:
        """A sequence header or keyframe of the main track."""
        if self._allows(now):
            is_other = self._follow("video", read_video(payload))
            self._take(describe_video(self.media, tag, payload), VIDEO_FIELDS, is_other=is_other)

    def audio(self, tag: Tag, payload: bytes, now: float) -> None:
        """A header or frame of the main track."""
        if self._allows(now):
            self.audio_form = payload[0]
            is_other = self._follow("audio", read_audio(payload))
            self._take(describe_audio(self.media, tag, payload), AUDIO_FIELDS, is_other=is_other)

    def several(self, kind: MediaKind, tag: Tag, payload: bytes, now: float) -> bool:
        """A message of several tracks. True: they may be others than were known, and are to be told."""
        is_known = (kind, tag.slot) in self._seen or len(self._seen) >= MAX_SLOTS
        if (is_known and not tag.is_sequence_start) or not self._allows(now):
            return False
        if not is_known:
            self._seen.add((kind, tag.slot))
        message = read_video(payload) if kind == "video" else read_audio(payload)
        if not isinstance(message, ExtendedVideo | ExtendedAudio) or message.multitrack is None:
            return False
        for track in message.tracks:
            if len(self._codecs) < MAX_TRACKS or (kind, track.track_id) in self._codecs:
                self._codecs[kind, track.track_id] = codec_name(track.fourcc)
        return True

    def tell_tracks(self, video_track: int, audio_track: int) -> None:
        """All but the main ones, which are given."""
        main = (("video", video_track), ("audio", audio_track))
        found = [
            TrackInfo(kind=kind, track=track, codec=codec)
            for (kind, track), codec in sorted(self._codecs.items())
            if (kind, track) not in main
        ]
        self._take(MediaInfo(tracks=found) if found else MediaInfo(), ("tracks",))

    def _follow(self, kind: MediaKind, message: object) -> bool:
        """Whether the track is sent by another FourCC than before."""
        tracks = message.tracks if isinstance(message, ExtendedVideo | ExtendedAudio) else ()
        fourcc = tracks[0].fourcc.decode("latin-1") if tracks else ""
        if fourcc == self.fourccs.get(kind, ""):
            return False
        kept = {other: code for other, code in self.fourccs.items() if other != kind}
        self.fourccs = {**kept, kind: fourcc} if fourcc else kept
        return True

    def _take(self, info: MediaInfo, replaced: tuple[str, ...], *, is_other: bool = False) -> None:
        """In place of the fields that it replaces. `is_other`: something else is another, too."""
        kept = {key: value for key, value in self.media.items() if key not in replaced}
        media = MediaInfo(**{**kept, **info})  # type: ignore[typeddict-item]
        if is_other or media != self.media:
            self.media = media
            self._changed()

    def _allows(self, now: float) -> bool:
        """Whether one more reading is within the bound; it is counted."""
        if now - self._since >= 1.0:
            self._since, self._count = now, 0
        self._count += 1
        return self._count <= MAX_READINGS_PER_S
