"""Values as bytes: AMF0 (`amf0`), in which AMF3 (`amf3`) may be embedded. Here is what both are made of: the types that
Python has no own for, and reading and writing within limits."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Final

from ingest.rtmp.errors import LimitExceeded, LocalProtocolError, RemoteProtocolError
from ingest.rtmp.limits import DEFAULT_LIMITS, Limits


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


class EcmaArray(dict[str, Any]):
    """An associative array (section 2.10): on the wire an object with a count before it, which is only a hint."""

    __slots__ = ()


class Labelled:
    """A dict or list that has attributes beside its items: equal are those of one class that agree in all of them."""

    __slots__ = ()
    labels: ClassVar[tuple[str, ...]]
    """Names of the attributes."""

    def __eq__(self, other: object) -> bool:
        return (
            type(self) is type(other)
            and all(getattr(self, name) == getattr(other, name) for name in self.labels)
            and super().__eq__(other)
        )

    def __repr__(self) -> str:
        labels = "".join(f", {name}={getattr(self, name)!r}" for name in self.labels)
        return f"{type(self).__name__}({super().__repr__()}{labels})"


class TypedObject(Labelled, dict[str, Any]):
    """An object of a registered class (section 2.18)."""

    __slots__ = ("class_name",)
    labels = ("class_name",)

    def __init__(self, class_name: str, properties: dict[str, Any] | None = None) -> None:
        super().__init__(properties or {})
        self.class_name = class_name


@dataclass(frozen=True, slots=True)
class Amf3:
    """A value to be written in AMF3 (section 3.1). What is read is the value itself."""

    value: Any


class Writer:
    """Writes the values of one message, whose tables of references live as long as it does."""

    __slots__ = ("count", "indices", "out")

    encoding: ClassVar[str]
    writers: ClassVar[dict[type, Callable[[Any, Any], None]]]
    """By type, for its subclasses too."""

    def __init__(self, out: bytearray) -> None:
        self.out = out
        self.indices: dict[int, int] = {}
        """Places in the table of references, by the identity of the value."""
        self.count = 0
        """Referable values written so far, which is the next one's index."""

    def value(self, value: Any) -> None:
        """Appends the value, marker first. Raises LocalProtocolError."""
        writer = self.writers.get(type(value))
        if writer is None:
            writer = next((self.writers[base] for base in type(value).__mro__ if base in self.writers), None)
            if writer is None:
                raise LocalProtocolError(f"{self.encoding} has no encoding for {type(value).__name__}")
        writer(self, value)

    def pack(self, form: struct.Struct, error: str, *values: Any) -> None:
        """Appends numbers. LocalProtocolError with these words, if they are out of range."""
        try:
            self.out += form.pack(*values)
        except (struct.error, OverflowError) as why:
            raise LocalProtocolError(error) from why

    @classmethod
    def encode(cls, *values: Any) -> bytes:
        """The values one after the other, as the body of one message: with tables that they share.

        Raises LocalProtocolError.
        """
        encoder = cls(bytearray())
        for value in values:
            encoder.value(value)
        return bytes(encoder.out)


def utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise LocalProtocolError("a text can't be written as UTF-8") from error


BYTES_PER_ELEMENT: Final = 64
"""What a reference stands for is counted by its bytes too, or a long text and many references to it would be cheap to
send and dear to whoever walks over them."""


class Reader:
    """Reads the values of one message, whose tables of references live as long as it does.

    `sizes` has an entry for each of `references`. It is what a reference to the value costs, in elements: one for each
    value in it, itself included, and one for each `BYTES_PER_ELEMENT`. While the value is being read, it is its level
    below the outermost one (see `Reference`), negated: 0 and less.
    """

    __slots__ = ("base", "data", "elements", "end", "limits", "position", "references", "sizes")

    encoding: ClassVar[str]
    readers: ClassVar[dict[int, Callable[[Any, int], Any]]]
    """By marker: what reads that which follows it, at a depth."""
    constants: ClassVar[dict[int, Any]]
    refused: ClassVar[dict[int, str]] = {}
    """Why, for markers that have no reader but a meaning."""

    def __init__(self, data: bytes, position: int, limits: Limits, elements: int) -> None:
        self.data = data
        self.position = position
        self.end = len(data)
        self.limits = limits
        self.elements = elements
        """How many more values may be read."""
        self.base = 0
        """The depth of the outermost value."""
        self.references: list[Any] = []
        self.sizes: list[int] = []

    def value(self, depth: int) -> Any:
        """The value at `position`, marker first, within `depth` others. Raises RemoteProtocolError."""
        position = self.position
        if position >= self.end:
            raise RemoteProtocolError(f"an {self.encoding} value is missing")
        self.elements -= 1
        if self.elements < 0:
            raise LimitExceeded(f"too many {self.encoding} values in a message")
        self.position = position + 1
        marker = self.data[position]
        reader = self.readers.get(marker)
        if reader is None:
            if marker in self.constants:
                return self.constants[marker]
            raise RemoteProtocolError(self.refused.get(marker, f"unknown {self.encoding} marker {marker:#04x}"))
        return reader(self, depth)

    @classmethod
    def decode(cls, data: bytes, position: int = 0, limits: Limits = DEFAULT_LIMITS) -> tuple[Any, int]:
        """The value at `position`, with tables of its own, and where the next one starts.

        Raises RemoteProtocolError.
        """
        decoder = cls(data, position, limits, limits.amf_elements)
        value = decoder.value(0)
        return value, decoder.position

    def take(self, form: struct.Struct) -> Any:
        """The first field of `form`."""
        position = self.position
        self.position = position + form.size
        if self.position > self.end:
            raise RemoteProtocolError(f"an {self.encoding} value is cut short")
        return form.unpack_from(self.data, position)[0]

    def raw(self, size: int) -> bytes:
        if size > self.limits.amf_string_bytes:
            raise LimitExceeded(f"an {self.encoding} string of more than {self.limits.amf_string_bytes} bytes")
        position = self.position
        self.position = position + size
        if self.position > self.end:
            raise RemoteProtocolError(f"an {self.encoding} string is cut short")
        return self.data[position : position + size]

    def text(self, size: int) -> str:
        # Some senders use other encodings than UTF-8; a replaced character is better than a lost connection.
        return self.raw(size).decode("utf-8", "replace")

    def spend(self, elements: int) -> None:
        self.elements -= elements
        if self.elements < 0:
            raise LimitExceeded(f"too many {self.encoding} values in a message")

    def reference(self, index: int) -> Any:
        """The value of the table, or a Reference while it is being read."""
        if index >= len(self.references):
            raise RemoteProtocolError(f"an {self.encoding} reference to nothing")
        size = self.sizes[index]
        if size <= 0:
            return Reference(-size)
        self.spend(size - 1)
        return self.references[index]

    def enter(self, target: Any, depth: int) -> tuple[int, int, int]:
        """Puts a value into the table before what is in it is read. The answer is for `leave`."""
        if depth >= self.limits.amf_depth:
            raise LimitExceeded(f"{self.encoding} values nested more than {self.limits.amf_depth} deep")
        self.references.append(target)
        self.sizes.append(self.base - depth)
        return len(self.sizes) - 1, self.elements, self.position

    def leave(self, entered: tuple[int, int, int]) -> None:
        index, elements, position = entered
        self.sizes[index] = 1 + elements - self.elements + (self.position - position) // BYTES_PER_ELEMENT
