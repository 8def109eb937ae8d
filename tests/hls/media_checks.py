"""What holds for one media playlist, as it is fetched."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from math import isnan
from typing import Final

from tests.hls.checks import Check
from tests.hls.playlist import MediaPlaylist, Segment, Tag, number

ROUNDING_S: Final = 0.001
"""What decimals of a duration may hide."""
OVERLAP_S: Final = 1.0
"""Of dates that follow one another, for clocks that drift: less than that."""
DRIFT_S: Final = 0.1
"""Between a segment's date and that of the one before with its duration."""
LEAST_SHARE: Final = 0.85

LEAST_VERSION: Final = 6
"""Of EXT-X-MAP: to say less gains nobody."""
VERSIONS: Final = (
    (4, ("EXT-X-BYTERANGE", "EXT-X-I-FRAMES-ONLY")),
    (6, ("EXT-X-MAP",)),
    (8, ("EXT-X-DEFINE",)),
    (9, ("EXT-X-SKIP",)),
)
"""(the version that is needed, by what)"""


def target_duration(found: MediaPlaylist) -> Iterator[str]:
    tag = found.first("EXT-X-TARGETDURATION")
    if tag is None:
        yield "there is no EXT-X-TARGETDURATION"
    elif found.target < 1:
        yield f"the target duration is {tag.value}"


def extinf(found: MediaPlaylist) -> Iterator[str]:
    for segment in found.segments:
        if isnan(segment.duration):
            yield f"{segment.uri} has no EXTINF"


def within_target(found: MediaPlaylist) -> Iterator[str]:
    for segment in found.segments:
        if not isnan(segment.duration) and int(segment.duration + 0.5) > found.target:
            yield f"{segment.uri} lasts {segment.duration} s, the target is {found.target}"


def version(found: MediaPlaylist) -> Iterator[str]:
    fractions = [tag for tag in found.all("EXTINF") if "." in tag.value.partition(",")[0]]
    if fractions and found.version < 3:
        yield f"durations with fractions need version 3, it is {found.version}"
    for least, names in VERSIONS:
        for name in names:
            if found.first(name) and found.version < least:
                yield f"{name} needs version {least}, it is {found.version}"
    skip = found.first("EXT-X-SKIP")
    if skip and "RECENTLY-REMOVED-DATERANGES" in skip.attributes and found.version < 10:
        yield f"EXT-X-SKIP of date ranges needs version 10, it is {found.version}"


def low_version(found: MediaPlaylist) -> Iterator[str]:
    needed = max((least for least, names in VERSIONS for name in names if found.first(name)), default=3)
    skip = found.first("EXT-X-SKIP")
    if skip and "RECENTLY-REMOVED-DATERANGES" in skip.attributes:
        needed = 10
    if found.version > max(needed, LEAST_VERSION):
        yield f"the version is {found.version}, its tags need {needed}"


def _first_media_line(found: MediaPlaylist) -> int:
    lines = [part.line for _, _, part in found.parts] + [segment.line for segment in found.segments]
    return min(lines, default=len(found.lines))


def numbers_before_segments(found: MediaPlaylist) -> Iterator[str]:
    first = _first_media_line(found)
    for name in ("EXT-X-MEDIA-SEQUENCE", "EXT-X-DISCONTINUITY-SEQUENCE"):
        tag = found.first(name)
        if tag and tag.line > first:
            yield f"{name} stands behind the first segment"
    eras, breaks = found.first("EXT-X-DISCONTINUITY-SEQUENCE"), found.first("EXT-X-DISCONTINUITY")
    if eras and breaks and eras.line > breaks.line:
        yield "EXT-X-DISCONTINUITY-SEQUENCE stands behind an EXT-X-DISCONTINUITY"


def has_map(found: MediaPlaylist) -> Iterator[str]:
    if found.skipped:
        return  # Its map may be among what was skipped.
    for segment in found.all_segments:
        uri = segment.uri or (segment.parts[0].uri if segment.parts else "")
        if not segment.map_uri and uri.partition("?")[0].endswith((".m4s", ".mp4", ".m4v", ".m4a")):
            yield f"{uri} has no EXT-X-MAP"


