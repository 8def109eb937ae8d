"""AMF3, the encoding that ActionScript 3 brought (Action Message Format 3, January 2013).

How the types map to Python; *ref* says which table they can come from again:

| marker                     | Python                                                         | ref     |
|----------------------------|----------------------------------------------------------------|---------|
| 00 undefined               | UNDEFINED                                                      |         |
| 01 null                    | None                                                           |         |
| 02 false, 03 true          | bool                                                           |         |
| 04 integer, of 29 bits     | int; the encoder writes others as doubles                      |         |
| 05 double                  | float                                                          |         |
| 06 string                  | str                                                            | strings |
| 07 XML document            | XmlDocument                                                    | objects |
| 08 date                    | Date, without zone                                             | objects |
| 09 array                   | list (tuple is taken for encoding)                             | objects |
|    with associative part   | Array: a list, with `associative`                              | objects |
| 0A object, anonymous       | dict                                                           | objects |
|    of a class, or sealed   | Object: a dict, with `traits`                                  | objects |
|    externalizable          | Externalizable, of `WRAPPERS`; others are refused              | objects |
| 0B XML                     | Xml                                                            | objects |
| 0C byte array              | bytes                                                          | objects |
| 0D, 0E, 0F, 10 vector      | Vector: a list, with `items`, `fixed`, `type_name`             | objects |
| 11 dictionary              | Dictionary: a list of pairs, with `weak_keys`                  | objects |

Traits, too, come again as references to a table of their own, within objects.

A reference is decoded as the value that it stands for, and as `Reference` within that value: what is decoded is always
a finite tree. What references stand for is counted against the limit of elements, strings by their length.

An externalizable object has no length on the wire, so that of an unknown class can't even be skipped.

All values of one message share their tables (section 4.1), those in AMF0 (marker 11) too: so read BlazeDS, Red5 and
PyAMF. `Decoder` and `Encoder` (`amf3_decoder`, `amf3_encoder`) have the tables as long as they live.

Here are its markers (section 3.1), and the types that neither Python nor AMF0 has: dict or list where that is what they
are for a reader who doesn't care for the rest.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, NamedTuple, Self

from ingest.rtmp.amf import Labelled

UNDEFINED_MARKER: Final = 0x00
NULL: Final = 0x01
FALSE: Final = 0x02
TRUE: Final = 0x03
INTEGER: Final = 0x04
DOUBLE: Final = 0x05
STRING: Final = 0x06
XML_DOCUMENT: Final = 0x07
DATE: Final = 0x08
ARRAY: Final = 0x09
OBJECT: Final = 0x0A
XML: Final = 0x0B
BYTE_ARRAY: Final = 0x0C
DICTIONARY: Final = 0x11

MAX_U29: Final = 2**29 - 1
"""Of the integers that lead lengths, counts and references (section 1.3.1)."""
MAX_HEADER: Final = MAX_U29 >> 1
"""Of lengths, counts and references themselves: one bit tells a reference from a value."""
MAX_SEALED: Final = MAX_U29 >> 4
"""Of sealed members of a class (section 3.12)."""
MIN_INTEGER: Final = -(2**28)
MAX_INTEGER: Final = 2**28 - 1
"""Integers outside are written as doubles (section 3.6)."""


class Traits(NamedTuple):
    """What is known of an object before its values (section 3.12)."""

    class_name: str
    """'' for an anonymous object."""
    sealed: tuple[str, ...] = ()
    """Names of the members that the class declares, in the order of their values."""
    dynamic: bool = False
    externalizable: bool = False
    """Whether the class alone knows what follows."""


ANONYMOUS: Final = Traits("", dynamic=True)


class Object(Labelled, dict[str, Any]):
    """An object of a class, or with sealed members: those first, then the dynamic ones (section 3.12)."""

    __slots__ = ("traits",)
    labels = ("traits",)

    def __init__(
        self,
        class_name: str,
        members: Mapping[str, Any] | None = None,
        *,
        sealed: Iterable[str] = (),
        dynamic: bool = False,
    ) -> None:
        super().__init__(members or {})
        self.traits = Traits(class_name, tuple(sealed), dynamic)

    @classmethod
    def of(cls, traits: Traits) -> Self:
        empty = cls.__new__(cls)
        empty.traits = traits
        return empty

    @property
    def class_name(self) -> str:
        return self.traits.class_name


@dataclass(slots=True)
class Externalizable:
    """An object that its class wrote (section 3.12). Only those of `WRAPPERS` can be read or written."""

    class_name: str
    value: Any = None


WRAPPERS: Final = frozenset(
    {
        "flex.messaging.io.ArrayCollection",
        "flex.messaging.io.ArrayList",
        "flex.messaging.io.ObjectProxy",
    }
)
"""The externalizable classes whose content is known: one value."""


class Array(Labelled, list[Any]):
    """An array with an associative part beside the dense one (section 3.11). Without it, it is a plain list."""

    labels = ("associative",)

    def __init__(self, dense: Iterable[Any] = (), associative: Mapping[str, Any] | None = None) -> None:
        super().__init__(dense)
        self.associative: dict[str, Any] = dict(associative or {})


class Xml(str):
    """The text of a value of the class XML (section 3.13); XmlDocument is the older class."""

    __slots__ = ()


class Items(IntEnum):
    """What a vector holds (section 3.15), by its marker."""

    INT = 0x0D
    """-2^31 to 2^31 - 1."""
    UINT = 0x0E
    """0 to 2^32 - 1."""
    DOUBLE = 0x0F
    OBJECT = 0x10
    """Values of any type."""


NUMBERS: Final = {Items.INT: ("i", 4), Items.UINT: ("I", 4), Items.DOUBLE: ("d", 8)}
"""How numbers in vectors are packed, and their bytes."""


class Vector(Labelled, list[Any]):
    """An array of items of one type (section 3.15)."""

    labels = ("items", "fixed", "type_name")

    def __init__(self, items: Items, values: Iterable[Any] = (), *, fixed: bool = False, type_name: str = "") -> None:
        super().__init__(values)
        self.items = items
        self.fixed = fixed
        self.type_name = type_name
        """Of `Items.OBJECT` only: a class, or '*' for any."""


class Dictionary(Labelled, list[tuple[Any, Any]]):
    """Pairs of key and value (section 3.16), both of any type: objects as keys are told apart by identity."""

    labels = ("weak_keys",)

    def __init__(self, pairs: Iterable[tuple[Any, Any]] = (), *, weak_keys: bool = False) -> None:
        super().__init__(pairs)
        self.weak_keys = weak_keys
