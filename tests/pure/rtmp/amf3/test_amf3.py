"""AMF3: its vectors, and what it alone has: integers of 29 bits, classes, and what counts against the limits."""

from time import process_time
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import strategies as st

from ingest.rtmp import LimitExceeded, Limits, RemoteProtocolError
from ingest.rtmp.amf import UNDEFINED, Date, EcmaArray, Reference, XmlDocument
from ingest.rtmp.amf.amf3 import WRAPPERS, Array, Dictionary, Externalizable, Items, Object, Traits, Vector, Xml
from ingest.rtmp.amf.amf3_decoder import Decoder
from ingest.rtmp.amf.amf3_encoder import Encoder
from tests.pure.rtmp.wire import h


def same(first: Any, second: Any) -> bool:
    """Equal, and of equal types all the way down."""
    if type(first) is not type(second) or first != second:
        return False
    if isinstance(first, dict):
        return list(first) == list(second) and all(same(first[name], second[name]) for name in first)
    if isinstance(first, Externalizable):
        return same(first.value, second.value)
    if isinstance(first, Array) and not same(first.associative, second.associative):
        return False
    if isinstance(first, list | tuple):
        return all(same(*pair) for pair in zip(first, second, strict=True))
    return True


amf3 = SimpleNamespace(Decoder=Decoder, decode=Decoder.decode, encode=Encoder.encode)
"""Both ways, as the module `amf0` has them."""

# --- Any values ---

Values = st.SearchStrategy[Any]

texts = st.text(st.characters(codec="utf-8"), max_size=8)
names = texts.filter(bool)
numbers = st.floats(allow_nan=False)
integers = st.integers(-(2**28), 2**28 - 1)


def vectors(kind: Items, items: Values, **more: Values) -> Values:
    return st.builds(Vector, st.just(kind), st.lists(items, max_size=4), fixed=st.booleans(), **more)


@st.composite
def objects(draw: st.DrawFn, inner: Values) -> Object:
    sealed = draw(st.dictionaries(texts, inner, max_size=3))
    dynamic = draw(st.booleans())
    others = draw(st.dictionaries(names, inner, max_size=2)) if dynamic else {}
    members = sealed | {name: value for name, value in others.items() if name not in sealed}
    return Object(draw(names), members, sealed=sealed, dynamic=dynamic)


def amf3_branches(inner: Values) -> Values:
    lists = st.lists(inner, max_size=4)
    members = st.dictionaries(names, inner, max_size=4)
    return st.one_of(
        lists,
        st.builds(Array, lists, members.filter(bool)),
        members,
        objects(inner),
        st.builds(Externalizable, st.sampled_from(sorted(WRAPPERS)), inner),
        vectors(Items.OBJECT, inner, type_name=texts),
        st.builds(Dictionary, st.lists(st.tuples(inner, inner), max_size=3), weak_keys=st.booleans()),
        st.lists(inner, min_size=1, max_size=2).map(lambda items: [items, items]),
    )


amf3_values: Values = st.recursive(
    st.one_of(
        st.sampled_from([UNDEFINED, None, True, False]),
        integers,
        numbers,
        texts,
        st.builds(Date, numbers),
        texts.map(XmlDocument),
        texts.map(Xml),
        st.binary(max_size=8),
        vectors(Items.INT, st.integers(-(2**31), 2**31 - 1)),
        vectors(Items.UINT, st.integers(0, 2**32 - 1)),
        vectors(Items.DOUBLE, numbers),
    ),
    amf3_branches,
    max_leaves=12,
)

# --- Vectors: name, value, bytes; for the decoder, the encoder, cut messages and the fuzzer ---

Case = tuple[str, Any, bytes]