def tags_before_parts(found: MediaPlaylist) -> Iterator[str]:
    for segment in found.all_segments:
        for name in segment.late_tags:
            yield f"{name} of segment {segment.msn} stands behind its first part"


def part_inf(found: MediaPlaylist) -> Iterator[str]:
    if found.parts and not found.part_target:
        yield "there are parts and no EXT-X-PART-INF with a PART-TARGET"


def longest_part(found: MediaPlaylist) -> Iterator[str]:
    for msn, place, part in found.parts:
        if found.part_target and part.duration > found.part_target + 1e-9:
            yield f"part {msn}.{place} lasts {part.duration} s, the part target is {found.part_target}"


def shortest_part(found: MediaPlaylist) -> Iterator[str]:
    least = LEAST_SHARE * (found.part_target or 0)
    for segment in found.all_segments:
        # Of the open segment, too, the last one may be its final one.
        for place, (part, following) in enumerate(pairwise(segment.parts)):
            if not (part.is_independent or part.is_gap or following.is_gap) and part.duration < least - 1e-9:
                yield f"part {segment.msn}.{place} lasts {part.duration} s, less than 85 % of {found.part_target}"


def parts_sum(found: MediaPlaylist) -> Iterator[str]:
    for segment in found.segments:
        total = sum(part.duration for part in segment.parts)
        if segment.parts and abs(total - segment.duration) > ROUNDING_S * (len(segment.parts) + 1):
            yield f"segment {segment.msn}: its parts last {total:.5f} s, EXTINF is {segment.duration}"


def hold_back(found: MediaPlaylist) -> Iterator[str]:
    value = found.control.number("HOLD-BACK")
    if value is not None and value < 3 * found.target:
        yield f"HOLD-BACK is {value}, the target duration {found.target}"


def part_hold_back(found: MediaPlaylist) -> Iterator[str]:
    value = found.control.number("PART-HOLD-BACK")
    if found.part_target and value is None:
        yield "there is an EXT-X-PART-INF and no PART-HOLD-BACK"
    if found.part_target and value is not None and value < 2 * found.part_target - 1e-9:
        yield f"PART-HOLD-BACK is {value}, the part target {found.part_target}"


def good_part_hold_back(found: MediaPlaylist) -> Iterator[str]:
    value = found.control.number("PART-HOLD-BACK")
    if found.part_target and value is not None and value < 3 * found.part_target - 1e-9:
        yield f"PART-HOLD-BACK is {value}, the part target {found.part_target}"


def skip_until(found: MediaPlaylist) -> Iterator[str]:
    value = found.control.number("CAN-SKIP-UNTIL")
    if value is not None and value < 6 * found.target:
        yield f"CAN-SKIP-UNTIL is {value}, the target duration {found.target}"
    if value is None and found.control.is_yes("CAN-SKIP-DATERANGES"):
        yield "CAN-SKIP-DATERANGES without CAN-SKIP-UNTIL"


def skip(found: MediaPlaylist) -> Iterator[str]:
    tag = found.first("EXT-X-SKIP")
    if tag is None:
        return
    boundary = found.control.number("CAN-SKIP-UNTIL")
    if boundary is None:
        yield "there is an EXT-X-SKIP and no CAN-SKIP-UNTIL"
    elif found.length_s < boundary - (found.segments[0].duration if found.segments else 0) - ROUNDING_S:
        yield f"it lists {found.length_s:.3f} s, so what is skipped is not all before the boundary of {boundary} s"
    if tag.line > _first_media_line(found):
        yield "EXT-X-SKIP stands behind a segment"
    if not found.skipped:
        yield "EXT-X-SKIP skips nothing"


def ended(found: MediaPlaylist) -> Iterator[str]:
    if found.is_ended and found.first("EXT-X-PRELOAD-HINT"):
        yield "it has ended, and there is an EXT-X-PRELOAD-HINT"


def ended_whole(found: MediaPlaylist) -> Iterator[str]:
    if found.is_ended and found.open and found.open.parts:
        yield f"it has ended, and the {len(found.open.parts)} parts at its end have no segment"


