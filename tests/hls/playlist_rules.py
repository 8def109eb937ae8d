"""The rules of a playlist: `Syntax` for lines, tags and attributes of any, `MediaPlaylist` for media playlists."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from math import isnan
from typing import Final

from tests.hls.playlist import TAGS, Playlist, Segment, Tag, TagForm
from tests.hls.rules import Checked, Finding, Places

CONTROL: Final = re.compile(r"\A\ufeff|\r(?!\n|\Z)|[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f]")
ROUNDING_S: Final = 0.001
"""The decimals of a duration may hide this much."""
OVERLAP_S: Final = 1.0
"""Consecutive dates overlap by less than this, as clocks drift."""
LEAST_SHARE: Final = 0.85
VERSIONS: Final = {"EXT-X-BYTERANGE": 4, "EXT-X-I-FRAMES-ONLY": 4, "EXT-X-MAP": 6, "EXT-X-DEFINE": 8, "EXT-X-SKIP": 9}


def playlist_findings(found: Playlist) -> list[Finding]:
    return [*Syntax(found).findings(), *(() if found.is_multivariant else MediaPlaylist(found).findings())]


@dataclass
class Syntax(Checked):
    of: Playlist

    def items(self) -> Iterator[tuple[str, Tag, TagForm]]:
        unknown = TagForm("", False, None, {})
        return ((f"{tag}", tag, TAGS.get(tag.name, unknown)) for tag in self.of.tags)

    def characters(self) -> Places:
        for match in CONTROL.finditer(self.of.text):
            yield f"line {self.of.text[: match.start()].count(chr(10)) + 1}: {match[0]!r}"

    def first_line(self) -> Places:
        return [] if self.of.lines[0].rstrip("\r") == "#EXTM3U" else [self.of.lines[0][:40]]

    def blanks(self) -> Places:
        for place, line in enumerate(self.of.lines, 1):
            plain = line.removesuffix("\r")
            if plain != plain.strip() or (not plain.startswith("#") and " " in plain):
                yield f"line {place}: {plain[:60]!r}"

    def known_tags(self, tag: Tag, _: TagForm) -> Places:
        return [] if tag.name in TAGS else [tag.name]

    def attribute_lists(self, tag: Tag, _: TagForm) -> Places:
        return tag.faults

    def values(self, tag: Tag, form: TagForm) -> Places:
        if form.value is not None and not re.fullmatch(form.value, tag.value):
            yield tag.value
        for name, value in tag.attributes.items():
            if not re.fullmatch(form.attributes.get(name, form.attributes.get(f"{name}!", ".*")), value):
                yield f"{name}={value}"

    def required_attributes(self, tag: Tag, form: TagForm) -> Places:
        return [name for name in form.attributes if name.endswith("!") and name[:-1] not in tag.attributes]

    def once(self) -> Places:
        counts = Counter(tag.name for tag in self.of.tags)
        return (name for name, form in TAGS.items() if form.is_once and counts[name] > 1)

    def one_kind(self, tag: Tag, form: TagForm) -> Places:
        is_of_media = form.place in ("playlist", "segment", "metadata")
        return [tag.name] if self.of.is_multivariant and is_of_media else []


@dataclass
class MediaPlaylist(Checked):
    of: Playlist

    def items(self) -> Iterator[tuple[str, Segment]]:
        return ((f"segment {each.msn}", each) for each in self.of.all_segments)

    def target_duration(self) -> Places:
        return [f"{self.of.target}"] if self.of.target < 1 else []

    def extinf(self, segment: Segment) -> Places:
        return [segment.uri] if isnan(segment.duration) and not segment.is_open else []

    def uri(self) -> Places:
        for tag in self.of.all("EXTINF"):
            behind = (line for line in self.of.lines[tag.line + 1 :] if line.strip())
            following = next((line for line in behind if line.startswith("#EXTINF") or not line.startswith("#")), "#")
            if following.startswith("#"):
                yield f"{tag}"

    def within_target(self, segment: Segment) -> Places:
        return [f"{segment.duration} s"] if segment.duration >= self.of.target + 0.5 else []

    def version(self) -> Places:
        needed = {name: least for name, least in VERSIONS.items() if self.of.first(name)}
        if any("." in tag.value.partition(",")[0] for tag in self.of.all("EXTINF")):
            needed["EXTINF with fractions"] = 3
        if any("RECENTLY-REMOVED-DATERANGES" in tag.attributes for tag in self.of.all("EXT-X-SKIP")):
            needed["EXT-X-SKIP of date ranges"] = 10
        return (f"{name} needs {least}" for name, least in needed.items() if self.of.version < least)

    def _first_media_line(self) -> int:
        """The line of the first tag of a segment or part."""
        lines = [tag.line for tag in self.of.tags if tag.name in ("EXTINF", "EXT-X-PART")]
        return min(lines, default=len(self.of.lines))

    def numbers_first(self) -> Places:
        first, breaks = self._first_media_line(), [tag.line for tag in self.of.all("EXT-X-DISCONTINUITY")]
        yield from (f"{tag}" for tag in self.of.all("EXT-X-MEDIA-SEQUENCE") if tag.line > first)
        yield from (f"{tag}" for tag in self.of.all("EXT-X-DISCONTINUITY-SEQUENCE") if tag.line > min([first, *breaks]))

    def map(self, segment: Segment) -> Places:
        if segment.map_uri or self.of.skipped:  # The map of a delta update may be among the skipped tags.
            return []
        uris = (segment.uri, *(part.uri for part in segment.parts))
        return (uri for uri in uris if uri.partition("?")[0].endswith((".m4s", ".mp4", ".m4v", ".m4a")))

    def tags_before_parts(self, segment: Segment) -> Places:
        return segment.late_tags

    def part_inf(self) -> Places:
        return ["there is none"] if self.of.parts and not self.of.part_target else []

    def longest_part(self) -> Places:
        most = (self.of.part_target or float("inf")) + 1e-9
        return (f"part {msn}.{n}: {part.duration} s" for msn, n, part in self.of.parts if part.duration > most)

    def shortest_part(self, segment: Segment) -> Places:
        # The last part is exempt, in the open segment as well: it may turn out to be the final one.
        for part, following in pairwise(segment.parts):
            is_exempt = part.is_independent or part.is_gap or following.is_gap
            if part.duration < LEAST_SHARE * (self.of.part_target or 0) - 1e-9 and not is_exempt:
                yield f"{part.uri}: {part.duration} s"

    def parts_sum(self, segment: Segment) -> Places:
        total = sum(part.duration for part in segment.parts)
        if segment.parts and abs(total - segment.duration) > ROUNDING_S * (len(segment.parts) + 1):
            yield f"{total:.5f} s, EXTINF is {segment.duration}"

    def _least(self, name: str, times: int, target: float | None) -> Places:
        """An attribute of EXT-X-SERVER-CONTROL is that many target durations, or part targets."""
        value = self.of.control.number(name)
        if value is not None and target and value < times * target - 1e-9:
            yield f"{value}, the target is {target}"

    def hold_back(self) -> Places:
        return self._least("HOLD-BACK", 3, self.of.target)

    def part_hold_back(self) -> Places:
        if self.of.part_target and self.of.control.number("PART-HOLD-BACK") is None:
            yield "there is none"
        yield from self._least("PART-HOLD-BACK", 2, self.of.part_target)

    def skip_until(self) -> Places:
        if self.of.control.is_yes("CAN-SKIP-DATERANGES") and self.of.control.number("CAN-SKIP-UNTIL") is None:
            yield "there is none"
        yield from self._least("CAN-SKIP-UNTIL", 6, self.of.target)

    def skip(self) -> Places:
        boundary = self.of.control.number("CAN-SKIP-UNTIL")
        first_s = self.of.segments[0].duration if self.of.segments else 0
        for tag in self.of.all("EXT-X-SKIP"):
            if boundary is None:
                yield "there is no CAN-SKIP-UNTIL"
            elif self.of.length_s < boundary - first_s - ROUNDING_S:
                yield f"it lists {self.of.length_s:.3f} s, the boundary is {boundary} s"
            if tag.line > self._first_media_line():
                yield f"{tag} stands behind a segment"
            if not self.of.skipped:
                yield "nothing is skipped"

    def low_latency(self) -> Places:
        has = {
            "CAN-BLOCK-RELOAD=YES": self.of.control.is_yes("CAN-BLOCK-RELOAD"),
            "CAN-SKIP-UNTIL": self.of.control.number("CAN-SKIP-UNTIL") is not None,
            "EXT-X-PRELOAD-HINT of the next part": self.of.hint,
            "EXT-X-PROGRAM-DATE-TIME": self.of.skipped
            or not self.of.segments
            or self.of.first("EXT-X-PROGRAM-DATE-TIME"),
        }
        is_live = self.of.part_target is not None and not self.of.is_ended
        return (f"no {what}" for what, is_there in has.items() if is_live and not is_there)

    def ended(self) -> Places:
        return (tag.text("URI") for tag in self.of.all("EXT-X-PRELOAD-HINT") if self.of.is_ended)

    def hints(self) -> Places:
        listed = {part.uri for _, _, part in self.of.parts} | {each.map_uri for each in self.of.all_segments}
        tags = [tag for tag in self.of.all("EXT-X-PRELOAD-HINT") if "BYTERANGE-START" not in tag.attributes]
        return (tag.text("URI") for tag in tags if tag.text("URI") in listed)

    def reports(self) -> Places:
        uris = [tag.text("URI") for tag in self.of.all("EXT-X-RENDITION-REPORT")]
        return (uri for uri in uris if "://" in uri or uri.startswith("/"))

    def dates(self) -> Places:
        dated = [(each, datetime.fromisoformat(each.date_time)) for each in self.of.all_segments if each.date_time]
        for (one, at), (following, then) in pairwise(dated):
            is_next = following.msn == one.msn + 1 and not following.has_discontinuity and not isnan(one.duration)
            if (at.tzinfo is None) != (then.tzinfo is None):
                yield f"segments {one.msn} and {following.msn} differ in having a time zone"
            elif is_next and then - at <= timedelta(seconds=one.duration - OVERLAP_S):
                yield f"segments {one.msn} and {following.msn} overlap: {one.date_time}, {following.date_time}"
