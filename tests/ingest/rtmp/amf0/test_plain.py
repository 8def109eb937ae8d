"""Values of AMF3 as AMF0 has them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp import LimitExceeded, Limits, RemoteProtocolError
from ingest.rtmp.amf import amf0, amf3
from ingest.rtmp.amf.amf0 import (
    UNDEFINED,
    UNSUPPORTED,
    Amf3,
    Date,
    EcmaArray,
    Plain,
    Reference,
    TypedObject,
    XmlDocument,
)
from ingest.rtmp.amf.amf3 import Array, Dictionary, Externalizable, Items, Object, Vector, Xml
from tests.ingest.rtmp.amf3.strategies import same, values

PROXY = "flex.messaging.io.ObjectProxy"
COLLECTION = "flex.messaging.io.ArrayCollection"
ANYTHING: dict[str, Any] = {"type_name": "*"}

ROWS: list[tuple[str, Any, Any]] = [
    ("undefined", UNDEFINED, UNDEFINED),
    ("null", None, None),
    ("boolean", True, True),
    ("integer", -5, -5.0),
    ("double", 0.5, 0.5),
    ("string", "a", "a"),
    ("XML document", XmlDocument("<a/>"), XmlDocument("<a/>")),
    ("XML", Xml("<a/>"), XmlDocument("<a/>")),
    ("date", Date(5.0), Date(5.0)),
    ("bytes", b"abc", UNSUPPORTED),
    ("array", [1, "a", b""], [1.0, "a", UNSUPPORTED]),
    ("associative array", Array([], {"a": 1}), EcmaArray({"a": 1.0})),
    ("array of both parts", Array([True, 2], {"a": 1}), EcmaArray({"a": 1.0, "0": True, "1": 2.0})),
    ("object", {"a": {"b": 1}}, {"a": {"b": 1.0}}),
    (
        "object of a class",
        Object("P", {"x": 1, "y": 2}, sealed="x", dynamic=True),
        TypedObject("P", {"x": 1.0, "y": 2.0}),
    ),
    ("sealed object without a class", Object("", {"x": 1}, sealed="x"), {"x": 1.0}),
    ("wrapper", Externalizable(COLLECTION, [1]), [1.0]),
    ("wrapper in a wrapper", Externalizable(COLLECTION, Externalizable(PROXY, {"a": 1})), {"a": 1.0}),
    ("vector of int", Vector(Items.INT, [-1]), [-1.0]),
    ("vector of uint", Vector(Items.UINT, [2**32 - 1], fixed=True), [2.0**32 - 1]),
    ("vector of double", Vector(Items.DOUBLE, [0.5]), [0.5]),
    ("vector of objects", Vector(Items.OBJECT, [{"a": b""}, None], **ANYTHING), [{"a": UNSUPPORTED}, None]),
    (
        "dictionary of names",
        Dictionary([("a", 1), (2, b""), (0.5, None), (4.0, "x")]),
        EcmaArray({"a": 1.0, "2": UNSUPPORTED, "0.5": None, "4": "x"}),
    ),
    (
        "dictionary of large numbers",
        Dictionary([(1e20, 1), (1e21, 2), (-1e308, 3)]),
        EcmaArray({"100000000000000000000": 1.0, "1e+21": 2.0, "-1e+308": 3.0}),
    ),
    ("dictionary of objects", Dictionary([({"a": 1}, 2), ("b", b"")]), [[{"a": 1.0}, 2.0], ["b", UNSUPPORTED]]),
    ("dictionary of booleans", Dictionary([(True, 1)]), [[True, 1.0]]),
    ("dictionary of names that become one", Dictionary([("1", 1), (1, 2)]), [["1", 1.0], [1.0, 2.0]]),
    ("empty dictionary", Dictionary(), EcmaArray()),
    ("reference to an object", {"me": Reference(0)}, {"me": Reference(0)}),
    ("reference over an array", {"a": [Reference(0), Reference(1)]}, {"a": [Reference(0), Reference(1)]}),
    (
        "reference to an array of both parts",
        Array([[Reference(0)]], {"a": 1}),
        EcmaArray({"a": 1.0, "0": [Reference(0)]}),
    ),
    ("reference to a vector", Vector(Items.OBJECT, [[Reference(0)]], **ANYTHING), [[Reference(0)]]),
    (
        "reference over a wrapper",
        [Externalizable(PROXY, {"up": Reference(0), "me": Reference(2)})],
        [{"up": Reference(0), "me": Reference(1)}],
    ),
    ("reference to a wrapper", Externalizable(PROXY, {"me": Reference(0)}), {"me": Reference(0)}),
    ("reference in a wrapper", {"p": Externalizable(PROXY, Reference(0))}, {"p": Reference(0)}),
    ("wrapper of itself", {"p": Externalizable(PROXY, Reference(1))}, {"p": UNDEFINED}),
    (
        "reference over a pair",
        [Dictionary([(Reference(1), {"up": Reference(0), "me": Reference(2)})])],
        [[[Reference(1), {"up": Reference(0), "me": Reference(3)}]]],
    ),
    ("reference within a dictionary of names", Dictionary([("a", [Reference(0)])]), EcmaArray({"a": [Reference(0)]})),
]


@pytest.mark.parametrize(("name", "value", "expected"), ROWS, ids=[row[0] for row in ROWS])
def test_rows(name: str, value: Any, expected: Any) -> None:
    plain = Plain().convert(value)
    assert same(plain, expected), plain
    assert same(amf0.decode(amf0.encode(plain))[0], expected)


def decode_plain(data: bytes, limits: Limits | None = None) -> list[Any]:
    limits = limits or Limits()
    return amf0.Decoder(data, 0, limits, limits.amf_elements, plain=True).rest()


class TestWithinAmf0:
    def test_what_is_amf0_stays(self) -> None:
        message = ["a", {"b": [1.0, amf0.Date(0.0)]}, XmlDocument("c")]
        assert decode_plain(amf0.encode(*message)) == message

    def test_references_count_from_the_outermost_value(self) -> None:
        """Those in AMF3 begin at the switch."""
        found = decode_plain(amf0.encode([{"a": Amf3({"me": Reference(0), "in": [Reference(1)]})}]))
        assert found == [[{"a": {"me": Reference(2), "in": [Reference(3)]}}]]
        assert amf0.decode_all(amf0.encode(*found)) == found

    def test_a_value_that_comes_twice_stays_one(self) -> None:
        loop: dict[str, Any] = {}
        loop["me"] = loop
        deep = [[Amf3(loop)], Amf3(loop)]
        (first,), second = decode_plain(amf0.encode(deep))[0]
        assert first is second
        again = amf0.decode_all(amf0.encode([[first], second]))[0]
        assert again[0][0] is again[1]
        assert first == {"me": Reference(2)}

    def test_they_count_twice_as_they_are_made_twice(self) -> None:
        data = amf0.encode(None, Amf3([None] * 9), None)
        assert decode_plain(data, Limits(amf_elements=23)) == [None, [None] * 9, None]
        with pytest.raises(LimitExceeded):
            decode_plain(data, Limits(amf_elements=22))

    def test_a_reference_to_what_another_property_of_its_name_replaced(self) -> None:
        data = bytes.fromhex("11 0a 0b 01 03 61 09 03 01 0a 01 05 6d65 0a 04 01 00 00 03 62 0a 04 01")
        assert amf3.decode(data, 1)[0] == {"a": UNDEFINED, "b": {"me": Reference(2)}}
        assert decode_plain(data) == [{"a": UNDEFINED, "b": {"me": UNDEFINED}}]


@given(st.lists(values, max_size=3))
def test_whatever_it_is_amf0_can_say_it(message: list[Any]) -> None:
    found = decode_plain(amf0.encode(*map(Amf3, message)))
    written = amf0.encode(*found)
    assert all(same(*pair) for pair in zip(amf0.decode_all(written), found, strict=True))
    assert decode_plain(written) == found


@given(st.binary(max_size=200))
def test_any_bytes_become_amf0(data: bytes) -> None:
    data = b"\x11" + data
    try:
        value, _ = amf3.decode(data, 1)
    except RemoteProtocolError:
        return
    amf0.encode(Plain().convert(value))