def hints(found: MediaPlaylist) -> Iterator[str]:
    listed = {part.uri for _, _, part in found.parts} | {segment.map_uri for segment in found.all_segments}
    for tag in found.all("EXT-X-PRELOAD-HINT"):
        if tag.text("URI") in listed and "BYTERANGE-START" not in tag.attributes:
            yield f"the hint {tag.text('URI')} is listed already"


def one_hint(found: MediaPlaylist) -> Iterator[str]:
    kinds = Counter(tag.attributes.get("TYPE", "") for tag in found.all("EXT-X-PRELOAD-HINT"))
    for kind, count in kinds.items():
        if count > 1:
            yield f"{count} hints are of {kind}"


def reports(found: MediaPlaylist) -> Iterator[str]:
    for tag in found.all("EXT-X-RENDITION-REPORT"):
        uri = tag.text("URI")
        if "://" in uri or uri.startswith("/"):
            yield f"the report's {uri} is not relative"


def recent_parts(found: MediaPlaylist) -> Iterator[str]:
    """`left_s`: from the end of a segment to that of the playlist."""
    left_s = found.length_s
    for segment in found.all_segments:
        left_s -= sum(part.duration for part in segment.parts) if segment.is_open else segment.duration
        if segment.parts and left_s > 3 * found.target + ROUNDING_S:
            yield f"segment {segment.msn} has parts, and ends {left_s:.1f} s before the end"


def independent_parts(found: MediaPlaylist) -> Iterator[str]:
    if found.first("EXT-X-INDEPENDENT-SEGMENTS") is None:
        return
    for segment in found.all_segments:
        if segment.parts and not segment.parts[0].is_independent and not segment.parts[0].is_gap:
            yield f"part {segment.msn}.0 is not INDEPENDENT, though each segment is"


def _dated(found: MediaPlaylist) -> list[tuple[Segment, datetime]]:
    dated = []
    for segment in found.all_segments:
        try:
            if segment.date_time:
                dated.append((segment, datetime.fromisoformat(segment.date_time)))
        except ValueError:
            continue  # `values` tells of it.
    return dated


def dates(found: MediaPlaylist) -> Iterator[str]:
    for (one, at), (following, then) in pairwise(_dated(found)):
        if (at.tzinfo is None) != (then.tzinfo is None):
            yield f"the dates of segments {one.msn} and {following.msn} differ in having a time zone"
        elif following.msn == one.msn + 1 and not following.has_discontinuity and not isnan(one.duration):
            off = (then - at - timedelta(seconds=one.duration)).total_seconds()
            if off <= -OVERLAP_S:
                yield f"the dates of segments {one.msn} and {following.msn} overlap by {-off:.3f} s"


def near_dates(found: MediaPlaylist) -> Iterator[str]:
    for (one, at), (following, then) in pairwise(_dated(found)):
        is_next = following.msn == one.msn + 1 and not following.has_discontinuity and not isnan(one.duration)
        if is_next and (at.tzinfo is None) == (then.tzinfo is None):
            off = (then - at - timedelta(seconds=one.duration)).total_seconds()
            if abs(off) > DRIFT_S:
                yield f"segment {following.msn} is dated {off:+.3f} s off its place"


def zones(found: MediaPlaylist) -> Iterator[str]:
    for segment, at in _dated(found):
        if at.tzinfo is None or "." not in segment.date_time:
            yield f"segment {segment.msn}: {segment.date_time} has no time zone or no milliseconds"


def _is_live(found: MediaPlaylist) -> bool:
    return found.part_target is not None and not found.is_ended


def low_latency(found: MediaPlaylist) -> Iterator[str]:
    if not _is_live(found):
        return
    if not found.control.is_yes("CAN-BLOCK-RELOAD"):
        yield "no CAN-BLOCK-RELOAD=YES"
    if found.control.number("CAN-SKIP-UNTIL") is None:
        yield "no CAN-SKIP-UNTIL"
    if not found.hint:
        yield "no EXT-X-PRELOAD-HINT of the next part"
    if not found.skipped and found.segments and not _dated(found):
        yield "no EXT-X-PROGRAM-DATE-TIME"


