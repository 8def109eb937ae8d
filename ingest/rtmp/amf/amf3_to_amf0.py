"""Values of AMF3 as values of AMF0, for those who read no other.

| AMF3                                   | AMF0                                                                      |
|----------------------------------------|---------------------------------------------------------------------------|
| integer                                | number                                                                    |
| array, vector                          | strict array                                                              |
| array with an associative part         | ECMA array; items of the dense part are named '0', '1', ...               |
| object of a class; without one         | typed object; object                                                      |
| externalizable object, of a wrapper    | the value in it                                                           |
| dictionary                             | ECMA array, if all keys are texts or numbers and none is another's name   |
|                                        | else a strict array of strict arrays [key, value]                         |
| XML of both kinds                      | XML document                                                              |
| byte array                             | unsupported                                                               |
| reference to a value that encloses it  | the same; undefined where no such value is left                           |

All others are the same in both.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from ingest.rtmp.amf import UNDEFINED, UNSUPPORTED, EcmaArray, Reference, Singleton, TypedObject, XmlDocument, amf3

MAX_PLAIN_NUMBER: Final = 1e21
"""From here on ActionScript writes numbers with exponents, as Python does, not as up to 309 digits."""


class Amf3ToAmf0:
    """Converts the values of one message: what comes twice in them comes twice, and is the same, in the result too."""

    def __init__(self) -> None:
        self._done: dict[int, tuple[Any, Any]] = {}
        """Values that hold others, and what has become of them, by the identity of the former."""
        self._levels: list[int] = []
        """The levels of the enclosing values in the result, outermost first: a wrapper has that of what is in it."""

    def convert(self, value: Any, level: int = 0) -> Any:
        """`level`: how many values of AMF0 enclose it."""
        converter = _CONVERTERS.get(type(value))
        if converter is None:
            return value
        if isinstance(value, Reference | amf3.Xml | bytes | int):
            return converter(self, value, level)
        done = self._done.get(id(value))
        if done is not None:
            return done[1]
        self._levels.append(level)
        result = converter(self, value, level)
        self._levels.pop()
        self._done[id(value)] = value, result
        return result

    def _number(self, value: int, level: int) -> float:
        return float(value)

    def _xml(self, value: amf3.Xml, level: int) -> XmlDocument:
        return XmlDocument(value)

    def _bytes(self, value: bytes, level: int) -> Singleton:
        return UNSUPPORTED

    def _reference(self, value: Reference, level: int) -> Reference | Singleton:
        # A value that is left of one that a later property of its name replaced may refer to what is gone.
        found = self._levels[value.level] if value.level < len(self._levels) else level
        return Reference(found) if found < level else UNDEFINED

    def _items(self, value: Iterable[Any], level: int) -> list[Any]:
        return [self.convert(item, level + 1) for item in value]

    def _members(self, value: dict[str, Any], level: int) -> dict[str, Any]:
        return {name: self.convert(item, level + 1) for name, item in value.items()}

    def _array(self, value: amf3.Array, level: int) -> EcmaArray:
        dense = {str(index): item for index, item in enumerate(value)}
        return EcmaArray(self._members(value.associative | dense, level))

    def _object(self, value: amf3.Object, level: int) -> dict[str, Any]:
        members = self._members(value, level)
        return TypedObject(value.class_name, members) if value.class_name else members

    def _wrapper(self, value: amf3.Externalizable, level: int) -> Any:
        return self.convert(value.value, level)

    def _dictionary(self, value: amf3.Dictionary, level: int) -> EcmaArray | list[Any]:
        names = {_name(key) for key, _ in value}
        if None in names or len(names) < len(value):
            return [self._items(pair, level + 1) for pair in value]
        return EcmaArray(self._members({str(_name(key)): item for key, item in value}, level))


def _name(key: Any) -> str | None:
    """As ActionScript writes a key that is a text or a number."""
    if isinstance(key, float) and abs(key) < MAX_PLAIN_NUMBER and key.is_integer():
        return str(int(key))
    return str(key) if isinstance(key, str | float | int) and not isinstance(key, bool) else None


_CONVERTERS: dict[type, Callable[[Amf3ToAmf0, Any, int], Any]] = {
    int: Amf3ToAmf0._number,
    amf3.Xml: Amf3ToAmf0._xml,
    bytes: Amf3ToAmf0._bytes,
    Reference: Amf3ToAmf0._reference,
    list: Amf3ToAmf0._items,
    amf3.Vector: Amf3ToAmf0._items,
    dict: Amf3ToAmf0._members,
    amf3.Array: Amf3ToAmf0._array,
    amf3.Object: Amf3ToAmf0._object,
    amf3.Externalizable: Amf3ToAmf0._wrapper,
    amf3.Dictionary: Amf3ToAmf0._dictionary,
}
