"""The head of an MP4 file whose media are an FLV file: ftyp, moov, and the header of an mdat that the FLV file fills.

Each frame is a chunk of its own, as tags' headers stand between them. Times of the movie are milliseconds, 0 is the
first tag's. A track that begins later has an empty edit before it."""

import struct
from typing import Final

import numpy as np
import numpy.typing as npt

from ingest.isobmff import box, full_box, nested
from ingest.mp4.entries import sample_entry, shown_size
from ingest.mp4.frames import Frames, Track
from ingest.mp4.timing import MILLISECONDS, Timing, timing_of
from ingest.rtmp.codecs import VideoConfig

_u32: Final = struct.Struct(">I")

FTYP: Final = box(b"ftyp", b"isom", _u32.pack(0x200), b"isom", b"iso2", b"avc1", b"mp41")
MDAT_HEADER_BYTES: Final = 16
MATRIX: Final = struct.pack(">9I", 1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30)
UNDETERMINED: Final = 0x55C4
"""The language "und"."""
ENABLED, IN_MOVIE = 1, 6
HANDLERS: Final = {"video": (b"vide", b"VideoHandler\0"), "audio": (b"soun", b"SoundHandler\0")}
AUDIO_GROUP: Final = 1
"""Of audio tracks one is played."""
NARROW: Final = 2**32
"""Places from here on have 64 bits."""
PLACES_HEAD_BYTES, NARROW_BYTES, WIDE_BYTES = 16, 4, 8
"""Of the table of places, and of each place."""


def movie_head(frames: Frames) -> bytes:
    """What stands before the FLV's first `frames.end` bytes. Raises Unplayable."""
    timings = [timing_of(track) for track in frames.tracks]
    tables = [_tables(track, timing) for track, timing in zip(frames.tracks, timings, strict=True)]
    tracks = list(zip(frames.tracks, timings, tables, strict=True))
    shift = max(-min(timing.begins_at_ms for timing in timings), 0)
    without = len(FTYP) + sum(map(len, _moov(tracks, shift, [b""] * len(tracks)))) + MDAT_HEADER_BYTES
    count = sum(len(track.offsets) for track in frames.tracks)
    is_wide = without + len(tracks) * PLACES_HEAD_BYTES + count * NARROW_BYTES + frames.end >= NARROW
    base = without + len(tracks) * PLACES_HEAD_BYTES + count * (WIDE_BYTES if is_wide else NARROW_BYTES)
    moov = _moov(tracks, shift, [_places(track, base, is_wide=is_wide) for track in frames.tracks])
    mdat = _u32.pack(1) + b"mdat" + struct.pack(">Q", MDAT_HEADER_BYTES + frames.end)
    return b"".join((FTYP, *moov, mdat))


def _moov(tracks: list[tuple[Track, Timing, bytes]], shift: int, places: list[bytes]) -> list[bytes]:
    """`places`: the table of each track's."""
    most = max(shift + timing.begins_at_ms + timing.length_ms for _, timing, _ in tracks)
    mvhd = struct.pack(">QQIQIH10x", 0, 0, MILLISECONDS, most, 1 << 16, 0x100) + MATRIX
    mvhd += bytes(24) + _u32.pack(len(tracks) + 1)
    parts = [full_box(b"mvhd", 1, 0, mvhd)]
    heard = False
    for number, ((track, timing, tables), where) in enumerate(zip(tracks, places, strict=True), 1):
        is_enabled = track.kind == "video" or not heard
        heard = heard or track.kind == "audio"
        parts += _trak(number, track, timing, shift, [tables, where], is_enabled=is_enabled)
    return nested(b"moov", parts)


