"""The rules of one media playlist: nothing against a good one, and each check finds its bad one."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from math import isnan
from typing import Final

import pytest

from tests.hls.clip import clip
from tests.hls.playlist import TAGS, Playlist, Segment, Tag, TagForm, apply_delta, read
from tests.hls.rules import Checked, Finding, Places

# --- The rules: `Syntax` for lines, tags and attributes of any playlist, `MediaPlaylist` for media playlists ---

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


# --- The tests ---

GOOD_COUNTS = (0, 1, 4, 5, 12, 42, 63, 80)


@pytest.mark.parametrize("count", GOOD_COUNTS)
@pytest.mark.parametrize("delta", [False, True])
def test_good_playlists_have_no_fault(count: int, delta: bool) -> None:
    assert playlist_findings(read(clip().playlist(count, delta=delta))) == []


def test_a_good_end_has_no_fault() -> None:
    assert playlist_findings(read(clip().playlist(60, ended=True))) == []


def replaced(old: str, new: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new, 1)

    return change


def without(beginning: str) -> Callable[[str], str]:
    """The lines that begin so."""

    def change(text: str) -> str:
        kept = [line for line in text.split("\n") if not line.startswith(beginning)]
        assert len(kept) < text.count("\n") + 1
        return "\n".join(kept)

    return change


def added(line: str) -> Callable[[str], str]:
    return lambda text: text + line + "\n"


def moved(beginning: str) -> Callable[[str], str]:
    """The first line that begins so, to the end."""

    def change(text: str) -> str:
        lines = text.split("\n")
        line = next(each for each in lines if each.startswith(beginning))
        lines.remove(line)
        return "\n".join([*lines[:-1], line, ""])

    return change


FIRST_PART = '#EXT-X-PART:DURATION=0.20000,URI="p5.0.m4s",INDEPENDENT=YES'
SECOND_PART = '#EXT-X-PART:DURATION=0.20000,URI="p5.1.m4s"'
REPORT = '#EXT-X-RENDITION-REPORT:URI="{}",LAST-MSN=8,LAST-PART=1'

BAD: list[tuple[str, Callable[[str], str]]] = [
    ("characters", lambda text: "\ufeff" + text),
    ("characters", replaced("s4.m4s", "s4\x01.m4s")),
    ("first-line", replaced("#EXTM3U\n", "\n#EXTM3U\n")),
    ("blanks", replaced("s4.m4s", "s4 a.m4s")),
    ("blanks", replaced("#EXT-X-VERSION:6", "#EXT-X-VERSION:6 ")),
    ("known-tags", added("#EXT-X-PART-INFO:PART-TARGET=0.2")),
    ("attribute-lists", replaced("CAN-BLOCK-RELOAD=YES,", "CAN-BLOCK-RELOAD=YES, ")),
    ("attribute-lists", replaced("HOLD-BACK=3.0", "HOLD-BACK=3.0,HOLD-BACK=3.0")),
    ("attribute-lists", replaced(FIRST_PART, FIRST_PART + ",")),
    ("values", replaced('URI="init.mp4"', "URI=init.mp4")),
    ("values", replaced("CAN-BLOCK-RELOAD=YES", "CAN-BLOCK-RELOAD=NO")),
    ("values", replaced("#EXT-X-TARGETDURATION:1", "#EXT-X-TARGETDURATION:1.0")),
    ("values", replaced("#EXTINF:1.00000,", "#EXTINF:1.00000")),
    ("values", replaced("03:04:05.000Z", "03:04.000Z")),
    ("required-attributes", replaced('DURATION=0.20000,URI="p5.1.m4s"', 'URI="p5.1.m4s"')),
    ("once", added("#EXT-X-TARGETDURATION:1")),
    ("target-duration", without("#EXT-X-TARGETDURATION")),
    ("target-duration", replaced("#EXT-X-TARGETDURATION:1", "#EXT-X-TARGETDURATION:0")),
    ("extinf", replaced("#EXTINF:1.00000,\n", "")),
    ("uri", replaced("s4.m4s\n", "")),
    ("within-target", replaced("#EXTINF:1.00000,", "#EXTINF:1.50000,")),
    ("version", replaced("#EXT-X-VERSION:6", "#EXT-X-VERSION:5")),
    ("version", replaced("#EXT-X-VERSION:6", "#EXT-X-VERSION:2")),
    ("numbers-first", moved("#EXT-X-MEDIA-SEQUENCE")),
    ("numbers-first", added("#EXT-X-DISCONTINUITY-SEQUENCE:0")),
    ("map", without("#EXT-X-MAP")),
    ("tags-before-parts", replaced(FIRST_PART, FIRST_PART + "\n#EXT-X-DISCONTINUITY")),
    ("part-inf", without("#EXT-X-PART-INF")),
    ("longest-part", replaced(SECOND_PART, SECOND_PART.replace("0.20000", "0.20100"))),
    ("shortest-part", replaced(SECOND_PART, SECOND_PART.replace("0.20000", "0.16000"))),
    ("parts-sum", replaced(SECOND_PART, SECOND_PART.replace("0.20000", "0.18000"))),
    ("hold-back", replaced(",HOLD-BACK=3.0", ",HOLD-BACK=2.9")),
    ("part-hold-back", replaced(",PART-HOLD-BACK=0.6", "")),
    ("part-hold-back", replaced(",PART-HOLD-BACK=0.6", ",PART-HOLD-BACK=0.39")),
    ("skip-until", replaced("CAN-SKIP-UNTIL=6.0", "CAN-SKIP-UNTIL=5.9")),
    ("skip-until", replaced("CAN-SKIP-UNTIL=6.0", "CAN-SKIP-DATERANGES=YES")),
    ("skip", replaced('#EXT-X-MAP:URI="init.mp4"', "#EXT-X-SKIP:SKIPPED-SEGMENTS=0")),
    ("ended", added("#EXT-X-ENDLIST")),
    ("hints", replaced('TYPE=PART,URI="p8.2.m4s"', 'TYPE=PART,URI="p8.1.m4s"')),
    ("reports", added(REPORT.format("http://server/a1.m3u8"))),
    ("reports", added(REPORT.format("/hls/live/demo/a1.m3u8"))),
    ("dates", replaced("03:04:07.000Z", "03:04:04.900Z")),
    ("dates", replaced("03:04:07.000Z", "03:04:07.000")),
    ("low-latency", replaced("CAN-BLOCK-RELOAD=YES,", "")),
    ("low-latency", without("#EXT-X-PRELOAD-HINT")),
    ("low-latency", without("#EXT-X-PROGRAM-DATE-TIME")),
    ("low-latency", replaced("CAN-SKIP-UNTIL=6.0,", "")),
]

BAD_UPDATES = [
    moved("#EXT-X-SKIP"),
    replaced("CAN-SKIP-UNTIL=6.0", "CAN-SKIP-UNTIL=9.0"),
    replaced("CAN-SKIP-UNTIL=6.0,", ""),
]


@pytest.mark.parametrize(("name", "change"), BAD)
def test_each_check_finds_its_bad_playlist(name: str, change: Callable[[str], str]) -> None:
    text = clip().playlist(42)
    assert name not in {finding.name for finding in playlist_findings(read(text))}
    assert name in {finding.name for finding in playlist_findings(read(change(text)))}


@pytest.mark.parametrize("change", BAD_UPDATES)
def test_bad_delta_updates(change: Callable[[str], str]) -> None:
    found = playlist_findings(read(change(clip().playlist(42, delta=True))))
    assert "skip" in {finding.name for finding in found}


def test_every_check_has_a_bad_playlist() -> None:
    names = set(Syntax.rules()) | set(MediaPlaylist.rules())
    assert names - {name for name, _ in BAD} == {"one-kind"}, "of multivariant playlists, in their tests"


EXCEPTIONS = [
    SECOND_PART.replace("0.20000", "0.16000") + ",INDEPENDENT=YES",
    SECOND_PART.replace("0.20000", "0.16000") + ",GAP=YES",
]


@pytest.mark.parametrize("line", EXCEPTIONS)
def test_independent_or_gap_part_may_be_shorter(line: str) -> None:
    text = clip().playlist(42).replace(SECOND_PART, line)
    assert "shortest-part" not in {finding.name for finding in playlist_findings(read(text))}


def test_the_last_part_of_a_segment_may_be_shorter() -> None:
    last = '#EXT-X-PART:DURATION=0.20000,URI="p5.4.m4s"'
    text = clip().playlist(42).replace(last, last.replace("0.20000", "0.05000"))
    assert "shortest-part" not in {finding.name for finding in playlist_findings(read(text))}


def test_playlist_is_read_into_segments_parts_and_hint() -> None:
    found = read(clip().playlist(42))
    assert (found.media_sequence, found.next_msn, found.last, found.hint) == (0, 8, (8, 1), "p8.2.m4s")
    assert [segment.uri for segment in found.segments] == [f"s{number}.m4s" for number in range(8)]
    assert {segment.map_uri for segment in found.all_segments} == {"init.mp4"}
    assert [len(segment.parts) for segment in found.all_segments] == [0] * 5 + [5] * 3 + [2]
    assert found.length_s == pytest.approx(8.4)


def test_applied_delta_update_equals_the_whole_playlist() -> None:
    whole, delta = (read(clip().playlist(42, delta=delta)) for delta in (False, True))
    assert delta.skipped == 1
    assert apply_delta(read(clip().playlist(41)), delta).all_segments == whole.all_segments


def test_delta_update_of_segments_never_listed_is_refused() -> None:
    with pytest.raises(ValueError, match="never listed"):
        apply_delta(read("#EXTM3U\n"), read(clip().playlist(42, delta=True)))


def test_discontinuities_count_on() -> None:
    text = clip().playlist(42)
    for msn in (2, 5):
        text = text.replace(f"#EXTINF:1.00000,\ns{msn}.", f"#EXT-X-DISCONTINUITY\n#EXTINF:1.00000,\ns{msn}.")
    found = read(text.replace("#EXT-X-MEDIA-SEQUENCE", "#EXT-X-DISCONTINUITY-SEQUENCE:7\n#EXT-X-MEDIA-SEQUENCE"))
    assert [segment.discontinuity for segment in found.all_segments] == [7, 7, 8, 8, 8, 9, 9, 9, 9]


def test_read_tells_media_from_multivariant_playlists() -> None:
    assert not read(clip().playlist(3)).is_multivariant
    assert read(clip().multivariant()).is_multivariant
