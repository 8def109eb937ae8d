"""The markers of AMF0 (section 2.1), and the types that neither Python nor AMF3 has."""

from dataclasses import dataclass
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


class EcmaArray(dict[str, Any]):
    """An associative array (section 2.10): on the wire an object with a count before it, which is only a hint."""

    __slots__ = ()


class TypedObject(dict[str, Any]):
    """An object of a registered class (section 2.18)."""

    __slots__ = ("class_name",)

    def __init__(self, class_name: str, properties: dict[str, Any] | None = None) -> None:
        super().__init__(properties or {})
        self.class_name = class_name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypedObject) and self.class_name == other.class_name and dict.__eq__(self, other)

    __hash__ = None

    def __repr__(self) -> str:
        return f"TypedObject({self.class_name!r}, {dict.__repr__(self)})"


@dataclass(frozen=True, slots=True)
class Amf3:
    """A value to be written in AMF3 (section 3.1). What is read is the value itself."""

    value: Any
