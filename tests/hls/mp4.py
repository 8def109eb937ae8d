"""A strict reader of fragmented MP4: its boxes (ISO/IEC 14496-12) are read here, and its samples by PyAV.

All functions raise ValueError where bytes are not as they say."""

import io
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import av

MEDIA_BOXES: Final = re.compile(b"(?:(?:styp|sidx|prft|emsg|free)*moofmdat)+(?:free)*")
CODECS: Final[dict[str, Callable[[bytes], str]]] = {
    "avc1": lambda record: f"avc1.{record[1:4].hex()}",
    "mp4a": lambda config: f"mp4a.40.{config[0] >> 3}",
}
"""The codec by RFC 6381, by an avcC or an AudioSpecificConfig. Other sample entries have their type alone."""


class Box(NamedTuple):
    """`start` and `end` are places in what was read, `data` is the content."""

    kind: bytes
    start: int
    end: int
    data: bytes

    def all(self, kind: bytes) -> "list[Box]":
        return [box for box in boxes(self.data) if box.kind == kind]


def boxes(data: bytes) -> list[Box]:
    found, place = [], 0
    while place < len(data):
        size, kind = struct.unpack_from(">I4s", data.ljust(place + 8), place)
        head = 16 if size == 1 else 8
        if size == 1:
            size = int.from_bytes(data[place + 8 : place + 16], "big")
        if size < head or place + size > len(data):
            raise ValueError(f"{kind!r} at {place} says {size} bytes, {len(data) - place} are there")
        found.append(Box(kind, place, place + size, data[place + head : place + size]))
        place += size
    return found


@dataclass(frozen=True, slots=True)
class Track:
    number: int
    kind: str
    """"video", "audio" or another of FFmpeg's types."""
    timescale: int
    codec: str
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Run:
    """The samples of one track in one fragment. Times are in the track's timescale."""

    track: Track
    begins: int
    """The first time of decoding."""
    durations: list[int]
    are_sync: list[bool]

    @property
    def ends(self) -> int:
        return self.begins + sum(self.durations)

    @property
    def duration_s(self) -> float:
        return sum(self.durations) / self.track.timescale


def _runs(file: bytes) -> dict[int, Run]:
    """The runs of a file with an init segment and at most one fragment, by the numbers of their tracks."""
    found = {}
    try:
        with av.open(io.BytesIO(file), "r") as container:
            packets = [packet for packet in container.demux() if packet.size]
            for stream in container.streams:
                own, tag = [each for each in packets if each.stream is stream], stream.codec_context.codec_tag
                codec = CODECS[tag](stream.codec_context.extradata or b"") if tag in CODECS else tag
                size = (stream.width, stream.height) if isinstance(stream, av.VideoStream) else (0, 0)
                track = Track(stream.id, stream.type, round(1 / (stream.time_base or 1)), codec, *size)
                durations, are_sync = [each.duration or 0 for each in own], [each.is_keyframe for each in own]
                found[stream.id] = Run(track, own[0].dts or 0 if own else 0, durations, are_sync)
    except (av.FFmpegError, IndexError) as error:
        raise ValueError(f"FFmpeg can't read it: {error}") from error
    if any(packet.is_corrupt for packet in packets):
        raise ValueError("a sample is not whole")
    return found


def read_init(data: bytes) -> dict[int, Track]:
    """The tracks of an initialization segment, by their numbers."""
    top = {box.kind: box for box in boxes(data)}
    if not {b"ftyp", b"moov"} <= set(top) or {b"mdat", b"moof"} & set(top):
        raise ValueError(f"an init segment has ftyp and moov, and no media; there are {sorted(top)}")
    extended = [trex for mvex in top[b"moov"].all(b"mvex") for trex in mvex.all(b"trex")]
    runs = _runs(data)
    if not runs or len(extended) < len(runs) or any(run.durations for run in runs.values()):
        raise ValueError("an init segment has tracks, an mvex with a trex for each, and no samples")
    return {number: run.track for number, run in runs.items()}


def read_fragments(data: bytes, init: bytes) -> list[Run]:
    """The runs of all fragments, each a moof with its mdat."""
    found: list[Run] = []
    top = boxes(data)
    kinds = [box.kind for box in top]
    if not MEDIA_BOXES.fullmatch(b"".join(kinds)):
        raise ValueError(f"a media segment has moof and mdat, again and again; there are {kinds}")
    for moof, mdat in pairwise(top):
        if moof.kind == b"moof":
            runs = _runs(init + data[moof.start : mdat.end])
            numbers = [_track_number(traf) for traf in moof.all(b"traf")]
            if not set(numbers) <= set(runs):
                raise ValueError(f"a fragment is of tracks {numbers}, the init segment has {set(runs)}")
            found += [runs[number] for number in numbers]
    return found


def _track_number(traf: Box) -> int:
    # tfhd has the flags base-data-offset-present (0x1) and default-base-is-moof (0x20000), then the track's number.
    flags, number = struct.unpack_from(">II", b"".join(tfhd.data for tfhd in traf.all(b"tfhd")).ljust(8, b"\0"))
    if flags & 1 or not flags & 0x20000 or not traf.all(b"tfdt"):
        raise ValueError("a fragment's data is not addressed from its moof on, or has no time of decoding")
    return int(number)