def u29(number: int) -> bytes:
    """AMF3 1.3.1."""
    if number < 0x80:
        return bytes([number])
    if number < 0x4000:
        return bytes([number >> 7 | 0x80, number & 0x7F])
    if number < 0x200000:
        return bytes([number >> 14 | 0x80, number >> 7 & 0x7F | 0x80, number & 0x7F])
    return bytes([number >> 22 | 0x80, number >> 15 & 0x7F | 0x80, number >> 8 & 0x7F | 0x80, number & 0xFF])


def t(text: str) -> bytes:
    """A string inline, without its marker."""
    return bytes([len(text) << 1 | 1]) + text.encode()


POINT = Date(0.0)
SHARED: dict[str, Any] = {"a": 1}
BLOB = b"abc"
COLLECTION = Externalizable("flex.messaging.io.ArrayCollection", [1])

INTEGERS: list[Case] = [
    (f"integer {value}", value, b"\x04" + h(data))
    for value, data in (
        (0, "00"),
        (0x7F, "7f"),  # The edges of the table in section 1.3.1.
        (0x80, "8100"),
        (0x3FFF, "ff7f"),
        (0x4000, "818000"),
        (0x1FFFFF, "ffff7f"),
        (0x200000, "80c08000"),
        (2**28 - 1, "bfffffff"),  # Section 3.6: the last that isn't a double, either way.
        (-1, "ffffffff"),
        (-(2**28), "c0808000"),
    )
]

