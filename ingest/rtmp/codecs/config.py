"""What is told of a codec's configuration, filled by its reader as far as the data go. Whatever isn't known is None."""

from dataclasses import dataclass
from typing import Final

MAX_SIDE: Final = 16_384
"""Pixels across or down: twice 8K. More is taken for garbage."""

MAX_FPS: Final = 1000
MAX_SAMPLE_RATE: Final = 768_000
"""Hz; the highest that any of these codecs is used with. More is taken for garbage."""

CHROMA: Final = {0: "4:0:0", 1: "4:2:0", 2: "4:2:2", 3: "4:4:4"}
"""chroma_format_idc of H.264, H.265 and H.266."""


@dataclass(slots=True)
class VideoConfig:
    codec: str
    """As people know it: "H.264"."""
    codec_string: str | None = None
    """For browsers and manifests (RFC 6381): "avc1.64001f"."""
    profile: str | None = None
    """As its specification names it: "High"."""
    level: str | None = None
    """"4.1"."""
    width: int | None = None
    """Pixels that are shown."""
    height: int | None = None
    fps: float | None = None
    bit_depth: int | None = None
    """Of luma."""
    chroma: str | None = None
    """"4:2:0"."""
    sample_aspect: tuple[int, int] | None = None
    """Width and height of one pixel."""

    def set_size(self, width: int, height: int) -> None:
        if 0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE:
            self.width, self.height = width, height

    def set_fps(self, numerator: int, denominator: int) -> None:
        if denominator and 0 < numerator / denominator <= MAX_FPS:
            self.fps = round(numerator / denominator, 3)


@dataclass(slots=True)
class AudioConfig:
    codec: str
    """As people know it: "AAC"."""
    codec_string: str | None = None
    """For browsers and manifests (RFC 6381): "mp4a.40.2"."""
    profile: str | None = None
    """Where the codec has some: "AAC-LC"."""
    sample_rate: int | None = None
    """Hz, of what the decoder puts out."""
    channels: int | None = None
    bit_depth: int | None = None
    """Of codecs that keep each sample as it is."""

    def set_rate(self, sample_rate: int) -> None:
        if 0 < sample_rate <= MAX_SAMPLE_RATE:
            self.sample_rate = sample_rate

    def set_channels(self, channels: int) -> None:
        if channels > 0:
            self.channels = channels
