"""A rendition of audio and video. It is cut by its leading track, whose fragments make parts and segments; the other
track's go in by their time.

- A part is as long as PART-TARGET lets it. One that had to end before 85 % of that is the last of its segment, which
  the draft allows (4.4.4.9).
- A frame that is longer than PART-TARGET alone is a segment of its own that lists no parts.
- A segment ends at a keyframe when it is long enough, or else where the next frame would make it longer than
  EXT-X-TARGETDURATION allows."""

from collections import deque
from typing import Final, Protocol

from ingest.hls.dating import Run
from ingest.hls.initialisation import joined_init
from ingest.hls.rendition import Place, Rendition
from ingest.hls.segments import ROUNDING_S, Part, Segment, Targets
from ingest.hls.settings import HlsSettings
from ingest.hls.tracks import Fragment, Track

EARLY: Final = 0.95
"""Of the segment's target: timestamps are rounded, and a keyframe that is due then ends it."""


class Follower(Protocol):
    """Whose parts and segments are those of another rendition."""

    def follow(self, segment: Segment, part: Part) -> None:
        """The next part has come, which is of that segment."""

    def follow_end(self) -> None:
        """The segment of that part is whole."""


class MediaRendition(Rendition):
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
        super().__init__(name, settings, targets, place, epoch=epoch, suffix="m4s")
        self.lead = lead
        self.other = other
        self.leads = False
        """It says where segments of all end."""
        self.followers: list[Follower] = []
        self._part: Part | None = None
        self._run = run
        self._is_discontinuous = False
        self._others: deque[Fragment] = deque()
        self._other_bytes = 0
        self._cut_at: float | None = None
        self._begins_run = True
        self._init_of: tuple[Track, Track | None] | None = None
        self._need_init()

    @property
    def discontinuities_so_far(self) -> int:
        """The discontinuity sequence number of the segment that is open, or of the next one."""
        listed = sum(segment.is_discontinuous for segment in self._listed())
        return self.discontinuities + listed + self._is_discontinuous

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
        super().end()

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
        for follower in self.followers:
            follower.follow(self.open, part)

    def _close_segment(self, *, is_end: bool = False) -> None:
        self._close_part(is_end=is_end)
        segment, self.open = self.open, None
        if segment is None or not segment.parts:
            return
        self._add_whole(segment)
        for follower in self.followers:
            follower.follow_end()
