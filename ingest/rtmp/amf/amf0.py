"""AMF0, the encoding of commands and data (Action Message Format 0, sections 2 and 3).

How the types map to Python:

| marker                  | Python                                                       |
|-------------------------|--------------------------------------------------------------|
| 00 number               | float (int is taken for encoding)                            |
| 01 boolean              | bool                                                         |
| 02 string, 0C long      | str; the encoder chooses by its length in UTF-8              |
| 03 object               | dict                                                         |
| 05 null                 | None                                                         |
| 06 undefined            | UNDEFINED                                                    |
| 07 reference            | the value that it stands for; Reference within that value    |
| 08 ECMA array           | EcmaArray                                                    |
| 0A strict array         | list                                                         |
| 0B date                 | Date                                                         |
| 0D unsupported          | UNSUPPORTED                                                  |
| 0F XML document         | XmlDocument                                                  |
| 10 typed object         | TypedObject                                                  |
| 11 AMF3                 | what `amf3` makes of it; the encoder takes Amf3              |
| 04 movie clip, 0E record set (reserved), 09 (only as an end) | refused                 |

Whatever the bytes, decoding raises nothing but RemoteProtocolError. What is decoded is always a finite tree: a
reference to a value that encloses it is given as `Reference`, so nobody who walks a peer's data can be caught in a
loop, and what references stand for is counted against the limit of elements."""

import struct
from typing import Any, Final, TypeVar

from ingest.rtmp import amf
from ingest.rtmp.amf.amf3_decoder import Decoder as Amf3Decoder
from ingest.rtmp.amf.amf3_encoder import Encoder as Amf3Encoder
from ingest.rtmp.amf.amf3_to_amf0 import Amf3ToAmf0
from ingest.rtmp.errors import LimitExceeded, LocalProtocolError, RemoteProtocolError
from ingest.rtmp.limits import Limits

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

_f64: Final = struct.Struct(">d")
_u8: Final = struct.Struct(">B")
_u16: Final = struct.Struct(">H")
_u32: Final = struct.Struct(">I")
_date: Final = struct.Struct(">dh")

_Dict = TypeVar("_Dict", bound=dict[str, Any])


class Decoder(amf.Reader):
    """The table of references is that of section 4.1.3.

    `as_amf0`: values in AMF3 are given as what AMF0 has for them, see `Amf3ToAmf0`.
    """

    __slots__ = ("amf3", "amf3_to_amf0")

    encoding = "AMF0"
    constants = {NULL: None, UNDEFINED_MARKER: amf.UNDEFINED, UNSUPPORTED_MARKER: amf.UNSUPPORTED}
    refused = {
        0x04: "an AMF0 movie clip is reserved and has no encoding",
        OBJECT_END: "an AMF0 object end outside of an object",
        0x0E: "an AMF0 record set is reserved and has no encoding",
    }

    def __init__(self, data: bytes, position: int, limits: Limits, elements: int, *, as_amf0: bool = False) -> None:
        super().__init__(data, position, limits, elements)
        self.amf3: Amf3Decoder | None = None
        """Once needed. Its tables are those of the message (AMF3 4.1)."""
        self.amf3_to_amf0 = Amf3ToAmf0() if as_amf0 else None

    def rest(self) -> list[Any]:
        """All values from `position` to `end`."""
        values = []
        while self.position < self.end:
            values.append(self.value(0))
        return values

    def readable(self) -> list[Any]:
        """The same as far as they can be read: `position` is then where the first begins that can't. Raises
        LimitExceeded."""
        values = []
        while (start := self.position) < self.end:
            try:
                values.append(self.value(0))
            except LimitExceeded:
                raise
            except RemoteProtocolError:
                self.position = start
                break
        return values

    def number(self, depth: int) -> float:
        number: float = self.take(_f64)
        return number

    def boolean(self, depth: int) -> bool:
        return bool(self.take(_u8))

    def string(self, depth: int) -> str:
        return self.text(self.take(_u16))

    def long_string(self, depth: int) -> str:
        return self.text(self.take(_u32))

    def xml(self, depth: int) -> amf.XmlDocument:
        return amf.XmlDocument(self.text(self.take(_u32)))

    def date(self, depth: int) -> amf.Date:
        position = self.position
        self.position = position + _date.size
        if self.position > self.end:
            raise RemoteProtocolError("an AMF0 date is cut short")
        return amf.Date(*_date.unpack_from(self.data, position))

    def marked_reference(self, depth: int) -> Any:
        return self.reference(self.take(_u16))

    def object(self, depth: int) -> dict[str, Any]:
        return self.properties({}, depth)

    def typed_object(self, depth: int) -> amf.TypedObject:
        return self.properties(amf.TypedObject(self.text(self.take(_u16))), depth)

    def ecma_array(self, depth: int) -> amf.EcmaArray:
        return self.properties(amf.EcmaArray(), depth, self.take(_u32))

    def avmplus(self, depth: int) -> Any:
        """One value in AMF3 (section 3.1), after which AMF0 goes on."""
        if self.amf3 is None:
            self.amf3 = Amf3Decoder(self.data, 0, self.limits, 0)
        inner, before = self.amf3, self.elements
        inner.position, inner.elements, inner.base = self.position, self.elements, depth
        value = inner.value(depth)
        self.position, self.elements = inner.position, inner.elements
        if self.amf3_to_amf0 is None:
            return value
        self.spend(before - self.elements)  # As much again, for what becomes of them.
        return self.amf3_to_amf0.convert(value, depth)

    def properties(self, target: _Dict, depth: int, count: int | None = None) -> _Dict:
        """Properties to the end (section 2.11). Only an ECMA array may lack its end, at the end of the message."""
        entered = self.enter(target, depth)
        while True:
            if count is not None and self.position == self.end and len(target) >= count:
                break
            name = self.text(self.take(_u16))
            if not name and self.position < self.end and self.data[self.position] == OBJECT_END:
                self.position += 1
                break
            target[name] = self.value(depth + 1)
        self.leave(entered)
        return target

    def strict_array(self, depth: int) -> list[Any]:
        count = self.take(_u32)
        target: list[Any] = []
        entered = self.enter(target, depth)
        target.extend(self.value(depth + 1) for _ in range(count))
        self.leave(entered)
        return target


