"""The text of playlists (draft-pantos-hls-rfc8216bis, section 4), of what a rendition or a packaging lists."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol

from ingest.hls.segments import NO_INIT, Part, Segment, Targets
from ingest.hls.settings import HlsSettings

VERSION: Final = 6
"""Which EXT-X-MAP needs."""
DELTA_VERSION: Final = 9
"""Which EXT-X-SKIP needs."""
PARTS_HELD_BACK: Final = 3
TARGETS_HELD_BACK: Final = 3
AUDIO_GROUP: Final = "audio"
SUBTITLES_GROUP: Final = "subtitles"


class Listed(Protocol):
    """What a media playlist tells of: a `Rendition`."""

    name: str
    epoch: str
    suffix: str
    settings: HlsSettings
    targets: Targets
    open: Segment | None
    discontinuities: int
    is_ended: bool

    @property
    def segments(self) -> Sequence[Segment]: ...

    @property
    def is_independent(self) -> bool: ...

    @property
    def media_sequence(self) -> int: ...

    @property
    def last_msn(self) -> int: ...

    @property
    def last_part(self) -> int | None: ...

    @property
    def end_s(self) -> float: ...

    def others(self) -> "Sequence[Listed]":
        """Of which it has reports."""


def media_playlist(rendition: Listed, *, skip: bool) -> str:
    settings, targets = rendition.settings, rendition.targets
    segments = list(rendition.segments)
    end = rendition.end_s
    until = settings.skip_targets * targets.duration_s
    skipped = _skipped(segments, end - until) if skip and not rendition.is_ended else 0
    lines = [
        "#EXTM3U",
        f"#EXT-X-VERSION:{DELTA_VERSION if skipped else VERSION}",
        f"#EXT-X-TARGETDURATION:{targets.duration_s}",
        _server_control(rendition, until),
        f"#EXT-X-PART-INF:PART-TARGET={targets.part_s:.3f}",
        f"#EXT-X-MEDIA-SEQUENCE:{rendition.media_sequence}",
        f"#EXT-X-DISCONTINUITY-SEQUENCE:{rendition.discontinuities}",
    ]
    is_open = rendition.open is not None and bool(rendition.open.parts)
    listed = [*segments, *([rendition.open] if is_open and rendition.open is not None else [])]
    if rendition.is_independent:
        lines.append("#EXT-X-INDEPENDENT-SEGMENTS")
    if skipped:
        lines.append(f"#EXT-X-SKIP:SKIPPED-SEGMENTS={skipped}")
    init = NO_INIT
    parts_from = end - settings.parts_targets * targets.duration_s
    for segment in listed[skipped:]:
        if segment.is_discontinuous:
            lines.append("#EXT-X-DISCONTINUITY")
        if segment.init != init:
            init = segment.init
            lines.append(f'#EXT-X-MAP:URI="{rendition.epoch}/{rendition.name}-init-{init}.mp4"')
        if segment.date is not None:
            lines.append(f"#EXT-X-PROGRAM-DATE-TIME:{_date(segment.date)}")
        if segment.lists_parts and segment.start >= parts_from - 0.0005:
            lines.extend(_part(rendition, segment, number, part) for number, part in enumerate(segment.parts))
        if segment.is_whole:
            lines += [f"#EXTINF:{segment.duration:.5f},", _uri(rendition, f"{segment.msn}")]
    if rendition.is_ended:
        lines.append("#EXT-X-ENDLIST")
    else:
        lines.append(_preload_hint(rendition))
        lines.extend(_report(other) for other in rendition.others())
    return "\n".join(lines) + "\n"


def _skipped(segments: Sequence[Segment], before: float) -> int:
    """How many of them ended before the skip boundary."""
    return sum(segment.end <= before for segment in segments)


def _server_control(rendition: Listed, until: int) -> str:
    targets = rendition.targets
    control = f"#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,CAN-SKIP-UNTIL={until}"
    control += f",PART-HOLD-BACK={PARTS_HELD_BACK * targets.part_s:.3f}"
    return control + f",HOLD-BACK={TARGETS_HELD_BACK * targets.duration_s}"


def _part(rendition: Listed, segment: Segment, number: int, part: Part) -> str:
    uri = _uri(rendition, f"{segment.msn}.{number}")
    independent = ",INDEPENDENT=YES" if part.is_independent else ""
    return f'#EXT-X-PART:DURATION={part.duration:.5f},URI="{uri}"{independent}'


def _preload_hint(rendition: Listed) -> str:
    segment = rendition.open
    msn, number = (segment.msn, len(segment.parts)) if segment is not None else (rendition.last_msn + 1, 0)
    return f'#EXT-X-PRELOAD-HINT:TYPE=PART,URI="{_uri(rendition, f"{msn}.{number}")}"'


def _uri(rendition: Listed, number: str) -> str:
    return f"{rendition.epoch}/{rendition.name}-{number}.{rendition.suffix}"


def _report(other: Listed) -> str:
    part = f",LAST-PART={other.last_part}" if other.last_part is not None else ""
    return f'#EXT-X-RENDITION-REPORT:URI="{other.name}.m3u8",LAST-MSN={other.last_msn}{part}'


def _date(seconds: float) -> str:
    """To the millisecond, so that it never falls behind what was said before."""
    return datetime.fromtimestamp(round(seconds * 1000) / 1000, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


@dataclass(frozen=True, slots=True)
class Variant:
    uri: str
    peak_bps: float
    average_bps: float
    codecs: tuple[str, ...]
    size: tuple[int, int] | None = None
    fps: float | None = None
    has_captions: bool = False


@dataclass(frozen=True, slots=True)
class Sound:
    """An audio track that viewers can choose. Without a URI it is in the variant."""

    name: str
    channels: int | None
    uri: str = ""
    peak_bps: float = 0.0
    average_bps: float = 0.0
    codecs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Subtitles:
    """Texts that viewers can have shown. `language`: of BCP 47; "": nobody said."""

    name: str
    language: str
    uri: str
    peak_bps: float
    average_bps: float


def multivariant_playlist(variants: Iterable[Variant], sounds: Sequence[Sound], subtitles: Sequence[Subtitles]) -> str:
    """`sounds`: empty where there is no choice; else the first is the one in the variants."""
    lines = ["#EXTM3U", f"#EXT-X-VERSION:{VERSION}"]
    lines += [_sound(sound, is_default=number == 0) for number, sound in enumerate(sounds)]
    lines += [_subtitles(each) for each in subtitles]
    beside = sum(max((each.peak_bps for each in several), default=0.0) for several in (sounds, subtitles))
    beside_average = sum(max((each.average_bps for each in several), default=0.0) for several in (sounds, subtitles))
    for variant in variants:
        codecs = dict.fromkeys([*variant.codecs, *(codec for sound in sounds for codec in sound.codecs)])
        line = f"#EXT-X-STREAM-INF:BANDWIDTH={_whole(variant.peak_bps + beside)}"
        line += f",AVERAGE-BANDWIDTH={_whole(variant.average_bps + beside_average)}"
        line += f',CODECS="{",".join(codecs)}"'
        if variant.size is not None:
            line += f",RESOLUTION={variant.size[0]}x{variant.size[1]}"
        if variant.fps is not None:
            line += f",FRAME-RATE={variant.fps:.3f}"
        if sounds:
            line += f',AUDIO="{AUDIO_GROUP}"'
        if subtitles:
            line += f',SUBTITLES="{SUBTITLES_GROUP}"'
        if variant.size is not None and not variant.has_captions:
            line += ",CLOSED-CAPTIONS=NONE"
        lines += [line, variant.uri]
    return "\n".join(lines) + "\n"


def _sound(sound: Sound, *, is_default: bool) -> str:
    line = f'#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="{AUDIO_GROUP}",NAME="{sound.name}"'
    line += f",DEFAULT={'YES' if is_default else 'NO'},AUTOSELECT=YES"
    line += f',CHANNELS="{sound.channels}"' if sound.channels else ""
    return line + (f',URI="{sound.uri}"' if sound.uri else "")


def _subtitles(subtitles: Subtitles) -> str:
    line = f'#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="{SUBTITLES_GROUP}",NAME="{subtitles.name}"'
    line += f',LANGUAGE="{subtitles.language}"' if subtitles.language else ""
    return line + f',DEFAULT=NO,AUTOSELECT=YES,URI="{subtitles.uri}"'


def _whole(bps: float) -> int:
    """Rounded up to whole kbit/s."""
    return max(-(-int(bps) // 1000), 1) * 1000
