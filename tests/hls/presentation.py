"""The rules of a multivariant playlist together with its media playlists."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Final
from urllib.parse import urljoin, urlsplit

from tests.hls.mp4 import Track, read_init
from tests.hls.playlist import Playlist, Tag
from tests.hls.playlist_rules import playlist_findings
from tests.hls.rules import Checked, Finding, Places

BASE: Final = "http://server/"
NEAR_FRAMES: Final = 0.02
"""The share by which FRAME-RATE may differ from the measured one."""
SEGMENTS_A_TARGET: Final = 2
"""The most segments that may come within a target duration."""
GROUP_KINDS: Final = ("AUDIO", "VIDEO", "SUBTITLES", "CLOSED-CAPTIONS")
OF_KIND: Final = {"CHANNELS": "AUDIO", "BIT-DEPTH": "AUDIO", "SAMPLE-RATE": "AUDIO", "FORCED": "SUBTITLES"}
"""The one type of EXT-X-MEDIA that may have an attribute."""
MAY_DIFFER: Final = ("URI", "CHANNELS", "BIT-DEPTH", "STABLE-RENDITION-ID", "INSTREAM-ID", "SAMPLE-RATE", "GROUP-ID")
"""The attributes that may differ between groups for the same member."""


@dataclass(frozen=True, eq=False)
class Rendition:
    playlist: Playlist
    init: bytes | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    """The bytes of the segments that were fetched, by their URIs."""
    frames_per_s: float = 0.0
    """As measured; 0 if not."""
    at: float = 0.0
    """The arrival of the playlist, in seconds of a clock that all renditions share."""

    @cached_property
    def tracks(self) -> list[Track]:
        try:
            return list(read_init(self.init).values()) if self.init is not None else []
        except ValueError:
            return []  # `Media` reports it.

    def peak_bps(self) -> float:
        """The peak segment bit rate (4): of any consecutive segments that last 0.5 to 1.5 targets together."""
        peak = 0.0
        known = [(each.duration, self.sizes[each.uri]) for each in self.playlist.segments if each.uri in self.sizes]
        for first in range(len(known)):
            seconds, size = 0.0, 0
            for duration, more in known[first:]:
                seconds, size = seconds + duration, size + more
                if 0.5 * self.playlist.target <= seconds <= 1.5 * self.playlist.target:
                    peak = max(peak, size * 8 / seconds)
        return peak


def _same(found: "Presentation", part: Callable[[Playlist], object]) -> Places:
    """All media playlists have the same there."""
    values = {uri: part(one.playlist) for uri, one in found.renditions.items()}
    return [f"{values}"] if any(one != other for one in values.values() for other in values.values()) else []


@dataclass(frozen=True)
class Presentation(Checked):
    playlist: Playlist
    renditions: Mapping[str, Rendition]
    """By the URIs that the multivariant playlist has for them."""

    def findings(self) -> list[Finding]:
        return [*playlist_findings(self.playlist), *Checked.findings(self)]

    def items(self) -> Iterator[tuple[str, Tag, Rendition | None]]:
        return ((uri, tag, self.renditions.get(uri)) for tag, uri in self.playlist.variants)

    def _choices(self, tag: Tag, own: Rendition | None) -> list[set[Rendition]]:
        """The playable combinations of a variant's renditions."""
        of_kinds: list[Iterable[Rendition]] = [[own]] if own else []
        for kind in ("AUDIO", "VIDEO"):
            uris = [member.text("URI") for member in self.playlist.group(kind, tag.text(kind))]
            if known := [self.renditions[uri] for uri in uris if uri in self.renditions]:
                of_kinds.append(known)
        return [set(chosen) for chosen in product(*of_kinds)]

    @cached_property
    def _groups(self) -> dict[tuple[str, str], list[Tag]]:
        found = defaultdict(list)
        for tag in self.playlist.all("EXT-X-MEDIA"):
            found[tag.text("TYPE"), tag.text("GROUP-ID")].append(tag)
        return found

    def variants(self) -> Places:
        uris = [uri for _, uri in self.playlist.variants]
        return [f"{uris}"] if not uris or "" in uris else []

    def bandwidth(self, tag: Tag, own: Rendition | None) -> Places:
        said = tag.number("BANDWIDTH") or 0
        peak = max(sum(one.peak_bps() for one in chosen) for chosen in self._choices(tag, own))
        return [f"{said:.0f}, its segments have {peak:.0f} bit/s"] if peak > said else []

    def codecs(self, tag: Tag, own: Rendition | None) -> Places:
        said = [codec.strip() for codec in tag.text("CODECS").split(",") if codec.strip()]
        members = set().union(*self._choices(tag, own))
        there = {track.codec for one in members for track in one.tracks}
        if not said:
            yield "there is no CODECS"
        elif all(one.tracks for one in members):
            lacking = [codec for codec in there if not any(_is_codec(codec, each) for each in said)]
            surplus = [each for each in said if not any(_is_codec(codec, each) for codec in there)]
            if lacking or surplus:
                yield f"{','.join(said)}; its init segments have {','.join(sorted(there))}"

    def resolution(self, tag: Tag, own: Rendition | None) -> Places:
        sizes = {f"{track.width}x{track.height}" for track in (own.tracks if own else ()) if track.kind == "video"}
        said = tag.text("RESOLUTION")
        return (f"{said}, its pictures {size}" for size in sizes if said not in ("", size))

    def frame_rate(self, tag: Tag, own: Rendition | None) -> Places:
        said, found = tag.number("FRAME-RATE"), own.frames_per_s if own else 0.0
        if len(tag.text("FRAME-RATE").partition(".")[2]) > 3:
            yield tag.text("FRAME-RATE")
        if said is not None and found and abs(said / found - 1) > NEAR_FRAMES:
            yield f"{said}, there are {found:.2f} pictures a second"

    def groups(self, tag: Tag, own: Rendition | None) -> Places:
        named = [(kind, tag.text(kind)) for kind in GROUP_KINDS if tag.attributes.get(kind, "NONE") != "NONE"]
        return (f"{kind} {name}" for kind, name in named if (kind, name) not in self._groups)

    def members(self) -> Places:
        for group, tags in self._groups.items():
            names = Counter(tag.text("NAME") for tag in tags)
            yield from (f"{group} has {count} members {name!r}" for name, count in names.items() if count > 1)
            if sum(tag.is_yes("DEFAULT") for tag in tags) > 1:
                yield f"{group} has several defaults"
        for tag in self.playlist.all("EXT-X-MEDIA"):
            kind = tag.text("TYPE")
            if tag.is_yes("DEFAULT") and tag.attributes.get("AUTOSELECT", "YES") != "YES":
                yield f"{tag}: the default is not AUTOSELECT"
            if ("URI" in tag.attributes) == {"SUBTITLES": False, "CLOSED-CAPTIONS": True}.get(kind):
                yield f"{tag}: subtitles need a URI, closed captions must not have one"
            yield from (
                f"{tag}: {name} of {kind}" for name, own in OF_KIND.items() if name in tag.attributes and kind != own
            )

    def same_members(self) -> Places:
        first: dict[str, object] = {}
        for (kind, group), tags in self._groups.items():
            plain = [{name: value for name, value in tag.attributes.items() if name not in MAY_DIFFER} for tag in tags]
            plain.sort(key=lambda each: each.get("NAME", ""))
            if first.setdefault(kind, plain) != plain:
                yield f"{kind} {group}"

    def targets(self) -> Places:
        return _same(self, lambda one: one.target)

    def controls(self) -> Places:
        return _same(self, lambda one: one.control.attributes)

    def types(self) -> Places:
        return _same(self, lambda one: [tag.value for tag in one.all("EXT-X-PLAYLIST-TYPE")][:1])

    def dated(self) -> Places:
        return _same(self, lambda one: one.first("EXT-X-PROGRAM-DATE-TIME") is not None)

    def all_reported(self) -> Places:
        names = {_name(uri) for uri in self.playlist.uris}
        for uri, one in self.renditions.items():
            told = {_name(tag.text("URI"), uri) for tag in one.playlist.all("EXT-X-RENDITION-REPORT")}
            lacking = sorted(names - told - {_name(uri)})
            if lacking and one.playlist.part_target is not None and not one.playlist.is_ended:
                yield f"{uri} lacks {lacking}"

    def true_reports(self) -> Places:
        """A report may be a segment off, and as many as came between the two fetches."""
        by_name = {_name(uri): one for uri, one in self.renditions.items()}
        for uri, one in self.renditions.items():
            for tag in one.playlist.all("EXT-X-RENDITION-REPORT"):
                name = _name(tag.text("URI"), uri)
                if name not in {_name(each) for each in self.playlist.uris}:
                    yield f"{uri} has a report of {name}"
                elif other := by_name.get(name):
                    msn = tag.number("LAST-MSN")
                    if msn is None:  # It may be left out if it is the same as that of the reporting playlist.
                        msn = one.playlist.last[0]
                    between = SEGMENTS_A_TARGET * abs(other.at - one.at) / max(1, one.playlist.target)
                    if abs(msn - other.playlist.last[0]) > 1 + between:
                        yield f"{uri}: the report of {name} ends at {msn:.0f}, that ends at {other.playlist.last[0]}"


def _is_codec(there: str, said: str) -> bool:
    """If an init segment has the type of the entry alone, CODECS may have more."""
    return said.lower() == there.lower() or ("." not in there and said.partition(".")[0].lower() == there.lower())


def _name(uri: str, base: str = "") -> str:
    """The path of a media playlist, without the query, which is of the viewer."""
    return urlsplit(urljoin(urljoin(BASE, base), uri)).path
