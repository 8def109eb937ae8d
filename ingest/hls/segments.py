"""Parts and segments: what playlists list, and whose bytes are served.

A part is a run of whole frames, a segment a run of parts. Times are seconds of the packaging's time (of decoding)."""

from dataclasses import dataclass, field
from typing import Final

from ingest.hls.dating import Run
from ingest.hls.tracks import Fragment

ROUNDING_S: Final = 1e-6
"""Of sums of durations."""
NO_INIT: Final = -1
"""The number of an initialisation segment where there is none."""


@dataclass(eq=False, slots=True)
class Part:
    start: float
    is_independent: bool
    """Begins with a keyframe."""
    duration: float = 0.0
    data: bytes | memoryview = b""
    """Once it is whole."""
    size: int = 0
    fragments: list[Fragment] = field(default_factory=list)
    """Of the track that the rendition is cut by, until it is whole."""

    @property
    def end(self) -> float:
        return self.start + self.duration

    def add(self, fragment: Fragment) -> None:
        self.fragments.append(fragment)
        self.duration = fragment.end - self.start
        self.size += len(fragment.data)

    def close(self, others: list[Fragment]) -> None:
        """`others`: of the other track, which go in between by their time."""
        ordered = sorted([*self.fragments, *others], key=lambda each: each.start) if others else self.fragments
        self.data = b"".join([each.data for each in ordered])
        self.size = len(self.data)
        self.fragments = []


@dataclass(eq=False, slots=True)
class Segment:
    msn: int
    start: float
    run: Run
    init: int
    """The number of its initialisation segment."""
    is_discontinuous: bool
    """Unlike what stands before it in the playlist."""
    lists_parts: bool = True
    """Not if a frame in it is longer than a part may be."""
    parts: list[Part] = field(default_factory=list)
    duration: float = 0.0
    size: int = 0
    is_whole: bool = False
    is_in_memory: bool = True
    _anchor: float | None = None
    _joined: bytes | None = None

    @property
    def end(self) -> float:
        return self.start + self.duration

    @property
    def date(self) -> float | None:
        """The time of day at its beginning, which stays once it was asked for."""
        if self._anchor is None:
            self._anchor = self.run.anchor
            self.run.is_told = True
        return self._anchor + self.start if self._anchor is not None else None

    def joined(self) -> bytes:
        """Its parts' bytes in one, of which they are pieces from then on: there is one copy for all who ask."""
        if self._joined is None:
            self._joined = b"".join([part.data for part in self.parts])
            at = 0
            for part in self.parts:
                part.data = memoryview(self._joined)[at : at + part.size]
                at += part.size
        return self._joined

    def add(self, part: Part, most_s: float) -> None:
        """`most_s`: what a playlist may say of its duration; a track with a gap has a frame that is longer."""
        self.parts.append(part)
        self.duration = min(part.end - self.start, most_s)
        self.size += part.size

    def followed(self) -> "Segment":
        """One of another rendition that is alike in number, time and date, and has nothing yet."""
        anchor = self._anchor
        return Segment(self.msn, self.start, self.run, NO_INIT, self.is_discontinuous, _anchor=anchor)

    def forget(self) -> int:
        """Gives up its bytes, as many as that."""
        freed = self.size if self.is_in_memory else 0
        self.is_in_memory = False
        self.parts, self._joined = [], None
        return freed


@dataclass(frozen=True, slots=True)
class Targets:
    """What all renditions of a packaging keep to, from their first playlist on."""

    duration_s: int
    """EXT-X-TARGETDURATION."""
    part_s: float
    """PART-TARGET."""
    segment_s: float
    """When a keyframe ends a segment."""
    is_independent: bool
    """Keyframes come often enough that each segment begins with one (EXT-X-INDEPENDENT-SEGMENTS)."""

    @property
    def most_s(self) -> float:
        """How long a segment can be, as its rounded duration must not be over the target."""
        return self.duration_s + 0.45

    @property
    def least_part_s(self) -> float:
        return 0.85 * self.part_s
