"""Values to AMF0 bytes."""

import struct
from typing import Any, Final

from ingest.rtmp import amf3
from ingest.rtmp.amf import UNDEFINED, UNSUPPORTED, Date, Reference, Singleton, Writer, XmlDocument, utf8
from ingest.rtmp.amf0.types import (
    AMF3,
    DATE,
    ECMA_ARRAY,
    LONG_STRING,
    NULL,
    NUMBER,
    OBJECT,
    REFERENCE,
    STRICT_ARRAY,
    STRING,
    TYPED_OBJECT,
    UNDEFINED_MARKER,
    UNSUPPORTED_MARKER,
    XML_DOCUMENT,
    Amf3,
    EcmaArray,
    TypedObject,
)
from ingest.rtmp.errors import LocalProtocolError

_u16: Final = struct.Struct(">H")
_date: Final = struct.Struct(">dh")
_number: Final = struct.Struct(">Bd")
_short: Final = struct.Struct(">BH")
_long: Final = struct.Struct(">BI")

_SINGLETONS: Final = {UNDEFINED: UNDEFINED_MARKER, UNSUPPORTED: UNSUPPORTED_MARKER}

MAX_REFERENCES: Final = 0x10000
"""A reference has 16 bits."""


class Encoder(Writer):
    """An object or array that comes again is written as a reference (section 2.9)."""

    __slots__ = ("amf3", "count", "open")

    encoding = "AMF0"

    def __init__(self, out: bytearray) -> None:
        super().__init__(out)
        self.count = 0
        """Objects and arrays written so far, which is the next one's index."""
        self.open: list[int] = []
        """The indices of those being written, outermost first."""
        self.amf3: amf3.Encoder | None = None
        """Once needed. Its tables are those of the message (AMF3 4.1)."""

    def number(self, value: float) -> None:
        try:
            self.out += _number.pack(NUMBER, value)
        except (struct.error, OverflowError) as error:
            raise LocalProtocolError("a number is too large for AMF0") from error

    def boolean(self, value: bool) -> None:
        self.out += b"\x01\x01" if value else b"\x01\x00"

    def string(self, value: str) -> None:
        text = utf8(value)
        self.out += _short.pack(STRING, len(text)) if len(text) <= 0xFFFF else _long.pack(LONG_STRING, len(text))
        self.out += text

    def xml(self, value: XmlDocument) -> None:
        text = utf8(value)
        self.out += _long.pack(XML_DOCUMENT, len(text))
        self.out += text

    def null(self, value: None) -> None:
        self.out.append(NULL)

    def singleton(self, value: Singleton) -> None:
        self.out.append(_SINGLETONS[value])

    def date(self, value: Date) -> None:
        try:
            fields = _date.pack(value.milliseconds, value.zone_minutes)
        except (struct.error, OverflowError) as error:
            raise LocalProtocolError("a date is out of the range of AMF0") from error
        self.out.append(DATE)
        self.out += fields

    def reference(self, value: Reference) -> None:
        if not 0 <= value.level < len(self.open) or self.open[value.level] >= MAX_REFERENCES:
            raise LocalProtocolError("an AMF0 reference to nothing")
        self.out += _short.pack(REFERENCE, self.open[value.level])

    def object(self, value: dict[str, Any]) -> None:
        if self.enter(value):
            self.out.append(OBJECT)
            self.properties(value)

    def ecma_array(self, value: EcmaArray) -> None:
        if self.enter(value):
            self.out += _long.pack(ECMA_ARRAY, len(value))
            self.properties(value)

    def typed_object(self, value: TypedObject) -> None:
        if self.enter(value):
            self.out.append(TYPED_OBJECT)
            self.name(value.class_name)
            self.properties(value)

    def avmplus(self, value: Amf3) -> None:
        """Section 3.1."""
        if self.amf3 is None:
            self.amf3 = amf3.Encoder(self.out)
        self.out.append(AMF3)
        self.amf3.value(value.value)

    def strict_array(self, value: list[Any] | tuple[Any, ...]) -> None:
        if self.enter(value):
            self.out += _long.pack(STRICT_ARRAY, len(value))
            for item in value:
                self.value(item)
            self.open.pop()

    def properties(self, value: dict[str, Any]) -> None:
        for name, item in value.items():
            self.name(name)
            self.value(item)
        self.out += b"\x00\x00\x09"
        self.open.pop()

    def name(self, name: str) -> None:
        text = utf8(name)
        if len(text) > 0xFFFF:
            raise LocalProtocolError("a name is too long for AMF0")
        self.out += _u16.pack(len(text))
        self.out += text

    def enter(self, value: Any) -> bool:
        """False when the value was written before and a reference to it does."""
        index = self.indices.get(id(value))
        if index is not None and index < MAX_REFERENCES:
            self.out += _short.pack(REFERENCE, index)
            return False
        self.indices[id(value)] = self.count
        self.open.append(self.count)
        self.count += 1
        return True


Encoder.writers = {
    float: Encoder.number,
    int: Encoder.number,
    bool: Encoder.boolean,
    str: Encoder.string,
    XmlDocument: Encoder.xml,
    type(None): Encoder.null,
    Singleton: Encoder.singleton,
    Date: Encoder.date,
    Reference: Encoder.reference,
    dict: Encoder.object,
    EcmaArray: Encoder.ecma_array,
    TypedObject: Encoder.typed_object,
    list: Encoder.strict_array,
    tuple: Encoder.strict_array,
    Amf3: Encoder.avmplus,
}


def encode(*values: Any) -> bytes:
    """The values one after the other, as the body of one message. Raises LocalProtocolError."""
    encoder = Encoder(bytearray())
    for value in values:
        encoder.value(value)
    return bytes(encoder.out)
