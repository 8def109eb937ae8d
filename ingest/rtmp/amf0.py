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
| 04 movie clip, 0E record set (reserved), 09 (only as an end), 11 AMF3 | refused                |

What is decoded is always a finite tree: a reference to a value that encloses it is given as `Reference`, so nobody who
walks a peer's data can be caught in a loop, and what references stand for is counted against the limit of elements.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeVar

from ingest.rtmp.errors import LimitExceeded, LocalProtocolError, RemoteProtocolError
from ingest.rtmp.limits import DEFAULT_LIMITS, Limits

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

REFUSED: Final = {
    0x04: "an AMF0 movie clip is reserved and has no encoding",
    OBJECT_END: "an AMF0 object end outside of an object",
    0x0E: "an AMF0 record set is reserved and has no encoding",
    AMF3: "an AMF3 value within AMF0 is not supported",
}

_f64: Final = struct.Struct(">d")
_u16: Final = struct.Struct(">H")
_u32: Final = struct.Struct(">I")
_date: Final = struct.Struct(">dh")
_number: Final = struct.Struct(">Bd")
_short: Final = struct.Struct(">BH")
_long: Final = struct.Struct(">BI")

MAX_REFERENCES: Final = 0x10000


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


# --- Decoding ---

_Dict = TypeVar("_Dict", bound=dict[str, Any])


class _Decoder:
    """Reads the values of one message: the table of references lives as long as it does (section 4.1.3)."""

    __slots__ = ("data", "elements", "end", "limits", "position", "references", "sizes")

    def __init__(self, data: bytes, position: int, limits: Limits) -> None:
        self.data = data
        self.position = position
        self.end = len(data)
        self.limits = limits
        self.elements = limits.amf_elements
        self.references: list[Any] = []
        self.sizes: list[int] = []
        """How many values each referable value holds, itself included; 0 while it is being read."""

    def value(self, depth: int) -> Any:
        position = self.position
        if position >= self.end:
            raise RemoteProtocolError("an AMF0 value is missing")
        self.elements -= 1
        if self.elements < 0:
            raise LimitExceeded(f"more than {self.limits.amf_elements} AMF0 values in a message")
        self.position = position + 1
        reader = _READERS.get(self.data[position])
        if reader is None:
            reason = REFUSED.get(self.data[position], f"unknown AMF0 marker {self.data[position]:#04x}")
            raise RemoteProtocolError(reason)
        return reader(self, depth)

    def take(self, form: struct.Struct) -> Any:
        """The first field of `form`."""
        position = self.position
        self.position = position + form.size
        if self.position > self.end:
            raise RemoteProtocolError("an AMF0 value is cut short")
        return form.unpack_from(self.data, position)[0]

    def text(self, size: int) -> str:
        if size > self.limits.amf_string_bytes:
            raise LimitExceeded(f"an AMF0 string of more than {self.limits.amf_string_bytes} bytes")
        position = self.position
        self.position = position + size
        if self.position > self.end:
            raise RemoteProtocolError("an AMF0 string is cut short")
        # Some senders use other encodings than UTF-8; a replaced character is better than a lost connection.
        return self.data[position : position + size].decode("utf-8", "replace")

    def number(self, depth: int) -> float:
        number: float = self.take(_f64)
        return number

    def boolean(self, depth: int) -> bool:
        position = self.position
        self.position = position + 1
        if position >= self.end:
            raise RemoteProtocolError("an AMF0 value is cut short")
        return self.data[position] != 0

    def string(self, depth: int) -> str:
        return self.text(self.take(_u16))

    def long_string(self, depth: int) -> str:
        return self.text(self.take(_u32))

    def xml(self, depth: int) -> XmlDocument:
        return XmlDocument(self.text(self.take(_u32)))

    def null(self, depth: int) -> None:
        return None

    def undefined(self, depth: int) -> Singleton:
        return UNDEFINED

    def unsupported(self, depth: int) -> Singleton:
        return UNSUPPORTED

    def date(self, depth: int) -> Date:
        position = self.position
        self.position = position + _date.size
        if self.position > self.end:
            raise RemoteProtocolError("an AMF0 date is cut short")
        return Date(*_date.unpack_from(self.data, position))

    def reference(self, depth: int) -> Any:
        index = self.take(_u16)
        if index >= len(self.references):
            raise RemoteProtocolError("an AMF0 reference to nothing")
        size = self.sizes[index]
        if size == 0:
            return Reference(index)
        self.elements -= size - 1
        if self.elements < 0:
            raise LimitExceeded(f"AMF0 references stand for more than {self.limits.amf_elements} values")
        return self.references[index]

    def object(self, depth: int) -> dict[str, Any]:
        return self.properties({}, depth)

    def typed_object(self, depth: int) -> TypedObject:
        return self.properties(TypedObject(self.text(self.take(_u16))), depth)

    def ecma_array(self, depth: int) -> EcmaArray:
        return self.properties(EcmaArray(), depth, self.take(_u32))

    def properties(self, target: _Dict, depth: int, count: int | None = None) -> _Dict:
        """Properties to the end (section 2.11). Only an ECMA array may lack its end, at the end of the message."""
        index, left = self.enter(target, depth)
        while True:
            if count is not None and self.position == self.end and len(target) >= count:
                break
            name = self.text(self.take(_u16))
            if not name and self.position < self.end and self.data[self.position] == OBJECT_END:
                self.position += 1
                break
            target[name] = self.value(depth + 1)
        self.sizes[index] = left - self.elements + 1
        return target

    def strict_array(self, depth: int) -> list[Any]:
        count = self.take(_u32)
        target: list[Any] = []
        index, left = self.enter(target, depth)
        target.extend(self.value(depth + 1) for _ in range(count))
        self.sizes[index] = left - self.elements + 1
        return target

    def enter(self, target: Any, depth: int) -> tuple[int, int]:
        if depth >= self.limits.amf_depth:
            raise LimitExceeded(f"AMF0 values nested more than {self.limits.amf_depth} deep")
        self.references.append(target)
        self.sizes.append(0)
        return len(self.sizes) - 1, self.elements


