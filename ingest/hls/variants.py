"""What the multivariant playlist offers: a variant for each video with the main audio; further audio and subtitles
beside."""

from collections.abc import Mapping, Sequence
from typing import Final

from ingest.hls.cutting import MediaRendition
from ingest.hls.frames import Key
from ingest.hls.playlists import Sound, Subtitles, Variant
from ingest.hls.rendition import Rendition
from ingest.hls.subtitles import SubtitlesRendition
from ingest.hls.tracks import Track
from ingest.rtmp.codecs import AudioConfig, VideoConfig

HEADROOM: Final = 1.1
"""Of BANDWIDTH over what was measured: what comes may be more."""


def choices(
    listed: Sequence[Rendition], fps: Mapping[Key, float], *, suffix: str, has_captions: bool
) -> tuple[list[Variant], list[Sound], list[Subtitles]]:
    """`fps`: of video tracks; `suffix`: of URIs. Without video the first audio is the variant."""
    renditions = [each for each in listed if isinstance(each, MediaRendition)]
    videos = [each for each in renditions if each.lead.kind == "video"]
    main = (videos or renditions)[:1]
    variants = videos or main
    inside = main[0].other or (main[0].lead if not videos else None) if main else None
    sounds = []
    if inside is not None:
        others = [each for each in renditions if each not in variants and each.lead is not inside]
        sounds = [_sound(each, suffix) for each in others]
        sounds[:0] = [Sound("Track 1", _channels(inside))] if sounds else []
    texts = [_subtitles(each, suffix) for each in listed if isinstance(each, SubtitlesRendition)]
    return [_variant(each, fps, suffix, has_captions=has_captions) for each in variants], sounds, texts


def _variant(rendition: MediaRendition, fps: Mapping[Key, float], suffix: str, *, has_captions: bool) -> Variant:
    tracks = [rendition.lead, *([rendition.other] if rendition.other is not None else [])]
    config = rendition.lead.config
    return Variant(
        f"{rendition.name}.m3u8{suffix}",
        _peak(rendition),
        _average(rendition),
        tuple(track.config.codec_string or "" for track in tracks),
        (config.width or 0, config.height or 0) if isinstance(config, VideoConfig) else None,
        fps.get(rendition.lead.key),
        has_captions,
    )


def _sound(rendition: MediaRendition, suffix: str) -> Sound:
    return Sound(
        f"Track {int(rendition.name[1:]) + 1}",
        _channels(rendition.lead),
        f"{rendition.name}.m3u8{suffix}",
        _peak(rendition),
        _average(rendition),
        (rendition.lead.config.codec_string or "",),
    )


def _subtitles(rendition: SubtitlesRendition, suffix: str) -> Subtitles:
    uri = f"{rendition.name}.m3u8{suffix}"
    return Subtitles(rendition.label, rendition.language, uri, _peak(rendition), _average(rendition))


def _channels(track: Track) -> int | None:
    return track.config.channels if isinstance(track.config, AudioConfig) else None


def _peak(rendition: Rendition) -> float:
    return HEADROOM * max(rendition.peak_bps, rendition.average_bps, rendition.sounding_bps)


def _average(rendition: Rendition) -> float:
    return rendition.average_bps or rendition.sounding_bps
