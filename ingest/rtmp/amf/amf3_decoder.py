"""AMF3 bytes to values. Whatever the bytes, nothing but RemoteProtocolError is raised."""

import struct
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

from ingest.rtmp.amf import BYTES_PER_ELEMENT, UNDEFINED, Date, Reader, XmlDocument, amf3
from ingest.rtmp.amf.amf3 import Array, Dictionary, Externalizable, Items, Object, Traits, Vector, Xml
from ingest.rtmp.errors import RemoteProtocolError
from ingest.rtmp.limits import Limits

_f64: Final = struct.Struct(">d")
_u8: Final = struct.Struct(">B")

_Flat = TypeVar("_Flat")


def _or_reference(read: Callable[["Decoder", int, int], Any]) -> Callable[["Decoder", int], Any]:
    """A reader of a type that comes either itself (low bit 1) or as a reference (0), the other bits being its header.

    A reference is taken for what it refers to: that its marker is of the same type is not asked.
    """

    @wraps(read)
    def reader(decoder: "Decoder", depth: int) -> Any:
        header = decoder.u29()
        return read(decoder, header >> 1, depth) if header & 1 else decoder.reference(header >> 1)

    return reader


class Decoder(Reader):
    """The tables of strings, objects and traits are those of section 2.2."""

    __slots__ = ("strings", "traits")

    encoding = "AMF3"
    constants = {amf3.UNDEFINED_MARKER: UNDEFINED, amf3.NULL: None, amf3.FALSE: False, amf3.TRUE: True}

    def __init__(self, data: bytes, position: int, limits: Limits, elements: int) -> None:
        super().__init__(data, position, limits, elements)
        self.strings: list[tuple[str, int]] = []
        """And what a reference to each costs, in elements, by its bytes."""
        self.traits: list[tuple[Traits, int]] = []
        """The same, by the bytes of all names."""

    def u29(self) -> int:
        """Section 1.3.1: seven bits in each byte, eight in a fourth. Longer forms than needed are taken."""
        data, position = self.data, self.position
        try:
            byte = data[position]
            if byte < 0x80:
                self.position = position + 1
                return byte
            number = byte & 0x7F
            for place in (position + 1, position + 2):
                byte = data[place]
                if byte < 0x80:
                    self.position = place + 1
                    return number << 7 | byte
                number = number << 7 | byte & 0x7F
            self.position = position + 4
            return number << 8 | data[position + 3]
        except IndexError:
            raise RemoteProtocolError("an AMF3 integer is cut short") from None

    def integer(self, depth: int) -> int:
        number = self.u29()
        return number if number <= amf3.MAX_INTEGER else number - amf3.MAX_U29 - 1

    def double(self, depth: int) -> float:
        number: float = self.take(_f64)
        return number

    def string(self, depth: int) -> str:
        return self.name()

    def name(self) -> str:
        """A string without its marker (UTF-8-vr, section 1.3.2). The empty one is not in the table."""
        header = self.u29()
        if header & 1:
            size = header >> 1
            text = self.text(size)
            if size:
                self.strings.append((text, size // BYTES_PER_ELEMENT))
            return text
        try:
            text, cost = self.strings[header >> 1]
        except IndexError:
            raise RemoteProtocolError("an AMF3 reference to no string") from None
        if cost:
            self.spend(cost)
        return text

    def keep(self, value: _Flat, size: int = 0) -> _Flat:
        """Puts a value that holds no other referable ones, and is worth `size` bytes, into the table."""
        self.references.append(value)
        self.sizes.append(1 + size // BYTES_PER_ELEMENT)
        return value

    @_or_reference
    def xml_document(self, size: int, depth: int) -> XmlDocument:
        return self.keep(XmlDocument(self.text(size)), size)

    @_or_reference
    def xml(self, size: int, depth: int) -> Xml:
        return self.keep(Xml(self.text(size)), size)

    @_or_reference
    def byte_array(self, size: int, depth: int) -> bytes:
        return self.keep(self.raw(size), size)

    @_or_reference
    def date(self, header: int, depth: int) -> Date:
        return self.keep(Date(self.take(_f64)))

    @_or_reference
    def array(self, count: int, depth: int) -> list[Any]:
        """Section 3.11: the count of the dense part, names and values to an empty name, the dense part."""
        self.room(count, 1)
        name = self.name()
        target: list[Any] = Array() if name else []
        entered = self.enter(target, depth)
        if isinstance(target, Array):
            self.members(target.associative, name, depth)
        target.extend([self.value(depth + 1) for _ in range(count)])
        self.leave(entered)
        return target

    def members(self, target: dict[str, Any], name: str, depth: int) -> None:
        """Values from that of `name` on, with a name before each further one, to an empty name."""
        while name:
            target[name] = self.value(depth + 1)
            name = self.name()

    @_or_reference
    def object(self, header: int, depth: int) -> dict[str, Any] | Externalizable:
        """Section 3.12. The header's low bit tells traits that follow from a reference to some."""
        traits = self.new_traits(header >> 1) if header & 1 else self.known_traits(header >> 1)
        if traits.externalizable:
            return self.externalizable(traits.class_name, depth)
        target: dict[str, Any] = {} if traits is amf3.ANONYMOUS else Object.of(traits)
        entered = self.enter(target, depth)
        for name in traits.sealed:
            target[name] = self.value(depth + 1)
        if traits.dynamic:
            self.members(target, self.name(), depth)
        self.leave(entered)
        return target

    def new_traits(self, header: int) -> Traits:
        """The bits, from low to high: externalizable, dynamic, how many sealed members' names follow the class's."""
        class_name = self.name()
        if header & 1:
            traits = Traits(class_name, externalizable=True)
        else:
            count = header >> 2
            self.room(count, 1)
            self.spend(count)
            traits = Traits(class_name, tuple([self.name() for _ in range(count)]), bool(header & 2))
            if traits == amf3.ANONYMOUS:
                traits = amf3.ANONYMOUS
        self.traits.append((traits, len("".join((class_name, *traits.sealed)).encode()) // BYTES_PER_ELEMENT))
        return traits

    def known_traits(self, index: int) -> Traits:
        """Each object that refers to them has the names of all sealed members again."""
        try:
            traits, cost = self.traits[index]
        except IndexError:
            raise RemoteProtocolError("an AMF3 reference to no traits") from None
        self.spend(cost)
        return traits

    def externalizable(self, class_name: str, depth: int) -> Externalizable:
        if class_name not in amf3.WRAPPERS:
            raise RemoteProtocolError("an AMF3 object of an unknown externalizable class, whose end can't be known")
        target = Externalizable(class_name)
        entered = self.enter(target, depth)
        target.value = self.value(depth + 1)
        self.leave(entered)
        return target

    def numbers(self, items: Items, count: int) -> Vector:
        """Section 3.15: whether the length is fixed, the numbers."""
        code, size = amf3.NUMBERS[items]
        fixed = self.take(_u8) != 0
        self.room(count, size)
        self.spend(count)
        target = Vector(items, struct.unpack_from(f">{count}{code}", self.data, self.position), fixed=fixed)
        self.position += count * size
        return self.keep(target, count * BYTES_PER_ELEMENT)

    @_or_reference
    def vector_object(self, count: int, depth: int) -> Vector:
        """Section 3.15: whether the length is fixed, the type's name, the values."""
        fixed = self.take(_u8) != 0
        target = Vector(Items.OBJECT, fixed=fixed, type_name=self.name())
        self.room(count, 1)
        entered = self.enter(target, depth)
        target.extend([self.value(depth + 1) for _ in range(count)])
        self.leave(entered)
        return target

    @_or_reference
    def dictionary(self, count: int, depth: int) -> Dictionary:
        """Section 3.16: whether keys are weak, the pairs."""
        target = Dictionary(weak_keys=self.take(_u8) != 0)
        self.room(count, 2)
        entered = self.enter(target, depth)
        target.extend([(self.value(depth + 1), self.value(depth + 1)) for _ in range(count)])
        self.leave(entered)
        return target

    def room(self, count: int, size: int) -> None:
        """Before anything is made for `count` items of at least `size` bytes each: whether they can follow."""
        if count * size > self.end - self.position:
            raise RemoteProtocolError("an AMF3 value is cut short")


def _numbers(items: Items) -> Callable[[Decoder, int], Any]:
    return _or_reference(lambda decoder, count, depth: decoder.numbers(items, count))


Decoder.readers = {
    amf3.INTEGER: Decoder.integer,
    amf3.DOUBLE: Decoder.double,
    amf3.STRING: Decoder.string,
    amf3.XML_DOCUMENT: Decoder.xml_document,
    amf3.DATE: Decoder.date,
    amf3.ARRAY: Decoder.array,
    amf3.OBJECT: Decoder.object,
    amf3.XML: Decoder.xml,
    amf3.BYTE_ARRAY: Decoder.byte_array,
    **{items: _numbers(items) for items in amf3.NUMBERS},
    Items.OBJECT: Decoder.vector_object,
    amf3.DICTIONARY: Decoder.dictionary,
}
