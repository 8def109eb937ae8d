"""What holds for the bytes of a rendition: its init segment, its segments and their parts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from tests.hls.checks import Check
from tests.hls.mp4 import Run, Track, boxes, read_fragments, read_init
from tests.hls.playlist import Segment

TOLERANCE_S: Final = 0.002
"""Between a playlist's duration and that of the samples: the decimals of the one, the timescale of the other."""


@dataclass(frozen=True)
class Body:
    """A segment as it was fetched, whole or (None) not, and each of its parts, whole or (None) not."""

    segment: Segment
    whole: bytes | None
    parts: Sequence[bytes | None] = ()

    @cached_property
    def fetched(self) -> list[tuple[str, float, bool, bytes]]:
        """(name, the playlist's duration, is said to be independent, bytes) of its parts, or else of all of it."""
        found = [
            (f"part {self.segment.msn}.{place}", part.duration, part.is_independent, data)
            for place, (part, data) in enumerate(zip(self.segment.parts, self.parts, strict=False))
            if data is not None
        ]
        if len(found) < len(self.segment.parts) or not found:
            return [self._whole] if self.whole is not None else found
        return found

    @property
    def _whole(self) -> tuple[str, float, bool, bytes]:
        assert self.whole is not None
        first = self.segment.parts[0].is_independent if self.segment.parts else False
        return f"segment {self.segment.msn}", self.segment.duration, first, self.whole


@dataclass(frozen=True)
class Media:
    """In the playlist's order; `inits` by the URIs of their maps."""

    inits: dict[str, bytes]
    bodies: Sequence[Body]
    are_independent: bool = False
    """EXT-X-INDEPENDENT-SEGMENTS."""

    def tracks(self, body: Body) -> dict[int, Track]:
        """Of the body's map; none where that can't be read, which another check tells."""
        try:
            return read_init(self.inits[body.segment.map_uri])
        except (KeyError, ValueError):
            return {}

    @cached_property
    def runs(self) -> list[tuple[Body, str, float, bool, list[Run]]]:
        """Of what can be read, as `Body.fetched` has it: its runs, one after another."""
        found = []
        for body in self.bodies:
            tracks = self.tracks(body)
            for name, duration, is_independent, data in body.fetched:
                try:
                    runs = [run for fragment in read_fragments(data, tracks) for run in fragment]
                except ValueError:
                    continue
                found.append((body, name, duration, is_independent, runs))
        return found


def leading(runs: list[Run]) -> list[Run]:
    """Of the track that the durations are of: video, where there is some."""
    video = [run for run in runs if run.track.kind == "video"]
    if video or not runs:
        return video
    return [run for run in runs if run.track.number == runs[0].track.number]


def begins_segment(body: Body, name: str) -> bool:
    return name in (f"segment {body.segment.msn}", f"part {body.segment.msn}.0")


def init(found: Media) -> Iterator[str]:
    for uri, data in found.inits.items():
        try:
            read_init(data)
        except ValueError as error:
            yield f"{uri}: {error}"
    for uri in {body.segment.map_uri for body in found.bodies} - set(found.inits):
        yield f"the init segment {uri!r} is not there"


def whole(found: Media) -> Iterator[str]:
    for body in found.bodies:
        tracks = found.tracks(body)
        pieces = [(f"segment {body.segment.msn}", body.whole)]
        pieces += [(f"part {body.segment.msn}.{place}", data) for place, data in enumerate(body.parts)]
        for name, data in pieces:
            if data is None:
                continue
            try:
                read_fragments(data, tracks) if tracks else list(boxes(data))
            except ValueError as error:
                yield f"{name}: {error}"


def concatenated(found: Media) -> Iterator[str]:
    for body in found.bodies:
        parts = [data for data in body.parts if data is not None]
        if body.whole is None or not body.segment.parts or len(parts) < len(body.segment.parts):
            continue
        if b"".join(parts) != body.whole:
            yield f"segment {body.segment.msn} has {len(body.whole)} bytes, its parts {sum(map(len, parts))}, others"


def in_order(found: Media) -> Iterator[str]:
    ends: dict[int, int] = {}
    for body, name, _, _, runs in found.runs:
        if body.segment.has_discontinuity and begins_segment(body, name):
            ends.clear()
        for run in runs:
            before = ends.get(run.track.number)
            if before is not None and run.begins < before:
                yield f"{name}: track {run.track.number} goes back from {before} to {run.begins}"
            elif before is not None and run.begins > before:
                yield f"{name}: track {run.track.number} leaps from {before} to {run.begins}"
            ends[run.track.number] = run.begins + sum(sample.duration for sample in run.samples)


def independent(found: Media) -> Iterator[str]:
    for body, name, _, is_independent, runs in found.runs:
        first = leading(runs)
        wanted = is_independent or (found.are_independent and begins_segment(body, name))
        if wanted and (not first or not first[0].samples or not first[0].samples[0].is_sync):
            yield f"{name} is said to be independent, and begins with no sync sample"


def told_independent(found: Media) -> Iterator[str]:
    for body, name, _, is_independent, runs in found.runs:
        has_sync = any(sample.is_sync for run in leading(runs) for sample in run.samples)
        if body.segment.parts and name.startswith("part") and has_sync and not is_independent:
            yield f"{name} has a sync sample and is not INDEPENDENT"


def durations(found: Media) -> Iterator[str]:
    for _, name, duration, _, runs in found.runs:
        measured = sum(run.duration_s for run in leading(runs))
        if abs(measured - duration) > TOLERANCE_S:
            yield f"{name}: the playlist says {duration:.5f} s, its samples last {measured:.5f} s"


def every_track(found: Media) -> Iterator[str]:
    for body in found.bodies:
        tracks = found.tracks(body)
        seen = {run.track.number for other, *_, runs in found.runs if other is body for run in runs}
        for number in sorted(set(tracks) - seen) if seen else ():
            yield f"segment {body.segment.msn} has nothing of track {number} ({tracks[number].codec})"


SEGMENTS: list[Check[Media]] = [
    Check("init", "3.1.2", "The map's resource is an init segment: ftyp, moov with mvex, no samples", init),
    Check("whole", "3.1.2", "Each is whole: fragments of moof and mdat, addressed from the moof on, with tfdt", whole),
    Check("concatenated", "3.2", "A segment's parts, one after another, are the segment", concatenated),
    Check("in-order", "3", "Each track's times go on where the fragment before ended", in_order),
    Check("independent", "4.4.4.9", "What is said to be independent begins with a sync sample", independent),
    Check("told-independent", "4.4.4.9", "A part with a sync sample says so", told_independent, "should"),
    Check("durations", "4.4.4.1, 4.4.4.9", "Durations are those of the samples", durations),
    Check("every-track", "3", "Each segment has something of each track", every_track, "should"),
]
