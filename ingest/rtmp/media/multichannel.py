"""MultichannelConfig: which speaker each channel is for (Enhanced RTMP v2, ExAudioTagBody).

order (8 bits) channels (8) [speaker (8) of each channel: custom order] [flags (32): native order]
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class ChannelOrder(IntEnum):
    UNSPECIFIED = 0
    NATIVE = 1
    CUSTOM = 2


class Speaker(IntEnum):
    """AudioChannel; its bit in the flags of the native order is 1 << its number."""

    FRONT_LEFT = 0
    FRONT_RIGHT = 1
    FRONT_CENTER = 2
    LOW_FREQUENCY_1 = 3
    BACK_LEFT = 4
    BACK_RIGHT = 5
    FRONT_LEFT_CENTER = 6
    FRONT_RIGHT_CENTER = 7
    BACK_CENTER = 8
    SIDE_LEFT = 9
    SIDE_RIGHT = 10
    TOP_CENTER = 11
    TOP_FRONT_LEFT = 12
    TOP_FRONT_CENTER = 13
    TOP_FRONT_RIGHT = 14
    TOP_BACK_LEFT = 15
    TOP_BACK_CENTER = 16
    TOP_BACK_RIGHT = 17
    LOW_FREQUENCY_2 = 18
    TOP_SIDE_LEFT = 19
    TOP_SIDE_RIGHT = 20
    BOTTOM_FRONT_CENTER = 21
    BOTTOM_FRONT_LEFT = 22
    BOTTOM_FRONT_RIGHT = 23
    UNUSED = 0xFE
    UNKNOWN = 0xFF


_KNOWN: Final = frozenset(Speaker)


@dataclass(frozen=True, slots=True)
class MultichannelConfig:
    order: int
    """A `ChannelOrder`; others are reserved, and then nothing but the count is known."""
    channels: int
    """0 to 255."""
    mapping: tuple[int, ...] = ()
    """Custom order: the speaker of each channel, reserved numbers as they are."""
    flags: int = 0
    """Native order."""

    @property
    def speakers(self) -> tuple[Speaker, ...]:
        """Of the channels in the bitstream's order; reserved ones as unknown. Empty where the order doesn't tell."""
        if self.order == ChannelOrder.NATIVE:
            return tuple(speaker for speaker in Speaker if self.flags >> speaker & 1)
        return tuple(Speaker(number) if number in _KNOWN else Speaker.UNKNOWN for number in self.mapping)


def read_multichannel(body: bytes) -> MultichannelConfig | None:
    """None where the body ends before the configuration does."""
    if len(body) < 2:
        return None
    order, channels = body[0], body[1]
    if order == ChannelOrder.CUSTOM:
        mapping = tuple(body[2 : 2 + channels])
        return MultichannelConfig(order, channels, mapping) if len(mapping) == channels else None
    if order == ChannelOrder.NATIVE:
        return MultichannelConfig(order, channels, (), int.from_bytes(body[2:6], "big")) if len(body) >= 6 else None
    return MultichannelConfig(order, channels)


def write_multichannel(config: MultichannelConfig) -> bytes:
    written = bytes((config.order, config.channels))
    if config.order == ChannelOrder.CUSTOM:
        if len(config.mapping) != config.channels:
            raise ValueError("a custom order has a speaker for each channel")
        return written + bytes(config.mapping)
    return written + config.flags.to_bytes(4, "big") if config.order == ChannelOrder.NATIVE else written
