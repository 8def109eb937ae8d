"""Agreement with Py3AMF, both ways, for what it supports.

Its faults (0.9), and what is left out for them:

- Vectors are unknown to it.
- A dictionary can't be written. It is read as a tuple, keys have to be hashable, and it gets no place in the table of
  objects, so that later references are off: read here alone.
- The text of a written XML gets a place in the table of strings, which it has for no reader, its own neither: written
  here alone.
- A byte array that zlib can inflate is inflated: none here is.
- A TypedObject, which it makes of a class that isn't registered, is written without its class: read only.
- A date's milliseconds are written with the error of seconds in a float: whole seconds here.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from xml.etree import ElementTree

import pyamf
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyamf import flex
from pyamf.amf3 import ByteArray

from ingest.rtmp.amf import amf0, amf3
from ingest.rtmp.amf.amf3 import UNDEFINED, Array, Date, Dictionary, Externalizable, Object, Reference, Xml, XmlDocument
from tests.ingest.rtmp.amf3.strategies import integers, names, numbers, texts
from tests.ingest.rtmp.theirs import EPOCH, Point, known_as

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Of defusedxml and utcfromtimestamp, in it.

COLLECTION = "flex.messaging.io.ArrayCollection"
PROXY = "flex.messaging.io.ObjectProxy"


@pytest.fixture(scope="module", autouse=True)
def point() -> Iterator[None]:
    with known_as("Point"):
        yield


def theirs_decode(data: bytes, encoding: int = pyamf.AMF3) -> list[Any]:
    return list(pyamf.decode(data, encoding=encoding))


def theirs_encode(*values: Any, encoding: int = pyamf.AMF3) -> bytes:
    encoder = pyamf.get_encoder(encoding)
    encoder.use_amf3 = True  # Of AMF0: switch for each value. Its constructor refuses the option that it has for it.
    for value in values:
        encoder.writeElement(value)
    written: bytes = encoder.stream.getvalue()
    return written


def to_theirs(value: Any) -> Any:
    match value:
        case amf3.UNDEFINED:
            return pyamf.Undefined
        case Date():
            return EPOCH + timedelta(milliseconds=value.milliseconds)
        case bytes():
            return ByteArray(value)
        case Externalizable(class_name=str() as name, value=inner):
            return {COLLECTION: flex.ArrayCollection, PROXY: flex.ObjectProxy}[name](to_theirs(inner))
        case Object():
            return Point(**{name: to_theirs(item) for name, item in value.items()})
        case dict():
            return pyamf.ASObject({name: to_theirs(item) for name, item in value.items()})
        case Array():
            parts = value.associative | dict(enumerate(value))
            return pyamf.MixedArray({name: to_theirs(item) for name, item in parts.items()})
        case list():
            return [to_theirs(item) for item in value]
    return value


def to_ours(value: Any) -> Any:
    match value:
        case datetime():
            return Date((value - EPOCH) / timedelta(milliseconds=1))
        case ByteArray():
            return value.getvalue()
        case flex.ArrayCollection():
            return Externalizable(COLLECTION, [to_ours(item) for item in value])
        case flex.ObjectProxy():
            return Externalizable(PROXY, to_ours(value._amf_object))
        case Point():
            return Object("Point", {"x": to_ours(value.x), "y": to_ours(value.y)}, sealed="xy")
        case pyamf.MixedArray():
            names = {name: to_ours(item) for name, item in value.items()}
            return Array([item for name, item in names.items() if isinstance(name, int)], _associative(names))
        case dict():
            return {name: to_ours(item) for name, item in value.items()}
        case list():
            return [to_ours(item) for item in value]
    return UNDEFINED if value is pyamf.Undefined else value


def _associative(members: dict[Any, Any]) -> dict[str, Any]:
    return {name: item for name, item in members.items() if isinstance(name, str)}


leaves: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([UNDEFINED, None, True, False]),
    integers,
    numbers,
    texts,
    st.integers(0, 4_000_000_000).map(lambda seconds: Date(seconds * 1000.0)),
    st.binary(max_size=8).filter(lambda data: not data.startswith(b"\x78\x9c")),
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


values: st.SearchStrategy[Any] = st.recursive(leaves, branches, max_leaves=12)


@given(values)
def test_it_reads_what_we_write(value: Any) -> None:
    assert to_ours(theirs_decode(amf3.encode(value))[0]) == value


@given(values)
def test_we_read_what_it_writes(value: Any) -> None:
    assert amf3.decode(theirs_encode(to_theirs(value)))[0] == value


def test_shared_values() -> None:
    shared, when = {"a": 1}, Date(1000.0)
    first, second, *dates = theirs_decode(amf3.encode([shared, shared, when, when]))[0]
    assert first is second
    assert dates[0] is dates[1]
    first, second, *_ = amf3.decode(theirs_encode([first, second]))[0]
    assert first is second


def test_a_value_that_holds_itself() -> None:
    loop = pyamf.ASObject()
    loop["self"] = [loop]
    assert amf3.decode(theirs_encode(loop))[0] == {"self": [Reference(0)]}
    read = theirs_decode(amf3.encode({"self": [Reference(0)]}))[0]
    assert read["self"][0] is read


@pytest.mark.parametrize("dynamic", [False, True])
def test_it_reads_an_object_of_a_class_that_is_not_registered(dynamic: bool) -> None:
    value = Object("pkg.Unknown", {"x": 1, "y": "x"}, sealed="xy" if not dynamic else "x", dynamic=dynamic)
    read = theirs_decode(amf3.encode([value, value]))[0][1]
    assert (type(read), read.alias, dict(read)) == (pyamf.TypedObject, "pkg.Unknown", {"x": 1, "y": "x"})


@pytest.mark.parametrize("kind", [Xml, XmlDocument])
def test_xml(kind: Any) -> None:
    read = theirs_decode(amf3.encode([kind("<a>b</a>"), "c", "c"]))[0]
    assert ElementTree.tostring(read[0], "unicode") == "<a>b</a>"
    assert read[1:] == ["c", "c"]
    assert amf3.decode(theirs_encode(read[0]))[0] == Xml("<a>b</a>")


@pytest.mark.parametrize("weak_keys", [False, True])
def test_it_reads_a_dictionary(weak_keys: bool) -> None:
    data = amf3.encode(Dictionary([("a", [1]), (0.5, "a")], weak_keys=weak_keys))
    assert theirs_decode(data)[0] == ({"a": [1], 0.5: "a"}, weak_keys)


@given(st.lists(values, max_size=3))
def test_the_switch_from_amf0(message: list[Any]) -> None:
    """Several values in one message share their tables."""
    data = amf0.encode("call", *map(amf0.Amf3, message), True)
    read = theirs_decode(data, pyamf.AMF0)
    assert [to_ours(value) for value in read] == ["call", *message, True]
    written = theirs_encode(*map(to_theirs, message), encoding=pyamf.AMF0)
    assert amf0.decode_all(written) == message