Decoder.readers = {
    NUMBER: Decoder.number,
    BOOLEAN: Decoder.boolean,
    STRING: Decoder.string,
    OBJECT: Decoder.object,
    REFERENCE: Decoder.marked_reference,
    ECMA_ARRAY: Decoder.ecma_array,
    STRICT_ARRAY: Decoder.strict_array,
    DATE: Decoder.date,
    LONG_STRING: Decoder.long_string,
    XML_DOCUMENT: Decoder.xml,
    TYPED_OBJECT: Decoder.typed_object,
    AMF3: Decoder.avmplus,
}


decode = Decoder.decode


_number: Final = struct.Struct(">Bd")
_short: Final = struct.Struct(">BH")
_long: Final = struct.Struct(">BI")

_SINGLETONS: Final = {amf.UNDEFINED: UNDEFINED_MARKER, amf.UNSUPPORTED: UNSUPPORTED_MARKER}

MAX_REFERENCES: Final = 0x10000


class Encoder(amf.Writer):
    """An object or array that comes again is written as a reference (section 2.9)."""

    __slots__ = ("amf3", "open")

    encoding = "AMF0"

    def __init__(self, out: bytearray) -> None:
        super().__init__(out)
        self.open: list[int] = []
        """The indices of those being written, outermost first."""
        self.amf3: Amf3Encoder | None = None
        """Once needed. Its tables are those of the message (AMF3 4.1)."""

    def number(self, value: float) -> None:
        self.pack(_number, "a number is too large for AMF0", NUMBER, value)

    def boolean(self, value: bool) -> None:
        self.out += b"\x01\x01" if value else b"\x01\x00"

    def string(self, value: str) -> None:
        text = amf.utf8(value)
        self.out += _short.pack(STRING, len(text)) if len(text) <= 0xFFFF else _long.pack(LONG_STRING, len(text))
        self.out += text

    def xml(self, value: amf.XmlDocument) -> None:
        text = amf.utf8(value)
        self.out += _long.pack(XML_DOCUMENT, len(text))
        self.out += text

    def null(self, value: None) -> None:
        self.out.append(NULL)

    def singleton(self, value: amf.Singleton) -> None:
        self.out.append(_SINGLETONS[value])

    def date(self, value: amf.Date) -> None:
        self.out.append(DATE)
        self.pack(_date, "a date is out of the range of AMF0", value.milliseconds, value.zone_minutes)

    def reference(self, value: amf.Reference) -> None:
        if not 0 <= value.level < len(self.open) or self.open[value.level] >= MAX_REFERENCES:
            raise LocalProtocolError("an AMF0 reference to nothing")
        self.out += _short.pack(REFERENCE, self.open[value.level])

    def object(self, value: dict[str, Any]) -> None:
        if self.enter(value):
            self.out.append(OBJECT)
            self.properties(value)

    def ecma_array(self, value: amf.EcmaArray) -> None:
        if self.enter(value):
            self.out += _long.pack(ECMA_ARRAY, len(value))
            self.properties(value)

    def typed_object(self, value: amf.TypedObject) -> None:
        if self.enter(value):
            self.out.append(TYPED_OBJECT)
            self.name(value.class_name)
            self.properties(value)

    def avmplus(self, value: amf.Amf3) -> None:
        """Section 3.1."""
        if self.amf3 is None:
            self.amf3 = Amf3Encoder(self.out)
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
        text = amf.utf8(name)
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
    amf.XmlDocument: Encoder.xml,
    type(None): Encoder.null,
    amf.Singleton: Encoder.singleton,
    amf.Date: Encoder.date,
    amf.Reference: Encoder.reference,
    dict: Encoder.object,
    amf.EcmaArray: Encoder.ecma_array,
    amf.TypedObject: Encoder.typed_object,
    list: Encoder.strict_array,
    tuple: Encoder.strict_array,
    amf.Amf3: Encoder.avmplus,
}


encode = Encoder.encode
