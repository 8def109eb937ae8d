"""A rendition: one media playlist with its segments, parts and initialisation segments.

It is cut by its leading track, whose fragments make parts and segments; the other track's go in by their time.

- A part is as long as PART-TARGET lets it. One that had to end before 85 % of that is the last of its segment, which
  the draft allows (4.4.4.9).
- A frame that is longer than PART-TARGET alone is a segment of its own that lists no parts.
- A segment ends at a keyframe when it is long enough, or else where the next frame would make it longer than
  EXT-X-TARGETDURATION allows."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Final

from ingest.hls.boxes import joined_init
from ingest.hls.dating import Run
from ingest.hls.playlists import media_playlist
from ingest.hls.segments import ROUNDING_S, Part, Segment, Targets
from ingest.hls.settings import HlsSettings
from ingest.hls.tracks import Fragment, Track

EARLY: Final = 0.95
"""Of the segment's target: timestamps are rounded, and a keyframe that is due then ends it."""
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
        run: Run,
        lead: Track,
        other: Track | None,
        *,
        epoch: str,
    ) -> None:
        self.name = name
        self.epoch = epoch
        self.targets = targets
        self.settings = settings
        self.lead = lead
        self.other = other
        self.leads = False
        """It says where segments of all end."""
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
        self._part: Part | None = None
        self._run = run
        self._is_discontinuous = False
        self._others: deque[Fragment] = deque()
        self._other_bytes = 0
        self._cut_at: float | None = None
        self._begins_run = True
        self._inits: dict[int, bytes] = {}
        self._init = -1
        self._init_of: tuple[Track, Track | None] | None = None
        self._gone: deque[Segment] = deque()
        """Listed no more, and to be had for a while."""
        self._texts: dict[bool, str] = {}
        self._is_changed = False
        self._seconds = 0.0
        self._total = 0
        self._need_init()

    # --- What is asked ---

    @property
    def media_sequence(self) -> int:
        return self.segments[0].msn if self.segments else self.next_msn

    @property
    def next_msn(self) -> int:
        """Of the segment that is open, or of the next one."""
        return self._next_msn - (self.open is not None)

    @property
    def discontinuities_so_far(self) -> int:
        """The discontinuity sequence number of that segment."""
        listed = sum(segment.is_discontinuous for segment in self._listed())
        return self.discontinuities + listed + self._is_discontinuous

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

    def playlist(self, *, skip: bool = False) -> str:
        """`skip`: a delta update, where the playlist is long enough for one."""
        if skip not in self._texts:
            self._texts[skip] = media_playlist(self, skip=skip)
        return self._texts[skip]

    def segment(self, msn: int) -> list[bytes] | None:
        """Its bytes; None: there is no such, or it is in memory no more."""
        found = self.find(msn)
        return found.data if found is not None and found.is_whole else None

    def part(self, msn: int, number: int) -> list[bytes] | None:
        found = self.find(msn)
        if found is None or not found.lists_parts or not found.is_in_memory or not 0 <= number < len(found.parts):
            return None
        return [found.parts[number].data]

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

    # --- What comes ---

    def begin_run(self, run: Run, lead: Track, other: Track | None) -> None:
        """What comes next is of these tracks, and unlike what came before."""
        self._is_discontinuous = self.has_media
        self._run, self.lead, self.other = run, lead, other
        self._begins_run = True
        self._cut_at = None
        self._need_init()

    def _need_init(self) -> None:
        if self._init_of == (self.lead, self.other):
            return
        self._init_of = (self.lead, self.other)
        self._init += 1
        lead, other = self.lead, self.other
        self._inits[self._init] = joined_init(lead.init, other.init) if other is not None else lead.init
        self._bound_inits()

    def end_run(self) -> None:
        """Nothing more comes of it: what there is becomes a part, and the segment ends."""
        if self.open is not None:
            self._close_segment(is_end=True)
        self._others.clear()
        self._other_bytes = 0

    def end(self) -> None:
        self.end_run()
        self.is_ended = self._is_changed = True

    def cut_at(self, time: float) -> None:
        """The leading rendition has begun a segment there."""
        self._cut_at = time

    def take(self, fragment: Fragment) -> float | None:
        """The time at which a segment has begun with it, if one has, but for the first of a run."""
        if fragment.track is self.lead:
            return self._take_lead(fragment)
        if fragment.track is self.other:
            self._others.append(fragment)
            self._other_bytes += len(fragment.data)
            while self._other_bytes > self.settings.part_bytes:
                self._other_bytes -= len(self._others.popleft().data)
        return None

    # --- Cutting ---

    def _take_lead(self, fragment: Fragment) -> float | None:
        if self.open is not None and self._ends_before(self.open, fragment):
            self._close_segment()
        is_long = fragment.duration > self.targets.part_s + ROUNDING_S
        if self.open is not None and (is_long or self._part_ends_before(fragment)):
            part = self._part
            is_short = part is not None and part.duration < self.targets.least_part_s
            if is_long or is_short:
                self._close_segment()
            else:
                self._close_part()
        begun = fragment.start if self.open is None and not self._begins_run else None
        self._begins_run = False
        segment = self.open or self._open_segment(fragment)
        if self._part is None:
            self._part = Part(fragment.start, fragment.is_keyframe)
        self._part.add(fragment)
        if is_long:
            segment.lists_parts = False
            self._close_segment()
        return begun

    def _ends_before(self, segment: Segment, fragment: Fragment) -> bool:
        size = segment.size + (self._part.size if self._part is not None else 0) + self._other_bytes
        elapsed = fragment.start - segment.start
        if elapsed + fragment.duration > self.targets.most_s or size + len(fragment.data) > self.settings.segment_bytes:
            return True
        if not fragment.is_keyframe:
            return False
        if self.leads:
            return elapsed >= self.targets.segment_s * EARLY
        return self._cut_at is not None and fragment.start + fragment.duration / 2 >= self._cut_at

    def _part_ends_before(self, fragment: Fragment) -> bool:
        part = self._part
        return part is not None and (
            fragment.end - part.start > self.targets.part_s + ROUNDING_S
            or part.size + self._other_bytes + len(fragment.data) > self.settings.part_bytes
            or len(part.fragments) >= self.settings.fragments_per_part
        )

    def _open_segment(self, fragment: Fragment) -> Segment:
        self.open = Segment(self._next_msn, fragment.start, self._run, self._init, self._is_discontinuous)
        self.is_independent = self.is_independent and fragment.is_keyframe
        self._next_msn += 1
        self._is_discontinuous = False
        self._cut_at = None
        return self.open

    def _close_part(self, *, is_end: bool = False) -> None:
        """`is_end`: all of the other track's go in."""
        part, self._part = self._part, None
        if part is None or self.open is None:
            return
        others = []
        while self._others and (is_end or self._others[0].start < part.end):
            others.append(self._others.popleft())
            self._other_bytes -= len(others[-1].data)
        part.close(others)
        self.open.add(part, self.targets.most_s)
        self.bytes += part.size
        self._is_changed = True

    def _close_segment(self, *, is_end: bool = False) -> None:
        self._close_part(is_end=is_end)
        segment, self.open = self.open, None
        if segment is None or not segment.parts:
            return
        segment.is_whole = True
        self.segments.append(segment)
        self._measure(segment)
        self._trim(segment.end)
        if self.on_segment is not None:
            self.on_segment(self, segment)

    # --- What is kept ---

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
        grace = self.settings.grace_targets * target
        while self._gone and end - self._gone[0].end >= listed + grace:
            self.bytes -= self._gone.popleft().forget()
        for segment in self.segments:
            if end - segment.end < window + grace:
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
