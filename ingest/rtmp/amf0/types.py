"""The markers of AMF0 (section 2.1), and the types that Python has no own for."""

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

NUMBER: Final = 0x00
BOOLEAN: Final = 0x01
STRING: Final = 0x02
OBJECT: Final = 0x03
NULL: Final = 0x05
UNDEFINED_MARKER: Final = 0x06
REFERENCE: Final = 0x07
ECMA_ARRAY: Final = 0x08
OBJECT_END: Final = 0x09
STRICT_ARRAY: Final = 0x0A
DATE: Final = 0x0B
LONG_STRING: Final = 0x0C
UNSUPPORTED_MARKER: Final = 0x0D
XML_DOCUMENT: Final = 0x0F
TYPED_OBJECT: Final = 0x10
AMF3: Final = 0x11


class Singleton(Enum):
    """Values that are nothing but their marker."""

    UNDEFINED = UNDEFINED_MARKER
    UNSUPPORTED = UNSUPPORTED_MARKER

    def __repr__(self) -> str:
        return self.name


UNDEFINED: Final = Singleton.UNDEFINED
UNSUPPORTED: Final = Singleton.UNSUPPORTED


class EcmaArray(dict[str, Any]):
    """An associative array (section 2.10): on the wire an object with a count before it, which is only a hint."""


class TypedObject(dict[str, Any]):
    """An object of a registered class (section 2.18)."""

    def __init__(self, class_name: str, properties: dict[str, Any] | None = None) -> None:
        super().__init__(properties or {})
        self.class_name = class_name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypedObject) and self.class_name == other.class_name and dict.__eq__(self, other)

    __hash__ = None

    def __repr__(self) -> str:
        return f"TypedObject({self.class_name!r}, {dict.__repr__(self)})"


class XmlDocument(str):
    """The text of an XML document (section 2.17)."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Date:
    """A point in time (section 2.13)."""

    milliseconds: float
    """Since 1970-01-01 00:00 UTC."""
    zone_minutes: int = 0
    """Reserved: should be 0 and has no meaning for `milliseconds`."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference (section 2.9) to an object or array that encloses it, by its place in the order of their starts."""

    index: int
