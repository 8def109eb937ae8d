"""AMF0 alone: whole messages, the switch to AMF3 within them, and values of AMF3 as AMF0 has them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp import LimitExceeded, Limits, LocalProtocolError, RemoteProtocolError
from ingest.rtmp.amf import (
    UNDEFINED,
    UNSUPPORTED,
    Amf3,
    Date,
    EcmaArray,
    Reference,
    TypedObject,
    XmlDocument,
    amf0,
    amf3_decoder,
)
from ingest.rtmp.amf.amf3 import Array, Dictionary, Externalizable, Items, Object, Vector, Xml
from ingest.rtmp.amf.amf3_to_amf0 import Amf3ToAmf0
from tests.pure.rtmp.amf3.test_amf3 import Values, amf3_values, numbers, same, texts
from tests.pure.rtmp.wire import h, ids
from tests.rtmp_client import decode_all

# --- Any values ---


def amf0_branches(inner: Values) -> Values:
    members = st.dictionaries(texts, inner, max_size=4)
    return st.one_of(
        st.lists(inner, max_size=4), members, members.map(EcmaArray), st.builds(TypedObject, texts, members)
    )


amf0_values: Values = st.recursive(
    st.one_of(
        numbers,
        st.booleans(),
        texts,
        st.none(),
        st.sampled_from([UNDEFINED, UNSUPPORTED]),
        st.builds(Date, numbers, st.integers(-32768, 32767)),
        texts.map(XmlDocument),
    ),
    amf0_branches,
    max_leaves=12,
)

# --- Vectors: name, value, bytes; for the decoder, the encoder, cut messages and the fuzzer ---

Case = tuple[str, Any, bytes]


BOTH_WAYS: list[Case] = [
    ("zero", 0.0, h("00 0000000000000000")),
    ("one", 1.0, h("00 3ff0000000000000")),
    ("negative fraction", -0.5, h("00 bfe0000000000000")),
    ("infinity", float("inf"), h("00 7ff0000000000000")),
    ("true", True, h("01 01")),
    ("false", False, h("01 00")),
    ("empty string", "", h("02 0000")),
    ("string", "live", h("02 0004 6c697665")),
    ("string of two-, three- and four-byte characters", "é€😀", h("02 0009 c3a9 e282ac f09f9880")),
    ("longest short string", "a" * 65535, h("02 ffff") + b"a" * 65535),
    ("shortest long string", "a" * 65536, h("0c 00010000") + b"a" * 65536),
    ("null", None, h("05")),
    ("undefined", UNDEFINED, h("06")),
    ("unsupported", UNSUPPORTED, h("0d")),
    ("empty object", {}, h("03 000009")),
    ("object", {"a": 1.0, "bc": "d"}, h("03 0001 61 003ff0000000000000 0002 6263 020001 64 000009")),
    ("object in an object", {"o": {"x": None}}, h("03 0001 6f 03 0001 78 05 000009 000009")),
    ("empty ECMA array", EcmaArray(), h("08 00000000 000009")),
    ("ECMA array", EcmaArray({"0": True, "n": None}), h("08 00000002 0001 30 0101 0001 6e 05 000009")),
    ("empty strict array", [], h("0a 00000000")),
    ("strict array", ["hvc1", None, 2.0], h("0a 00000003 020004 68766331 05 004000000000000000")),
    ("date", Date(1_000.0), h("0b 408f400000000000 0000")),
    ("date before 1970 with a zone", Date(-1.0, -120), h("0b bff0000000000000 ff88")),
    ("XML document", XmlDocument("<a/>"), h("0f 00000004 3c612f3e")),
    (
        "typed object",
        TypedObject("pkg.Point", {"x": 1.0}),
        h("10 0009") + b"pkg.Point" + h("0001 78 003ff0000000000000 000009"),
    ),
    ("typed object without a name", TypedObject(""), h("10 0000 000009")),
    ("property without a name", {"": 1.0, "b": True}, h("03 0000 003ff0000000000000 0001 62 0101 000009")),
    ("reference to what encloses it", {"self": Reference(0)}, h("03 0004 73656c66 070000 000009")),
]

ONE_WAY: list[Case] = [
    ("any byte is true", True, h("01 7f")),
    ("short text as a long string", "hi", h("0c 00000002 6869")),
    ("ECMA array that promises more", EcmaArray({"a": None}), h("08 000000ff 0001 61 05 000009")),
    ("ECMA array that promises nothing", EcmaArray({"a": None}), h("08 00000000 0001 61 05 000009")),
    ("ECMA array that promises everything", EcmaArray(), h("08 ffffffff 000009")),
    ("ECMA array without an end", EcmaArray({"a": None}), h("08 00000001 0001 61 05")),
    ("the last of two properties of one name", {"a": False}, h("03 0001 61 0101 0001 61 0100 000009")),
    ("bytes that aren't UTF-8", "caf\ufffd", h("02 0004 636166e9")),
    ("AMF3 value", [1, "a"], h("11 09 05 01 04 01 06 03 61")),
    (
        "AMF3 value in an object, AMF0 after it",
        {"a": {"b": 1}, "c": 1.0},
        h("03 0001 61 11 0a 0b 01 03 62 04 01 01 0001 63 003ff0000000000000 000009"),
    ),
    ("reference to a finished object", [{"a": None}, {"a": None}], h("0a 00000002 03 0001 61 05 000009 070001")),
    (
        "reference within a reference",
        {"a": [None], "b": {"c": [None]}, "d": {"c": [None]}},
        h("03 0001 61 0a 00000001 05 0001 62 03 0001 63 070001 000009 0001 64 070002 000009"),
    ),
    (
        "reference into what a later property of its name replaced, which can not be written again",
        {"a": None, "b": [Reference(2)]},
        h("03 0001 61 0a00000001 0a00000001 070002 0001 61 05 0001 62 070002 000009"),
    ),
]

REFUSED: list[tuple[str, bytes]] = [
    ("nothing", b""),
    ("movie clip", h("04")),
    ("record set", h("0e")),
    ("end outside of an object", h("09")),
    ("AMF3 value that is missing", h("11")),
    ("AMF3 value of an unknown marker", h("11 12")),
    ("AMF3 reference to a value of AMF0", h("0a 00000001 11 0a 00")),
    ("unknown marker", h("12")),
    ("last unknown marker", h("ff")),
    ("strict array that promises more", h("0a 00000003 05 05")),
    ("strict array that promises everything", h("0a ffffffff")),
    ("reference to nothing", h("07 0000")),
    ("reference to what comes later", h("0a 00000002 070001 0a 00000000")),
    ("object without an end", h("03 0001 61 05")),
    ("ECMA array that has fewer and no end", h("08 00000002 0001 61 05")),
]


# --- Tests ---


def test_message_of_several_values_round_trips() -> None:
    data = amf0.encode("connect", 1, {"app": "live"}, None)
    assert decode_all(data) == ["connect", 1.0, {"app": "live"}, None]
    assert decode_all(b"") == []


def test_integers_and_tuples_are_taken() -> None:
    assert decode_all(amf0.encode(3, -(2**40), (1, "a"))) == [3.0, -(2.0**40), [1.0, "a"]]


def test_subclasses_are_encoded_as_their_base() -> None:
    class Name(str):
        __slots__ = ()

    assert amf0.encode(Name("a")) == amf0.encode("a")


class TestReferences:
    def test_the_same_object_again_is_written_as_a_reference(self) -> None:
        point = {"x": 1.0}
        data = amf0.encode([point, point])
        assert data == bytes.fromhex("0a00000002 03 0001 78 003ff0000000000000 000009 070001")
        first, second = amf0.decode(data)[0]
        assert first is second

    def test_reference_to_an_enclosing_value_holds_when_encoded_elsewhere(self) -> None:
        inner: dict[str, Any] = {}
        inner["self"] = inner
        decoded = decode_all(amf0.encode(["first"], [inner]))[1]
        assert decoded == [{"self": Reference(1)}]
        assert decode_all(amf0.encode(decoded)) == [decoded]

    def test_references_reach_over_the_whole_message(self) -> None:
        shared = ["a"]
        assert decode_all(amf0.encode("call", shared, {"again": shared})) == ["call", ["a"], {"again": ["a"]}]

    def test_referenced_texts_count_against_the_limit(self) -> None:
        """A short message can't stand for megabytes of text."""
        note = ["x" * 60_000]
        assert decode_all(amf0.encode(*[note] * 17)) == [note] * 17
        with pytest.raises(LimitExceeded):
            decode_all(amf0.encode(*[note] * 19))