BOTH_WAYS: list[Case] = [
    ("undefined", UNDEFINED, h("00")),
    ("null", None, h("01")),
    ("false", False, h("02")),
    ("true", True, h("03")),
    *INTEGERS,
    ("double", 0.5, h("05 3fe0000000000000")),
    ("double that is whole", 1.0, h("05 3ff0000000000000")),
    ("infinity", float("inf"), h("05 7ff0000000000000")),
    ("empty string", "", h("06 01")),
    ("string", "live", h("06 09 6c697665")),
    ("string of two-, three- and four-byte characters", "é€😀", h("06 13 c3a9 e282ac f09f9880")),
    ("string of 64 bytes", "a" * 64, h("06 8101") + b"a" * 64),
    ("string by reference", ["ab", "ab"], h("09 05 01 06 05 6162 06 00")),
    ("the empty string never by reference", ["", "a", "", "a"], h("09 09 01 06 01 06 03 61 06 01 06 00")),
    ("XML document", XmlDocument("<a/>"), h("07 09 3c612f3e")),
    ("empty XML document", XmlDocument(""), h("07 01")),
    ("XML", Xml("<a/>"), h("0b 09 3c612f3e")),
    ("XML isn't in the table of strings", [Xml("ab"), "ab", "ab"], h("09 07 01 0b 05 6162 06 05 6162 06 00")),
    ("date", Date(1_000.0), h("08 01 408f400000000000")),
    ("date before 1970", Date(-1.0), h("08 01 bff0000000000000")),
    ("date by reference", [POINT, POINT], h("09 05 01 08 01 0000000000000000 08 02")),
    ("empty array", [], h("09 01 01")),
    ("array", ["hvc1", None, 2], h("09 07 01 06 09 68766331 01 04 02")),
    ("array in an array", [[]], h("09 03 01 09 01 01")),
    ("associative array", Array([], {"a": 1}), h("09 01 03 61 04 01 01")),
    ("array of both parts", Array([True], {"a": 1, "b": 2}), h("09 03 03 61 04 01 03 62 04 02 01 03")),
    ("empty object", {}, h("0a 0b 01 01")),
    ("object", {"a": 1, "bc": "d"}, h("0a 0b 01 03 61 04 01 05 6263 06 03 64 01")),
    ("object and its traits by reference", [SHARED, SHARED, {}], h("09 07 01 0a 0b 01 03 61 04 01 01 0a 02 0a 01 01")),
    ("names of members by reference", [{"a": 1}, {"a": "a"}], h("09 05 01 0a 0b 01 03 61 04 01 01 0a 01 00 06 00 01")),
    ("typed object", Object("P", {"x": 1, "y": 2}, sealed="xy"), h("0a 23 03 50 03 78 03 79 04 01 04 02")),
    ("typed object without members", Object("P"), h("0a 03 03 50")),
    (
        "sealed and dynamic members",
        Object("P", {"x": 1, "z": 3}, sealed="x", dynamic=True),
        h("0a 1b 03 50 03 78 04 01 03 7a 04 03 01"),
    ),
    ("anonymous object with a sealed member", Object("", {"x": 1}, sealed="x"), h("0a 13 01 03 78 04 01")),
    ("sealed member without a name", Object("", {"": 1}, sealed=("",)), h("0a 13 01 01 04 01")),
    (
        "traits by reference",
        [Object("P", {"x": 1}, sealed="x"), Object("P", {"x": 2}, sealed="x")],
        h("09 05 01 0a 13 03 50 03 78 04 01 0a 01 04 02"),
    ),
    ("second traits by reference", [{}, Object("P"), Object("P")], h("09 07 01 0a 0b 01 01 0a 03 03 50 0a 05")),
    ("ArrayCollection", COLLECTION, h("0a 07") + t(COLLECTION.class_name) + h("09 03 01 04 01")),
    (
        "ArrayCollection and its traits by reference",
        [COLLECTION, COLLECTION, Externalizable(COLLECTION.class_name, None)],
        h("09 07 01 0a 07") + t(COLLECTION.class_name) + h("09 03 01 04 01 0a 02 0a 01 01"),
    ),
    (
        "ObjectProxy",
        Externalizable("flex.messaging.io.ObjectProxy", {"a": 1}),
        h("0a 07") + t("flex.messaging.io.ObjectProxy") + h("0a 0b 01 03 61 04 01 01"),
    ),
    ("byte array", b"\x00\xff", h("0c 05 00ff")),
    ("empty byte array", b"", h("0c 01")),
    ("byte array by reference", [BLOB, BLOB], h("09 05 01 0c 07 616263 0c 02")),
    ("vector of int", Vector(Items.INT, [1, -1]), h("0d 05 00 00000001 ffffffff")),
    ("vector of uint", Vector(Items.UINT, [2**32 - 1], fixed=True), h("0e 03 01 ffffffff")),
    ("vector of double", Vector(Items.DOUBLE, [0.5, 1.0]), h("0f 05 00 3fe0000000000000 3ff0000000000000")),
    ("empty vectors", [Vector(Items.INT), Vector(Items.DOUBLE)], h("09 05 01 0d 01 00 0f 01 00")),
    ("vector of anything", Vector(Items.OBJECT, [UNDEFINED, "*"], type_name="*"), h("10 05 00 03 2a 00 06 00")),
    (
        "vector of objects",
        Vector(Items.OBJECT, [Object("P"), Object("P")], fixed=True, type_name="P"),
        h("10 05 01 03 50 0a 03 00 0a 01"),
    ),
    (
        "vector of vectors",
        Vector(Items.OBJECT, [Vector(Items.INT, [1])], type_name="V"),
        h("10 03 00 03 56 0d 03 00 00000001"),
    ),
    ("empty dictionary", Dictionary(), h("11 01 00")),
    ("dictionary", Dictionary([("a", 1), (0.5, "a")]), h("11 05 00 06 03 61 04 01 05 3fe0000000000000 06 00")),
    (
        "dictionary with weak keys that are objects",
        Dictionary([({}, True), ([], False)], weak_keys=True),
        h("11 05 01 0a 0b 01 01 03 09 01 01 02"),
    ),
    ("object that holds itself", {"me": Reference(0)}, h("0a 0b 01 05 6d65 0a 00 01")),
    ("array in an object that holds the array", {"a": [Reference(1)]}, h("0a 0b 01 03 61 09 03 01 09 02 01")),
    ("dictionary that is its own key", Dictionary([(Reference(0), 1)]), h("11 03 00 11 00 04 01")),
    (
        "ObjectProxy of what holds it",
        {"p": Externalizable("flex.messaging.io.ObjectProxy", Reference(0))},
        h("0a 0b 01 03 70 0a 07") + t("flex.messaging.io.ObjectProxy") + h("0a 00 01"),
    ),
    ("vector that holds itself", Vector(Items.OBJECT, [Reference(0)], type_name="*"), h("10 03 00 03 2a 10 00")),
]

