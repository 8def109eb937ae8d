"""A reader of fragmented MP4 (ISO/IEC 14496-12), as much as the tests of HLS need: tracks with their codecs as RFC 6381
names them, and the samples of fragments. Raises ValueError where bytes are not as they say."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

CONTAINERS: Final = frozenset(
    {b"moov", b"trak", b"mdia", b"minf", b"stbl", b"mvex", b"moof", b"traf", b"edts", b"dinf"}
)
IS_NOT_SYNC: Final = 0x10000
"""sample_is_non_sync_sample of a sample's flags."""
VIDEO_ENTRY_BYTES: Final = 78
"""VisualSampleEntry's own fields, before its boxes; AudioSampleEntry has 28."""
AUDIO_ENTRY_BYTES: Final = 28


@dataclass(frozen=True, slots=True)
class Box:
    """`start` and `end` in what was read; `data`: its content."""

    kind: bytes
    start: int
    end: int
    data: bytes

    def boxes(self, skip: int = 0) -> list["Box"]:
        return list(boxes(self.data[skip:], self.end - len(self.data) + skip))

    def find(self, *path: bytes) -> "Box":
        found = self.try_find(*path)
        if found is None:
            raise ValueError(f"{self.kind.decode(errors='replace')} has no {b'.'.join(path).decode(errors='replace')}")
        return found

    def try_find(self, *path: bytes) -> "Box | None":
        for box in self.boxes():
            if box.kind == path[0]:
                return box if len(path) == 1 else box.try_find(*path[1:])
        return None


def boxes(data: bytes, start: int = 0) -> Iterator[Box]:
    place = 0
    while place < len(data):
        if len(data) - place < 8:
            raise ValueError(f"{len(data) - place} bytes at {start + place} are no box")
        size, kind = struct.unpack_from(">I4s", data, place)
        head = 8
        if size == 1:
            (size,) = struct.unpack_from(">Q", data, place + 8)
            head = 16
        if size < head or place + size > len(data):
            raise ValueError(f"{kind!r} at {start + place} says {size} bytes, {len(data) - place} are there")
        yield Box(kind, start + place, start + place + size, data[place + head : place + size])
        place += size


@dataclass(frozen=True, slots=True)
class Track:
    number: int
    kind: str
    """"video", "audio" or another handler."""
    timescale: int
    entry: str
    """The sample entry's type, as avc1."""
    codec: str
    """By RFC 6381; the entry alone where nothing more is known of it."""
    width: int = 0
    height: int = 0
    default_duration: int = 0
    default_size: int = 0
    default_flags: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    """Times in the track's timescale."""

    dts: int
    pts: int
    duration: int
    is_sync: bool
    data: bytes


@dataclass(frozen=True, slots=True)
class Run:
    """What one fragment has of one track."""

    track: Track
    begins: int
    """baseMediaDecodeTime."""
    samples: tuple[Sample, ...]

    @property
    def begins_s(self) -> float:
        return self.begins / self.track.timescale

    @property
    def duration_s(self) -> float:
        return sum(sample.duration for sample in self.samples) / self.track.timescale


def read_init(data: bytes) -> dict[int, Track]:
    """{track's number: the track} of an initialization segment."""
    top = {box.kind: box for box in boxes(data)}
    if b"ftyp" not in top or b"moov" not in top:
        raise ValueError(f"an init segment has ftyp and moov, there are {sorted(top)}")
    if b"mdat" in top or b"moof" in top:
        raise ValueError("an init segment has media")
    moov = top[b"moov"]
    defaults = {}
    for box in moov.find(b"mvex").boxes():
        if box.kind == b"trex":
            number, _, duration, size, flags = struct.unpack_from(">5I", box.data, 4)
            defaults[number] = (duration, size, flags)
    found = {}
    for trak in moov.boxes():
        if trak.kind == b"trak":
            track = _track(trak, defaults)
            found[track.number] = track
    if not found:
        raise ValueError("an init segment has no track")
    return found


def _track(trak: Box, defaults: dict[int, tuple[int, int, int]]) -> Track:
    tkhd, mdhd = trak.find(b"tkhd").data, trak.find(b"mdia", b"mdhd").data
    (number,) = struct.unpack_from(">I", tkhd, 20 if tkhd[0] else 12)
    (timescale,) = struct.unpack_from(">I", mdhd, 20 if mdhd[0] else 12)
    handler = trak.find(b"mdia", b"hdlr").data[8:12]
    if number not in defaults:
        raise ValueError(f"track {number} has no trex")
    stbl = trak.find(b"mdia", b"minf", b"stbl")
    for name in (b"stts", b"stsc", b"stco"):
        if struct.unpack_from(">I", stbl.find(name).data, 4) != (0,):
            raise ValueError(f"an init segment's {name.decode()} has entries")
    entry = stbl.find(b"stsd").boxes(8)[0]
    kind = {b"vide": "video", b"soun": "audio"}.get(handler, handler.decode(errors="replace"))
    width, height = struct.unpack_from(">HH", entry.data, 24) if kind == "video" else (0, 0)
    return Track(
        number, kind, timescale, entry.kind.decode("latin-1"), codec(entry, kind), width, height, *defaults[number]
    )


