"""The rules of one playlist: `Syntax` for lines, tags and attributes of any, `MediaPlaylist` for media playlists."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from math import isnan
from typing import Final

from tests.hls.playlist import TAGS, Playlist, Segment
from tests.hls.rules import Checked, Finding, Places

CONTROL: Final = re.compile(r"\A\ufeff|\r(?!\n|\Z)|[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f]")
ROUNDING_S: Final = 0.001
"""The decimals of a duration may hide this much."""
OVERLAP_S: Final = 1.0
"""Consecutive dates overlap by less than this, as clocks drift."""
DRIFT_S: Final = 0.1
"""Between a segment's date and the date of the previous one plus its duration."""
LEAST_SHARE: Final = 0.85
LEAST_VERSION: Final = 6
"""The version of EXT-X-MAP: nothing is gained by a lower one."""
VERSIONS: Final = {"EXT-X-BYTERANGE": 4, "EXT-X-I-FRAMES-ONLY": 4, "EXT-X-MAP": 6, "EXT-X-DEFINE": 8, "EXT-X-SKIP": 9}


def playlist_findings(found: Playlist) -> list[Finding]:
    return [*Syntax(found).findings(), *(() if found.is_multivariant else MediaPlaylist(found).findings())]


@dataclass
class Syntax(Checked):
    of: Playlist

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

    def known_tags(self) -> Places:
        return (f"{tag}" for tag in self.of.tags if tag.name not in TAGS)

    def attribute_lists(self) -> Places:
        return (f"{tag}: {fault}" for tag in self.of.tags for fault in tag.faults)

    def values(self) -> Places:
        for tag in self.of.tags:
            form = TAGS.get(tag.name)
            if form and form.value is not None and not re.fullmatch(form.value, tag.value):
                yield f"{tag}:{tag.value}"
            for name, value in tag.attributes.items():
                forms = form.attributes if form else {}
                if not re.fullmatch(forms.get(name, forms.get(f"{name}!", ".*")), value):
                    yield f"{tag}: {name}={value}"

    def required_attributes(self) -> Places:
        for tag in self.of.tags:
            for name in TAGS[tag.name].attributes if tag.name in TAGS else ():
                if name.endswith("!") and name[:-1] not in tag.attributes:
                    yield f"{tag} without {name[:-1]}"

    def once(self) -> Places:
        counts = Counter(tag.name for tag in self.of.tags)
        return (name for name, form in TAGS.items() if form.is_once and counts[name] > 1)

    def one_kind(self) -> Places:
        known = [tag for tag in self.of.tags if self.of.is_multivariant and tag.name in TAGS]
        return (f"{tag}" for tag in known if TAGS[tag.name].place not in ("any", "multivariant"))


