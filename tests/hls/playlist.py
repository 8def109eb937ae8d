"""A reader of HLS playlists (draft-pantos-hls-rfc8216bis), written from the draft alone: the tests hold the server's
playlists against it. It takes whatever comes, and keeps what it could not read in `Tag.faults`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import nan

ATTRIBUTE = re.compile(r'([A-Z0-9-]+)=("[^"\r\n]*"|[^",\s][^",]*)(?:,|$)')
MULTIVARIANT_TAGS = frozenset(
    f"EXT-X-{name}"
    for name in ("MEDIA", "STREAM-INF", "I-FRAME-STREAM-INF", "SESSION-DATA", "SESSION-KEY", "CONTENT-STEERING")
)
PLAYLIST_TAGS = frozenset(
    f"EXT-X-{name}"
    for name in (
        *("TARGETDURATION", "MEDIA-SEQUENCE", "DISCONTINUITY-SEQUENCE", "ENDLIST", "PLAYLIST-TYPE", "I-FRAMES-ONLY"),
        *("PART-INF", "SERVER-CONTROL"),
    )
)
SEGMENT_TAGS = frozenset(
    {
        "EXTINF",
        *(
            f"EXT-X-{name}"
            for name in ("BYTERANGE", "DISCONTINUITY", "KEY", "MAP", "PROGRAM-DATE-TIME", "GAP", "BITRATE", "PART")
        ),
    }
)
METADATA_TAGS = frozenset(f"EXT-X-{name}" for name in ("DATERANGE", "SKIP", "PRELOAD-HINT", "RENDITION-REPORT"))
BASIC_TAGS = frozenset(
    {"EXTM3U", *(f"EXT-X-{name}" for name in ("VERSION", "INDEPENDENT-SEGMENTS", "START", "DEFINE"))}
)
LISTED = frozenset(
    f"EXT-X-{name}"
    for name in (
        *("PART-INF", "SERVER-CONTROL", "KEY", "MAP", "PART", "DATERANGE", "SKIP", "PRELOAD-HINT", "RENDITION-REPORT"),
        *("MEDIA", "STREAM-INF", "I-FRAME-STREAM-INF", "SESSION-DATA", "SESSION-KEY", "CONTENT-STEERING", "START"),
        "DEFINE",
    )
)
"""Those whose value is an attribute list."""


@dataclass(frozen=True, slots=True)
class Tag:
    """`name` without the #. `attributes` as they are written: a quoted string has its quotes."""

    line: int
    name: str
    value: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    faults: tuple[str, ...] = ()

    def text(self, name: str) -> str:
        """A quoted string's content, or another value as it stands; "" without it."""
        return self.attributes.get(name, "").strip('"')

    def number(self, name: str) -> float | None:
        return number(self.text(name))

    def is_yes(self, name: str) -> bool:
        return self.attributes.get(name) == "YES"


@dataclass(frozen=True, slots=True)
class Part:
    uri: str
    duration: float
    """Seconds; NaN where it has none."""
    is_independent: bool = False
    is_gap: bool = False
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Segment:
    """One that is listed; or, `uri` "", the parts at the end whose segment is not there yet."""

    msn: int
    uri: str
    duration: float
    """EXTINF in seconds; `math.nan`, always that object, without one: segments are compared."""
    parts: tuple[Part, ...] = ()
    map_uri: str = ""
    discontinuity: int = 0
    """Its Discontinuity Sequence Number."""
    has_discontinuity: bool = False
    """An EXT-X-DISCONTINUITY of its own."""
    date_time: str = ""
    is_gap: bool = False
    byterange: str = ""
    line: int = field(default=0, compare=False)
    late_tags: tuple[str, ...] = field(default=(), compare=False)
    """Tags of the whole segment that stand behind its first part."""

    @property
    def is_open(self) -> bool:
        return not self.uri


