"""What holds for a multivariant playlist together with its media playlists."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final
from urllib.parse import urljoin, urlsplit

from tests.hls.checks import Check
from tests.hls.mp4 import Track, read_init
from tests.hls.playlist import MediaPlaylist, MultivariantPlaylist, Tag, Variant

BASE: Final = "http://server/"
NEAR_FRAMES: Final = 0.02
"""The share by which FRAME-RATE may differ from what was measured."""
SEGMENTS_A_TARGET: Final = 2
"""That may come within a target duration, at most."""
SAME: Final = frozenset(
    {"URI", "CHANNELS", "BIT-DEPTH", "STABLE-RENDITION-ID", "INSTREAM-ID", "SAMPLE-RATE", "GROUP-ID"}
)
"""What may differ between groups for the same member."""


@dataclass(frozen=True)
class Rendition:
    """`sizes`: bytes of segments by their URIs, of those that were fetched. `frames_per_s`: 0: not measured."""

    playlist: MediaPlaylist
    init: bytes | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    frames_per_s: float = 0.0
    at: float = 0.0
    """When the playlist came, in seconds of the clock of the others."""

    @cached_property
    def tracks(self) -> list[Track]:
        try:
            return list(read_init(self.init).values()) if self.init is not None else []
        except ValueError:
            return []  # The segments' checks tell of it.

    def peak_bps(self) -> float:
        """The peak segment bit rate (4): of any segments one after another that last 0.5 to 1.5 targets together."""
        peak = 0.0
        known = [(one.duration, self.sizes[one.uri]) for one in self.playlist.segments if one.uri in self.sizes]
        for first in range(len(known)):
            seconds, size = 0.0, 0
            for duration, more in known[first:]:
                seconds, size = seconds + duration, size + more
                if seconds > 1.5 * self.playlist.target:
                    break
                if seconds >= 0.5 * self.playlist.target:
                    peak = max(peak, size * 8 / seconds)
        return peak


@dataclass(frozen=True)
class Presentation:
    """`renditions` by the URIs that the multivariant playlist has for them."""

    playlist: MultivariantPlaylist
    renditions: Mapping[str, Rendition]

    def variant(self, variant: Variant) -> list[list[Rendition]]:
        """Its playable combinations."""
        own = [self.renditions[variant.uri]] if variant.uri in self.renditions else []
        found = [own]
        for kind in ("AUDIO", "VIDEO"):
            others = [tag.text("URI") for tag in self.playlist.group(kind, variant.tag.text(kind))]
            known = [self.renditions[uri] for uri in others if uri in self.renditions]
            if known:
                found = [[*chosen, other] for chosen in found for other in known]
        return found


def variants(found: Presentation) -> Iterator[str]:
    if not found.playlist.variants:
        yield "there is no EXT-X-STREAM-INF"
    for variant in found.playlist.variants:
        if not variant.uri:
            yield f"line {variant.tag.line + 1}: no URI follows"


def bandwidth(found: Presentation) -> Iterator[str]:
    for variant in found.playlist.variants:
        said = variant.tag.number("BANDWIDTH") or 0
        peak = max(sum({id(one): one.peak_bps() for one in chosen}.values()) for chosen in found.variant(variant))
        if peak > said:
            yield f"{variant.uri}: BANDWIDTH is {said:.0f}, its segments have {peak:.0f} bit/s"


def generous_bandwidth(found: Presentation) -> Iterator[str]:
    for variant in found.playlist.variants:
        said = variant.tag.number("BANDWIDTH") or 0
        peak = max(sum({id(one): one.peak_bps() for one in chosen}.values()) for chosen in found.variant(variant))
        if peak and said > 3 * peak:
            yield f"{variant.uri}: BANDWIDTH is {said:.0f}, three times the {peak:.0f} bit/s of its segments"


def codecs(found: Presentation) -> Iterator[str]:
    for variant in found.playlist.variants:
        said = [codec.strip() for codec in variant.tag.text("CODECS").split(",") if codec.strip()]
        if not said:
            yield f"{variant.uri} has no CODECS"
            continue
        members = {id(one): one for chosen in found.variant(variant) for one in chosen}.values()
        if not all(one.tracks for one in members):
            continue
        there = {track.codec for one in members for track in one.tracks}
        for codec in sorted(there):
            if not any(_same(codec, each) for each in said):
                yield f"{variant.uri}: CODECS {','.join(said)} lacks {codec}, which its init segments have"
        for each in said:
            if not any(_same(codec, each) for codec in there):
                yield f"{variant.uri}: CODECS has {each}, its init segments have {', '.join(sorted(there))}"


def _same(there: str, said: str) -> bool:
    """Where an init segment tells the entry alone, what is said may tell more."""
    return said.lower() == there.lower() or ("." not in there and said.partition(".")[0].lower() == there.lower())


def resolution(found: Presentation) -> Iterator[str]:
    for variant in found.playlist.variants:
        for one in (found.renditions[variant.uri],) if variant.uri in found.renditions else ():
            for track in one.tracks:
                size = f"{track.width}x{track.height}"
                if track.kind == "video" and variant.tag.attributes.get("RESOLUTION", size) != size:
                    yield f"{variant.uri}: RESOLUTION is {variant.tag.attributes['RESOLUTION']}, its pictures {size}"


def tells_video(found: Presentation) -> Iterator[str]:
    for variant in found.playlist.variants:
        one = found.renditions.get(variant.uri)
        if one and any(track.kind == "video" for track in one.tracks):
            for name in ("RESOLUTION", "FRAME-RATE"):
                if name not in variant.tag.attributes:
                    yield f"{variant.uri} has pictures and no {name}"


def frame_rate(found: Presentation) -> Iterator[str]:
    for variant in found.playlist.variants:
        said, one = variant.tag.number("FRAME-RATE"), found.renditions.get(variant.uri)
        if said is None:
            continue
        if len(variant.tag.attributes["FRAME-RATE"].partition(".")[2]) > 3:
            yield f"{variant.uri}: FRAME-RATE {variant.tag.attributes['FRAME-RATE']} has more than three decimals"
        if one and one.frames_per_s and abs(said / one.frames_per_s - 1) > NEAR_FRAMES:
            yield f"{variant.uri}: FRAME-RATE is {said}, there are {one.frames_per_s:.2f} pictures a second"


def groups(found: Presentation) -> Iterator[str]:
    for variant in found.playlist.variants:
        for kind in ("AUDIO", "VIDEO", "SUBTITLES", "CLOSED-CAPTIONS"):
            value: str = variant.tag.attributes.get(kind, "NONE")
            if value != "NONE" and not found.playlist.group(kind, value.strip('"')):
                yield f"{variant.uri}: there is no group {value} of {kind}"


def members(found: Presentation) -> Iterator[str]:
    for (kind, group), tags in _groups(found).items():
        for name, count in Counter(tag.text("NAME") for tag in tags).items():
            if count > 1:
                yield f"group {group} of {kind} has {count} members {name!r}"
        if sum(tag.is_yes("DEFAULT") for tag in tags) > 1:
            yield f"group {group} of {kind} has several defaults"
    for tag in found.playlist.media:
        if tag.is_yes("DEFAULT") and tag.attributes.get("AUTOSELECT", "YES") != "YES":
            yield f"line {tag.line + 1}: the default is AUTOSELECT={tag.attributes['AUTOSELECT']}"
        kind = tag.attributes.get("TYPE", "")
        if (kind == "SUBTITLES" and "URI" not in tag.attributes) or (
            kind == "CLOSED-CAPTIONS" and "URI" in tag.attributes
        ):
            yield f"line {tag.line + 1}: a URI is needed for subtitles, and forbidden for closed captions"
        for name in ("CHANNELS", "BIT-DEPTH", "SAMPLE-RATE"):
            if name in tag.attributes and kind != "AUDIO":
                yield f"line {tag.line + 1}: {name} is of audio alone"
        if "FORCED" in tag.attributes and kind != "SUBTITLES":
            yield f"line {tag.line + 1}: FORCED is of subtitles alone"


def _groups(found: Presentation) -> dict[tuple[str, str], list[Tag]]:
    kept: dict[tuple[str, str], list[Tag]] = {}
    for tag in found.playlist.media:
        kept.setdefault((tag.attributes.get("TYPE", ""), tag.text("GROUP-ID")), []).append(tag)
    return kept


def same_members(found: Presentation) -> Iterator[str]:
    by_kind: dict[str, dict[str, list[dict[str, str]]]] = {}
    for (kind, group), tags in _groups(found).items():
        plain = [{name: value for name, value in tag.attributes.items() if name not in SAME} for tag in tags]
        by_kind.setdefault(kind, {})[group] = sorted(plain, key=lambda each: each.get("NAME", ""))
    for kind, by_group in by_kind.items():
        first, *others = by_group.items()
        for group, plain in others:
            if plain != first[1]:
                yield f"groups {first[0]} and {group} of {kind} have other members"


def targets(found: Presentation) -> Iterator[str]:
    values = {uri: one.playlist.target for uri, one in found.renditions.items()}
    if len(set(values.values())) > 1:
        yield f"target durations differ: {values}"


def dated(found: Presentation) -> Iterator[str]:
    has = {uri: one.playlist.first("EXT-X-PROGRAM-DATE-TIME") is not None for uri, one in found.renditions.items()}
    if len(set(has.values())) > 1:
        yield f"some media playlists have dates, others none: {has}"


def types(found: Presentation) -> Iterator[str]:
    tags = {uri: one.playlist.first("EXT-X-PLAYLIST-TYPE") for uri, one in found.renditions.items()}
    kinds = {uri: tag.value if tag else "" for uri, tag in tags.items()}
    if len(set(kinds.values())) > 1:
        yield f"media playlists are of several types: {kinds}"


def controls(found: Presentation) -> Iterator[str]:
    said = {uri: dict(one.playlist.control.attributes) for uri, one in found.renditions.items()}
    if any(one != next(iter(said.values())) for one in said.values()):
        yield f"EXT-X-SERVER-CONTROL differs: {said}"


def _name(uri: str, base: str = BASE) -> str:
    """What tells media playlists apart: the path, without what tells viewers apart."""
    return urlsplit(urljoin(base, uri)).path


def all_reported(found: Presentation) -> Iterator[str]:
    names = {_name(uri) for uri in found.playlist.uris}
    for uri, one in found.renditions.items():
        if one.playlist.part_target is None or one.playlist.is_ended:
            continue
        told = {_name(tag.text("URI"), urljoin(BASE, uri)) for tag in one.playlist.all("EXT-X-RENDITION-REPORT")}
        if lacking := sorted(names - told - {_name(uri)}):
            yield f"{uri} has no report of {', '.join(lacking)}"


def true_reports(found: Presentation) -> Iterator[str]:
    """A report may be a segment off, and as many as came between the two fetches."""
    by_name = {_name(uri): one for uri, one in found.renditions.items()}
    for uri, one in found.renditions.items():
        for tag in one.playlist.all("EXT-X-RENDITION-REPORT"):
            name = _name(tag.text("URI"), urljoin(BASE, uri))
            if name not in {_name(each) for each in found.playlist.uris}:
                yield f"{uri} has a report of {name}, which the multivariant playlist does not name"
                continue
            other = by_name.get(name)
            if other is None:
                continue
            msn = tag.number("LAST-MSN")
            if msn is None:
                msn = float(one.playlist.last[0])  # What equals the reporting playlist's own may be left out.
            between = SEGMENTS_A_TARGET * abs(other.at - one.at) / max(1, one.playlist.target)
            if abs(msn - other.playlist.last[0]) > 1 + between:
                yield f"{uri}: the report of {name} ends at {msn:.0f}, that ends at {other.playlist.last[0]}"


MULTIVARIANT: list[Check[Presentation]] = [
    Check("variants", "4.4.6.2", "There is a variant, each with the URI of a media playlist", variants),
    Check(
        "bandwidth", "4.4.6.2", "BANDWIDTH is at least what any combination of a variant's renditions has", bandwidth
    ),
    Check("generous-bandwidth", "4.4.6.2", "BANDWIDTH is about what its segments have", generous_bandwidth, "should"),
    Check("codecs", "4.4.6.2", "CODECS has each codec of a variant's init segments, and no other", codecs),
    Check("resolution", "4.4.6.2", "RESOLUTION is that of the pictures", resolution),
    Check("tells-video", "4.4.6.2", "A variant with pictures has RESOLUTION and FRAME-RATE", tells_video, "should"),
    Check("frame-rate", "4.4.6.2", "FRAME-RATE is that of the pictures, to three decimals", frame_rate),
    Check("groups", "4.4.6.2", "Each group that a variant names is there", groups),
    Check("members", "4.4.6.1", "A group's names differ, one is the default; attributes are of the type", members),
    Check("same-members", "4.4.6.1.1", "Groups of a type have the same members", same_members),
    Check("targets", "6.2.4", "All media playlists have the same target duration", targets),
    Check("controls", "6.2.4", "All media playlists have the same EXT-X-SERVER-CONTROL", controls),
    Check("types", "6.2.4", "All media playlists are of the same type", types),
    Check("dated", "6.2.4", "All media playlists have dates, or none", dated),
    Check("all-reported", "B.1", "With parts: a report of each other media playlist", all_reported),
    Check("true-reports", "4.4.5.4", "Reports are of the presentation's media playlists, and of now", true_reports),
]