def some_duration(found: MediaPlaylist) -> Iterator[str]:
    for tag in found.all("EXTINF"):
        if number(tag.value.partition(",")[0]) == 0:
            yield f"line {tag.line + 1}: a segment of no duration"
    for _, _, part in found.parts:
        if part.duration == 0:
            yield f"{part.uri} has no duration"


def followed_by_uri(found: MediaPlaylist) -> Iterator[str]:
    for tag in found.all("EXTINF"):
        if not _is_followed(found, tag):
            yield f"line {tag.line + 1}: EXTINF without a URI"


def _is_followed(found: MediaPlaylist, tag: Tag) -> bool:
    for line in found.lines[tag.line + 1 :]:
        if line.startswith("#EXTINF"):
            return False
        if line.strip() and not line.startswith("#"):
            return True
    return False


MEDIA: list[Check[MediaPlaylist]] = [
    Check("target-duration", "4.4.3.1", "EXT-X-TARGETDURATION is there, and at least 1", target_duration),
    Check("extinf", "4.4.4.1", "Each segment has an EXTINF", extinf),
    Check("uri", "4.4.4", "Each EXTINF has a URI", followed_by_uri),
    Check("within-target", "4.4.3.1", "EXTINF, rounded, is at most the target duration", within_target),
    Check("some-duration", "4.4.4.1", "Segments and parts last for some time", some_duration, "should"),
    Check("low-version", "6.2.1", "EXT-X-VERSION is no more than its tags need", low_version, "should"),
    Check("version", "8", "EXT-X-VERSION is what its tags need", version),
    Check(
        "numbers-first", "4.4.3.2, 4.4.3.3", "Sequence numbers stand before the first segment", numbers_before_segments
    ),
    Check("map", "3.1.2", "Each segment of fragmented MP4 has an EXT-X-MAP", has_map),
    Check(
        "tags-before-parts",
        "4.4.4.9",
        "A segment's map, date and discontinuity stand before its parts",
        tags_before_parts,
    ),
    Check("part-inf", "4.4.3.7", "With parts there is an EXT-X-PART-INF", part_inf),
    Check("longest-part", "4.4.4.9", "A part lasts no longer than the part target", longest_part),
    Check(
        "shortest-part", "4.4.4.9", "A part lasts 85 % of the target at least, but for the exceptions", shortest_part
    ),
    Check("parts-sum", "3.2", "A segment's parts together last as long as it", parts_sum),
    Check("hold-back", "4.4.3.8", "HOLD-BACK is three target durations at least", hold_back),
    Check("part-hold-back", "4.4.3.8", "PART-HOLD-BACK is there with parts, two part targets at least", part_hold_back),
    Check("good-part-hold-back", "4.4.3.8", "PART-HOLD-BACK is three part targets", good_part_hold_back, "should"),
    Check("skip-until", "4.4.3.8", "CAN-SKIP-UNTIL is six target durations at least", skip_until),
    Check("skip", "4.4.5.2, 6.2.5.1", "What is skipped is before the boundary, and one number of segments", skip),
    Check("ended", "4.4.5.3", "Where it has ended nothing is hinted at", ended),
    Check("ended-whole", "4.4.3.4", "Where it has ended all parts have their segment", ended_whole, "should"),
    Check("hints", "4.4.5.3", "A hint is of what is not listed yet", hints),
    Check("one-hint", "6.2.6", "There is one hint of each type", one_hint, "should"),
    Check("reports", "4.4.5.4", "A rendition report's URI is relative", reports),
    Check(
        "recent-parts", "6.2.2", "Parts go when they are three target durations from the end", recent_parts, "should"
    ),
    Check("independent-parts", "4.4.4.9", "A part with an independent frame says so", independent_parts, "should"),
    Check("dates", "6.2.1", "Dates do not overlap, but for less than a second", dates),
    Check("near-dates", "6.2.1", "Dates follow one another as the durations say", near_dates, "should"),
    Check("zones", "4.4.4.6", "Dates have a time zone and milliseconds", zones, "should"),
    Check("low-latency", "B.1", "With parts: blocking reload, delta updates, hints and dates", low_latency),
]