class TestAmf3:
    """The switch to AMF3 for one value (section 3.1)."""

    VALUE: dict[str, Any] = {"name": "name", "number": 3, "bytes": b"\x00", "list": [None]}

    def test_value_in_amf3_is_written_behind_the_switch_marker(self) -> None:
        data = amf0.encode(Amf3([1, "a"]))
        assert data == bytes.fromhex("11 09 05 01 04 01 06 03 61")
        assert amf0.decode(data) == ([1, "a"], len(data))

    def test_amf0_goes_on_after_a_value_in_amf3(self) -> None:
        message = ["call", 2.0, {"x": Amf3(self.VALUE), "y": 1.0}, Amf3(None), [Amf3(0.5)], True]
        decoded = decode_all(amf0.encode(*message))
        assert decoded == ["call", 2.0, {"x": self.VALUE, "y": 1.0}, None, [0.5], True]

    def test_amf3_reference_tables_are_shared_by_the_whole_message(self) -> None:
        """As BlazeDS, Red5 and Py3AMF have it; those of AMF0 are others."""
        data = amf0.encode(Amf3(self.VALUE), self.VALUE["list"], Amf3(self.VALUE), Amf3("name"))
        assert data.endswith(bytes.fromhex("11 0a 00  11 06 00"))
        first, amf0_list, second, name = decode_all(data)
        assert first is second
        assert amf0_list == [None]
        assert name == "name"

    def test_references_to_enclosing_values_count_from_the_switch(self) -> None:
        loop: dict[str, Any] = {}
        loop["self"] = loop
        decoded, _ = amf0.decode(amf0.encode([[Amf3(loop)]]))
        assert decoded == [[{"self": Reference(0)}]]
        assert amf0.decode(amf0.encode([[Amf3(decoded[0][0])]]))[0] == decoded

    def test_limits_count_amf0_and_amf3_values_together(self) -> None:
        limits = Limits(amf_depth=4, amf_elements=9)
        assert amf0.decode(amf0.encode([[Amf3([[]])]]), 0, limits)[0] == [[[[]]]]
        with pytest.raises(LimitExceeded):
            amf0.decode(amf0.encode([[Amf3([[[]]])]]), 0, limits)
        with pytest.raises(LimitExceeded):
            decode_all(amf0.encode(None, None, Amf3([None, None]), Amf3([None, None])), 0, limits)

    def test_unsupported_value_in_amf3_is_refused_by_encode(self) -> None:
        with pytest.raises(LocalProtocolError):
            amf0.encode(Amf3(UNSUPPORTED))


