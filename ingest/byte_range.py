"""The range of a file that a client asks for by HTTP (RFC 9110, section 14)."""

import re
from typing import Final

_range: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class NoSuchRange(Exception):  # noqa: N818 - an answer, not an error.
    """The file ends before it."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


def read_range(field: str, size: int) -> tuple[int, int] | None:
    """First byte and the one behind the last. None: all of it, as without the field, and where it is no single range of
    bytes: other units, several ranges, one that ends before it begins (section 14.2). Raises NoSuchRange."""
    found = _range.fullmatch(field.replace(" ", ""))
    start, last = found.groups() if found else ("", "")
    if not (start or last) or (start and last and int(last) < int(start)):
        return None
    first = int(start) if start else max(size - int(last), 0)
    if first >= size:
        raise NoSuchRange(size)
    return first, min(int(last) + 1, size) if start and last else size
