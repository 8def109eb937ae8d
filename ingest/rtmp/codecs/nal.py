"""What the configurations of H.264, H.265 and H.266 share (ISO/IEC 14496-15; H.264, annex E; H.265, annex E)."""

from typing import Final

from ingest.rtmp.codecs.bits import BitReader

MAX_SPS_BYTES: Final = 1024
"""Of a sequence parameter set; real ones have under 200 bytes."""

MAX_ARRAYS: Final = 16
MAX_UNITS: Final = 64
"""Arrays of a record, and units in one, that are looked through for the parameter set: encoders send under five."""

EXTENDED_SAR: Final = 255
SAMPLE_ASPECTS: Final = {
    1: (1, 1),
    2: (12, 11),
    3: (10, 11),
    4: (16, 11),
    5: (40, 33),
    6: (24, 11),
    7: (20, 11),
    8: (32, 11),
    9: (80, 33),
    10: (18, 11),
    11: (15, 11),
    12: (64, 33),
    13: (160, 99),
    14: (4, 3),
    15: (3, 2),
    16: (2, 1),
}
"""aspect_ratio_idc (ITU-T H.273, table 7)."""

CROP_UNITS: Final = {0: (1, 1), 1: (2, 2), 2: (2, 1), 3: (1, 1)}
"""Samples across and down that one unit of cropping stands for, by chroma_format_idc."""


def unescaped(unit: bytes) -> BitReader:
    """A parameter set's bits after its NAL unit's header, emulation prevention undone."""
    return BitReader(unit[:MAX_SPS_BYTES].replace(b"\0\0\3", b"\0\0"))


def find_unit(record: bytes, at: int, wanted: int, *, type_bits: int, alone: tuple[int, ...] = ()) -> bytes:
    """The first NAL unit of a type in the arrays of a hvcC or vvcC record, from the count of arrays on.

    count (1 byte), then arrays: completeness and type (1), count (2), then units: size (2), unit.
    Arrays of the types in `alone` have one unit and no count. Raises ValueError where there is no such unit.
    """
    reader = _Bytes(record, at)
    for _ in range(min(reader.take(1), MAX_ARRAYS)):
        kind = reader.take(1) & ((1 << type_bits) - 1)
        count = 1 if kind in alone else reader.take(2)
        for _ in range(min(count, MAX_UNITS)):
            size = reader.take(2)
            if kind == wanted:
                return record[reader.at : reader.at + size]
            reader.at += size
    raise ValueError("no sequence parameter set")


class _Bytes:
    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self.at = at

    def take(self, count: int) -> int:
        self.at += count
        if self.at > len(self._data):
            raise ValueError("the record ends too early")
        return int.from_bytes(self._data[self.at - count : self.at], "big")


def read_vui_start(reader: BitReader) -> tuple[int, int] | None:
    """vui_parameters() from their start to the chroma's location, alike in H.264 and H.265: the sample's aspect."""
    aspect: tuple[int, int] | None = None
    if reader.flag():
        idc = reader.bits(8)
        aspect = (reader.bits(16), reader.bits(16)) if idc == EXTENDED_SAR else SAMPLE_ASPECTS.get(idc)
    if reader.flag():  # Overscan.
        reader.skip(1)
    if reader.flag():  # Video signal type: format, range, and three indices.
        reader.skip(4)
        if reader.flag():
            reader.skip(24)
    if reader.flag():
        reader.unsigned()
        reader.unsigned()
    return aspect if aspect and all(aspect) else None