ONE_WAY: list[Case] = [
    ("integer in more bytes than needed", 1, h("04 80808001")),
    ("long string inline again", ["ab", "ab"], h("09 05 01 06 05 6162 06 05 6162")),
    ("bytes that aren't UTF-8", "caf\ufffd", h("06 09 636166e9")),
    ("the last of two members of one name", {"a": 2}, h("0a 0b 01 03 61 04 01 00 04 02 01")),
    (
        "dynamic member of a sealed one's name",
        Object("P", {"x": 2}, sealed="x", dynamic=True),
        h("0a 1b 03 50 03 78 04 01 02 04 02 01"),
    ),
    ("traits inline again", [{}, {}], h("09 05 01 0a 0b 01 01 0a 0b 01 01")),
    ("a date's unused bits", Date(0.0), h("08 7f 0000000000000000")),
    ("any byte is fixed", Vector(Items.INT, fixed=True), h("0d 01 7f")),
    ("any byte is weak", Dictionary(weak_keys=True), h("11 01 7f")),
    (
        "an externalizable's unused bits",
        Externalizable("flex.messaging.io.ArrayList", 1),
        h("0a 3f") + t("flex.messaging.io.ArrayList") + h("04 01"),
    ),
    ("reference with the marker of another type", [[], []], h("09 05 01 09 01 01 0a 02")),
    (
        "reference to a finished object within one that goes on",
        {"a": {"b": [1]}, "c": [1]},
        h("0a 0b 01 03 61 0a 01 03 62 09 03 01 04 01 01 03 63 09 04 01"),
    ),
    (
        "reference into what a later member of its name replaced, which can not be written again",
        {"a": None, "c": [Reference(2)]},
        h("0a 0b 01 03 61 09 03 01 09 03 01 09 04 00 01 03 63 09 04 01"),
    ),
]

REFUSED: list[tuple[str, bytes]] = [
    ("nothing", b""),
    ("unknown marker", h("12")),
    ("last unknown marker", h("ff")),
    ("string by reference to nothing", h("06 00")),
    ("string by reference to the empty one", h("09 05 01 06 01 06 00")),
    ("object by reference to nothing", h("0a 00")),
    ("array by reference to what comes later", h("09 05 01 09 04 09 01 01")),
    ("traits by reference to nothing", h("0a 01")),
    ("string that promises more", h("06 09 6c69")),
    ("array that promises more", h("09 07 01 01 01")),
    ("array that promises everything", h("09 ffffffff 01")),
    ("object vector that promises everything", h("10 ffffffff 00 01")),
    ("int vector that promises everything", h("0d ffffffff 00")),
    ("double vector that promises more", h("0f 05 00 3fe0000000000000")),
    ("dictionary that promises everything", h("11 ffffffff 00")),
    ("traits that promise everything", h("0a fffffffb 01")),
    ("object without an end", h("0a 0b 01 03 61 01")),
    ("associative array without an end", h("09 01 03 61 01")),
    ("externalizable of an unknown class", h("0a 07 03 50 01")),
    ("externalizable without a class", h("0a 07 01 01")),
]


# --- Tests ---


@pytest.mark.parametrize("value", [2**28, -(2**28) - 1, 2**40])
def test_integers_of_more_than_29_bits_are_doubles(value: int) -> None:
    assert amf3.encode(value) == amf3.encode(float(value))
    assert amf3.decode(amf3.encode(value))[0] == value


