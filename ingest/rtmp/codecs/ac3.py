"""AC-3 and E-AC-3: the start of a sync frame (ETSI TS 102 366, 4.3 and E.1.2). There is no other header."""

from typing import Final

from ingest.rtmp.codecs.bits import BitReader
from ingest.rtmp.codecs.config import AudioConfig

SYNC: Final = 0x0B77
RATES: Final = (48000, 44100, 32000)
"""fscod; E-AC-3 has their halves too (fscod2)."""

HEADER_BYTES: Final = 32
"""Of a sync frame, within which all of this is told."""

FIRST_ENHANCED, LAST_ENHANCED = 11, 16
"""bsid of E-AC-3. AC-3's own is 8 and less; 9 and 10 where the rate is a half or a quarter."""

DEPENDENT: Final = 1
"""strmtyp of a frame that adds to the channels of those before it."""
MAX_FRAMES: Final = 9
"""Of one message that are looked at: an independent substream and eight dependent ones."""

PLACES: Final = (
    ("L", "R"),
    ("C",),
    ("L", "R"),
    ("L", "C", "R"),
    ("L", "R", "Cs"),
    ("L", "C", "R", "Cs"),
    ("L", "R", "Ls", "Rs"),
    ("L", "C", "R", "Ls", "Rs"),
)
"""Where the channels of an acmod stand; the two programs of the first are played as left and right."""

MAPPED: Final = (
    ("L",),
    ("C",),
    ("R",),
    ("Ls",),
    ("Rs",),
    ("Lc", "Rc"),
    ("Lrs", "Rrs"),
    ("Cs",),
    ("Ts",),
    ("Lsd", "Rsd"),
    ("Lw", "Rw"),
    ("Lvh", "Rvh"),
    ("Cvh",),
    ("Lts", "Rts"),
    ("LFE2",),
    ("LFE",),
)
"""chanmap of a dependent substream, from its first bit on (table E.1.4)."""


def read_frame(config: AudioConfig, frame: bytes) -> None:
    """The first sync frame of a message, and those that depend on it."""
    reader = BitReader(frame[:HEADER_BYTES])
    if reader.bits(16) != SYNC:
        raise ValueError("no sync word")
    # bsid stands at the same place in both.
    version = frame[5] >> 3 if len(frame) > 5 else LAST_ENHANCED + 1
    if version > LAST_ENHANCED:
        raise ValueError("an unknown version")
    if version < FIRST_ENHANCED:
        _read_ac3(config, reader, version)
    else:
        _read_enhanced(config, frame)


def _read_ac3(config: AudioConfig, reader: BitReader, version: int) -> None:
    """syncinfo() and bsi(): checksum (16 bits), rate (2), size (6), bsid (5), bsmod (3), acmod (3), [levels], lfeon."""
    reader.skip(16)
    rate = reader.bits(2)
    reader.skip(14)
    mode = reader.bits(3)
    if rate < len(RATES):
        config.set_rate(RATES[rate] >> max(version - 8, 0))
    if mode & 1 and mode != 1:
        reader.skip(2)
    if mode & 4:
        reader.skip(2)
    if mode == 2:
        reader.skip(2)
    config.set_channels(len(_places(mode, reader.bits(1))))


def _read_enhanced(config: AudioConfig, frame: bytes) -> None:
    """Of the first program: an independent substream, then those that depend on it."""
    places: set[str] = set()
    at = 0
    for index in range(MAX_FRAMES):
        reader = BitReader(frame[at : at + HEADER_BYTES])
        if reader.left == 0 or reader.bits(16) != SYNC:
            return
        kind = reader.bits(2)
        if index and kind != DEPENDENT:
            return
        reader.skip(3)
        size = 2 * (reader.bits(11) + 1)
        rate = _read_rate(reader)
        mode, low = reader.bits(3), reader.bits(1)
        if not index:
            config.set_rate(rate)
        places |= _places(mode, low) if kind != DEPENDENT else _read_mapped(reader, mode, low)
        config.set_channels(len(places))
        at += size


def _read_rate(reader: BitReader) -> int:
    """fscod (2 bits), then fscod2 or the number of blocks (2)."""
    code, second = reader.bits(2), reader.bits(2)
    if code < len(RATES):
        return RATES[code]
    return RATES[second] // 2 if second < len(RATES) else 0


def _read_mapped(reader: BitReader, mode: int, low: int) -> set[str]:
    """From bsid on: level of speech (5 bits), compression (1 [8]), twice for two programs in one; chanmap (1 [16])."""
    reader.skip(5)
    for _ in range(2 if mode == 0 else 1):
        reader.skip(5)
        if reader.flag():
            reader.skip(8)
    if not reader.flag():
        return _places(mode, low)
    bits = reader.bits(16)
    return {place for index, several in enumerate(MAPPED) if bits >> (15 - index) & 1 for place in several}


def _places(mode: int, low: int) -> set[str]:
    return {*PLACES[mode], *(("LFE",) if low else ())}
