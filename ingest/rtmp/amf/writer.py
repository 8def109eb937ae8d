"""Writing values as bytes."""

from collections.abc import Callable
from typing import Any, ClassVar

from ingest.rtmp.errors import LocalProtocolError


class Writer:
    """Writes the values of one message, whose tables of references live as long as it does."""

    __slots__ = ("indices", "out")

    encoding: ClassVar[str]
    """For the texts of errors."""
    writers: ClassVar[dict[type, Callable[[Any, Any], None]]]
    """By type, for its subclasses too."""

    def __init__(self, out: bytearray) -> None:
        self.out = out
        self.indices: dict[int, int] = {}
        """Places in the table of references, by the identity of the value."""

    def value(self, value: Any) -> None:
        """Appends the value, marker first. Raises LocalProtocolError."""
        writer = self.writers.get(type(value))
        if writer is None:
            writer = next((self.writers[base] for base in type(value).__mro__ if base in self.writers), None)
            if writer is None:
                raise LocalProtocolError(f"{self.encoding} has no encoding for {type(value).__name__}")
        writer(self, value)


def utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise LocalProtocolError("a text can't be written as UTF-8") from error
