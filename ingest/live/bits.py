"""Reading single bits, as codec headers are written (ITU-T H.264, sections 7.2 and 9.1)."""


class BitReader:
    """Most significant bit first. Reading past the end raises ValueError."""

    def __init__(self, data: bytes) -> None:
        self._value = int.from_bytes(data, "big")
        self._left = len(data) * 8

    def bits(self, count: int) -> int:
        if count > self._left:
            raise ValueError("the data end too early")
        self._left -= count
        return self._value >> self._left & ((1 << count) - 1)

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
