"""A validator of HLS (draft-pantos-hls-rfc8216bis): what to give to its tables of checks.

    assert not faults(media_playlist(read_media(text)))

A `Finding` that is a "should" is advice: `faults` leaves it out.
"""

from collections.abc import Iterable, Sequence

from tests.hls.checks import Finding, run
from tests.hls.media_checks import MEDIA
from tests.hls.multivariant_checks import MULTIVARIANT, Presentation, Rendition
from tests.hls.playlist import MediaPlaylist
from tests.hls.segment_checks import SEGMENTS, Body, Media
from tests.hls.succession_checks import SUCCESSION, Fetch, Succession
from tests.hls.syntax_checks import SYNTAX
from tests.hls.webvtt_checks import WEBVTT

__all__ = ["Body", "Fetch", "Finding", "Media", "Presentation", "Rendition", "Succession"]


def media_playlist(found: MediaPlaylist) -> list[Finding]:
    return [*run(SYNTAX, found), *run(MEDIA, found)]


def succession(found: Succession) -> list[Finding]:
    """With what holds for each of the playlists; the same words are told once."""
    each = [finding for fetch in found.fetches for finding in media_playlist(fetch.playlist)]
    return [*dict.fromkeys(each), *run(SUCCESSION, found)]


def presentation(found: Presentation) -> list[Finding]:
    return [*run(SYNTAX, found.playlist), *run(MULTIVARIANT, found)]


def segments(found: Media) -> list[Finding]:
    return list(run(SEGMENTS, found))


def texts(found: Sequence[Body]) -> list[Finding]:
    """Of subtitles in WebVTT."""
    return list(run(WEBVTT, found))


def faults(findings: Iterable[Finding]) -> list[str]:
    return [str(finding) for finding in findings if finding.level == "must"]


def advice(findings: Iterable[Finding]) -> list[str]:
    return [str(finding) for finding in findings if finding.level == "should"]
