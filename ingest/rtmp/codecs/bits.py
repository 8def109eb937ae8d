"""Reading single bits, as codec headers are written (ITU-T H.264, sections 7.2 and 9.1; AV1, section 4.10)."""

from typing import Final

MAX_LEB128_BYTES: Final = 8


class BitReader:
    """Most significant bit first. Reading past the end raises ValueError, so no loop over what is read goes on."""

    __slots__ = ("_left", "_value")

    def __init__(self, data: bytes) -> None:
        self._value = int.from_bytes(data, "big")
        self._left = len(data) * 8

    @property
    def left(self) -> int:
        """Bits that were not read yet."""
        return self._left

    def bits(self, count: int) -> int:
        if count > self._left:
            raise ValueError("the data end too early")
        self._left -= count
        return self._value >> self._left & ((1 << count) - 1)

    def flag(self) -> bool:
        return bool(self.bits(1))

    def skip(self, count: int) -> None:
        if count > self._left:
            raise ValueError("the data end too early")
        self._left -= count

    def align(self) -> None:
        """To the start of the next byte, if this is not one."""
        self.skip(self._left % 8)

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