@dataclass(frozen=True)
class MediaPlaylist:
    text: str
    lines: tuple[str, ...]
    tags: tuple[Tag, ...]
    segments: tuple[Segment, ...] = ()
    """Whole ones. Of a delta update those that it lists."""
    open: Segment | None = None
    """The parts at the end."""

    def first(self, name: str) -> Tag | None:
        return next((tag for tag in self.tags if tag.name == name), None)

    def all(self, name: str) -> list[Tag]:
        return [tag for tag in self.tags if tag.name == name]

    def integer(self, name: str, default: int) -> int:
        tag = self.first(name)
        return int(tag.value) if tag and tag.value.isdecimal() else default

    @cached_property
    def version(self) -> int:
        return self.integer("EXT-X-VERSION", 1)

    @cached_property
    def target(self) -> int:
        """Seconds; 0 without one."""
        return self.integer("EXT-X-TARGETDURATION", 0)

    @cached_property
    def media_sequence(self) -> int:
        return self.integer("EXT-X-MEDIA-SEQUENCE", 0)

    @cached_property
    def discontinuity_sequence(self) -> int:
        return self.integer("EXT-X-DISCONTINUITY-SEQUENCE", 0)

    @cached_property
    def part_target(self) -> float | None:
        tag = self.first("EXT-X-PART-INF")
        return tag.number("PART-TARGET") if tag else None

    @cached_property
    def control(self) -> Tag:
        return self.first("EXT-X-SERVER-CONTROL") or Tag(0, "EXT-X-SERVER-CONTROL")

    @cached_property
    def skipped(self) -> int:
        """Segments that a delta update left out; 0: it is a whole playlist."""
        tag = self.first("EXT-X-SKIP")
        return int(tag.number("SKIPPED-SEGMENTS") or 0) if tag else 0

    @cached_property
    def is_ended(self) -> bool:
        return self.first("EXT-X-ENDLIST") is not None

    @cached_property
    def all_segments(self) -> tuple[Segment, ...]:
        """With the open one."""
        return self.segments + ((self.open,) if self.open else ())

    @cached_property
    def parts(self) -> tuple[tuple[int, int, Part], ...]:
        """(MSN, place, part) of each that is listed."""
        return tuple(
            (segment.msn, place, part) for segment in self.all_segments for place, part in enumerate(segment.parts)
        )

    @cached_property
    def last(self) -> tuple[int, int]:
        """MSN and part that are the newest; part -1: the segment of it is whole."""
        if self.open and self.open.parts:
            return self.open.msn, len(self.open.parts) - 1
        return self.next_msn - 1, -1

    @cached_property
    def next_msn(self) -> int:
        """Of the segment that comes after the whole ones."""
        return self.media_sequence + self.skipped + len(self.segments)

    @cached_property
    def length_s(self) -> float:
        """Of all that is listed."""
        open_s = sum(part.duration for part in self.open.parts) if self.open else 0.0
        return sum(segment.duration for segment in self.segments) + open_s

    @cached_property
    def hint(self) -> str:
        """The URI of the part that is hinted at, or ""."""
        hints = self.all("EXT-X-PRELOAD-HINT")
        return next((tag.text("URI") for tag in hints if tag.attributes.get("TYPE") == "PART"), "")


@dataclass(frozen=True, slots=True)
class Variant:
    tag: Tag
    uri: str


@dataclass(frozen=True)
class MultivariantPlaylist:
    text: str
    lines: tuple[str, ...]
    tags: tuple[Tag, ...]
    variants: tuple[Variant, ...]

    @cached_property
    def media(self) -> list[Tag]:
        return [tag for tag in self.tags if tag.name == "EXT-X-MEDIA"]

    @cached_property
    def uris(self) -> list[str]:
        """Of each media playlist, once."""
        found = [variant.uri for variant in self.variants] + [tag.text("URI") for tag in self.media]
        return list(dict.fromkeys(uri for uri in found if uri))

    def group(self, kind: str, name: str) -> list[Tag]:
        return [tag for tag in self.media if tag.attributes.get("TYPE") == kind and tag.text("GROUP-ID") == name]


def number(text: str) -> float | None:
    """A decimal number as the draft writes it."""
    return float(text) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) else None


