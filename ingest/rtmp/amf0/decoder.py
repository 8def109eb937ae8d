"""AMF0 bytes to values. Whatever the bytes, nothing but RemoteProtocolError is raised."""

import struct
from typing import Any, Final, TypeVar

from ingest.rtmp import amf3
from ingest.rtmp.amf import UNDEFINED, UNSUPPORTED, Date, Reader, Singleton, XmlDocument
from ingest.rtmp.amf0.plain import Plain
from ingest.rtmp.amf0.types import (
    AMF3,
    BOOLEAN,
    DATE,
    ECMA_ARRAY,
    LONG_STRING,
    NULL,
    NUMBER,
    OBJECT,
    OBJECT_END,
    REFERENCE,
    STRICT_ARRAY,
    STRING,
    TYPED_OBJECT,
    UNDEFINED_MARKER,
    UNSUPPORTED_MARKER,
    XML_DOCUMENT,
    EcmaArray,
    TypedObject,
)
from ingest.rtmp.errors import LimitExceeded, RemoteProtocolError
from ingest.rtmp.limits import DEFAULT_LIMITS, Limits

_f64: Final = struct.Struct(">d")
_u16: Final = struct.Struct(">H")
_u32: Final = struct.Struct(">I")
_date: Final = struct.Struct(">dh")

_Dict = TypeVar("_Dict", bound=dict[str, Any])


class Decoder(Reader):
    """The table of references is that of section 4.1.3.

    `plain`: values in AMF3 are given as what AMF0 has for them, see `plain.Plain`.
    """

    __slots__ = ("amf3", "plain")

    encoding = "AMF0"
    refused = {
        0x04: "an AMF0 movie clip is reserved and has no encoding",
        OBJECT_END: "an AMF0 object end outside of an object",
        0x0E: "an AMF0 record set is reserved and has no encoding",
    }

    def __init__(self, data: bytes, position: int, limits: Limits, elements: int, *, plain: bool = False) -> None:
        super().__init__(data, position, limits, elements)
        self.amf3: amf3.Decoder | None = None
        """Once needed. Its tables are those of the message (AMF3 4.1)."""
        self.plain = Plain() if plain else None

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

    def marked_reference(self, depth: int) -> Any:
        return self.reference(self.take(_u16))

    def object(self, depth: int) -> dict[str, Any]:
        return self.properties({}, depth)

    def typed_object(self, depth: int) -> TypedObject:
        return self.properties(TypedObject(self.text(self.take(_u16))), depth)

    def ecma_array(self, depth: int) -> EcmaArray:
        return self.properties(EcmaArray(), depth, self.take(_u32))

    def avmplus(self, depth: int) -> Any:
        """One value in AMF3 (section 3.1), after which AMF0 goes on."""
        if self.amf3 is None:
            self.amf3 = amf3.Decoder(self.data, 0, self.limits, 0)
        inner, before = self.amf3, self.elements
        inner.position, inner.elements, inner.base = self.position, self.elements, depth
        value = inner.value(depth)
        self.position, self.elements = inner.position, inner.elements
        if self.plain is None:
            return value
        self.spend(before - self.elements)  # As much again, for what becomes of them.
        return self.plain.convert(value, depth)

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
    NULL: Decoder.null,
    UNDEFINED_MARKER: Decoder.undefined,
    REFERENCE: Decoder.marked_reference,
    ECMA_ARRAY: Decoder.ecma_array,
    STRICT_ARRAY: Decoder.strict_array,
    DATE: Decoder.date,
    LONG_STRING: Decoder.long_string,
    UNSUPPORTED_MARKER: Decoder.unsupported,
    XML_DOCUMENT: Decoder.xml,
    TYPED_OBJECT: Decoder.typed_object,
    AMF3: Decoder.avmplus,
}


def decode(data: bytes, position: int = 0, limits: Limits = DEFAULT_LIMITS) -> tuple[Any, int]:
    """The value at `position` and where the next one starts. Raises RemoteProtocolError."""
    decoder = Decoder(data, position, limits, limits.amf_elements)
    value = decoder.value(0)
    return value, decoder.position


def decode_all(
    data: bytes, position: int = 0, limits: Limits = DEFAULT_LIMITS, *, elements: int | None = None
) -> list[Any]:
    """All values from `position` to the end of a message's body, `elements` (else `limits.amf_elements`) at most.

    Raises RemoteProtocolError.
    """
    return Decoder(data, position, limits, limits.amf_elements if elements is None else elements).rest()
