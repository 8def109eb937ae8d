"""The rules of the bytes of a rendition: fragmented MP4."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from tests.hls.mp4 import Run, read_fragments, read_init
from tests.hls.playlist import Segment
from tests.hls.rules import Checked, Places

TOLERANCE_S: Final = 0.002
"""Between the duration of a playlist, with its decimals, and the duration of the samples, in their timescale."""


@dataclass(frozen=True)
class Body:
    """A segment as it was fetched, whole or (None) not, and each of its parts, whole or (None) not."""

    segment: Segment
    whole: bytes | None
    parts: Sequence[bytes | None] = ()

    @property
    def fetched(self) -> list[tuple[str, bytes]]:
        """(name, content) of each part and of the whole segment."""
        parts = [(f"part {self.segment.msn}.{place}", data) for place, data in enumerate(self.parts)]
        found = [*parts, (f"segment {self.segment.msn}", self.whole)]
        return [(name, data) for name, data in found if data is not None]

    @property
    def joined(self) -> bytes | None:
        """All of its parts; None if some are lacking, or it has none."""
        parts = [data for data in self.parts if data is not None]
        return b"".join(parts) if parts and len(parts) >= len(self.segment.parts) else None


class Piece(NamedTuple):
    """A part, or a whole segment whose parts are not all there. Duration (s) and independence are the playlist's."""

    name: str
    segment: Segment
    duration: float
    is_independent: bool
    begins_segment: bool
    data: bytes


def _leading(runs: list[Run]) -> list[Run]:
    """The runs of the track that durations are measured by: video if there is some."""
    video = [run for run in runs if run.track.kind == "video"]
    return video or [run for run in runs if run.track.number == runs[0].track.number]


@dataclass(frozen=True)
class Media(Checked):
    inits: Mapping[str, bytes]
    """By the URIs of their maps."""
    bodies: Sequence[Body]
    """In the order of the playlist."""
    are_independent: bool = False
    """True with EXT-X-INDEPENDENT-SEGMENTS."""

    @cached_property
    def pieces(self) -> list[tuple[Piece, list[Run]]]:
        """All that can be read; `whole` reports the rest."""
        found = []
        for body in self.bodies:
            segment, parts = body.segment, body.segment.parts
            pieces = [
                Piece(f"part {segment.msn}.{place}", segment, part.duration, part.is_independent, place == 0, data)
                for place, (part, data) in enumerate(zip(parts, body.parts, strict=False))
                if data is not None
            ]
            if body.whole is not None and (len(pieces) < len(parts) or not pieces):
                is_independent = any(part.is_independent for part in parts[:1])
                pieces = [Piece(f"segment {segment.msn}", segment, segment.duration, is_independent, True, body.whole)]
            for piece in pieces:
                with suppress(ValueError):
                    found.append((piece, read_fragments(piece.data, self.inits.get(segment.map_uri, b""))))
        return found

    def items(self) -> Iterator[tuple[str, Piece, list[Run]]]:
        return ((piece.name, piece, _leading(runs)) for piece, runs in self.pieces)

    def init(self) -> Places:
        for uri in {*self.inits, *(body.segment.map_uri for body in self.bodies)}:
            try:
                read_init(self.inits.get(uri, b""))
            except ValueError as error:
                yield f"{uri}: {error}"

    def whole(self) -> Places:
        for body in self.bodies:
            for name, data in body.fetched:
                try:
                    read_fragments(data, self.inits.get(body.segment.map_uri, b""))
                except ValueError as error:
                    yield f"{name}: {error}"

    def concatenated(self) -> Places:
        known = [(body.segment, body.joined, body.whole) for body in self.bodies if body.segment.parts]
        return (
            f"segment {segment.msn}"
            for segment, joined, whole in known
            if None not in (joined, whole) and joined != whole
        )

    def in_order(self) -> Places:
        ends: dict[int, int] = {}
        for piece, runs in self.pieces:
            if piece.segment.has_discontinuity and piece.begins_segment:
                ends.clear()
            for run in runs:
                before = ends.get(run.track.number, run.begins)
                if run.begins != before:
                    yield f"{piece.name}: track {run.track.number} goes from {before} to {run.begins}"
                ends[run.track.number] = run.ends

    def independent(self, piece: Piece, runs: list[Run]) -> Places:
        is_said = piece.is_independent or (self.are_independent and piece.begins_segment)
        return ["no sync sample"] if is_said and not any(any(run.are_sync[:1]) for run in runs[:1]) else []

    def durations(self, piece: Piece, runs: list[Run]) -> Places:
        measured = sum(run.duration_s for run in runs)
        if abs(measured - piece.duration) > TOLERANCE_S:
            yield f"{piece.duration:.5f} s, its samples last {measured:.5f} s"
