"""Types that Python has no own for, and that mean the same in AMF0 and AMF3."""

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Singleton(Enum):
    """Values that are nothing but their marker."""

    UNDEFINED = "undefined"
    UNSUPPORTED = "unsupported"
    """AMF0 only."""

    def __repr__(self) -> str:
        return self.name


UNDEFINED: Final = Singleton.UNDEFINED
UNSUPPORTED: Final = Singleton.UNSUPPORTED


class XmlDocument(str):
    """The text of an XML document (AMF0 2.17; AMF3 3.9, the class flash.xml.XMLDocument)."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Date:
    """A point in time (AMF0 2.13, AMF3 3.10)."""

    milliseconds: float
    """Since 1970-01-01 00:00 UTC."""
    zone_minutes: int = 0
    """Reserved: should be 0 and has no meaning for `milliseconds`. AMF3 leaves it out."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference (AMF0 2.9, AMF3 2.2) to a value that encloses it.

    Thus a value can be written again in another place, where the wire's own indices would be others.
    """

    level: int
    """Which of the enclosing values: 0 is the outermost, 1 the one directly in it."""
