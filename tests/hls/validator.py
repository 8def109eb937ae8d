"""A validator of HLS: its tables of checks, and what to give to each.

    assert not faults(media_playlist(read_media(text)))

A `Finding` that is a "should" is advice: `faults` leaves it out.
"""

from collections.abc import Iterable

from tests.hls.checks import Check, Finding, run
from tests.hls.media_checks import MEDIA
from tests.hls.multivariant_checks import MULTIVARIANT, Presentation, Rendition
from tests.hls.playlist import MediaPlaylist
from tests.hls.segment_checks import SEGMENTS, Body, Media
from tests.hls.succession_checks import SUCCESSION, Fetch, Succession
from tests.hls.syntax_checks import SYNTAX

__all__ = ["TABLES", "Body", "Fetch", "Finding", "Media", "Presentation", "Rendition", "Succession"]

TABLES: dict[str, list[Check[object]]] = {  # For what tells of all of them: their subjects differ.
    "any playlist": SYNTAX,  # type: ignore[dict-item]
    "a media playlist": MEDIA,  # type: ignore[dict-item]
    "a media playlist, fetched again and again": SUCCESSION,  # type: ignore[dict-item]
    "a multivariant playlist": MULTIVARIANT,  # type: ignore[dict-item]
    "segments": SEGMENTS,  # type: ignore[dict-item]
}


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


def faults(findings: Iterable[Finding]) -> list[str]:
    return [str(finding) for finding in findings if finding.level == "must"]


def advice(findings: Iterable[Finding]) -> list[str]:
    return [str(finding) for finding in findings if finding.level == "should"]
