"""What holds for the same media playlist, fetched again and again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final

from tests.hls.checks import Check
from tests.hls.playlist import MediaPlaylist, Segment, apply_delta

CONSTANT: Final = ("EXT-X-TARGETDURATION", "EXT-X-PART-INF", "EXT-X-PLAYLIST-TYPE", "EXT-X-INDEPENDENT-SEGMENTS")
PART_LATE: Final = 2.0
"""Part targets from one part's coming to the next one's, as a player sees it."""
EDGE_TAGS: Final = ("EXT-X-PRELOAD-HINT", "EXT-X-RENDITION-REPORT")


@dataclass(frozen=True, slots=True)
class Fetch:
    """One answer. `at`: when it came, in seconds of any clock; NaN: nobody knows. `asked`: _HLS_msn and _HLS_part, -1
    without a part; None without either."""

    playlist: MediaPlaylist
    at: float = float("nan")
    asked: tuple[int, int] | None = None
    skip: bool = False
    """It was asked for as a delta update."""
    held_up_s: float = 0.0
    """For how long the player had stood still until then, in all, and the server with it."""

    def after_s(self, before: "Fetch") -> float:
        """How long it came after that one, but for what held up both."""
        return self.at - before.at - (self.held_up_s - before.held_up_s)


@dataclass(frozen=True)
class Succession:
    """In the order in which they were asked for, one after another."""

    fetches: Sequence[Fetch]

    @cached_property
    def whole(self) -> list[MediaPlaylist]:
        """What a player has after each: delta updates are applied. It ends before one that can't be."""
        found: list[MediaPlaylist] = []
        for fetch in self.fetches:
            try:
                found.append(apply_delta(found[-1] if found else fetch.playlist, fetch.playlist))
            except ValueError:
                break
        return found

    @cached_property
    def pairs(self) -> list[tuple[MediaPlaylist, MediaPlaylist]]:
        return list(pairwise(self.whole))


def deltas_apply(found: Succession) -> Iterator[str]:
    if len(found.whole) < len(found.fetches):
        delta = found.fetches[len(found.whole)].playlist
        try:
            apply_delta(found.whole[-1] if found.whole else delta, delta)
        except ValueError as error:
            yield f"fetch {len(found.whole)}: {error}"


def deltas_equal(found: Succession) -> Iterator[str]:
    """Where a delta update and a whole playlist are of the same moment."""
    for place, (one, other) in enumerate(found.pairs, 1):
        kinds = {bool(found.fetches[number].playlist.skipped) for number in (place - 1, place)}
        if len(kinds) == 1 or one.last != other.last or one.is_ended != other.is_ended:
            continue
        if (one.media_sequence, one.all_segments) != (other.media_sequence, other.all_segments):
            yield f"fetches {place - 1} and {place}, to {one.last}: the update gives another playlist"
        elif _subjects(one) != _subjects(other):
            yield f"fetches {place - 1} and {place}, to {one.last}: hints or reports differ"


def _subjects(playlist: MediaPlaylist) -> list[tuple[str, str]]:
    """Of hints and reports; what reports tell of other renditions may have gone on meanwhile."""
    return [(tag.name, tag.text("URI")) for tag in playlist.tags if tag.name in EDGE_TAGS]


def never_back(found: Succession) -> Iterator[str]:
    for place, (before, after) in enumerate(found.pairs, 1):
        if after.media_sequence < before.media_sequence:
            yield f"fetch {place}: the media sequence falls from {before.media_sequence} to {after.media_sequence}"
        if _edge_of(after) < _edge_of(before):
            yield f"fetch {place}: it ends at {after.last}, the one before did at {before.last}"


def _edge_of(playlist: MediaPlaylist) -> tuple[int, int]:
    msn, part = playlist.last
    return (msn, part) if part >= 0 else (msn + 1, -1)


def removed_in_order(found: Succession) -> Iterator[str]:
    for place, (before, after) in enumerate(found.pairs, 1):
        uris = [segment.uri for segment in after.segments]
        gone = {segment.uri for segment in before.segments if segment.msn < after.media_sequence}
        if back := gone.intersection(uris):
            yield f"fetch {place}: {sorted(back)[0]} was removed by its number, and is there"