_READERS: Final[dict[int, Callable[[_Decoder, int], Any]]] = {
    NUMBER: _Decoder.number,
    BOOLEAN: _Decoder.boolean,
    STRING: _Decoder.string,
    OBJECT: _Decoder.object,
    NULL: _Decoder.null,
    UNDEFINED_MARKER: _Decoder.undefined,
    REFERENCE: _Decoder.reference,
    ECMA_ARRAY: _Decoder.ecma_array,
    STRICT_ARRAY: _Decoder.strict_array,
    DATE: _Decoder.date,
    LONG_STRING: _Decoder.long_string,
    UNSUPPORTED_MARKER: _Decoder.unsupported,
    XML_DOCUMENT: _Decoder.xml,
    TYPED_OBJECT: _Decoder.typed_object,
}


def decode(data: bytes, position: int = 0, limits: Limits = DEFAULT_LIMITS) -> tuple[Any, int]:
    """The value at `position` and where the next one starts. Raises RemoteProtocolError."""
    decoder = _Decoder(data, position, limits)
    value = decoder.value(0)
    return value, decoder.position


def decode_all(data: bytes, position: int = 0, limits: Limits = DEFAULT_LIMITS) -> list[Any]:
    """All values from `position` to the end of a message's body. Raises RemoteProtocolError."""
    decoder = _Decoder(data, position, limits)
    values = []
    while decoder.position < decoder.end:
        values.append(decoder.value(0))
    return values


# --- Encoding ---


class _Encoder:
    """Writes the values of one message. An object or array that comes again is written as a reference (section 2.9)."""

    __slots__ = ("count", "indices", "out")

    def __init__(self) -> None:
        self.out = bytearray()
        self.count = 0
        """Objects and arrays written so far, which is the next one's index."""
        self.indices: dict[int, int] = {}
        """Their indices by the identity of the value."""

    def value(self, value: Any) -> None:
        writer = _WRITERS.get(type(value))
        if writer is None:
            writer = next((_WRITERS[base] for base in type(value).__mro__ if base in _WRITERS), None)
            if writer is None:
                raise LocalProtocolError(f"AMF0 has no encoding for {type(value).__name__}")
        writer(self, value)

    def number(self, value: float) -> None:
        try:
            self.out += _number.pack(NUMBER, value)
        except OverflowError as error:
            raise LocalProtocolError("a number is too large for AMF0") from error

    def boolean(self, value: bool) -> None:
        self.out += b"\x01\x01" if value else b"\x01\x00"

    def string(self, value: str) -> None:
        text = _utf8(value)
        self.out += _short.pack(STRING, len(text)) if len(text) <= 0xFFFF else _long.pack(LONG_STRING, len(text))
        self.out += text

    def xml(self, value: XmlDocument) -> None:
        text = _utf8(value)
        self.out += _long.pack(XML_DOCUMENT, len(text))
        self.out += text

    def null(self, value: None) -> None:
        self.out.append(NULL)

    def singleton(self, value: Singleton) -> None:
        self.out.append(value.value)

    def date(self, value: Date) -> None:
        try:
            fields = _date.pack(value.milliseconds, value.zone_minutes)
        except (struct.error, OverflowError) as error:
            raise LocalProtocolError("a date is out of the range of AMF0") from error
        self.out.append(DATE)
        self.out += fields

    def reference(self, value: Reference) -> None:
        if not 0 <= value.index < min(self.count, MAX_REFERENCES):
            raise LocalProtocolError("an AMF0 reference to nothing")
        self.out += _short.pack(REFERENCE, value.index)

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

    def strict_array(self, value: list[Any] | tuple[Any, ...]) -> None:
        if self.enter(value):
            self.out += _long.pack(STRICT_ARRAY, len(value))
            for item in value:
                self.value(item)

    def properties(self, value: dict[str, Any]) -> None:
        for name, item in value.items():
            self.name(name)
            self.value(item)
        self.out += b"\x00\x00\x09"

    def name(self, name: str) -> None:
        text = _utf8(name)
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
        self.count += 1
        return True


_WRITERS: Final[dict[type, Callable[[_Encoder, Any], None]]] = {
    float: _Encoder.number,
    int: _Encoder.number,
    bool: _Encoder.boolean,
    str: _Encoder.string,
    XmlDocument: _Encoder.xml,
    type(None): _Encoder.null,
    Singleton: _Encoder.singleton,
    Date: _Encoder.date,
    Reference: _Encoder.reference,
    dict: _Encoder.object,
    EcmaArray: _Encoder.ecma_array,
    TypedObject: _Encoder.typed_object,
    list: _Encoder.strict_array,
    tuple: _Encoder.strict_array,
}


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise LocalProtocolError("a text can't be written as UTF-8") from error


def encode(*values: Any) -> bytes:
    """The values one after the other, as the body of one message. Raises LocalProtocolError."""
    encoder = _Encoder()
    for value in values:
        encoder.value(value)
    return bytes(encoder.out)
