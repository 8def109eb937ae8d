"""A rendition: one media playlist with its segments, parts and initialisation segments; what is asked of it, and what
is kept. What comes is put in by those that are cut (`cutting`), and by those that follow them (`subtitles`)."""

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from math import ceil
from typing import Final

from ingest.hls.playlists import media_playlist
from ingest.hls.segments import NO_INIT, Segment, Targets
from ingest.hls.settings import HlsSettings

LEAST_OF_WINDOW: Final = 7
"""Target durations of a window."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rendition begins: the numbers of its first segment."""

    msn: int
    discontinuities: int
    """EXT-X-DISCONTINUITY-SEQUENCE."""


class Rendition:
    def __init__(
        self,
        name: str,
        settings: HlsSettings,
        targets: Targets,
        place: Place,
        *,
        epoch: str,
        suffix: str,
    ) -> None:
        """`suffix`: of segments' and parts' files."""
        self.name = name
        self.epoch = epoch
        self.suffix = suffix
        self.targets = targets
        self.settings = settings
        self.is_ended = False
        """Nothing comes any more: the playlist says so."""
        self.segments: deque[Segment] = deque()
        """That are whole and listed."""
        self.open: Segment | None = None
        self.is_independent = targets.is_independent
        """Each segment so far begins with a keyframe. Once one does not, no claim is made any more, as playlists may
        not change back and forth (6.2.1)."""
        self.discontinuities = place.discontinuities
        self.peak_bps = 0.0
        self.bytes = 0
        """In memory."""
        self.on_segment: Callable[[Rendition, Segment], None] | None = None
        self.reports: Callable[[Rendition], list[Rendition]] = lambda rendition: []
        self._next_msn = place.msn
        self._lost = -1
        """Up to which segment nothing can be had that is not in memory."""
        self._inits: dict[int, bytes] = {}
        self._init = NO_INIT
        self._gone: deque[Segment] = deque()
        """Listed no more, and to be had for a while."""
        self._texts: dict[bool, str] = {}
        self._is_changed = False
        self._seconds = 0.0
        self._total = 0

    # --- What is asked ---

    @property
    def media_sequence(self) -> int:
        return self.segments[0].msn if self.segments else self.next_msn

    @property
    def next_msn(self) -> int:
        """Of the segment that is open, or of the next one."""
        return self._next_msn - (self.open is not None)

    @property
    def _newest(self) -> Segment | None:
        """Of which anything is listed."""
        if self.open is not None and self.open.parts:
            return self.open
        return self.segments[-1] if self.segments else None

    @property
    def last_msn(self) -> int:
        """Of the newest segment of which anything is listed; one before the first where there is none."""
        newest = self._newest
        return newest.msn if newest is not None else self.media_sequence - 1

    @property
    def last_part(self) -> int | None:
        """The number of its last part; None where it lists none."""
        newest = self._newest
        return len(newest.parts) - 1 if newest is not None and newest.lists_parts and newest.parts else None

    @property
    def last_whole(self) -> int:
        return self.segments[-1].msn if self.segments else self.media_sequence - 1

    @property
    def has_media(self) -> bool:
        return self._newest is not None

    @property
    def is_live(self) -> bool:
        return self.has_media and not self.is_ended

    @property
    def end_s(self) -> float:
        """Of what is listed."""
        newest = self._newest
        return newest.end if newest is not None else 0.0

    @property
    def average_bps(self) -> float:
        return self._total * 8 / self._seconds if self._seconds else 0.0

    @property
    def sounding_bps(self) -> float:
        """Of the parts so far, where no segment is whole yet."""
        newest = self.open
        return newest.size * 8 / newest.duration if newest is not None and newest.duration else 0.0

    def has(self, msn: int, part: int | None = None) -> bool:
        """Whether the playlist has what `_HLS_msn` and `_HLS_part` ask for, so that it can be given."""
        if part is not None and self.segments and msn == self.last_whole:
            newest = self.segments[-1]
            if newest.lists_parts and part >= len(newest.parts):
                msn, part = msn + 1, 0  # As if it had asked for the first part of the next one.
        if self.is_ended or msn <= self.last_whole:
            return True
        if part is None or self.open is None:
            return False
        return msn == self.open.msn and part < len(self.open.parts)

    def awaits(self, msn: int, part: int) -> bool:
        """Whether that part may still come. One that was hinted at does not if its segment ended before it."""
        if self.is_ended:
            return False
        if self.open is not None and msn == self.open.msn:
            return part >= len(self.open.parts)
        return msn >= self._next_msn

    def is_too_far(self, msn: int, part: int | None = None) -> bool:
        """Whether that is an error, as nobody waits so long (6.2.5.2). Any part that the segment under way can have is
        waited for: hls.js, where it goes without low latency, asks for the number that the last one had in the segment
        before.
        """
        if self.is_ended:
            return False
        if msn > self.last_whole + 2:
            return True
        ahead = 3 if self.targets.part_s < 1 else ceil(3 / self.targets.part_s)
        if part is None or msn <= self.last_whole:
            return False
        listed = len(self.open.parts) if self.open is not None and self.open.msn == msn else 0
        can_have = ceil(self.targets.most_s / self.targets.part_s) if msn == self.last_whole + 1 else 0
        return part > max(listed - 1 + ahead, ahead, can_have)

    def others(self) -> list["Rendition"]:
        return self.reports(self)

    def playlist(self, *, skip: bool = False) -> str:
        """`skip`: a delta update, where the playlist is long enough for one."""
        if skip not in self._texts:
            self._texts[skip] = media_playlist(self, skip=skip)
        return self._texts[skip]

    def segment(self, msn: int) -> bytes | None:
        """Its bytes; None: there is no such, or it is in memory no more."""
        found = self.find(msn)
        return found.joined() if found is not None and found.is_whole and found.is_in_memory else None

    def part(self, msn: int, number: int) -> bytes | memoryview | None:
        found = self.find(msn)
        if found is None or not found.lists_parts or not found.is_in_memory or not 0 <= number < len(found.parts):
            return None
        return found.parts[number].data

    def init(self, number: int) -> bytes | None:
        return self._inits.get(number)

    def find(self, msn: int) -> Segment | None:
        if self.open is not None and self.open.msn == msn:
            return self.open
        for several in (self.segments, self._gone):
            if several and several[0].msn <= msn <= several[-1].msn:
                return several[msn - several[0].msn]
        return None

    def forget_texts(self) -> None:
        self._texts.clear()

    def take_changed(self) -> bool:
        """Whether anything new is listed since this was asked the last time."""
        changed, self._is_changed = self._is_changed, False
        return changed

    # --- What is kept ---

    def end(self) -> None:
        self.is_ended = self._is_changed = True

    def _add_whole(self, segment: Segment) -> None:
        segment.is_whole = True
        self.segments.append(segment)
        self._measure(segment)
        self._trim(segment.end)
        if self.on_segment is not None:
            self.on_segment(self, segment)

    def _listed(self) -> list[Segment]:
        return [*self.segments, *([self.open] if self.open is not None else [])]

    def _measure(self, segment: Segment) -> None:
        """The peak is of runs of segments from half a target duration to one and a half (4.4.6.2)."""
        self._seconds += segment.duration
        self._total += segment.size
        size, duration = 0, 0.0
        for each in reversed(self.segments):
            size += each.size
            duration += each.duration
            if duration > 1.5 * self.targets.duration_s:
                return
            if duration >= 0.5 * self.targets.duration_s:
                self.peak_bps = max(self.peak_bps, size * 8 / duration)

    def _trim(self, end: float) -> None:
        target = self.targets.duration_s
        window = max(self.settings.window_s, LEAST_OF_WINDOW * target)
        listed = max(window, self.settings.rewind_s) if self.on_segment is not None else window
        while end - self.segments[0].end >= listed:
            self._unlist()
        grace = min(listed, self.settings.grace_s) + target
        while self._gone and end - self._gone[0].end >= listed + grace:
            self.bytes -= self._gone.popleft().forget()
        for segment in self.segments:
            if end - segment.end < window + target:
                break
            self.bytes -= segment.forget()
        self._unlist_lost()
        self._drop_inits()

    def lose(self, msn: int) -> None:
        """A segment's bytes can't be had elsewhere: it, and what stands before it, is listed only while it is in
        memory."""
        self._lost = max(self._lost, msn)
        self._unlist_lost()

    def _unlist_lost(self) -> None:
        while self.segments and self.segments[0].msn <= self._lost and not self.segments[0].is_in_memory:
            self._unlist()

    def _unlist(self) -> None:
        gone = self.segments.popleft()
        self._gone.append(gone)
        if gone.is_discontinuous:
            self.discontinuities += 1
        self._is_changed = True

    def drop_oldest(self) -> bool:
        """One segment's bytes are given up, as there are too many; False: there is none but the last."""
        if self._gone:
            self.bytes -= self._gone.popleft().forget()
            return True
        if len(self.segments) < 2:
            return False
        self._unlist()
        return self.drop_oldest()

    def _drop_inits(self) -> None:
        used = {segment.init for segment in (*self._gone, *self.segments)} | {self._init}
        for number in [number for number in self._inits if number not in used]:
            del self._inits[number]

    def _bound_inits(self) -> None:
        while len(self._inits) > self.settings.init_segments:
            oldest = min(self._inits)
            while self.segments and self.segments[0].init <= oldest:
                self._unlist()
            while self._gone and self._gone[0].init <= oldest:
                self.bytes -= self._gone.popleft().forget()
            del self._inits[oldest]


def bound_memory(renditions: Collection[Rendition], most_bytes: int) -> None:
    while sum(each.bytes for each in renditions) > most_bytes:
        largest = max(renditions, key=lambda each: each.bytes)
        if not largest.drop_oldest():
            return
