"""MPEG audio: a frame's header (ISO/IEC 11172-3, 2.4.1.3, and 13818-3)."""

from typing import Final

from ingest.rtmp.codecs.bits import BitReader
from ingest.rtmp.codecs.config import AudioConfig

VERSIONS: Final = {0: "MPEG-2.5", 2: "MPEG-2", 3: "MPEG-1"}
RATES: Final = {0: (11025, 12000, 8000), 2: (22050, 24000, 16000), 3: (44100, 48000, 32000)}
"""Hz by version and index."""
LAYERS: Final = {1: "III", 2: "II", 3: "I"}
MONO: Final = 3


def read_frame(config: AudioConfig, frame: bytes) -> None:
    """sync (11 bits), version (2), layer (2), no checksum (1), bit rate (4), rate (2), 2, mode (2), ..."""
    reader = BitReader(frame[:4])
    if reader.bits(11) != 0x7FF:
        raise ValueError("no sync word")
    version, layer = reader.bits(2), reader.bits(2)
    reader.skip(1)
    bit_rate, rate = reader.bits(4), reader.bits(2)
    reader.skip(2)
    if version not in RATES or layer not in LAYERS or bit_rate == 15 or rate == 3:
        raise ValueError("a reserved number")
    config.profile = f"{VERSIONS[version]} Layer {LAYERS[layer]}"
    config.set_rate(RATES[version][rate])
    config.set_channels(1 if reader.bits(2) == MONO else 2)