def unchanged(found: Succession) -> Iterator[str]:
    for place, (before, after) in enumerate(found.pairs, 1):
        now = {segment.msn: segment for segment in after.segments}
        for segment in before.segments:
            if segment.msn >= after.media_sequence and segment.msn < after.next_msn:
                for what in _changes(segment, now[segment.msn]):
                    yield f"fetch {place}: segment {segment.msn} changed: {what}"
        for words in _parts_changed(before, after):
            yield f"fetch {place}: {words}"


def _changes(one: Segment, other: Segment) -> Iterator[str]:
    for name in ("uri", "duration", "map_uri", "has_discontinuity", "date_time", "is_gap", "byterange"):
        if getattr(one, name) != getattr(other, name):
            yield f"{name} was {getattr(one, name)!r}, is {getattr(other, name)!r}"


def _parts_changed(before: MediaPlaylist, after: MediaPlaylist) -> Iterator[str]:
    """All of a segment's parts may go, but not some; others come at the open segment's end alone."""
    was = before.open
    listed = {segment.msn: segment for segment in after.all_segments}
    for segment in before.segments:
        now = listed.get(segment.msn)
        if now and segment.parts and now.parts and now.parts != segment.parts:
            yield f"the parts of segment {segment.msn} changed"
        if now and now.parts and not segment.parts:
            yield f"segment {segment.msn} had no parts, and has some"
    if was and was.parts and was.msn >= after.media_sequence:
        now = listed.get(was.msn)
        if now is None:
            yield f"the parts of segment {was.msn} are gone, and there is no such segment"
        elif now.parts[: len(was.parts)] != was.parts and (now.parts or now.is_open):
            yield f"the parts of segment {was.msn} were {[part.uri for part in was.parts]}, and changed"
        else:
            for name in ("map_uri", "discontinuity", "has_discontinuity", "date_time"):
                if getattr(was, name) != getattr(now, name):
                    yield f"segment {was.msn}, when its parts were listed: {name} changed"


def constants(found: Succession) -> Iterator[str]:
    for place, (before, after) in enumerate(found.pairs, 1):
        for name in CONSTANT:
            one, other = before.first(name), after.first(name)
            values = [tag.value if tag else None for tag in (one, other)]
            if values[0] != values[1]:
                yield f"fetch {place}: {name} was {values[0]}, is {values[1]}"


def discontinuities(found: Succession) -> Iterator[str]:
    for place, (before, after) in enumerate(found.pairs, 1):
        gone = [segment for segment in before.segments if segment.msn < after.media_sequence]
        wanted = before.discontinuity_sequence + sum(segment.has_discontinuity for segment in gone)
        knows_all = after.media_sequence <= before.next_msn
        if knows_all and after.discontinuity_sequence != wanted:
            yield f"fetch {place}: the discontinuity sequence is {after.discontinuity_sequence}, not {wanted}"


def removed_early(found: Succession) -> Iterator[str]:
    for place, (before, after) in enumerate(found.pairs, 1):
        whole_s = sum(segment.duration for segment in after.segments)
        if after.media_sequence > before.media_sequence and not after.is_ended and whole_s < 3 * after.target:
            yield f"fetch {place}: segments were removed, and {whole_s:.1f} s are left of three times {after.target} s"


def event(found: Succession) -> Iterator[str]:
    for place, (before, after) in enumerate(found.pairs, 1):
        kind = before.first("EXT-X-PLAYLIST-TYPE")
        if kind and after.media_sequence != before.media_sequence:
            yield f"fetch {place}: segments of a playlist of type {kind.value} were removed"
        if kind and kind.value == "VOD" and after.segments != before.segments:
            yield f"fetch {place}: a playlist of type VOD changed"


def ended_for_good(found: Succession) -> Iterator[str]:
    for place, (before, after) in enumerate(found.pairs, 1):
        if before.is_ended and (not after.is_ended or after.next_msn != before.next_msn):
            yield f"fetch {place}: it had ended, and goes on"


def hints_kept(found: Succession) -> Iterator[str]:
    for place, (before, after) in enumerate(found.pairs, 1):
        msn, part = _edge_of(before)
        wanted = {(msn, part + 1), (msn + 1, 0)}
        came = [one for at, number, one in after.parts if (at, number) in wanted]
        if before.hint and came and before.hint not in {one.uri for one in came}:
            yield f"fetch {place}: the hint was {before.hint}, what came is {came[0].uri}"


