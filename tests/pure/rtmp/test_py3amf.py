"""Agreement with Py3AMF in both encodings, both ways, for what it supports.

Its faults (0.9), and what is left out for them:

- Dates are written with the error of seconds in a float: whole seconds here.
- A TypedObject, which it makes of a class that isn't registered, is written without its class: read only.
- AMF0: Unsupported is read as null, and can't be written.
- AMF0: A date's zone is overlooked and written as 0.
- AMF0: Dates and XML documents are given a place in the table of references when they are read, not when they are
  written, so that its reader and its own writer disagree: none comes before a reference here.
- AMF0: Names in an ECMA array that Python takes for integers become integers, "01" and "1" the same one.
- AMF0: The count of an ECMA array is written as its highest index, that of an array without one as 0.
- AMF0: A name longer than 65535 bytes is written with four bytes of length, which its reader takes for two.
- AMF0: Texts that aren't UTF-8 are refused.
- AMF3: Vectors are unknown to it.
- AMF3: A dictionary can't be written. It is read as a tuple, keys have to be hashable, and it gets no place in the
  table of objects, so that later references are off: read here alone.
- AMF3: The text of a written XML gets a place in the table of strings, which it has for no reader, its own neither:
  written here alone.
- AMF3: A byte array that zlib can inflate is inflated: none here is.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from xml.etree import ElementTree

import pyamf
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyamf import flex
from pyamf.amf3 import ByteArray

from ingest.rtmp.amf import (
    UNDEFINED,
    UNSUPPORTED,
    Amf3,
    Date,
    EcmaArray,
    Reference,
    Singleton,
    TypedObject,
    XmlDocument,
    amf0,
)
from ingest.rtmp.amf.amf3 import Array, Dictionary, Externalizable, Object, Xml
from tests.pure.rtmp.amf0.test_amf0 import BOTH_WAYS
from tests.pure.rtmp.amf3.test_amf3 import amf3, integers, names, numbers, texts
from tests.pure.rtmp.wire import ids
from tests.rtmp_client import decode_all

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Of defusedxml and utcfromtimestamp, in it.

EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)
"""As Py3AMF has dates: without a zone."""
COLLECTION = "flex.messaging.io.ArrayCollection"
PROXY = "flex.messaging.io.ObjectProxy"


class Point:
    """A class with sealed members."""

    class __amf__:  # noqa: N801 - the name that Py3AMF looks for.
        static = ("x", "y")
        dynamic = False

    def __init__(self, x: Any = None, y: Any = None) -> None:
        self.x = x
        self.y = y


@pytest.fixture(scope="module", autouse=True)
def point() -> Iterator[None]:
    """It knows the class."""
    pyamf.register_class(Point, "Point")
    yield
    pyamf.unregister_class(Point)


def theirs_decode(data: bytes, encoding: int) -> list[Any]:
    return list(pyamf.decode(data, encoding=encoding))


def theirs_encode(*values: Any, encoding: int, switches: bool = False) -> bytes:
    encoder = pyamf.get_encoder(encoding)
    encoder.use_amf3 = switches  # Of AMF0, for each value. Its constructor refuses the option that it has for it.
    for value in values:
        encoder.writeElement(value)
    written: bytes = encoder.stream.getvalue()
    return written


def to_theirs(value: Any) -> Any:
    match value:
        case Singleton.UNDEFINED:
            return pyamf.Undefined
        case Date():
            return EPOCH + timedelta(milliseconds=value.milliseconds)
        case bytes():
            return ByteArray(value)
        case Externalizable(class_name=str() as name, value=inner):
            return {COLLECTION: flex.ArrayCollection, PROXY: flex.ObjectProxy}[name](to_theirs(inner))
        case TypedObject() | Object():
            return Point(**{name: to_theirs(item) for name, item in value.items()})
        case EcmaArray():
            return pyamf.MixedArray({name: to_theirs(item) for name, item in value.items()})
        case dict():
            return pyamf.ASObject({name: to_theirs(item) for name, item in value.items()})
        case Array():
            parts = value.associative | dict(enumerate(value))
            return pyamf.MixedArray({name: to_theirs(item) for name, item in parts.items()})
        case list():
            return [to_theirs(item) for item in value]
    return value


def to_ours(value: Any, encoding: int) -> Any:
    def ours(value: Any) -> Any:
        match value:
            case datetime():
                return Date((value - EPOCH) / timedelta(milliseconds=1))
            case ByteArray():
                return value.getvalue()
            case flex.ArrayCollection():
                return Externalizable(COLLECTION, list(map(ours, value)))
            case flex.ObjectProxy():
                return Externalizable(PROXY, ours(value._amf_object))
            case Point():
                members = {"x": ours(value.x), "y": ours(value.y)}
                return (
                    TypedObject("Point", members) if encoding == pyamf.AMF0 else Object("Point", members, sealed="xy")
                )
            case pyamf.MixedArray() if encoding == pyamf.AMF0:
                return EcmaArray({str(name): ours(item) for name, item in value.items()})
            case pyamf.MixedArray():
                found = {name: ours(item) for name, item in value.items()}
                associative = {name: item for name, item in found.items() if isinstance(name, str)}
                return Array([item for name, item in found.items() if isinstance(name, int)], associative)
            case dict():
                return {name: ours(item) for name, item in value.items()}
            case list():
                return list(map(ours, value))
        return UNDEFINED if value is pyamf.Undefined else value

    return ours(value)


def is_integer(name: str) -> bool:
    try:
        int(name)
    except ValueError:
        return False
    return True


def plain_branches(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(texts, inner, max_size=4),
        st.dictionaries(texts.filter(lambda name: not is_integer(name)), inner, max_size=4).map(EcmaArray),
        st.builds(TypedObject, st.just("Point"), st.fixed_dictionaries({"x": inner, "y": inner})),
    )


def branches(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, max_size=4)
    members = st.dictionaries(names, inner, max_size=4)
    return st.one_of(
        lists,
        members,
        st.builds(Array, lists, members.filter(bool)),
        st.builds(Object, st.just("Point"), st.fixed_dictionaries({"x": inner, "y": inner}), sealed=st.just("xy")),
        lists.map(lambda items: Externalizable(COLLECTION, items)),
        members.map(lambda items: Externalizable(PROXY, items)),
    )


dates = st.integers(0, 4_000_000_000).map(lambda seconds: Date(seconds * 1000.0))
leaves: st.SearchStrategy[Any] = st.one_of(st.sampled_from([UNDEFINED, None, True, False]), numbers, texts, dates)
blobs = st.binary(max_size=8).filter(lambda data: not data.startswith(b"\x78\x9c"))
plain_values: st.SearchStrategy[Any] = st.recursive(leaves, plain_branches, max_leaves=12)
values: st.SearchStrategy[Any] = st.recursive(leaves | integers | blobs, branches, max_leaves=12)


ALIKE = (float, bool, str, type(None), Singleton, dict, list)
SIMPLE = [
    vector
    for vector in BOTH_WAYS
    if type(vector[1]) in ALIKE and "self" not in repr(vector[1]) and vector[1] is not UNSUPPORTED
]


class TestAmf0:
    """A message of some values."""

    def read(self, data: bytes) -> list[Any]:
        return theirs_decode(data, pyamf.AMF0)

    def write(self, *values: Any) -> bytes:
        return theirs_encode(*values, encoding=pyamf.AMF0)

    def ours(self, value: Any) -> Any:
        return to_ours(value, pyamf.AMF0)

    @given(st.lists(plain_values, max_size=3))
    def test_py3amf_and_our_codec_read_what_the_other_writes(self, message: list[Any]) -> None:
        assert self.ours(self.read(amf0.encode(*message))) == message
        assert decode_all(self.write(*map(to_theirs, message))) == message

    @pytest.mark.parametrize("vector", SIMPLE, ids=ids(SIMPLE))
    def test_py3amf_reads_and_writes_our_vectors(self, vector: tuple[str, Any, bytes]) -> None:
        _, value, data = vector
        assert self.ours(self.read(data)[0]) == value
        assert self.write(to_theirs(value)) == data

    def test_shared_values_stay_shared_in_both_directions(self) -> None:
        shared: dict[str, Any] = {"a": [1.0]}
        message = [shared, [shared, EcmaArray({"x": shared})], shared["a"], "end"]
        first, (second, array), inner, _ = self.read(amf0.encode(*message))
        assert first is second
        assert first is array["x"]
        assert first["a"] is inner
        ours = decode_all(self.write(first, [second, array], inner, "end"))
        assert ours == message
        assert ours[0] is ours[1][0]

    def test_numbered_items_of_an_ecma_array(self) -> None:
        value = EcmaArray({"0": True, "7": "x", "name": None})
        assert self.read(amf0.encode(value))[0] == {0: True, 7: "x", "name": None}
        assert amf0.decode(self.write(pyamf.MixedArray({0: True, 7: "x", "name": None})))[0] == value

    def test_long_texts(self) -> None:
        text = "é" * 40_000
        assert self.read(amf0.encode(text)) == [text]
        assert decode_all(self.write(text)) == [text]

    def test_py3amf_reads_an_object_of_an_unregistered_class(self) -> None:
        read = self.read(amf0.encode(TypedObject("pkg.Unknown", {"x": 1.0})))[0]
        assert (type(read), read.alias, dict(read)) == (pyamf.TypedObject, "pkg.Unknown", {"x": 1})

    def test_xml(self) -> None:
        read = self.read(amf0.encode(XmlDocument("<a>b</a>"), "c"))
        assert (ElementTree.tostring(read[0], "unicode"), read[1]) == ("<a>b</a>", "c")
        assert decode_all(self.write(read[0])) == [XmlDocument("<a>b</a>")]

    @pytest.mark.parametrize("zone", [0, -120])
    def test_dates(self, zone: int) -> None:
        assert self.ours(self.read(amf0.encode(Date(1000.0, zone)))) == [Date(1000.0)]

    def test_unsupported_is_read_as_null_by_py3amf(self) -> None:
        assert self.read(amf0.encode(UNSUPPORTED)) == [None]


@pytest.mark.parametrize(("encoding", "codec"), [(pyamf.AMF0, amf0), (pyamf.AMF3, amf3)], ids=["AMF0", "AMF3"])
def test_self_containing_value_is_exchanged_with_py3amf(encoding: int, codec: Any) -> None:
    loop = pyamf.ASObject()
    loop["self"] = [loop]
    assert codec.decode(theirs_encode(loop, encoding=encoding))[0] == {"self": [Reference(0)]}
    read = theirs_decode(codec.encode({"self": [Reference(0)]}), encoding)[0]
    assert read["self"][0] is read


class TestAmf3:
    """One value."""

    def read(self, data: bytes) -> Any:
        return theirs_decode(data, pyamf.AMF3)[0]

    def write(self, value: Any) -> bytes:
        return theirs_encode(value, encoding=pyamf.AMF3)

    @given(values)
    def test_py3amf_and_our_codec_read_what_the_other_writes(self, value: Any) -> None:
        assert to_ours(self.read(amf3.encode(value)), pyamf.AMF3) == value
        assert amf3.decode(self.write(to_theirs(value)))[0] == value

    def test_shared_values_stay_shared_in_both_directions(self) -> None:
        shared, when = {"a": 1}, Date(1000.0)
        first, second, *dates = self.read(amf3.encode([shared, shared, when, when]))
        assert first is second
        assert dates[0] is dates[1]
        first, second, *_ = amf3.decode(self.write([first, second]))[0]
        assert first is second

    @pytest.mark.parametrize("dynamic", [False, True])
    def test_py3amf_reads_an_object_of_an_unregistered_class(self, dynamic: bool) -> None:
        value = Object("pkg.Unknown", {"x": 1, "y": "x"}, sealed="xy" if not dynamic else "x", dynamic=dynamic)
        read = self.read(amf3.encode([value, value]))[1]
        assert (type(read), read.alias, dict(read)) == (pyamf.TypedObject, "pkg.Unknown", {"x": 1, "y": "x"})

    @pytest.mark.parametrize("kind", [Xml, XmlDocument])
    def test_xml(self, kind: Any) -> None:
        read = self.read(amf3.encode([kind("<a>b</a>"), "c", "c"]))
        assert ElementTree.tostring(read[0], "unicode") == "<a>b</a>"
        assert read[1:] == ["c", "c"]
        assert amf3.decode(self.write(read[0]))[0] == Xml("<a>b</a>")

    @pytest.mark.parametrize("weak_keys", [False, True])
    def test_py3amf_reads_a_dictionary(self, weak_keys: bool) -> None:
        data = amf3.encode(Dictionary([("a", [1]), (0.5, "a")], weak_keys=weak_keys))
        assert self.read(data) == ({"a": [1], 0.5: "a"}, weak_keys)


@given(st.lists(values, max_size=3))
def test_messages_that_switch_to_amf3_are_exchanged_with_py3amf(message: list[Any]) -> None:
    """Several values in one message share their tables."""
    read = theirs_decode(amf0.encode("call", *map(Amf3, message), True), pyamf.AMF0)
    assert [to_ours(value, pyamf.AMF3) for value in read] == ["call", *message, True]
    written = theirs_encode(*map(to_theirs, message), encoding=pyamf.AMF0, switches=True)
    assert decode_all(written) == message