def test_tuple_zoned_date_and_ecma_array_are_encoded_as_plain_amf3_types() -> None:
    assert amf3.encode((1, "a")) == amf3.encode([1, "a"])
    assert amf3.encode(Date(5.0, 60)) == amf3.encode(Date(5.0))
    assert amf3.encode(EcmaArray({"a": 1})) == amf3.encode({"a": 1})


def test_the_name_of_an_unknown_class_is_not_quoted() -> None:
    """It may be whatever the peer likes, a stream key too."""
    with pytest.raises(RemoteProtocolError, match="externalizable") as refused:
        amf3.decode(h("0a 07 0d") + b"secret" + h("01"))
    assert "secret" not in str(refused.value)


def test_tables_are_shared_by_the_values_of_one_encoder() -> None:
    shared = {"name": "name"}
    data = amf3.encode(shared, shared, "name")
    decoder = amf3.Decoder(data, 0, Limits(), 10)
    first, second, name = (decoder.value(0) for _ in range(3))
    assert first is second
    assert (first, name) == (shared, "name")


@pytest.mark.parametrize(
    "value",
    ["x" * 6400, b"x" * 6400, Xml("x" * 6400), ["x" * 6400], Vector(Items.INT, [0] * 100)],
    ids=["string", "bytes", "XML", "array", "vector"],
)
def test_long_values_count_by_length_against_the_element_limit(value: Any) -> None:
    limits = Limits(amf_elements=1000)
    assert amf3.decode(amf3.encode([value] * 9), 0, limits)[0] == [value] * 9
    with pytest.raises(LimitExceeded):
        amf3.decode(amf3.encode([value] * 11), 0, limits)


@pytest.mark.parametrize("class_name", ["", "n" * 640, "\U0001f600" * 160], ids=["none", "long", "wide"])
@pytest.mark.parametrize("sealed", [[], ["n" * 640], ["\U0001f600" * 160], ["n" * 32] * 2], ids=repr)
def test_traits_count_by_the_bytes_of_all_their_names(class_name: str, sealed: list[str]) -> None:
    """By each object that refers to them."""
    names = [name.encode() for name in (class_name, *sealed)]
    traits = u29(len(sealed) << 4 | 3) + b"".join(u29(len(name) << 1 | 1) + name for name in names)
    nothing = b"\x01" * len(sealed)
    data = b"\x09\x07\x01\x0a" + traits + nothing + 2 * (b"\x0a\x01" + nothing)
    cost = 1 + 3 + len(sealed) + 3 * len(sealed) + 2 * (sum(map(len, names)) // 64)
    first, *_ = amf3.decode(data, 0, Limits(amf_elements=cost))[0]
    assert first.traits == Traits(class_name, tuple(sealed))
    with pytest.raises(LimitExceeded):
        amf3.decode(data, 0, Limits(amf_elements=cost - 1))


def test_texts_count_by_bytes_not_by_characters() -> None:
    text = "\U0001f600" * 16
    data = amf3.encode([text, text])
    assert amf3.decode(data, 0, Limits(amf_elements=4))[0] == [text, text]
    with pytest.raises(LimitExceeded):
        amf3.decode(data, 0, Limits(amf_elements=3))


def test_names_of_sealed_members_count_against_the_element_limit() -> None:
    """They are kept with the traits, one byte of the message each."""
    data = h("0a a343 01") + b"\x01" * 0x123 + b"\x01" * 0x123
    with pytest.raises(LimitExceeded):
        amf3.decode(data, 0, Limits(amf_elements=0x123))


def test_decoding_time_does_not_grow_quadratically_with_the_size() -> None:
    """Large tables of strings and traits, and references to the last of each."""

    def taken(count: int) -> float:
        value = [Object(f"c{i}", {f"n{i}": f"s{i}"}, sealed=[f"n{i}"]) for i in range(count)] * 2
        data = amf3.encode(value)
        best = 1.0
        for _ in range(3):
            start = process_time()
            amf3.decode(data, 0, Limits(amf_elements=10**6))
            best = min(best, process_time() - start)
        return best

    assert taken(8000) < 40 * taken(800)
