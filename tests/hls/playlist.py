"""A reader of HLS playlists, written from draft-pantos-hls-rfc8216bis alone: the tests hold the server's playlists
against it. It takes anything, and keeps in `Tag.faults` the errors of attribute lists."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import nan
from pathlib import Path
from typing import Any, Final

ATTRIBUTE: Final = re.compile(r'([A-Z0-9-]+)=("[^"\r\n]*"|[^",\s][^",]*)(?:,|$)')
WORDS: Final = {"INTEGER": "[0-9]{1,20}", "DECIMAL": r"[0-9]+(\.[0-9]+)?", "QUOTED": r'"[^"\r\n]*"', "EMPTY": ""}


@dataclass(frozen=True, slots=True)
class TagForm:
    """A row of tags.txt. `value`: its regular expression, or None for an attribute list."""

    place: str
    is_once: bool
    value: str | None
    attributes: Mapping[str, str]
    """The regular expression of each attribute. A name with ! is required."""


def _tag_forms() -> dict[str, TagForm]:
    text = (Path(__file__).parent / "tags.txt").read_text()
    for word, form in WORDS.items():
        text = text.replace(word, form)
    found = {}
    for row in re.findall(r"^[a-z].*(?:\n +.*)*", text, re.MULTILINE):
        place, count, name, *forms = row.split()
        attributes = dict(form.split("=", 1) for form in forms if "=" in form)
        value = None if attributes or forms == ["LIST"] else "".join(forms)
        found[name] = TagForm(place, count == "once", value, attributes)
    return found


TAGS: Final = _tag_forms()


@dataclass(frozen=True, slots=True)
class Tag:
    """`name` has no #. `attributes` have their values as written: a quoted string has its quotes."""

    line: int
    name: str
    value: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    faults: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"line {self.line + 1}, {self.name}"

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
    """Seconds; NaN without one."""
    is_independent: bool = False
    is_gap: bool = False


@dataclass(frozen=True, slots=True)
class Segment:
    """A listed segment. With `uri` "" it stands for the parts at the end, whose segment is not complete yet."""

    msn: int
    uri: str
    duration: float
    """EXTINF in seconds; `math.nan`, always that object, without one: segments are compared."""
    parts: tuple[Part, ...] = ()
    map_uri: str = ""
    discontinuity: int = 0
    """Its Discontinuity Sequence Number."""
    has_discontinuity: bool = False
    """True if it has an EXT-X-DISCONTINUITY of its own."""
    date_time: str = ""
    is_gap: bool = False
    byterange: str = ""
    late_tags: tuple[str, ...] = field(default=(), compare=False)
    """Tags of the whole segment that stand behind its first part."""

    @property
    def is_open(self) -> bool:
        return not self.uri


Segments = tuple[Segment, ...]


class Playlist:
    """A media playlist, or a multivariant one, which has no segments."""

    def __init__(
        self, text: str = "", tags: Sequence[Tag] = (), segments: Segments = (), open_segment: Segment | None = None
    ) -> None:
        """
        Args:
            segments: Whole segments. A delta update has only those that it lists.
            open_segment: The parts at the end.
        """
        self.text, self.lines, self.tags = text, text.split("\n"), tags
        self.segments, self.open = segments, open_segment
        self.all_segments = segments + ((open_segment,) if open_segment else ())
        self.is_multivariant = any(TAGS[tag.name].place == "multivariant" for tag in tags if tag.name in TAGS)
        self.version = self._integer("EXT-X-VERSION", 1)
        self.target = self._integer("EXT-X-TARGETDURATION")
        """Seconds; 0 without one."""
        self.media_sequence = self._integer("EXT-X-MEDIA-SEQUENCE")
        self.discontinuity_sequence = self._integer("EXT-X-DISCONTINUITY-SEQUENCE")
        self.part_target = self._first("EXT-X-PART-INF").number("PART-TARGET")
        self.control = self._first("EXT-X-SERVER-CONTROL")
        self.skipped = int(self._first("EXT-X-SKIP").number("SKIPPED-SEGMENTS") or 0)
        """The number of segments that a delta update left out; 0 for a whole playlist."""
        self.is_ended = self.first("EXT-X-ENDLIST") is not None
        self.parts = [(each.msn, place, part) for each in self.all_segments for place, part in enumerate(each.parts)]
        """(MSN, place, part) of each listed part."""
        self.next_msn = self.media_sequence + self.skipped + len(segments)
        """The MSN of the segment after the whole ones."""
        open_parts = open_segment.parts if open_segment else ()
        self.last = (self.next_msn, len(open_parts) - 1) if open_parts else (self.next_msn - 1, -1)
        """MSN and part of the newest part; part -1 if the newest segment is whole."""
        self.length_s = sum(each.duration for each in segments) + sum(part.duration for part in open_parts)
        hints = [tag.text("URI") for tag in self.all("EXT-X-PRELOAD-HINT") if tag.text("TYPE") == "PART"]
        self.hint = hints[0] if hints else ""
        """The URI of the hinted part, or ""."""

    def all(self, name: str) -> list[Tag]:
        return [tag for tag in self.tags if tag.name == name]

    def first(self, name: str) -> Tag | None:
        return next(iter(self.all(name)), None)

    def _first(self, name: str) -> Tag:
        return self.first(name) or Tag(0, name)

    def _integer(self, name: str, default: int = 0) -> int:
        value = self._first(name).value
        return int(value) if value.isdecimal() else default

    @property
    def variants(self) -> list[tuple[Tag, str]]:
        """(its tag, its URI) of each variant of a multivariant playlist."""
        found = [(tag, (*self.lines, "")[tag.line + 1].strip()) for tag in self.all("EXT-X-STREAM-INF")]
        return [(tag, "" if uri.startswith("#") else uri) for tag, uri in found]

    @property
    def uris(self) -> list[str]:
        """The URI of each media playlist of a multivariant one, once."""
        found = [uri for _, uri in self.variants] + [tag.text("URI") for tag in self.all("EXT-X-MEDIA")]
        return list(dict.fromkeys(uri for uri in found if uri))

    def group(self, kind: str, name: str) -> list[Tag]:
        return [tag for tag in self.all("EXT-X-MEDIA") if (tag.text("TYPE"), tag.text("GROUP-ID")) == (kind, name)]


