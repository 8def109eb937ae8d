"""Values to AMF3 bytes."""

import struct
from typing import Any, Final

from ingest.rtmp.amf import UNDEFINED, Date, Reference, Singleton, Writer, XmlDocument, amf3, utf8
from ingest.rtmp.amf.amf3 import Array, Dictionary, Externalizable, Items, Object, Traits, Vector, Xml
from ingest.rtmp.errors import LocalProtocolError

_number: Final = struct.Struct(">Bd")
_f64: Final = struct.Struct(">d")


class Encoder(Writer):
    """The tables of strings, objects and traits are those of section 2.2.

    Strings, and traits, that are equal to earlier ones are written as references; other values if they are the same.
    """

    __slots__ = ("open", "strings", "traits")

    encoding = "AMF3"

    def __init__(self, out: bytearray) -> None:
        super().__init__(out)
        self.strings: dict[bytes, int] = {}
        self.traits: dict[Traits, int] = {}
        self.open: list[tuple[int, int]] = []
        """Markers and indices of those being written that hold others, outermost first."""

    def u29(self, number: int) -> None:
        """Section 1.3.1."""
        if number < 0x80:
            self.out.append(number)
        elif number < 0x4000:
            self.out += bytes((number >> 7 | 0x80, number & 0x7F))
        elif number < 0x200000:
            self.out += bytes((number >> 14 | 0x80, number >> 7 & 0x7F | 0x80, number & 0x7F))
        else:
            self.out += bytes(
                (number >> 22 | 0x80, number >> 15 & 0x7F | 0x80, number >> 8 & 0x7F | 0x80, number & 0xFF)
            )

    def size(self, number: int) -> None:
        """The header of a value that follows: its length or count, with the low bit that tells it from a reference."""
        if number > amf3.MAX_HEADER:
            raise LocalProtocolError("a value is too long for AMF3")
        self.u29(number << 1 | 1)

    def singleton(self, value: Singleton) -> None:
        if value is not UNDEFINED:
            raise LocalProtocolError(f"AMF3 has no encoding for {value!r}")
        self.out.append(amf3.UNDEFINED_MARKER)

    def null(self, value: None) -> None:
        self.out.append(amf3.NULL)

    def boolean(self, value: bool) -> None:
        self.out.append(amf3.TRUE if value else amf3.FALSE)

    def integer(self, value: int) -> None:
        if amf3.MIN_INTEGER <= value <= amf3.MAX_INTEGER:
            self.out.append(amf3.INTEGER)
            self.u29(value & amf3.MAX_U29)
        else:
            self.double(value)

    def double(self, value: float) -> None:
        self.pack(_number, "a number is too large for AMF3", amf3.DOUBLE, value)

    def string(self, value: str) -> None:
        self.out.append(amf3.STRING)
        self.name(value)

    def name(self, value: str) -> None:
        """A string without its marker (UTF-8-vr, section 1.3.2). The empty one is not in the table."""
        text = utf8(value)
        index = self.strings.get(text)
        if index is not None:
            self.u29(index << 1)
            return
        self.size(len(text))
        self.out += text
        if text:
            self.strings[text] = len(self.strings)

    def first(self, marker: int, value: Any) -> bool:
        """Writes the marker. False when the value was written before and a reference to it now is."""
        self.out.append(marker)
        index = self.indices.get(id(value))
        if index is not None:
            self.u29(index << 1)
            return False
        self.indices[id(value)] = self.count
        self.count += 1
        return True

    def enter(self, marker: int, value: Any) -> bool:
        """The same for a value that holds others, which ends with `open.pop`."""
        if not self.first(marker, value):
            return False
        self.open.append((marker, self.count - 1))
        return True

    def reference(self, value: Reference) -> None:
        if not 0 <= value.level < len(self.open):
            raise LocalProtocolError("an AMF3 reference to nothing")
        marker, index = self.open[value.level]
        self.out.append(marker)
        self.u29(index << 1)

    def xml(self, value: XmlDocument | Xml) -> None:
        if self.first(amf3.XML if isinstance(value, Xml) else amf3.XML_DOCUMENT, value):
            self.blob(utf8(value))

    def byte_array(self, value: bytes) -> None:
        if self.first(amf3.BYTE_ARRAY, value):
            self.blob(value)

    def blob(self, value: bytes) -> None:
        self.size(len(value))
        self.out += value

    def date(self, value: Date) -> None:
        if self.first(amf3.DATE, value):
            self.size(0)
            self.pack(_f64, "a date is out of the range of AMF3", value.milliseconds)

    def array(self, value: list[Any] | tuple[Any, ...]) -> None:
        """Section 3.11."""
        if self.enter(amf3.ARRAY, value):
            self.size(len(value))
            self.members(value.associative if isinstance(value, Array) else {})
            self.values(value)
            self.open.pop()

    def values(self, values: list[Any] | tuple[Any, ...]) -> None:
        for value in values:
            self.value(value)

    def members(self, members: dict[str, Any]) -> None:
        """Names and values to an empty name, which hence can't be that of a member."""
        for name, value in members.items():
            if not name:
                raise LocalProtocolError("AMF3 has no members without a name")
            self.name(name)
            self.value(value)
        self.name("")

    def plain_object(self, value: dict[str, Any]) -> None:
        if self.enter(amf3.OBJECT, value):
            self.header(amf3.ANONYMOUS)
            self.members(value)
            self.open.pop()

    def object(self, value: Object) -> None:
        """Section 3.12."""
        if not self.enter(amf3.OBJECT, value):
            return
        _, sealed, dynamic, _ = value.traits
        names = frozenset(sealed)
        others = {name: item for name, item in value.items() if name not in names}
        if len(value) - len(others) < len(names):
            raise LocalProtocolError("an AMF3 object lacks a sealed member")
        if others and not dynamic:
            raise LocalProtocolError("an AMF3 object that isn't dynamic has members that aren't sealed")
        self.header(value.traits)
        self.values([value[name] for name in sealed])
        if dynamic:
            self.members(others)
        self.open.pop()

    def header(self, traits: Traits) -> None:
        """Of an object whose traits are these, or are in the table already."""
        index = self.traits.get(traits)
        if index is not None:
            self.u29(index << 2 | 0b01)
            return
        self.traits[traits] = len(self.traits)
        if len(traits.sealed) > amf3.MAX_SEALED:
            raise LocalProtocolError("an AMF3 object has too many sealed members")
        self.u29(len(traits.sealed) << 4 | traits.dynamic << 3 | traits.externalizable << 2 | 0b11)
        self.name(traits.class_name)
        for name in traits.sealed:
            self.name(name)

    def externalizable(self, value: Externalizable) -> None:
        if value.class_name not in amf3.WRAPPERS:
            raise LocalProtocolError("an externalizable class that is not known")
        if self.enter(amf3.OBJECT, value):
            self.header(Traits(value.class_name, externalizable=True))
            self.value(value.value)
            self.open.pop()

    def vector(self, value: Vector) -> None:
        """Section 3.15."""
        if not self.enter(value.items, value):
            return
        self.size(len(value))
        self.out.append(value.fixed)
        if value.items is Items.OBJECT:
            self.name(value.type_name)
            self.values(value)
        else:
            form = struct.Struct(f">{len(value)}{amf3.NUMBERS[value.items][0]}")
            self.pack(form, "a vector has items that don't fit its type", *value)
        self.open.pop()

    def dictionary(self, value: Dictionary) -> None:
        """Section 3.16."""
        if self.enter(amf3.DICTIONARY, value):
            self.size(len(value))
            self.out.append(value.weak_keys)
            for pair in value:
                self.values(pair)
            self.open.pop()


Encoder.writers = {
    Singleton: Encoder.singleton,
    type(None): Encoder.null,
    bool: Encoder.boolean,
    int: Encoder.integer,
    float: Encoder.double,
    str: Encoder.string,
    XmlDocument: Encoder.xml,
    Date: Encoder.date,
    list: Encoder.array,
    tuple: Encoder.array,
    Array: Encoder.array,
    dict: Encoder.plain_object,
    Object: Encoder.object,
    Externalizable: Encoder.externalizable,
    Xml: Encoder.xml,
    bytes: Encoder.byte_array,
    Vector: Encoder.vector,
    Dictionary: Encoder.dictionary,
    Reference: Encoder.reference,
}