@dataclass
class MediaPlaylist(Checked):
    of: Playlist

    def target_duration(self) -> Places:
        return [f"{self.of.target}"] if self.of.target < 1 else []

    def extinf(self) -> Places:
        return (segment.uri for segment in self.of.segments if isnan(segment.duration))

    def uri(self) -> Places:
        for tag in self.of.all("EXTINF"):
            behind = (line for line in self.of.lines[tag.line + 1 :] if line.strip())
            following = next((line for line in behind if line.startswith("#EXTINF") or not line.startswith("#")), "#")
            if following.startswith("#"):
                yield f"{tag}"

    def within_target(self) -> Places:
        known = [(each.uri, each.duration) for each in self.of.segments if not isnan(each.duration)]
        return (f"{uri}: {duration} s" for uri, duration in known if int(duration + 0.5) > self.of.target)

    def some_duration(self) -> Places:
        parts = [(part.uri, part.duration) for _, _, part in self.of.parts]
        return (uri for uri, s in [*((each.uri, each.duration) for each in self.of.segments), *parts] if s == 0)

    def _needed_versions(self) -> Iterator[tuple[int, str]]:
        """(the version, the reason)"""
        if any("." in tag.value.partition(",")[0] for tag in self.of.all("EXTINF")):
            yield 3, "durations with fractions"
        yield from ((least, name) for name, least in VERSIONS.items() if self.of.first(name))
        if any("RECENTLY-REMOVED-DATERANGES" in tag.attributes for tag in self.of.all("EXT-X-SKIP")):
            yield 10, "EXT-X-SKIP of date ranges"

    def low_version(self) -> Places:
        needed = max([LEAST_VERSION, *dict(self._needed_versions())])
        return [f"{self.of.version}, not {needed}"] if self.of.version > needed else []

    def version(self) -> Places:
        return (f"{name} needs {least}" for least, name in self._needed_versions() if self.of.version < least)

    def _first_media_line(self) -> int:
        """The line of the first tag of a segment or part."""
        lines = [tag.line for tag in self.of.tags if tag.name in ("EXTINF", "EXT-X-PART")]
        return min(lines, default=len(self.of.lines))

    def numbers_first(self) -> Places:
        first, breaks = self._first_media_line(), [tag.line for tag in self.of.all("EXT-X-DISCONTINUITY")]
        yield from (f"{tag}" for tag in self.of.all("EXT-X-MEDIA-SEQUENCE") if tag.line > first)
        yield from (f"{tag}" for tag in self.of.all("EXT-X-DISCONTINUITY-SEQUENCE") if tag.line > min([first, *breaks]))

    def map(self) -> Places:
        # The map of a delta update may be among the skipped tags.
        without = [each for each in self.of.all_segments if not each.map_uri and not self.of.skipped]
        uris = [uri for each in without for uri in (each.uri, *(part.uri for part in each.parts))]
        return (uri for uri in uris if uri.partition("?")[0].endswith((".m4s", ".mp4", ".m4v", ".m4a")))

    # --- Parts ---

    def tags_before_parts(self) -> Places:
        return (f"segment {each.msn}: {name}" for each in self.of.all_segments for name in each.late_tags)

    def part_inf(self) -> Places:
        return ["there is none"] if self.of.parts and not self.of.part_target else []

    def longest_part(self) -> Places:
        most = (self.of.part_target or float("inf")) + 1e-9
        return (f"part {msn}.{n}: {part.duration} s" for msn, n, part in self.of.parts if part.duration > most)

    def shortest_part(self) -> Places:
        least = LEAST_SHARE * (self.of.part_target or 0) - 1e-9
        for segment in self.of.all_segments:
            # The last part is exempt, in the open segment as well: it may turn out to be the final one.
            for place, (part, following) in enumerate(pairwise(segment.parts)):
                if part.duration < least and not (part.is_independent or part.is_gap or following.is_gap):
                    yield f"part {segment.msn}.{place}: {part.duration} s"

    def parts_sum(self) -> Places:
        for segment in self.of.segments:
            total = sum(part.duration for part in segment.parts)
            if segment.parts and abs(total - segment.duration) > ROUNDING_S * (len(segment.parts) + 1):
                yield f"segment {segment.msn}: its parts last {total:.5f} s, EXTINF is {segment.duration}"

    def recent_parts(self) -> Places:
        left_s = self.of.length_s
        for segment in self.of.all_segments:
            left_s -= sum(part.duration for part in segment.parts) if segment.is_open else segment.duration
            if segment.parts and left_s > 3 * self.of.target + ROUNDING_S:
                yield f"segment {segment.msn} ends {left_s:.1f} s before the end"

    def independent_parts(self) -> Places:
        if self.of.first("EXT-X-INDEPENDENT-SEGMENTS"):
            firsts = [part for _, place, part in self.of.parts if place == 0]
            yield from (part.uri for part in firsts if not part.is_independent and not part.is_gap)

    # --- What the server can do ---

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

    def good_part_hold_back(self) -> Places:
        return self._least("PART-HOLD-BACK", 3, self.of.part_target)

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
            "EXT-X-PROGRAM-DATE-TIME": self.of.skipped or not self.of.segments or self._dated(),
        }
        is_live = self.of.part_target is not None and not self.of.is_ended
        return (f"no {what}" for what, is_there in has.items() if is_live and not is_there)

    # --- The end, hints and reports ---

    def ended(self) -> Places:
        return (tag.text("URI") for tag in self.of.all("EXT-X-PRELOAD-HINT") if self.of.is_ended)

    def ended_whole(self) -> Places:
        return (part.uri for part in self.of.open.parts if self.of.is_ended) if self.of.open else ()

    def hints(self) -> Places:
        listed = {part.uri for _, _, part in self.of.parts} | {each.map_uri for each in self.of.all_segments}
        tags = [tag for tag in self.of.all("EXT-X-PRELOAD-HINT") if "BYTERANGE-START" not in tag.attributes]
        return (tag.text("URI") for tag in tags if tag.text("URI") in listed)

    def one_hint(self) -> Places:
        kinds = Counter(tag.text("TYPE") for tag in self.of.all("EXT-X-PRELOAD-HINT"))
        return (f"{count} of {kind}" for kind, count in kinds.items() if count > 1)

    def reports(self) -> Places:
        uris = [tag.text("URI") for tag in self.of.all("EXT-X-RENDITION-REPORT")]
        return (uri for uri in uris if "://" in uri or uri.startswith("/"))

    # --- Dates ---

    def _dated(self) -> list[tuple[Segment, datetime]]:
        """The segments with dates that can be read; `values` reports the others."""
        form = TAGS["EXT-X-PROGRAM-DATE-TIME"].value or ""
        dated = [segment for segment in self.of.all_segments if re.fullmatch(form, segment.date_time)]
        return [(segment, datetime.fromisoformat(segment.date_time)) for segment in dated]

    def _offs_s(self) -> Iterator[tuple[int, float | None]]:
        """(MSN, seconds from the end of the previous segment to its date; None: one of the two has no time zone)."""
        for (one, at), (following, then) in pairwise(self._dated()):
            if (at.tzinfo is None) != (then.tzinfo is None):
                yield following.msn, None
            elif following.msn == one.msn + 1 and not following.has_discontinuity and not isnan(one.duration):
                yield following.msn, (then - at - timedelta(seconds=one.duration)).total_seconds()

    def dates(self) -> Places:
        return (f"segment {msn}: {off_s} s" for msn, off_s in self._offs_s() if off_s is None or off_s <= -OVERLAP_S)

    def near_dates(self) -> Places:
        return (f"segment {msn}: {off_s} s" for msn, off_s in self._offs_s() if off_s and abs(off_s) > DRIFT_S)

    def zones(self) -> Places:
        dated = [(each.msn, each.date_time, at) for each, at in self._dated()]
        return (f"segment {msn}: {text}" for msn, text, at in dated if at.tzinfo is None or "." not in text)