def _trak(
    number: int, track: Track, timing: Timing, shift: int, samples: list[bytes], *, is_enabled: bool
) -> list[bytes]:
    begins_at = shift + timing.begins_at_ms
    group, volume = (AUDIO_GROUP, 0x100) if track.kind == "audio" else (0, 0)
    tkhd = struct.pack(">QQI4xQ8xHHH2x", 0, 0, number, begins_at + timing.length_ms, 0, group, volume)
    tkhd += MATRIX + struct.pack(">II", *_shown_size(track))
    edits = _edits(begins_at, timing)
    mdhd = struct.pack(">QQIQHH", 0, 0, timing.scale, int(timing.durations.sum()), UNDETERMINED, 0)
    handler, name = HANDLERS[track.kind]
    kind = full_box(b"vmhd", 0, 1, bytes(8)) if track.kind == "video" else full_box(b"smhd", 0, 0, bytes(4))
    here = box(b"dinf", full_box(b"dref", 0, 0, _u32.pack(1), full_box(b"url ", 0, 1)))
    media = [
        full_box(b"mdhd", 1, 0, mdhd),
        full_box(b"hdlr", 0, 0, bytes(4), handler, bytes(12), name),
        *nested(b"minf", [kind, here, *nested(b"stbl", samples)]),
    ]
    flags = IN_MOVIE | ENABLED * is_enabled
    return nested(b"trak", [full_box(b"tkhd", 1, flags, tkhd), *edits, *nested(b"mdia", media)])


def _edits(begins_at: int, timing: Timing) -> tuple[bytes, ...]:
    """Nothing is there until it begins; then all but what is skipped."""
    if not begins_at and not timing.skipped:
        return ()
    entries = [struct.pack(">QqI", begins_at, -1, 1 << 16)] if begins_at else []
    entries.append(struct.pack(">QqI", timing.length_ms, timing.skipped, 1 << 16))
    return (box(b"edts", full_box(b"elst", 1, 0, _u32.pack(len(entries)), *entries)),)


def _shown_size(track: Track) -> tuple[int, int]:
    """Pixels of 1:1, as numbers with 16 bits behind the point."""
    config = track.configurations[0].config
    if not isinstance(config, VideoConfig):
        return 0, 0
    width, height = shown_size(config)
    across, down = config.sample_aspect or (1, 1)
    return min(round((width << 16) * across / down), NARROW - 1), height << 16


# --- Tables ---


def _tables(track: Track, timing: Timing) -> bytes:
    """All of a track but where its frames are."""
    count = len(track.offsets)
    entries = [sample_entry(each) for each in track.configurations]
    parts = [full_box(b"stsd", 0, 0, _u32.pack(len(entries)), *entries), _runs(b"stts", timing.durations)]
    if timing.compositions is not None:
        parts.append(_runs(b"ctts", timing.compositions))
    if track.kind == "video" and len(track.keys) < count:
        keys = np.frombuffer(track.keys, np.uint32) if track.keys else np.zeros(1, np.uint32)
        parts.append(full_box(b"stss", 0, 0, _u32.pack(len(keys)), _big(keys + 1)))
    chunks = b"".join(struct.pack(">III", first + 1, 1, number + 1) for first, number in track.changes)
    parts.append(full_box(b"stsc", 0, 0, _u32.pack(len(track.changes)), chunks))
    sizes = _big(np.frombuffer(track.sizes, np.uint32))
    parts.append(full_box(b"stsz", 0, 0, _u32.pack(0), _u32.pack(count), sizes))
    return b"".join(parts)


def _places(track: Track, base: int, *, is_wide: bool) -> bytes:
    offsets = np.frombuffer(track.offsets, np.uint64) + np.uint64(base)
    name, places = (b"co64", offsets.astype(">u8")) if is_wide else (b"stco", offsets.astype(">u4"))
    return full_box(name, 0, 0, _u32.pack(len(offsets)), places.tobytes())


def _runs(name: bytes, values: npt.NDArray[np.int64]) -> bytes:
    """How often each value comes in turn, and the value."""
    begins = np.concatenate(([0], np.flatnonzero(np.diff(values)) + 1))
    table = np.empty((len(begins), 2), ">u4")
    table[:, 0] = np.diff(np.append(begins, len(values)))
    table[:, 1] = values[begins]
    return full_box(name, 0, 0, _u32.pack(len(begins)), table.tobytes())


def _big(values: npt.NDArray[np.uint32]) -> bytes:
    return values.astype(">u4").tobytes()
