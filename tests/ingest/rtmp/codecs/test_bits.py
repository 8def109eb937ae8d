"""Reading bits."""

import pytest

from ingest.rtmp.codecs.bitstream import BitReader, leb128
from tests.ingest.live.payloads import Bits
from tests.ingest.rtmp.codecs.helpers import h


def test_bits() -> None:
    reader = BitReader(h("a5 80 ff"))
    assert (reader.bits(4), reader.flag(), reader.left) == (10, False, 19)
    reader.align()
    assert reader.left == 16
    reader.align()
    assert reader.bits(1) == 1
    reader.skip(7)
    assert reader.bits(8) == 255
    for read in (reader.flag, reader.unsigned, lambda: reader.skip(1)):
        with pytest.raises(ValueError, match="too early"):
            read()


@pytest.mark.parametrize(
    ("number", "signed"), [(0, 0), (1, 1), (2, -1), (3, 2), (4, -2), (254, -127), (2**32 - 2, 1 - 2**31)]
)
def test_exponential_golomb(number: int, signed: int) -> None:
    data = Bits().ue(number).to_bytes()
    assert BitReader(data).unsigned() == number
    assert BitReader(data).signed() == signed


def test_numbers_without_end() -> None:
    with pytest.raises(ValueError, match="more than 32 bits"):
        BitReader(bytes(20)).unsigned()
    with pytest.raises(ValueError, match="over 3"):
        BitReader(Bits().ue(4).to_bytes()).at_most(3)
    with pytest.raises(ValueError, match="more than 8 bytes"):
        leb128(b"\x80" * 9, 0)
    with pytest.raises(ValueError, match="too early"):
        leb128(b"\x80", 0)
    assert leb128(h("00 e58e26"), 1) == (624485, 4)
