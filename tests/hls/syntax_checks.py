"""What holds for the lines, tags and attributes of any playlist."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from tests.hls import playlist
from tests.hls.checks import Check
from tests.hls.playlist import MediaPlaylist, MultivariantPlaylist

Playlist = MediaPlaylist | MultivariantPlaylist

INTEGER, DECIMAL, QUOTED, YES = r"[0-9]{1,20}", r"[0-9]+(\.[0-9]+)?", r'"[^"\r\n]*"', "YES"
YES_NO = "YES|NO"

ATTRIBUTES: Final[dict[str, dict[str, str]]] = {
    "EXT-X-PART-INF": {"PART-TARGET!": DECIMAL},
    "EXT-X-SERVER-CONTROL": {
        "CAN-SKIP-UNTIL": DECIMAL,
        "CAN-SKIP-DATERANGES": YES,
        "HOLD-BACK": DECIMAL,
        "PART-HOLD-BACK": DECIMAL,
        "CAN-BLOCK-RELOAD": YES,
    },
    "EXT-X-MAP": {"URI!": QUOTED, "BYTERANGE": r'"[0-9]+@[0-9]+"'},
    "EXT-X-PART": {
        "URI!": QUOTED,
        "DURATION!": DECIMAL,
        "INDEPENDENT": YES,
        "BYTERANGE": r'"[0-9]+(@[0-9]+)?"',
        "GAP": YES,
    },
    "EXT-X-SKIP": {"SKIPPED-SEGMENTS!": INTEGER, "RECENTLY-REMOVED-DATERANGES": QUOTED},
    "EXT-X-PRELOAD-HINT": {
        "TYPE!": "PART|MAP",
        "URI!": QUOTED,
        "BYTERANGE-START": INTEGER,
        "BYTERANGE-LENGTH": INTEGER,
    },
    "EXT-X-RENDITION-REPORT": {"URI!": QUOTED, "LAST-MSN": INTEGER, "LAST-PART": INTEGER},
    "EXT-X-START": {"TIME-OFFSET!": r"-?[0-9]+(\.[0-9]+)?", "PRECISE": YES_NO},
    "EXT-X-MEDIA": {
        "TYPE!": "AUDIO|VIDEO|SUBTITLES|CLOSED-CAPTIONS",
        "GROUP-ID!": QUOTED,
        "NAME!": QUOTED,
        "URI": QUOTED,
        "LANGUAGE": QUOTED,
        "ASSOC-LANGUAGE": QUOTED,
        "STABLE-RENDITION-ID": QUOTED,
        "DEFAULT": YES_NO,
        "AUTOSELECT": YES_NO,
        "FORCED": YES_NO,
        "INSTREAM-ID": QUOTED,
        "BIT-DEPTH": INTEGER,
        "SAMPLE-RATE": INTEGER,
        "CHARACTERISTICS": QUOTED,
        "CHANNELS": QUOTED,
    },
    "EXT-X-STREAM-INF": {
        "BANDWIDTH!": INTEGER,
        "AVERAGE-BANDWIDTH": INTEGER,
        "SCORE": DECIMAL,
        "CODECS": QUOTED,
        "SUPPLEMENTAL-CODECS": QUOTED,
        "RESOLUTION": r"[0-9]+x[0-9]+",
        "FRAME-RATE": DECIMAL,
        "HDCP-LEVEL": "TYPE-0|TYPE-1|NONE",
        "ALLOWED-CPC": QUOTED,
        "VIDEO-RANGE": "SDR|HLG|PQ",
        "REQ-VIDEO-LAYOUT": QUOTED,
        "STABLE-VARIANT-ID": QUOTED,
        "AUDIO": QUOTED,
        "VIDEO": QUOTED,
        "SUBTITLES": QUOTED,
        "CLOSED-CAPTIONS": f"{QUOTED}|NONE",
        "PATHWAY-ID": QUOTED,
    },
}
"""{tag: {attribute: how its value is written}}; with a ! it is required."""

VALUES: Final = {
    "EXTM3U": "",
    "EXT-X-VERSION": INTEGER,
    "EXT-X-TARGETDURATION": INTEGER,
    "EXT-X-MEDIA-SEQUENCE": INTEGER,
    "EXT-X-DISCONTINUITY-SEQUENCE": INTEGER,
    "EXT-X-ENDLIST": "",
    "EXT-X-PLAYLIST-TYPE": "EVENT|VOD",
    "EXT-X-I-FRAMES-ONLY": "",
    "EXT-X-INDEPENDENT-SEGMENTS": "",
    "EXT-X-DISCONTINUITY": "",
    "EXT-X-GAP": "",
    "EXTINF": rf"{DECIMAL},.*",
    "EXT-X-BITRATE": INTEGER,
    "EXT-X-BYTERANGE": r"[0-9]+(@[0-9]+)?",
    "EXT-X-PROGRAM-DATE-TIME": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?",
}
"""{tag: its value}, of those without attributes."""

KNOWN: Final = (
    playlist.BASIC_TAGS
    | playlist.PLAYLIST_TAGS
    | playlist.SEGMENT_TAGS
    | playlist.METADATA_TAGS
    | playlist.MULTIVARIANT_TAGS
)
ONCE: Final = playlist.PLAYLIST_TAGS | {
    *("EXTM3U", "EXT-X-VERSION", "EXT-X-INDEPENDENT-SEGMENTS", "EXT-X-START", "EXT-X-SKIP")
}


def characters(found: Playlist) -> Iterator[str]:
    if found.text.startswith("\ufeff"):
        yield "it begins with a byte order mark"
    for place, line in enumerate(found.lines):
        if control := re.search(r"[\x00-\x1f\x7f-\x9f]", line.removesuffix("\r")):
            yield f"line {place + 1} has the control character {control[0]!r}"


def first_line(found: Playlist) -> Iterator[str]:
    if found.lines[0].rstrip("\r") != "#EXTM3U":
        yield f"the first line is {found.lines[0][:40]!r}"


def blanks(found: Playlist) -> Iterator[str]:
    for place, line in enumerate(found.lines):
        plain = line.removesuffix("\r")
        if plain != plain.strip() or (plain and not plain.startswith("#") and " " in plain):
            yield f"line {place + 1} has blanks: {plain[:60]!r}"


def known_tags(found: Playlist) -> Iterator[str]:
    for tag in found.tags:
        if tag.name not in KNOWN:
            yield f"line {tag.line + 1}: the draft has no tag {tag.name}"


def lists(found: Playlist) -> Iterator[str]:
    for tag in found.tags:
        for fault in tag.faults:
            yield f"line {tag.line + 1}, {tag.name}: {fault}"


def values(found: Playlist) -> Iterator[str]:
    for tag in found.tags:
        wanted = VALUES.get(tag.name)
        if wanted is not None and not re.fullmatch(wanted, tag.value):
            yield f"line {tag.line + 1}: {tag.name} has the value {tag.value!r}"
        forms = {name.rstrip("!"): form for name, form in ATTRIBUTES.get(tag.name, {}).items()}
        for name, value in tag.attributes.items():
            if name in forms and not re.fullmatch(forms[name], value):
                yield f"line {tag.line + 1}, {tag.name}: {name}={value}"


def required(found: Playlist) -> Iterator[str]:
    for tag in found.tags:
        for name in ATTRIBUTES.get(tag.name, {}):
            if name.endswith("!") and name[:-1] not in tag.attributes:
                yield f"line {tag.line + 1}: {tag.name} without {name[:-1]}"


def once(found: Playlist) -> Iterator[str]:
    counts = Counter(tag.name for tag in found.tags)
    for name in sorted(ONCE):
        if counts[name] > 1:
            yield f"{name} stands there {counts[name]} times"


def one_kind(found: Playlist) -> Iterator[str]:
    if isinstance(found, MediaPlaylist):
        return
    of_media = playlist.PLAYLIST_TAGS | playlist.SEGMENT_TAGS | playlist.METADATA_TAGS
    for tag in found.tags:
        if tag.name in of_media:
            yield f"line {tag.line + 1}: {tag.name} in a multivariant playlist"


SYNTAX: list[Check[Playlist]] = [
    Check("characters", "4", "UTF-8 without a byte order mark and without control characters", characters),
    Check("first-line", "4.4.1.1", "#EXTM3U is the first line", first_line),
    Check("blanks", "4.1", "No blanks around lines, nor in a URI", blanks),
    Check("known-tags", "4.1", "Tags are those of the draft: players pass over others", known_tags, "should"),
    Check("attribute-lists", "4.2", "Attribute lists are well formed, no attribute stands there twice", lists),
    Check("values", "4.2", "Values have the type that the draft gives them: quoted, number, one of some words", values),
    Check("required-attributes", "4.4", "Each tag has the attributes that it needs", required),
    Check("once", "4.4.3", "Tags of the whole playlist stand there once at most", once),
    Check("one-kind", "4.4.4", "A multivariant playlist has no tag of a media playlist", one_kind),
]