# --- Values of AMF3 as AMF0 has them ---

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


@pytest.mark.parametrize(("name", "value", "expected"), ROWS, ids=ids(ROWS))
def test_amf3_values_convert_to_their_amf0_counterparts(name: str, value: Any, expected: Any) -> None:
    plain = Amf3ToAmf0().convert(value)
    assert same(plain, expected), plain
    assert same(amf0.decode(amf0.encode(plain))[0], expected)


def decode_plain(data: bytes, limits: Limits | None = None) -> list[Any]:
    limits = limits or Limits()
    return amf0.Decoder(data, 0, limits, limits.amf_elements, as_amf0=True).rest()


class TestWithinAmf0:
    def test_amf0_values_stay_unchanged(self) -> None:
        message = ["a", {"b": [1.0, Date(0.0)]}, XmlDocument("c")]
        assert decode_plain(amf0.encode(*message)) == message

    def test_references_count_from_the_outermost_value(self) -> None:
        """Those in AMF3 begin at the switch."""
        found = decode_plain(amf0.encode([{"a": Amf3({"me": Reference(0), "in": [Reference(1)]})}]))
        assert found == [[{"a": {"me": Reference(2), "in": [Reference(3)]}}]]
        assert decode_all(amf0.encode(*found)) == found

    def test_a_value_that_comes_twice_stays_one(self) -> None:
        loop: dict[str, Any] = {}
        loop["me"] = loop
        deep = [[Amf3(loop)], Amf3(loop)]
        (first,), second = decode_plain(amf0.encode(deep))[0]
        assert first is second
        again = decode_all(amf0.encode([[first], second]))[0]
        assert again[0][0] is again[1]
        assert first == {"me": Reference(2)}

    def test_converted_amf3_values_count_twice_against_the_limit(self) -> None:
        data = amf0.encode(None, Amf3([None] * 9), None)
        assert decode_plain(data, Limits(amf_elements=23)) == [None, [None] * 9, None]
        with pytest.raises(LimitExceeded):
            decode_plain(data, Limits(amf_elements=22))

    def test_reference_to_a_replaced_property_becomes_undefined(self) -> None:
        data = bytes.fromhex("11 0a 0b 01 03 61 09 03 01 0a 01 05 6d65 0a 04 01 00 00 03 62 0a 04 01")
        assert amf3_decoder.Decoder.decode(data, 1)[0] == {"a": UNDEFINED, "b": {"me": Reference(2)}}
        assert decode_plain(data) == [{"a": UNDEFINED, "b": {"me": UNDEFINED}}]


@given(st.lists(amf3_values, max_size=3))
def test_any_amf3_message_converts_to_amf0_that_round_trips(message: list[Any]) -> None:
    found = decode_plain(amf0.encode(*map(Amf3, message)))
    written = amf0.encode(*found)
    assert all(same(*pair) for pair in zip(decode_all(written), found, strict=True))
    assert decode_plain(written) == found


@given(st.binary(max_size=200))
def test_any_decodable_amf3_bytes_convert_to_amf0(data: bytes) -> None:
    data = b"\x11" + data
    try:
        value, _ = amf3_decoder.Decoder.decode(data, 1)
    except RemoteProtocolError:
        return
    amf0.encode(Amf3ToAmf0().convert(value))