def codec(entry: Box, kind: str) -> str:
    """As a CODECS attribute has it (RFC 6381, and the codecs' own bindings)."""
    name = entry.kind.decode("latin-1")
    inner = {box.kind: box.data for box in entry.boxes(VIDEO_ENTRY_BYTES if kind == "video" else AUDIO_ENTRY_BYTES)}
    if b"avcC" in inner:
        return f"{name}.{inner[b'avcC'][1:4].hex()}"
    if b"hvcC" in inner:
        return f"{name}.{_hevc(inner[b'hvcC'])}"
    if b"av1C" in inner:
        return f"{name}.{_av1(inner[b'av1C'])}"
    if b"vpcC" in inner:
        profile, level, depth = inner[b"vpcC"][4:7]
        return f"{name}.{profile:02}.{level:02}.{depth >> 4:02}"
    if b"esds" in inner:
        return f"{name}.{_mpeg4(inner[b'esds'])}"
    return name


def _hevc(record: bytes) -> str:
    space, tier, profile = record[1] >> 6, record[1] >> 5 & 1, record[1] & 31
    compatible = int(f"{int.from_bytes(record[2:6], 'big'):032b}"[::-1], 2)
    constraints = record[6:12].rstrip(b"\0")
    words = [f"{('', 'A', 'B', 'C')[space]}{profile}", f"{compatible:X}", f"{'H' if tier else 'L'}{record[12]}"]
    return ".".join(words + [f"{byte:X}" for byte in constraints])


def _av1(record: bytes) -> str:
    profile, level = record[1] >> 5, record[1] & 31
    tier, high, twelve = record[2] >> 7, record[2] >> 6 & 1, record[2] >> 5 & 1
    depth = 12 if twelve and high else 10 if high else 8
    return f"{profile}.{level:02}{'H' if tier else 'M'}.{depth:02}"


def _mpeg4(data: bytes) -> str:
    """The object types of an ES_Descriptor: of the stream, and of AAC in its AudioSpecificConfig."""
    place, found = 4, ""
    while place < len(data):
        tag, place = data[place], place + 1
        while data[place] & 0x80:
            place += 1
        place += 1
        if tag == 3:
            place += 3
        elif tag == 4:
            found = f"{data[place]:02x}"
            place += 13
        elif tag == 5:
            kind = data[place] >> 3
            return f"{found}.{kind if kind != 31 else 32 + (int.from_bytes(data[place : place + 2], 'big') >> 5 & 63)}"
        else:
            break
    return found


def read_fragments(data: bytes, tracks: dict[int, Track]) -> list[list[Run]]:
    """A list for each moof with its mdat, of the runs in it."""
    found: list[list[Run]] = []
    top = list(boxes(data))
    for place, box in enumerate(top):
        if box.kind == b"moof":
            if place + 1 == len(top) or top[place + 1].kind != b"mdat":
                raise ValueError(f"no mdat follows the moof at {box.start}")
            found.append(
                [_run(traf, box, top[place + 1], data, tracks) for traf in box.boxes() if traf.kind == b"traf"]
            )
        elif box.kind == b"mdat" and (place == 0 or top[place - 1].kind != b"moof"):
            raise ValueError(f"no moof is before the mdat at {box.start}")
        elif box.kind not in (b"mdat", b"styp", b"sidx", b"prft", b"emsg", b"free"):
            raise ValueError(f"a media segment has {box.kind!r}")
    if not found:
        raise ValueError("there is no fragment")
    return found


def _run(traf: Box, moof: Box, mdat: Box, data: bytes, tracks: dict[int, Track]) -> Run:
    tfhd = traf.find(b"tfhd").data
    flags, number = int.from_bytes(tfhd[1:4], "big"), int.from_bytes(tfhd[4:8], "big")
    if number not in tracks:
        raise ValueError(f"a fragment is of track {number}, which the init segment has not")
    if flags & 1 or not flags & 0x20000:
        raise ValueError("a fragment's data is not addressed from its moof on")
    track, place = tracks[number], 8
    defaults = [track.default_duration, track.default_size, track.default_flags]
    place += 4 if flags & 2 else 0
    for which, flag in enumerate((0x8, 0x10, 0x20)):
        if flags & flag:
            defaults[which] = int.from_bytes(tfhd[place : place + 4], "big")
            place += 4
    tfdt = traf.find(b"tfdt").data
    begins = int.from_bytes(tfdt[4 : 12 if tfdt[0] else 8], "big")
    samples: list[Sample] = []
    for trun in traf.boxes():
        if trun.kind == b"trun":
            dts = begins + sum(sample.duration for sample in samples)
            samples += _samples(trun.data, dts, defaults, moof, mdat, data)
    return Run(track, begins, tuple(samples))


def _samples(trun: bytes, dts: int, defaults: list[int], moof: Box, mdat: Box, data: bytes) -> Iterator[Sample]:
    is_signed, flags = trun[0] == 1, int.from_bytes(trun[1:4], "big")
    (count,) = struct.unpack_from(">I", trun, 4)
    place, at, first_flags = 8, mdat.end - len(mdat.data), None
    if flags & 0x1:
        at = moof.start + struct.unpack_from(">i", trun, place)[0]
        place += 4
    if flags & 0x4:
        (first_flags,) = struct.unpack_from(">I", trun, place)
        place += 4
    for number in range(count):
        fields = list(defaults)
        for which, flag in enumerate((0x100, 0x200, 0x400)):
            if flags & flag:
                (fields[which],) = struct.unpack_from(">I", trun, place)
                place += 4
        offset = 0
        if flags & 0x800:
            (offset,) = struct.unpack_from(">i" if is_signed else ">I", trun, place)
            place += 4
        duration, size, own_flags = fields
        if number == 0 and first_flags is not None:
            own_flags = first_flags
        if at < mdat.start or at + size > mdat.end:
            raise ValueError(f"sample {number} of the fragment at {moof.start} is not in its mdat")
        yield Sample(dts, dts + offset, duration, not own_flags & IS_NOT_SYNC, data[at : at + size])
        at += size
        dts += duration
