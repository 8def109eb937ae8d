"""AMF0 bytes to values. Whatever the bytes, nothing but RemoteProtocolError is raised."""

import struct
from collections.abc import Callable
from typing import Any, Final, TypeVar

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
    UNDEFINED,
    UNDEFINED_MARKER,
    UNSUPPORTED,
    UNSUPPORTED_MARKER,
    XML_DOCUMENT,
    Date,
    EcmaArray,
    Reference,
    Singleton,
    TypedObject,
    XmlDocument,
)
from ingest.rtmp.errors import LimitExceeded, RemoteProtocolError
from ingest.rtmp.limits import DEFAULT_LIMITS, Limits

_f64: Final = struct.Struct(">d")
_u16: Final = struct.Struct(">H")
_u32: Final = struct.Struct(">I")
_date: Final = struct.Struct(">dh")

REFUSED: Final = {
    0x04: "an AMF0 movie clip is reserved and has no encoding",
    OBJECT_END: "an AMF0 object end outside of an object",
    0x0E: "an AMF0 record set is reserved and has no encoding",
    AMF3: "an AMF3 value within AMF0 is not supported",
}


_Dict = TypeVar("_Dict", bound=dict[str, Any])


class _Decoder:
    """Reads the values of one message: the table of references lives as long as it does (section 4.1.3)."""

    __slots__ = ("data", "elements", "end", "limits", "position", "references", "sizes")

    def __init__(self, data: bytes, position: int, limits: Limits, elements: int) -> None:
        self.data = data
        self.position = position
        self.end = len(data)
        self.limits = limits
        self.elements = elements
        self.references: list[Any] = []
        self.sizes: list[int] = []
        """How many values each referable value holds, itself included; 0 while it is being read."""

    def value(self, depth: int) -> Any:
        position = self.position
        if position >= self.end:
            raise RemoteProtocolError("an AMF0 value is missing")
        self.elements -= 1
        if self.elements < 0:
            raise LimitExceeded("too many AMF0 values in a message")
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
            raise LimitExceeded("AMF0 references stand for too many values")
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
    decoder = _Decoder(data, position, limits, limits.amf_elements)
    value = decoder.value(0)
    return value, decoder.position


def decode_all(
    data: bytes, position: int = 0, limits: Limits = DEFAULT_LIMITS, *, elements: int | None = None
) -> list[Any]:
    """All values from `position` to the end of a message's body, `elements` (else `limits.amf_elements`) at most.

    Raises RemoteProtocolError.
    """
    decoder = _Decoder(data, position, limits, limits.amf_elements if elements is None else elements)
    values = []
    while decoder.position < decoder.end:
        values.append(decoder.value(0))
    return values
