"""The rules of one media playlist that is fetched again and again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import nan
from typing import Final

from tests.hls.playlist import Playlist, apply_delta
from tests.hls.playlist_rules import playlist_findings
from tests.hls.rules import Checked, Finding, Places

CONSTANT: Final = ("EXT-X-TARGETDURATION", "EXT-X-PART-INF", "EXT-X-PLAYLIST-TYPE", "EXT-X-INDEPENDENT-SEGMENTS")
EDGE_TAGS: Final = ("EXT-X-PRELOAD-HINT", "EXT-X-RENDITION-REPORT")
SEGMENT_FIELDS: Final = ("uri", "duration", "map_uri", "has_discontinuity", "date_time", "is_gap", "byterange")
OPEN_FIELDS: Final = ("map_uri", "discontinuity", "has_discontinuity", "date_time")


@dataclass(frozen=True, slots=True)
class Fetch:
    playlist: Playlist
    at: float = nan
    """The arrival of the answer, in seconds of any clock; NaN if unknown."""
    asked: tuple[int, int] | None = None
    """_HLS_msn and _HLS_part (-1 without a part); None without either."""
    skip: bool = False
    """True if a delta update was requested."""
    held_up_s: float = 0.0
    """The time in all for which the player, and the server with it, had stood still until then."""

    def after_s(self, before: "Fetch") -> float:
        """The time between two arrivals, less the time for which both had stood still."""
        return self.at - before.at - (self.held_up_s - before.held_up_s)


@dataclass(frozen=True)
class Succession(Checked):
    """The answers in the order of their requests, one after another."""

    fetches: Sequence[Fetch]

    def findings(self) -> list[Finding]:
        """The findings of all playlists, the same ones once, and of their succession."""
        each = [finding for fetch in self.fetches for finding in playlist_findings(fetch.playlist)]
        return [*dict.fromkeys(each), *Checked.findings(self)]

    @cached_property
    def _applied(self) -> tuple[list[Playlist], str]:
        """What a player has after each fetch, with delta updates applied, until one can't be; and the error."""
        found: list[Playlist] = []
        for place, fetch in enumerate(self.fetches):
            try:
                found.append(apply_delta(found[-1] if found else fetch.playlist, fetch.playlist))
            except ValueError as error:
                return found, f"fetch {place}: {error}"
        return found, ""

    @cached_property
    def pairs(self) -> list[tuple[Playlist, Playlist]]:
        return list(pairwise(self._applied[0]))

    def items(self) -> Iterator[tuple[str, Playlist, Playlist]]:
        return ((f"fetch {place}", before, after) for place, (before, after) in enumerate(self.pairs, 1))

    def deltas_apply(self) -> Places:
        return filter(None, self._applied[1:])

    def deltas_equal(self) -> Places:
        for place, (one, other) in enumerate(self.pairs, 1):
            is_delta = [bool(fetch.playlist.skipped) for fetch in self.fetches[place - 1 : place + 1]]
            if is_delta[0] == is_delta[1] or (one.last, one.is_ended) != (other.last, other.is_ended):
                continue
            if _content(one) != _content(other):
                yield f"fetches {place - 1} and {place}, to {one.last}"

    def never_back(self, before: Playlist, after: Playlist) -> Places:
        if after.media_sequence < before.media_sequence:
            yield f"the media sequence falls from {before.media_sequence} to {after.media_sequence}"
        if _edge(after) < _edge(before):
            yield f"it ends at {after.last}, the previous one at {before.last}"

    def removed_in_order(self, before: Playlist, after: Playlist) -> Places:
        gone = {segment.uri for segment in before.segments if segment.msn < after.media_sequence}
        return (f"{each.uri} was removed by its number" for each in after.segments if each.uri in gone)

    def unchanged(self, before: Playlist, after: Playlist) -> Places:
        """All of a segment's parts may go, but not some. Others come only at the end of the open segment."""
        listed = {segment.msn: segment for segment in after.all_segments}
        for was in before.all_segments:
            now = listed.get(was.msn)
            if now is not None:
                kept = now.parts[: len(was.parts)] if was.is_open else now.parts
                if kept != was.parts and (now.parts or now.is_open):
                    yield f"the parts of segment {was.msn} were {[part.uri for part in was.parts]}"
                for name in SEGMENT_FIELDS if not was.is_open else OPEN_FIELDS if was.parts else ():
                    if getattr(was, name) != getattr(now, name):
                        yield f"segment {was.msn}: {name} was {getattr(was, name)!r}, is {getattr(now, name)!r}"
            elif was.is_open and was.parts and was.msn >= after.media_sequence:
                yield f"the parts of segment {was.msn} are gone, and there is no such segment"

    def constants(self, before: Playlist, after: Playlist) -> Places:
        for name in CONSTANT:
            one, other = ([tag.value for tag in each.all(name)][:1] for each in (before, after))
            if one != other:
                yield f"{name} was {one}, is {other}"

    def discontinuities(self, before: Playlist, after: Playlist) -> Places:
        gone = [segment for segment in before.segments if segment.msn < after.media_sequence]
        wanted = before.discontinuity_sequence + sum(segment.has_discontinuity for segment in gone)
        if after.media_sequence <= before.next_msn and after.discontinuity_sequence != wanted:
            yield f"{after.discontinuity_sequence}, not {wanted}"

    def removed_early(self, before: Playlist, after: Playlist) -> Places:
        whole_s = sum(segment.duration for segment in after.segments)
        if after.media_sequence > before.media_sequence and not after.is_ended and whole_s < 3 * after.target:
            yield f"{whole_s:.1f} s of three times {after.target} s"

    def event(self, before: Playlist, after: Playlist) -> Places:
        kinds = [tag.value for tag in before.all("EXT-X-PLAYLIST-TYPE")]
        if kinds and after.media_sequence != before.media_sequence:
            yield f"segments were removed from a playlist of type {kinds[0]}"
        if "VOD" in kinds and after.segments != before.segments:
            yield "a playlist of type VOD changed"

    def ended_for_good(self, before: Playlist, after: Playlist) -> Places:
        if before.is_ended and (not after.is_ended or after.next_msn != before.next_msn):
            yield "it had ended"

    def hints_kept(self, before: Playlist, after: Playlist) -> Places:
        msn, part = _edge(before)
        came = [one.uri for at, number, one in after.parts if (at, number) in ((msn, part + 1), (msn + 1, 0))]
        if before.hint and came and before.hint not in came:
            yield f"the hint was {before.hint}, the part is {came[0]}"

    def blocked(self) -> Places:
        for place, fetch in enumerate(self.fetches):
            msn, part = fetch.asked or (-1, -1)
            has_it = fetch.playlist.next_msn > msn or (part >= 0 and fetch.playlist.last >= (msn, part))
            if not has_it and not fetch.playlist.is_ended:
                yield f"fetch {place} asked for {msn}.{part}, the answer goes to {fetch.playlist.last}"

    def skips(self) -> Places:
        for place, (fetch, whole) in enumerate(zip(self.fetches, self._applied[0], strict=False)):
            boundary = whole.control.number("CAN-SKIP-UNTIL")
            left_s, old = sum(segment.duration for segment in whole.segments), 0
            for segment in whole.segments:
                left_s -= segment.duration
                old += boundary is not None and left_s > boundary
            if whole.is_ended or boundary is None:
                if fetch.playlist.skipped:
                    yield f"fetch {place} is a delta update, of a playlist that has none"
            elif fetch.skip and old and not fetch.playlist.skipped:
                yield f"fetch {place}: {old} segments could be skipped, and none was"

    def goes_on(self) -> Places:
        changed = 0
        for place, (before, after) in enumerate(self.pairs, 1):
            if after.next_msn != before.next_msn or after.is_ended:
                took_s = self.fetches[place].after_s(self.fetches[changed])
                came_alone = after.next_msn <= before.next_msn + 1  # Or else the player had slept.
                if took_s > 1.5 * after.target and came_alone:
                    yield f"fetch {place}: after {took_s:.1f} s, the target is {after.target}"
                changed = place


def _edge(playlist: Playlist) -> tuple[int, int]:
    msn, part = playlist.last
    return (msn, part) if part >= 0 else (msn + 1, -1)


def _content(playlist: Playlist) -> tuple[object, ...]:
    """All but the tags. Rendition reports may have gone on meanwhile, so only their URIs count."""
    edge = [(tag.name, tag.text("URI")) for tag in playlist.tags if tag.name in EDGE_TAGS]
    return playlist.media_sequence, playlist.all_segments, edge
