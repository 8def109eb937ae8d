"""Reading values from bytes of a peer, within limits."""

import struct
from collections.abc import Callable
from typing import Any, ClassVar, Final

from ingest.rtmp.amf.types import Reference
from ingest.rtmp.errors import LimitExceeded, RemoteProtocolError
from ingest.rtmp.limits import Limits

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
    """For the texts of errors."""
    readers: ClassVar[dict[int, Callable[[Any, int], Any]]]
    """By marker: what reads that which follows it, at a depth."""
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
            raise RemoteProtocolError(self.refused.get(marker, f"unknown {self.encoding} marker {marker:#04x}"))
        return reader(self, depth)

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
