"""Reading bitstreams: single bits, as codec headers are written (ITU-T H.264, sections 7.2 and 9.1; AV1, section 4.10),
and what the configurations of H.264, H.265 and H.266 share (ISO/IEC 14496-15; H.264, annex E; H.265, annex E)."""

from typing import Final

MAX_LEB128_BYTES: Final = 8


class BitReader:
    """Most significant bit first. Reading past the end raises ValueError, so no loop over what is read goes on."""

    __slots__ = ("_value", "left")

    def __init__(self, data: bytes) -> None:
        self._value = int.from_bytes(data, "big")
        self.left = len(data) * 8
        """Bits that were not read yet."""

    def bits(self, count: int) -> int:
        if count > self.left:
            raise ValueError("the data end too early")
        self.left -= count
        return self._value >> self.left & ((1 << count) - 1)

    def flag(self) -> bool:
        return bool(self.bits(1))

    def skip(self, count: int) -> None:
        self.bits(count)

    def align(self) -> None:
        """To the start of the next byte, if this is not one."""
        self.skip(self.left % 8)

    def unsigned(self) -> int:
        """ue(v): as many zeros as bits that follow the first one."""
        zeros = 0
        while not self.bits(1):
            zeros += 1
            if zeros > 32:
                raise ValueError("an Exp-Golomb number has more than 32 bits")
        return (1 << zeros) - 1 + self.bits(zeros)

    def signed(self) -> int:
        """se(v): 0, 1, -1, 2, -2, ..."""
        number = self.unsigned()
        return (number + 1) // 2 if number & 1 else -(number // 2)

    def at_most(self, most: int) -> int:
        """ue(v) that counts something."""
        number = self.unsigned()
        if number > most:
            raise ValueError(f"a count of over {most}")
        return number


def leb128(data: bytes, at: int) -> tuple[int, int]:
    """leb128() of AV1: the number, and where it ends. Raises ValueError."""
    value = 0
    for index in range(MAX_LEB128_BYTES):
        if at + index >= len(data):
            raise ValueError("the data end too early")
        byte = data[at + index]
        value |= (byte & 0x7F) << 7 * index
        if not byte & 0x80:
            return value, at + index + 1
    raise ValueError("a leb128 number has more than 8 bytes")


MAX_SPS_BYTES: Final = 1024
"""Of a sequence parameter set; real ones have under 200 bytes."""

MAX_ARRAYS: Final = 16
MAX_NAL_UNITS: Final = 64
"""Arrays of a record, and units in one, that are searched for the parameter set: encoders send under five."""

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


def find_nal_unit(record: bytes, at: int, wanted: int, *, type_bits: int, alone: tuple[int, ...] = ()) -> bytes:
    """The first NAL unit of a type in the arrays of a hvcC or vvcC record, from the count of arrays on.

    count (1 byte), then arrays: completeness and type (1), count (2), then units: size (2), unit.
    Arrays of the types in `alone` have one unit and no count. Raises ValueError where there is no such unit.
    """
    reader = _ByteReader(record, at)
    for _ in range(min(reader.take(1), MAX_ARRAYS)):
        kind = reader.take(1) & ((1 << type_bits) - 1)
        count = 1 if kind in alone else reader.take(2)
        for _ in range(min(count, MAX_NAL_UNITS)):
            size = reader.take(2)
            if kind == wanted:
                return record[reader.at : reader.at + size]
            reader.at += size
    raise ValueError("no sequence parameter set")


class _ByteReader:
    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self.at = at

    def take(self, count: int) -> int:
        self.at += count
        if self.at > len(self._data):
            raise ValueError("the record ends too early")
        return int.from_bytes(self._data[self.at - count : self.at], "big")


def read_cropping(reader: BitReader, chroma: int) -> tuple[int, int]:
    """The cropping window, alike in all three: samples that are cut off across and down."""
    if not reader.flag():
        return 0, 0
    left, right, top, bottom = (reader.unsigned() for _ in range(4))
    unit_x, unit_y = CROP_UNITS[chroma]
    return unit_x * (left + right), unit_y * (top + bottom)


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
