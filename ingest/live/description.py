"""What a stream is: by its headers and frames (contracts.MediaInfo), and by onMetaData as publishers claim it.

Metadata are made safe to keep and to send as JSON; at most so many headers are read in a second.

Messages come from a peer. One that can't be read gives the codec alone; nothing here raises."""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, Literal, cast

from ingest.contracts import MediaInfo, TrackInfo
from ingest.live.media import Tag
from ingest.rtmp.amf import Date
from ingest.rtmp.codecs import AudioConfig, VideoConfig, audio_config, video_config
from ingest.rtmp.media import ExtendedAudio, ExtendedVideo, read_audio, read_video
from ingest.rtmp.media_tags import codec_name

VIDEO_FIELDS: Final = (
    *("video_codec", "video_codec_string", "width", "height", "profile", "level", "bit_depth", "frame_rate"),
)
AUDIO_FIELDS: Final = ("audio_codec", "audio_codec_string", "sample_rate", "channels")

SIZED_BY_KEYFRAMES: Final = frozenset({"VP8", "VP9", "H.263", "Screen", "Screen 2"})
"""Codecs whose keyframes alone tell the resolution, so that it may change with each."""


def describe_video(known: MediaInfo, tag: Tag, payload: bytes) -> MediaInfo:
    """All `VIDEO_FIELDS` that are known now, from a sequence header or a keyframe; a keyframe adds to its header."""
    config = video_config(read_video(payload)) or VideoConfig(tag.codec)
    found = _info(
        video_codec=config.codec,
        video_codec_string=config.codec_string,
        width=config.width,
        height=config.height,
        profile=config.profile,
        level=config.level,
        bit_depth=config.bit_depth,
        frame_rate=config.fps,
    )
    if tag.is_sequence_start or known.get("video_codec") != config.codec:
        return found
    return _info(**{**found, **_part(known, VIDEO_FIELDS), **_part(found, ("width", "height"))})


def describe_audio(known: MediaInfo, tag: Tag, payload: bytes) -> MediaInfo:
    """All `AUDIO_FIELDS` that are known now, from a header or a frame; a frame adds to its header."""
    config = audio_config(read_audio(payload)) or AudioConfig(tag.codec)
    # AAC is known by its profile, which its frames don't tell.
    codec = (config.codec == "AAC" and config.profile) or config.codec
    found = _info(
        audio_codec=codec,
        audio_codec_string=config.codec_string,
        sample_rate=config.sample_rate,
        channels=config.channels,
    )
    before = known.get("audio_codec", "")
    if tag.is_sequence_start or not (before == codec or (codec == "AAC" and codec in before)):
        return found
    return _info(**{**_part(known, AUDIO_FIELDS), **found, "audio_codec": before})


def _info(**fields: Any) -> MediaInfo:
    return cast("MediaInfo", {name: value for name, value in fields.items() if value is not None})


def _part(known: MediaInfo, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in known.items() if name in names}


MAX_DEPTH: Final = 4
MAX_VALUES: Final = 256
"""Of one message, those inside of others included."""
MAX_TEXT: Final = 256
"""Characters of a text or of a name."""


METADATA: Final = "onMetaData"


def sanitise(value: Any) -> dict[str, Any]:
    """The properties of a metadata object, cut to the bounds above. What JSON has no form for becomes None."""
    if not isinstance(value, dict):
        return {}
    return _Copy().properties(value, 1)


class _Copy:
    def __init__(self) -> None:
        self._left = MAX_VALUES

    def properties(self, value: dict[str, Any], depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for name, item in value.items():
            if self._left <= 0:
                break
            result[str(name)[:MAX_TEXT]] = self.value(item, depth)
        return result

    def value(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return _number(value)
        if isinstance(value, str):
            return value[:MAX_TEXT]
        if isinstance(value, Date):
            return _date(value.milliseconds)
        if depth < MAX_DEPTH and isinstance(value, dict):
            return self.properties(value, depth + 1)
        if depth < MAX_DEPTH and isinstance(value, list | tuple):
            return [self.value(item, depth + 1) for item in value[: self._left]]
        return None


def _number(value: float) -> int | float | None:
    """AMF0 has doubles only; 1920.0 is meant as 1920."""
    if not math.isfinite(value):
        return None
    return int(value) if abs(value) < 2**53 and value == int(value) else value


def _date(milliseconds: float) -> str | None:
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return None


def claimed(metadata: dict[str, Any], name: str, *, most: float) -> float | None:
    """A number of the metadata that may be believed: over 0 and at most `most`."""
    value = metadata.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 < value <= most else None


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
        self.media = MediaInfo()
        self.fourccs: dict[MediaKind, str] = {}
        """By which codec each main track is sent; without those that are sent by a codec id. Replaced as a whole."""
        self.audio_form = -1
        """First byte of the latest audio message that was read."""
        self._codecs: dict[tuple[MediaKind, int], str] = {}
        self._seen: set[tuple[MediaKind, int]] = set()

    def video(self, tag: Tag, payload: bytes, now: float) -> None:
        if self._allows(now):
            is_other = self._follow("video", read_video(payload))
            self._take(describe_video(self.media, tag, payload), VIDEO_FIELDS, is_other=is_other)

    def audio(self, tag: Tag, payload: bytes, now: float) -> None:
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

    def set_tracks(self, video_track: int, audio_track: int) -> None:
        """All but the main ones, which are given."""
        main = (("video", video_track), ("audio", audio_track))
        found = [
            TrackInfo(kind=kind, track=track, codec=codec)
            for (kind, track), codec in sorted(self._codecs.items())
            if (kind, track) not in main
        ]
        self._take(MediaInfo(tracks=found) if found else MediaInfo(), ("tracks",))

    def _follow(self, kind: MediaKind, message: object) -> bool:
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
