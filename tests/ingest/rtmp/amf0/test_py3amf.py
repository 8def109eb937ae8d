"""Agreement with Py3AMF, both ways, for what it supports.

Its faults (0.9), and what is left out for them:

- Unsupported is read as null, and can't be written.
- A date's zone is overlooked and written as 0; its milliseconds have the error of seconds in a float: whole seconds
  here.
- Dates and XML documents are given a place in the table of references when they are read, not when they are written, so
  that its reader and its own writer disagree: none comes before a reference here.
- Names in an ECMA array that Python takes for integers become integers, "01" and "1" the same one.
- The count of an ECMA array is written as its highest index, that of an array without one as 0.
- A name longer than 65535 bytes is written with four bytes of length, which its reader takes for two.
- Texts that aren't UTF-8 are refused.
- A TypedObject, which it makes of a class that isn't registered, is written without its class: read only.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from xml.etree import ElementTree

import pyamf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp.amf import amf0
from ingest.rtmp.amf.amf0 import UNDEFINED, UNSUPPORTED, Date, EcmaArray, Reference, TypedObject, XmlDocument
from tests.ingest.rtmp.amf0.strategies import names, numbers
from tests.ingest.rtmp.amf0.vectors import BOTH_WAYS
from tests.ingest.rtmp.theirs import EPOCH, Point, known_as

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Of defusedxml and utcfromtimestamp, in it.


@pytest.fixture(scope="module", autouse=True)
def point() -> Iterator[None]:
    with known_as("Point0"):
        yield


def theirs_decode(data: bytes) -> list[Any]:
    return list(pyamf.decode(data, encoding=pyamf.AMF0))


def theirs_encode(*values: Any) -> bytes:
    return bytes(pyamf.encode(*values, encoding=pyamf.AMF0).getvalue())


def to_theirs(value: Any) -> Any:
    match value:
        case amf0.UNDEFINED:
            return pyamf.Undefined
        case Date():
            return EPOCH + timedelta(milliseconds=value.milliseconds)
        case TypedObject():
            return Point(**{name: to_theirs(item) for name, item in value.items()})
        case EcmaArray():
            return pyamf.MixedArray({name: to_theirs(item) for name, item in value.items()})
        case dict():
            return pyamf.ASObject({name: to_theirs(item) for name, item in value.items()})
        case list():
            return [to_theirs(item) for item in value]
    return value


def to_ours(value: Any) -> Any:
    match value:
        case datetime():
            return Date((value - EPOCH) / timedelta(milliseconds=1))
        case Point():
            return TypedObject("Point0", {"x": to_ours(value.x), "y": to_ours(value.y)})
        case pyamf.MixedArray():
            return EcmaArray({str(name): to_ours(item) for name, item in value.items()})
        case dict():
            return {name: to_ours(item) for name, item in value.items()}
        case list():
            return [to_ours(item) for item in value]
    return UNDEFINED if value is pyamf.Undefined else value


def is_integer(name: str) -> bool:
    try:
        int(name)
    except ValueError:
        return False
    return True


leaves: st.SearchStrategy[Any] = st.one_of(
    numbers,
    st.booleans(),
    names,
    st.sampled_from([None, UNDEFINED]),
    st.integers(0, 4_000_000_000).map(lambda seconds: Date(seconds * 1000.0)),
)


def branches(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    members = st.dictionaries(names, inner, max_size=4)
    return st.one_of(
        st.lists(inner, max_size=4),
        members,
        st.dictionaries(names.filter(lambda name: not is_integer(name)), inner, max_size=4).map(EcmaArray),
        st.builds(TypedObject, st.just("Point0"), st.fixed_dictionaries({"x": inner, "y": inner})),
    )


values: st.SearchStrategy[Any] = st.recursive(leaves, branches, max_leaves=12)


@given(st.lists(values, max_size=3))
def test_it_reads_what_we_write(message: list[Any]) -> None:
    assert to_ours(theirs_decode(amf0.encode(*message))) == message


@given(st.lists(values, max_size=3))
def test_we_read_what_it_writes(message: list[Any]) -> None:
    assert amf0.decode_all(theirs_encode(*map(to_theirs, message))) == message


ALIKE = (float, bool, str, type(None), amf0.Singleton, dict, list)
SIMPLE = [vector for vector in BOTH_WAYS if type(vector[1]) in ALIKE and "self" not in repr(vector[1])]
SIMPLE = [vector for vector in SIMPLE if vector[1] is not UNSUPPORTED]


@pytest.mark.parametrize("vector", SIMPLE, ids=[vector[0] for vector in SIMPLE])
def test_our_vectors_are_its_own(vector: tuple[str, Any, bytes]) -> None:
    _, value, data = vector
    assert to_ours(theirs_decode(data)[0]) == value
    assert theirs_encode(to_theirs(value)) == data


def test_shared_values() -> None:
    shared: dict[str, Any] = {"a": [1.0]}
    message = [shared, [shared, EcmaArray({"x": shared})], shared["a"], "end"]
    first, (second, array), inner, _ = theirs_decode(amf0.encode(*message))
    assert first is second
    assert first is array["x"]
    assert first["a"] is inner
    ours = amf0.decode_all(theirs_encode(first, [second, array], inner, "end"))
    assert ours == message
    assert ours[0] is ours[1][0]


def test_a_value_that_holds_itself() -> None:
    loop = pyamf.ASObject()
    loop["self"] = [loop]
    assert amf0.decode_all(theirs_encode(loop)) == [{"self": [Reference(0)]}]
    read = theirs_decode(amf0.encode({"self": [Reference(0)]}))[0]
    assert read["self"][0] is read


def test_numbered_items_of_an_ecma_array() -> None:
    value = EcmaArray({"0": True, "7": "x", "name": None})
    assert theirs_decode(amf0.encode(value))[0] == {0: True, 7: "x", "name": None}
    assert amf0.decode(theirs_encode(pyamf.MixedArray({0: True, 7: "x", "name": None})))[0] == value


def test_long_texts() -> None:
    text = "é" * 40_000
    assert theirs_decode(amf0.encode(text)) == [text]
    assert amf0.decode_all(theirs_encode(text)) == [text]


def test_it_reads_an_object_of_a_class_that_is_not_registered() -> None:
    read = theirs_decode(amf0.encode(TypedObject("pkg.Unknown", {"x": 1.0})))[0]
    assert (type(read), read.alias, dict(read)) == (pyamf.TypedObject, "pkg.Unknown", {"x": 1})


def test_xml() -> None:
    read = theirs_decode(amf0.encode(XmlDocument("<a>b</a>"), "c"))
    assert (ElementTree.tostring(read[0], "unicode"), read[1]) == ("<a>b</a>", "c")
    assert amf0.decode_all(theirs_encode(read[0])) == [XmlDocument("<a>b</a>")]


@pytest.mark.parametrize("zone", [0, -120])
def test_dates(zone: int) -> None:
    assert to_ours(theirs_decode(amf0.encode(Date(1000.0, zone)))) == [Date(1000.0)]


def test_unsupported_is_nothing() -> None:
    assert theirs_decode(amf0.encode(UNSUPPORTED)) == [None]
