"""Which channel is for which speaker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp.codecs.audio import ChannelOrder, MultichannelConfig, Speaker, read_multichannel, write_multichannel

S = Speaker
VECTORS: list[tuple[str, MultichannelConfig, tuple[Speaker, ...]]] = [
    ("00 06", MultichannelConfig(ChannelOrder.UNSPECIFIED, 6), ()),
    ("01 01 00000004", MultichannelConfig(1, 1, (), 4), (S.FRONT_CENTER,)),
    (
        "01 06 0000060f",
        MultichannelConfig(1, 6, (), 0x60F),
        (S.FRONT_LEFT, S.FRONT_RIGHT, S.FRONT_CENTER, S.LOW_FREQUENCY_1, S.SIDE_LEFT, S.SIDE_RIGHT),
    ),
    ("01 01 00800000", MultichannelConfig(1, 1, (), 0x800000), (S.BOTTOM_FRONT_RIGHT,)),
    (
        "02 04 01 00 fe 2a",
        MultichannelConfig(ChannelOrder.CUSTOM, 4, (1, 0, 0xFE, 0x2A)),
        (S.FRONT_RIGHT, S.FRONT_LEFT, S.UNUSED, S.UNKNOWN),
    ),
    ("02 00", MultichannelConfig(2, 0), ()),
    ("07 02", MultichannelConfig(7, 2), ()),
]


@pytest.mark.parametrize(("text", "config", "speakers"), VECTORS)
def test_layouts(text: str, config: MultichannelConfig, speakers: tuple[Speaker, ...]) -> None:
    body = bytes.fromhex(text)
    assert read_multichannel(body) == config
    assert write_multichannel(config) == body
    assert config.speakers == speakers
    for size in range(len(body)):
        assert read_multichannel(body[:size]) is None


def test_a_custom_order_without_its_speakers_is_not_written() -> None:
    with pytest.raises(ValueError, match="a speaker for each channel"):
        write_multichannel(MultichannelConfig(ChannelOrder.CUSTOM, 2, (0,)))


@given(st.binary(max_size=300))
def test_any_body(body: bytes) -> None:
    config = read_multichannel(body)
    if config:
        assert read_multichannel(write_multichannel(config)) == config
        assert len(config.speakers) <= 255
