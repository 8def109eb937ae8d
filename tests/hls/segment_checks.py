"""The rules of the bytes of a rendition: `Media` of fragmented MP4, `Subtitles` of WebVTT."""

import re
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

HEADER: Final = re.compile(r"\ufeff?WEBVTT(?:[ \t][^\n]*)?(?:\n|$)")
STAMP: Final = r"(?:(\d{2,}):)?([0-5]\d):([0-5]\d\.\d{3})"
TIMES: Final = re.compile(rf"{STAMP}[ \t]+-->[ \t]+{STAMP}(?:[ \t].*)?")


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


def _text(data: bytes) -> str:
    return re.sub(r"\r\n?", "\n", data.decode("utf-8", "replace"))


def _blocks(text: str) -> list[list[str]]:
    return [block.strip("\n").split("\n") for block in re.split(r"\n{2,}", text.strip("\n")) if block]


def _cues(text: str) -> list[list[str]]:
    return [block for block in _blocks(text) if any("-->" in line for line in block[:2])]


@dataclass(frozen=True)
class Subtitles(Checked):
    bodies: Sequence[Body]

    def items(self) -> Iterator[tuple[str, Segment, str]]:
        """All that was fetched."""
        return ((name, body.segment, _text(data)) for body in self.bodies for name, data in body.fetched)

    def vtt_header(self, segment: Segment, text: str) -> Places:
        return [] if HEADER.match(text) or segment.map_uri else [f"{text[:20]!r}"]

    def vtt_characters(self, _: Segment, text: str) -> Places:
        return re.findall("\ufffd", text)[:1]

    def vtt_timed(self, _: Segment, text: str) -> Places:
        for line in (next(line for line in cue if "-->" in line) for cue in _cues(text)):
            times = TIMES.fullmatch(line)
            numbers = [float(each or 0) for each in times.groups()] if times else []
            if numbers[:3] >= numbers[3:]:
                yield f"{line!r}"

    def vtt_same_cues(self) -> Places:
        for body in self.bodies:
            parts = [cue for data in body.parts if data is not None for cue in _cues(_text(data))]
            if body.joined is not None and body.whole is not None and parts != _cues(_text(body.whole)):
                yield f"segment {body.segment.msn}"