def number(text: str) -> float | None:
    """A decimal number as the draft writes it."""
    return float(text) if re.fullmatch(WORDS["DECIMAL"], text) else None


def _seconds(text: str) -> float:
    seconds = number(text)
    return nan if seconds is None else seconds


def _read_tag(line: int, text: str) -> Tag:
    name, _, value = text[1:].rstrip("\r").partition(":")
    if name not in TAGS or TAGS[name].value is not None:
        return Tag(line, name, value)
    matches = list(ATTRIBUTE.finditer(value))
    names = [match[1] for match in matches]
    faults = [f"{each} stands there twice" for each in dict.fromkeys(names) if names.count(each) > 1]
    if "".join(match[0] for match in matches) != value or value.endswith(","):
        faults.append(f"{value!r} is no attribute list")
    return Tag(line, name, value, {match[1]: match[2] for match in reversed(matches)}, tuple(faults))


def read(text: str) -> Playlist:
    """Read a playlist line by line: tags gather on the coming segment, and a URI completes it."""
    lines = text.split("\n")
    by_line = {place: _read_tag(place, line) for place, line in enumerate(lines) if line.startswith("#EXT")}
    tags = tuple(by_line.values())
    plain = Playlist(text, tags)
    if plain.is_multivariant:
        return plain
    empty = Segment(plain.media_sequence + plain.skipped, "", nan, discontinuity=plain.discontinuity_sequence)
    found: list[Segment] = []
    coming = empty
    for place, line in enumerate(lines):
        if tag := by_line.get(place):
            coming = _with(coming, tag)
        elif line.strip() and not line.startswith("#"):
            found.append(replace(coming, uri=line.strip()))
            coming = replace(empty, msn=coming.msn + 1, map_uri=coming.map_uri, discontinuity=coming.discontinuity)
    has_open = coming.parts or coming.date_time or coming.has_discontinuity
    return Playlist(text, tags, tuple(found), coming if has_open else None)


CHANGES: Final[dict[str, Callable[[Segment, Tag], dict[str, Any]]]] = {
    "EXTINF": lambda _, tag: {"duration": _seconds(tag.value.partition(",")[0])},
    "EXT-X-PART": lambda segment, tag: {"parts": (*segment.parts, _part(tag))},
    "EXT-X-MAP": lambda _, tag: {"map_uri": tag.text("URI")},
    "EXT-X-DISCONTINUITY": lambda segment, _: {"has_discontinuity": True, "discontinuity": segment.discontinuity + 1},
    "EXT-X-PROGRAM-DATE-TIME": lambda _, tag: {"date_time": tag.value},
    "EXT-X-GAP": lambda *_: {"is_gap": True},
    "EXT-X-BYTERANGE": lambda _, tag: {"byterange": tag.value},
}
OF_WHOLE: Final = ("EXT-X-MAP", "EXT-X-DISCONTINUITY", "EXT-X-PROGRAM-DATE-TIME", "EXT-X-KEY")
"""Tags that stand before the first part of their segment."""


def _part(tag: Tag) -> Part:
    return Part(tag.text("URI"), _seconds(tag.text("DURATION")), tag.is_yes("INDEPENDENT"), tag.is_yes("GAP"))


def _with(segment: Segment, tag: Tag) -> Segment:
    change = CHANGES[tag.name](segment, tag) if tag.name in CHANGES else {}
    if segment.parts and tag.name in OF_WHOLE:
        change["late_tags"] = (*segment.late_tags, tag.name)
    return replace(segment, **change)


def apply_delta(former: Playlist, delta: Playlist) -> Playlist:
    """What a player has after the update (6.3.7). Raises ValueError where the former one lacks what is skipped."""
    if not delta.skipped:
        return delta
    known = {segment.msn: segment for segment in former.segments}
    wanted = range(delta.media_sequence, delta.media_sequence + delta.skipped)
    if lacking := [msn for msn in wanted if msn not in known]:
        raise ValueError(f"segments {lacking[0]} to {lacking[-1]} are skipped and were never listed")
    skipped = tuple(known[msn] for msn in wanted)
    listed = [skipped[-1]]  # Its map and discontinuity number go on for the listed segments.
    for segment in delta.all_segments:
        era = listed[-1].discontinuity + segment.has_discontinuity
        listed.append(replace(segment, map_uri=segment.map_uri or listed[-1].map_uri, discontinuity=era))
    rest = listed.pop() if delta.open else None
    tags = tuple(tag for tag in delta.tags if tag.name != "EXT-X-SKIP")
    return Playlist(delta.text, tags, skipped + tuple(listed[1:]), rest)