def blocked(found: Succession) -> Iterator[str]:
    for place, fetch in enumerate(found.fetches):
        if fetch.asked is None or fetch.playlist.is_ended:
            continue
        msn, part = fetch.asked
        has_it = fetch.playlist.next_msn > msn or (part >= 0 and fetch.playlist.last >= (msn, part))
        if not has_it:
            yield f"fetch {place} asked for {msn}.{part}, the answer goes to {fetch.playlist.last}"


def skips(found: Succession) -> Iterator[str]:
    """As far as it is known what there is to be skipped."""
    for place, (fetch, whole) in enumerate(zip(found.fetches, found.whole, strict=False)):
        boundary = whole.control.number("CAN-SKIP-UNTIL")
        if whole.is_ended or boundary is None:
            if fetch.playlist.skipped:
                yield f"fetch {place} is a delta update, of a playlist that has none"
            continue
        left_s, old = sum(segment.duration for segment in whole.segments), 0
        for segment in whole.segments:
            left_s -= segment.duration
            old += left_s > boundary
        if fetch.skip and old and not fetch.playlist.skipped:
            yield f"fetch {place} asked for a delta update, {old} segments could be skipped, and none was"


def parts_go_on(found: Succession) -> Iterator[str]:
    """By when they were told of, on a way that may take longer once than before. Where several came at once, the player
    had slept."""
    for place, (before, after) in enumerate(found.pairs, 1):
        took_s = found.fetches[place].after_s(found.fetches[place - 1])
        asked = found.fetches[place].asked
        if asked is None or asked[1] < 0 or not before.part_target or after.is_ended:
            continue
        if after.last in (asked, (asked[0] + 1, 0), (asked[0], -1)) and took_s > PART_LATE * before.part_target:
            yield f"fetch {place}: the next part came after {took_s:.2f} s, the part target is {before.part_target}"


def goes_on(found: Succession) -> Iterator[str]:
    """Where several came at once, the player had slept."""
    changed = 0
    for place, (before, after) in enumerate(found.pairs, 1):
        if after.next_msn != before.next_msn or after.is_ended:
            took_s = found.fetches[place].after_s(found.fetches[changed])
            if took_s > 1.5 * after.target and after.next_msn <= before.next_msn + 1:
                yield f"fetch {place}: the next segment came after {took_s:.1f} s, the target is {after.target}"
            changed = place


SUCCESSION: list[Check[Succession]] = [
    Check("deltas-apply", "6.2.5.1", "A delta update skips what was listed before alone", deltas_apply),
    Check("deltas-equal", "6.2.5.1", "A delta update, applied, is the whole playlist", deltas_equal),
    Check("never-back", "6.2.2", "The media sequence never falls, nor does the end", never_back),
    Check("removed-in-order", "6.2.2", "Segments are removed in their order, each counted", removed_in_order),
    Check(
        "unchanged",
        "6.2.1",
        "What was listed does not change: it goes at the beginning, and comes at the end",
        unchanged,
    ),
    Check("constants", "6.2.1", "Target durations and the playlist's type stay", constants),
    Check(
        "discontinuities",
        "6.2.2",
        "The discontinuity sequence counts the discontinuities that were removed",
        discontinuities,
    ),
    Check("removed-early", "6.2.2", "Three target durations are left when a segment is removed", removed_early),
    Check("event", "4.4.3.5", "A playlist of type EVENT or VOD loses nothing", event),
    Check("ended-for-good", "4.4.3.4", "After EXT-X-ENDLIST nothing comes", ended_for_good),
    Check("hints-kept", "4.4.5.3", "The part that comes has the URI that was hinted at", hints_kept),
    Check("blocked", "6.2.5.2", "An answer has what _HLS_msn and _HLS_part asked for", blocked),
    Check("skips", "6.2.5.1", "Who asks for a delta update gets one, until the stream has ended", skips),
    Check("parts-go-on", "6.2.1", "A part comes within a part target of the one before", parts_go_on, "should"),
    Check("goes-on", "6.2.1", "A segment comes within one and a half target durations", goes_on),
]
