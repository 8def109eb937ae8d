"""Which part of a recording is played: from where, how far, and what of it the player has already."""

from dataclasses import dataclass, field
from typing import Final, Literal

from ingest.rtmp.messages import MessageType

AUDIO: Final = int(MessageType.AUDIO)
VIDEO: Final = int(MessageType.VIDEO)
MOST_MS: Final = 2**53
"""Up to here a double counts whole numbers; peers may ask for any."""

UNIT_MS: Final[dict[Literal["ms", "s"], int]] = {"ms": 1, "s": 1000}


@dataclass(frozen=True, slots=True)
class Span:
    """Times are milliseconds of the file's clock, which begins at 0."""

    start_ms: int = 0
    """What is sent begins with the keyframe at or before it; 0 and below: with the file's first tag."""
    stop_ms: int | None = None
    """Nothing from here on; None: to the end."""
    is_single: bool = False
    """One frame, that which stands at `start_ms`, and what decoding it needs."""
    had_ms: dict[int, int] = field(default_factory=dict)
    """By message type: what the player has had up to this time, so that no frame before it is sent again. What has to
    come once more for decoding counts as of the latest of these times: the player's time goes on."""

    @property
    def floor_ms(self) -> int:
        """Of the times that are sent."""
        return max(self.had_ms.values(), default=0)

    def takes(self, type_id: int, time_ms: int, *, is_frame: bool) -> bool:
        """Whether a message that stands behind the beginning belongs to it."""
        if self.stop_ms is not None and time_ms >= self.stop_ms:
            return False
        return not is_frame or time_ms >= self.had_ms.get(type_id, time_ms)


def asked_span(start: float, duration: float, unit: Literal["ms", "s"]) -> Span:
    """By the arguments of `play` (section 7.2.2.1). A duration below 0 is all, 0 a single frame.

    What decoding needs of the time before a start counts as of that; of the sound it needs nothing.
    """
    scale = UNIT_MS[unit]
    start_ms = _milliseconds(start * scale)
    had_ms = {AUDIO: start_ms} if start_ms else {}
    if duration == 0:
        return Span(start_ms, is_single=True, had_ms=had_ms)
    stop_ms = _milliseconds(start_ms + duration * scale) if duration > 0 else None
    return Span(start_ms, stop_ms, had_ms=had_ms)


def _milliseconds(value: float) -> int:
    return round(min(max(value, 0), MOST_MS))
