"""What the comparisons with Py3AMF share."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pyamf

EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)
"""As Py3AMF has dates: without a zone."""


class Point:
    """A class with sealed members."""

    class __amf__:  # noqa: N801 - the name that Py3AMF looks for.
        static = ("x", "y")
        dynamic = False

    def __init__(self, x: Any = None, y: Any = None) -> None:
        self.x = x
        self.y = y


@contextmanager
def known_as(name: str) -> Iterator[None]:
    """Py3AMF knows Point by that name."""
    pyamf.register_class(Point, name)
    yield
    pyamf.unregister_class(Point)
