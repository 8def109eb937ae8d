"""onMetaData as publishers claim it, made safe to keep and to send as JSON."""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from ingest.live.shared import METADATA_SLOT
from ingest.rtmp import amf0

MAX_DEPTH: Final = 4
MAX_VALUES: Final = 256
"""Of one message, those inside of others included."""
MAX_TEXT: Final = 256
"""Characters of a text or of a name."""


GENERIC: Final = re.compile(
    r"(FMLE/[\d.]+)? *(\(compatible; FMSc/[\d.]+\))?|(LNX|WIN|MAC|AND|IOS) [\d,]+", re.IGNORECASE
)
"""A flashVer that says no more than that its client speaks as Adobe's did: OBS, GStreamer and librtmp send such."""
MOST_ENCODER: Final = 255
"""Characters of an encoder's name."""


METADATA: Final = "onMetaData"
MAX_FRAMES: Final = 8
"""Kept under names of a publisher's own."""
MAX_FRAME_BYTES: Final = 64 * 1024


class DataFrames:
    """What a publisher wants its players to have when they come later (@setDataFrame), until it clears it: a slot of
    the header cache for each name."""

    def __init__(self) -> None:
        self._slots: dict[str, int] = {}

    def slot(self, name: str, size_bytes: int) -> int | None:
        """None: it is too much, and relayed like other data."""
        if name == METADATA:
            return METADATA_SLOT
        if name not in self._slots and (len(self._slots) >= MAX_FRAMES or size_bytes > MAX_FRAME_BYTES):
            return None
        return self._slots.setdefault(name, len(self._slots) + 1)

    def find(self, name: Any) -> int | None:
        return METADATA_SLOT if name == METADATA else self._slots.get(name) if isinstance(name, str) else None

    def clear(self) -> None:
        self._slots.clear()


def sanitise(value: Any) -> dict[str, Any]:
    """The properties of a metadata object, cut to the bounds above. What JSON has no form for becomes None."""
    if not isinstance(value, dict):
        return {}
    return _Copy().properties(value, 1)


class _Copy:
    """One copy, with its budget of values."""

    def __init__(self) -> None:
        self._left = MAX_VALUES

    def properties(self, value: dict[str, Any], depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for name, item in value.items():
            if self._left <= 0:
                break
            result[str(name)[:MAX_TEXT]] = self.value(item, depth)
        return result

    def value(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return _number(value)
        if isinstance(value, str):
            return value[:MAX_TEXT]
        if isinstance(value, amf0.Date):
            return _date(value.milliseconds)
        if depth < MAX_DEPTH and isinstance(value, dict):
            return self.properties(value, depth + 1)
        if depth < MAX_DEPTH and isinstance(value, list | tuple):
            return [self.value(item, depth + 1) for item in value[: self._left]]
        return None


def _number(value: float) -> int | float | None:
    """AMF0 has doubles only; 1920.0 is meant as 1920."""
    if not math.isfinite(value):
        return None
    return int(value) if abs(value) < 2**53 and value == int(value) else value


def _date(milliseconds: float) -> str | None:
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return None


def encoder_name(known: str, metadata: Mapping[str, Any]) -> str:
    """What an encoder is called: as it is known by, which is its flashVer at first; where that says nothing, as its
    metadata say, such as "obs-output module (libobs version 30.2.3)".
    """
    said = metadata.get("encoder")
    said = said.strip()[:MOST_ENCODER] if isinstance(said, str) else ""
    return said if said and GENERIC.fullmatch(known.strip()) else known


def claimed(metadata: dict[str, Any], name: str, *, most: float) -> float | None:
    """A number of the metadata that may be believed: over 0 and at most `most`."""
    value = metadata.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 < value <= most else None