def attributes(value: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """An attribute list (4.2), and what is wrong with it."""
    found: dict[str, str] = {}
    faults: list[str] = []
    place = 0
    while place < len(value):
        match = ATTRIBUTE.match(value, place)
        if match is None:
            faults.append(f"can't be read from {value[place : place + 30]!r} on")
            break
        if match[1] in found:
            faults.append(f"{match[1]} stands there twice")
        found.setdefault(match[1], match[2])
        place = match.end()
    if value.endswith(","):
        faults.append("ends with a comma")
    return found, tuple(faults)


def read_tag(line: int, text: str) -> Tag:
    name, _, value = text[1:].partition(":")
    if name not in LISTED:
        return Tag(line, name, value)
    return Tag(line, name, value, *attributes(value))


def read(text: str) -> MediaPlaylist | MultivariantPlaylist:
    """Which of the two it is, its tags say."""
    lines = tuple(text.split("\n"))
    tags = tuple(read_tag(place, line.rstrip("\r")) for place, line in enumerate(lines) if line.startswith("#EXT"))
    if any(tag.name in MULTIVARIANT_TAGS for tag in tags):
        return MultivariantPlaylist(text, lines, tags, tuple(_variants(lines, tags)))
    segments, rest = _segments(lines, tags)
    return MediaPlaylist(text, lines, tags, segments, rest)


def read_media(text: str) -> MediaPlaylist:
    found = read(text)
    assert isinstance(found, MediaPlaylist), f"not a media playlist:\n{text[:500]}"
    return found


def read_multivariant(text: str) -> MultivariantPlaylist:
    found = read(text)
    assert isinstance(found, MultivariantPlaylist), f"not a multivariant playlist:\n{text[:500]}"
    return found


def _variants(lines: tuple[str, ...], tags: tuple[Tag, ...]) -> list[Variant]:
    found = []
    for tag in tags:
        if tag.name == "EXT-X-STREAM-INF":
            following = lines[tag.line + 1].strip() if tag.line + 1 < len(lines) else ""
            found.append(Variant(tag, "" if following.startswith("#") else following))
    return found


def _segments(lines: tuple[str, ...], tags: tuple[Tag, ...]) -> tuple[tuple[Segment, ...], Segment | None]:
    """Walks the lines: tags gather on the segment that is to come, a URI ends it."""
    by_line = {tag.line: tag for tag in tags}
    plain = MediaPlaylist("", lines, tags)
    empty = Segment(plain.media_sequence + plain.skipped, "", nan, discontinuity=plain.discontinuity_sequence)
    found: list[Segment] = []
    coming = empty
    for place, line in enumerate(lines):
        if tag := by_line.get(place):
            coming = _with(coming, tag)
        elif line.strip() and not line.startswith("#"):
            found.append(replace(coming, uri=line.strip(), line=place))
            coming = replace(empty, msn=coming.msn + 1, map_uri=coming.map_uri, discontinuity=coming.discontinuity)
    return tuple(found), coming if coming.parts or coming.date_time or coming.has_discontinuity else None


def _with(segment: Segment, tag: Tag) -> Segment:
    change: dict[str, object] = {}
    match tag.name:
        case "EXTINF":
            duration = number(tag.value.partition(",")[0])
            change = {"duration": nan if duration is None else duration}
        case "EXT-X-PART":
            seconds = tag.number("DURATION")
            part = Part(
                tag.text("URI"),
                nan if seconds is None else seconds,
                tag.is_yes("INDEPENDENT"),
                tag.is_yes("GAP"),
                tag.line,
            )
            change = {"parts": (*segment.parts, part)}
        case "EXT-X-MAP":
            change = {"map_uri": tag.text("URI")}
        case "EXT-X-DISCONTINUITY":
            change = {"has_discontinuity": True, "discontinuity": segment.discontinuity + 1}
        case "EXT-X-PROGRAM-DATE-TIME":
            change = {"date_time": tag.value}
        case "EXT-X-GAP":
            change = {"is_gap": True}
        case "EXT-X-BYTERANGE":
            change = {"byterange": tag.value}
    if segment.parts and tag.name in ("EXT-X-MAP", "EXT-X-DISCONTINUITY", "EXT-X-PROGRAM-DATE-TIME", "EXT-X-KEY"):
        change["late_tags"] = (*segment.late_tags, tag.name)
    return replace(segment, **change)  # type: ignore[arg-type]


def apply_delta(former: MediaPlaylist, delta: MediaPlaylist) -> MediaPlaylist:
    """What a player has after the update (6.3.7). Raises ValueError where the former one lacks what is skipped."""
    if not delta.skipped:
        return delta
    known = {segment.msn: segment for segment in former.segments}
    wanted = range(delta.media_sequence, delta.media_sequence + delta.skipped)
    if lacking := [msn for msn in wanted if msn not in known]:
        raise ValueError(f"segments {lacking[0]} to {lacking[-1]} are skipped and were never listed")
    skipped = tuple(known[msn] for msn in wanted)
    map_uri, era = skipped[-1].map_uri, skipped[-1].discontinuity
    listed = []
    for segment in delta.all_segments:  # What the skipped tags say goes on for those behind them.
        map_uri = segment.map_uri or map_uri
        era += segment.has_discontinuity
        listed.append(replace(segment, map_uri=map_uri, discontinuity=era))
    rest = listed.pop() if delta.open else None
    tags = tuple(tag for tag in delta.tags if tag.name != "EXT-X-SKIP")
    return MediaPlaylist(delta.text, delta.lines, tags, skipped + tuple(listed), rest)
