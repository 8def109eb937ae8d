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


class Box(NamedTuple):
    kind: bytes
    start: int
    """`start` and `end` are places in the bytes that were read."""
    end: int
    data: bytes
    """The content."""

    def all(self, kind: bytes) -> "list[Box]":
        return [box for box in boxes(self.data, self.end - len(self.data)) if box.kind == kind]

    def find(self, kind: bytes) -> "Box":
        for box in self.all(kind):
            return box
        raise ValueError(f"{self.kind!r} has no {kind!r}")


def boxes(data: bytes, start: int = 0) -> list[Box]:
    found, place = [], 0
    while place < len(data):
        size, kind = struct.unpack_from(">I4s", data.ljust(place + 8), place)
        head = 16 if size == 1 else 8
        if size == 1:
            size = int.from_bytes(data[place + 8 : place + 16], "big")
        if size < head or place + size > len(data):
            raise ValueError(f"{kind!r} at {start + place} says {size} bytes, {len(data) - place} are there")
        found.append(Box(kind, start + place, start + place + size, data[place + head : place + size]))
        place += size
    return found


def _hevc(record: bytes) -> str:
    space, tier, profile = record[1] >> 6, record[1] >> 5 & 1, record[1] & 31
    compatible = int(f"{int.from_bytes(record[2:6], 'big'):032b}"[::-1], 2)
    words = [f"{('', 'A', 'B', 'C')[space]}{profile}", f"{compatible:X}", f"{'LH'[tier]}{record[12]}"]
    return ".".join(words + [f"{byte:X}" for byte in record[6:12].rstrip(b"\0")])


def _av1(record: bytes) -> str:
    profile, level = record[1] >> 5, record[1] & 31
    tier, high, twelve = record[2] >> 7, record[2] >> 6 & 1, record[2] >> 5 & 1
    return f"{profile}.{level:02}{'MH'[tier]}.{8 + 2 * high + 2 * (high & twelve):02}"


CODECS: Final[dict[str, Callable[[bytes], str]]] = {
    "avc1": lambda record: record[1:4].hex(),
    "hvc1": _hevc,
    "av01": _av1,
    "vp09": lambda record: f"{record[4]:02}.{record[5]:02}.{record[6] >> 4:02}",
    "mp4a": lambda config: f"40.{config[0] >> 3}",
}
"""What RFC 6381 adds to the type of a sample entry, by the content of its avcC, hvcC, av1C or vpcC, or by the
AudioSpecificConfig."""


@dataclass(frozen=True, slots=True)
class Track:
    number: int
    kind: str
    """"video", "audio" or another of FFmpeg's types."""
    timescale: int
    codec: str
    """By RFC 6381."""
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


def _runs(file: bytes) -> list[Run]:
    """The run of each track of a file with an init segment and at most one fragment."""
    try:
        with av.open(io.BytesIO(file), "r") as container:
            packets = [packet for packet in container.demux() if packet.size]
            if any(packet.is_corrupt for packet in packets):
                raise ValueError("a sample is not whole")
            found = []
            for stream in container.streams:
                own, tag = [each for each in packets if each.stream is stream], stream.codec_context.codec_tag
                record = file[file.index(b"vpcC") + 4 :] if tag == "vp09" else stream.codec_context.extradata or b""
                codec = f"{tag}.{CODECS[tag](record)}" if tag in CODECS else tag
                size = (stream.width, stream.height) if isinstance(stream, av.VideoStream) else (0, 0)
                track = Track(stream.id, stream.type, round(1 / (stream.time_base or 1)), codec, *size)
                begins = own[0].dts or 0 if own else 0
                found.append(
                    Run(track, begins, [each.duration or 0 for each in own], [each.is_keyframe for each in own])
                )
            return found
    except (av.FFmpegError, IndexError) as error:
        raise ValueError(f"FFmpeg can't read it: {error}") from error


def read_init(data: bytes) -> dict[int, Track]:
    """The tracks of an initialization segment, by their numbers."""
    top = {box.kind: box for box in boxes(data)}
    if not {b"ftyp", b"moov"} <= set(top) or {b"mdat", b"moof"} & set(top):
        raise ValueError(f"an init segment has ftyp and moov, and no media; there are {sorted(top)}")
    extended = {box.data[4:8] for box in top[b"moov"].find(b"mvex").all(b"trex")}
    runs = _runs(data)
    if not runs or len(extended) < len(runs) or any(run.durations for run in runs):
        raise ValueError("an init segment has tracks, a trex for each, and no samples")
    return {run.track.number: run.track for run in runs}


def read_fragments(data: bytes, init: bytes) -> list[Run]:
    """The runs of all fragments, each a moof with its mdat."""
    found: list[Run] = []
    top = boxes(data)
    kinds = [box.kind for box in top]
    if not MEDIA_BOXES.fullmatch(b"".join(kinds)):
        raise ValueError(f"a media segment has moof and mdat, again and again; there are {kinds}")
    for moof, mdat in pairwise(top):
        if moof.kind == b"moof":
            numbers = {_track_number(traf) for traf in moof.all(b"traf")}
            runs = {run.track.number: run for run in _runs(init + data[moof.start : mdat.end])}
            if not numbers <= set(runs):
                raise ValueError(f"a fragment is of tracks {numbers}, the init segment has {set(runs)}")
            found += [runs[number] for number in sorted(numbers)]
    return found


def _track_number(traf: Box) -> int:
    flags, number = struct.unpack_from(">II", traf.find(b"tfhd").data)
    if flags & 1 or not flags & 0x20000 or not traf.all(b"tfdt"):
        raise ValueError("a fragment's data is not addressed from its moof on, or has no time of decoding")
    return int(number)
