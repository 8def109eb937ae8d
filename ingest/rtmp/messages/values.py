"""Values within messages: what those of types 15, 16 and 17 begin with, and how single values are taken.

What the clarification in Enhanced RTMP v2 says of AMF3 holds for all three: a format byte, of which 0 is the only one,
then values in AMF0, where any one may be in AMF3 behind the marker 11.
"""

from math import isfinite
from typing import Any, Final

from ingest.rtmp import amf0

FORMAT_BYTE: Final = b"\x00"

SIMPLE: Final = frozenset({str, float, int, bool, type(None), amf0.Singleton, amf0.TypedObject, amf0.Amf3})
"""What is written in AMF0 beside AMF3: texts and numbers, as Flash Player does, and objects of classes whose traits
are not known."""


def in_amf3(value: Any) -> Any:
    """The value, to be written in AMF3 if it isn't simple."""
    return value if type(value) in SIMPLE else amf0.Amf3(value)


def extended(*values: Any) -> bytes:
    """The body of a message of type 15 or 17. Raises LocalProtocolError."""
    return FORMAT_BYTE + amf0.encode(*map(in_amf3, values))


def text(value: Any) -> str:
    """The value if it is a text, else none."""
    return value if isinstance(value, str) else ""


def number(value: Any, default: float) -> float:
    """The value if it is a number, finite: AMF3 has integers too."""
    return value if isinstance(value, float | int) and not isinstance(value, bool) and isfinite(value) else default
