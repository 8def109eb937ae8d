"""Video frames that no other frame refers to, so that a slow player can go without them.

Told by the frame type of FLV (10.1, annex E.4.3.1: 3, of H.263), or by the coded data of
- H.264 (7.4.1): `nal_ref_idc` is 0 in all NAL units
- H.265 (7.4.2.2): all slices are of sub-layer non-reference pictures
- VP9 (bitstream specification 0.6, section 7.2): `refresh_frame_flags` is 0
The other codecs don't tell it in their first bytes. Whatever a peer sends gives an answer, False where it is unclear.
"""

from collections.abc import Callable
from typing import Final

from ingest.rtmp.media.kinds import FrameType, VideoPacket

MOST_UNITS: Final = 64
"""NAL units of one frame that are looked at; with more of them it counts as needed."""
LENGTH_BYTES: Final = 4
"""Before each NAL unit. Other lengths are possible and not used; their units would not end where the message does."""

LEGACY_AVC, LEGACY_HEVC = 7, 12


def is_disposable(payload: bytes) -> bool:
    """Of a whole video message that is an inter frame."""
    if len(payload) < LENGTH_BYTES + 2:
        return False
    first = payload[0]
    if first >> 4 & 7 == FrameType.DISPOSABLE:
        return True
    if first < 0x80:
        legacy = LEGACY.get(first & 15)
        return legacy is not None and payload[1] == VideoPacket.CODED_FRAMES and legacy(payload, 5)
    extended = EXTENDED.get(payload[1:5])
    if extended is None or first & 15 not in (VideoPacket.CODED_FRAMES, VideoPacket.CODED_FRAMES_X):
        return False
    look, composition_bytes = extended
    return look(payload, 5 + (composition_bytes if first & 15 == VideoPacket.CODED_FRAMES else 0))


def _units(payload: bytes, at: int, is_needed: Callable[[int], bool]) -> bool:
    """Whether none of the NAL units, by their first byte, is needed; and the message is made of such units."""
    end = len(payload)
    for _ in range(MOST_UNITS):
        at += LENGTH_BYTES
        if at >= end or is_needed(payload[at]):
            return False
        at += int.from_bytes(payload[at - LENGTH_BYTES : at], "big")
        if at == end:
            return True
    return False


def _avc(payload: bytes, at: int) -> bool:
    return _units(payload, at, lambda first: first & 0x60 != 0)


def _hevc(payload: bytes, at: int) -> bool:
    """Types 0, 2, ... 14 are such pictures; 35 to 40 are delimiters and messages beside them."""
    return _units(payload, at, lambda first: (first >> 1 & 63) not in HEVC_DISPOSABLE)


HEVC_DISPOSABLE: Final = frozenset((*range(0, 15, 2), 35, 38, 39, 40))


def _vp9(payload: bytes, at: int) -> bool:
    """A frame alone (a superframe holds hidden ones, others refer to these) whose header refreshes nothing."""
    if at + 4 > len(payload) or payload[-1] >> 5 == 0b110:
        return False
    bits = int.from_bytes(payload[at : at + 4], "big")
    position = 32

    def read(count: int) -> int:
        nonlocal position
        position -= count
        return bits >> position & (1 << count) - 1

    marker, low, high = read(2), read(1), read(1)
    if marker != 2 or (low and high and read(1)):
        return False
    shows_existing, is_inter, is_shown, is_resilient = read(1), read(1), read(1), read(1)
    if shows_existing or not is_inter or not is_shown:
        return False
    if not is_resilient:
        read(2)  # reset_frame_context
    return read(8) == 0


Look = Callable[[bytes, int], bool]

LEGACY: Final[dict[int, Look]] = {LEGACY_AVC: _avc, LEGACY_HEVC: _hevc}
EXTENDED: Final[dict[bytes, tuple[Look, int]]] = {b"avc1": (_avc, 3), b"hvc1": (_hevc, 3), b"vp09": (_vp9, 0)}
"""By FourCC, with the bytes of the composition time that its CodedFrames begin with."""
