"""AMF0 and AMF3 alike: vectors in both directions, references, limits, and properties that hold for all values."""

from contextlib import suppress
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp import LimitExceeded, Limits, LocalProtocolError, RemoteProtocolError
from ingest.rtmp.amf import UNSUPPORTED, Date, EcmaArray, Reference, TypedObject, amf0
from ingest.rtmp.amf.amf3 import Array, Dictionary, Externalizable, Items, Object, Traits, Vector, Xml
from tests.pure.rtmp.amf0 import strategies as amf0_values
from tests.pure.rtmp.amf0 import vectors as amf0_vectors
from tests.pure.rtmp.amf3 import codec as amf3
from tests.pure.rtmp.amf3 import strategies as amf3_values
from tests.pure.rtmp.amf3 import vectors as amf3_vectors
from tests.pure.rtmp.amf3.strategies import same
from tests.pure.rtmp.memory import u29
from tests.pure.rtmp.wire import h
from tests.rtmp_client import decode_all

EMPTY: tuple[Any, ...] = ([], {})
PROXY = "flex.messaging.io.ObjectProxy"
both = pytest.mark.parametrize("codec", [amf0, amf3], ids=["AMF0", "AMF3"])


def table(name: str) -> list[Any]:
    """Of the vectors of both: the codec, and what stands behind the name of each row."""
    return [
        pytest.param(codec, *row, id=f"{label}: {title}")
        for label, codec, vectors in (("AMF0", amf0, amf0_vectors), ("AMF3", amf3, amf3_vectors))
        for title, *row in getattr(vectors, name)
    ]


VECTORS = table("BOTH_WAYS") + table("ONE_WAY")


@pytest.mark.parametrize(("codec", "value", "data"), VECTORS)
def test_decode(codec: Any, value: Any, data: bytes) -> None:
    decoded, end = codec.decode(data)
    assert same(decoded, value)
    assert end == len(data)


@pytest.mark.parametrize(("codec", "value", "data"), table("BOTH_WAYS"))
def test_encode(codec: Any, value: Any, data: bytes) -> None:
    assert codec.encode(value) == data


@pytest.mark.parametrize(("codec", "value", "data"), VECTORS)
def test_bytes_around_a_value_are_left_alone(codec: Any, value: Any, data: bytes) -> None:
    if codec is amf3:
        assert amf3.decode(b"\xff\xff" + data + b"\x03", 2) == (value, len(data) + 2)
    elif not isinstance(value, EcmaArray) or data.endswith(b"\0\0\x09"):
        assert decode_all(b"\x05" + data + b"\x01\x01") == [None, value, True]
        assert amf0.decode(b"\xff\xff" + data, 2) == (value, len(data) + 2)


@pytest.mark.parametrize(("codec", "value", "data"), VECTORS)
def test_a_cut_value_is_refused(codec: Any, value: Any, data: bytes) -> None:
    for end in range(0, len(data), max(1, len(data) // 200)):
        try:
            decoded, _ = codec.decode(data[:end])
        except RemoteProtocolError:
            continue
        assert codec is amf0
        assert isinstance(value, EcmaArray), "only an ECMA array may lack its end"
        assert decoded == {name: item for name, item in value.items() if name in decoded}


@pytest.mark.parametrize(("codec", "data"), table("REFUSED"))
def test_malformed_data_is_refused(codec: Any, data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        codec.decode(data)


def test_every_marker_has_a_vector() -> None:
    """Section 2.1 of AMF0, 3.1 of AMF3."""
    refused = {0x04, 0x07, 0x09, 0x0E}
    read = {data[0] for *_, data in amf0_vectors.BOTH_WAYS + amf0_vectors.ONE_WAY}
    assert read == set(range(0x12)) - refused
    assert {data[0] for _, data in amf0_vectors.REFUSED if data} >= refused
    assert {data[0] for *_, data in amf3_vectors.BOTH_WAYS} == set(range(0x12))


@pytest.mark.parametrize(
    ("codec", "value"),
    [
        *((codec, value) for codec in (amf0, amf3) for value in (object(), 10**400, "\ud800", Reference(0))),
        *((amf0, value) for value in (b"bytes", {"a" * 65536: 1}, Date(0.0, 40_000), {1, 2})),
        *((amf3, value) for value in (UNSUPPORTED, Xml("\ud800"), {"": 1}, Array([], {"": 1}))),
        *((amf3, value) for value in (Object("P", {}, sealed="x"), Object("P", {"x": 1}), Externalizable("P", 1))),
        *((amf3, Vector(kind, [item])) for kind, item in ((Items.INT, 2**31), (Items.UINT, -1), (Items.INT, "a"))),
        *((amf3, value) for value in (Vector(Items.DOUBLE, [10**400]), Date(10**400), [Reference(1)], [Reference(-1)])),
        # As of a member that came twice, see the vectors: who writes what a peer sent has to reckon with it.
        *((codec, {"a": None, "c": [Reference(2)]}) for codec in (amf0, amf3)),
    ],
    ids=lambda value: f"{value!r}"[:40].partition(" at 0x")[0],
)
def test_value_without_an_amf_form_is_refused_by_encode(codec: Any, value: Any) -> None:
    with pytest.raises(LocalProtocolError):
        codec.encode(value)


class TestReferences:
    @pytest.mark.parametrize(
        ("codec", "value"),
        [
            *((codec, value) for codec in (amf0, amf3) for value in ({"x": 1}, [1])),
            *((amf3, value) for value in (Object("P"), Date(1.0), Xml("<a/>"), b"abc")),
            *((amf3, value) for value in (Vector(Items.INT), Dictionary([(1, 2)]))),
        ],
        ids=repr,
    )
    def test_same_value_twice_is_decoded_as_one_object(self, codec: Any, value: Any) -> None:
        first, second = codec.decode(codec.encode([value, value]))[0]
        assert first is second
        assert first == value

    @both
    def test_equal_values_are_written_out(self, codec: Any) -> None:
        first, second = codec.decode(codec.encode([{"x": 1}, {"x": 1}]))[0]
        assert first == second
        assert first is not second

    @both
    def test_self_containing_object_is_decoded_with_a_reference(self, codec: Any) -> None:
        loop: dict[str, Any] = {}
        loop["self"] = [loop]
        data = codec.encode(loop)
        decoded, _ = codec.decode(data)
        assert decoded == {"self": [Reference(0)]}
        assert codec.encode(decoded) == data

    @pytest.mark.parametrize(
        ("codec", "before"),
        [
            *((amf0, each) for each in (*EMPTY, EcmaArray(), TypedObject("P"))),
            *((amf3, each) for each in (*EMPTY, Object("P"), Externalizable(PROXY), Dictionary())),
            *((amf3, Vector(kind)) for kind in (Items.INT, Items.OBJECT)),
        ],
        ids=repr,
    )
    def test_reference_levels_count_enclosing_values_only(self, codec: Any, before: Any) -> None:
        value = [before, {"me": Reference(1)}]
        assert codec.decode(codec.encode(value))[0] == value

    @both
    def test_referenced_values_count_against_the_element_limit(self, codec: Any) -> None:
        """Each array holds the one before twice: 40 lines would stand for 2^40 values."""
        value: list[Any] = []
        for _ in range(40):
            value = [value, value]
        data = codec.encode(value)
        assert len(data) < 400
        with pytest.raises(LimitExceeded):
            codec.decode(data, 0, Limits(amf_depth=50))


class TestLimits:
    @pytest.mark.parametrize(
        ("codec", "nested"),
        [
            (amf0, lambda value: [value]),
            (amf0, lambda value: {"a": value}),
            (amf0, lambda value: EcmaArray({"a": value})),
            (amf0, lambda value: TypedObject("P", {"a": value})),
            (amf3, lambda value: [value]),
            (amf3, lambda value: Array([], {"a": value})),
            (amf3, lambda value: {"a": value}),
            (amf3, lambda value: Object("P", {"a": value}, sealed="a")),
            (amf3, lambda value: Externalizable(PROXY, value)),
            (amf3, lambda value: Vector(Items.OBJECT, [value])),
            (amf3, lambda value: Dictionary([(value, None)])),
        ],
    )
    def test_nesting_over_the_depth_limit_is_refused(self, codec: Any, nested: Any) -> None:
        value = nested(nested(nested(None)))
        assert codec.decode(codec.encode(value), 0, Limits(amf_depth=3))[0] == value
        with pytest.raises(LimitExceeded):
            codec.decode(codec.encode(nested(value)), 0, Limits(amf_depth=3))

    @pytest.mark.parametrize(
        ("codec", "data"),
        [
            *((amf0, data) for data in (h("0a 00000001"), h("03 0001 61"))),
            *((amf3, data) for data in (h("09 03 01"), h("0a 0b 01 03 61"), h("10 03 00 01"), h("11 03 00"))),
        ],
    )
    def test_depth_by_default_is_safe_for_a_very_deep_message(self, codec: Any, data: bytes) -> None:
        with pytest.raises(LimitExceeded):
            codec.decode(data * 10_000)

    @pytest.mark.parametrize(
        ("codec", "value"),
        [
            (amf0, [None] * 9),
            (amf3, [None] * 9),
            (amf3, Vector(Items.INT, [0] * 9)),
            (amf3, Vector(Items.OBJECT, [None] * 9)),
            (amf3, Dictionary([(None, None)] * 4)),
        ],
    )
    def test_values_over_the_element_limit_are_refused(self, codec: Any, value: Any) -> None:
        count = 1 + sum(2 if isinstance(item, tuple) else 1 for item in value)
        assert codec.decode(codec.encode(value), 0, Limits(amf_elements=count))[0] == value
        with pytest.raises(LimitExceeded):
            codec.decode(codec.encode(value), 0, Limits(amf_elements=count - 1))

    @pytest.mark.parametrize(
        ("codec", "data"),
        [
            *((amf0, h(length) + b"abcde") for length in ("02 0005", "0c 00000005", "0f 00000005")),
            *((amf3, bytes([marker]) + b"\x0babcde") for marker in (0x06, 0x07, 0x0B, 0x0C)),
        ],
    )
    def test_texts_and_bytes_over_the_length_limit_are_refused(self, codec: Any, data: bytes) -> None:
        assert len(codec.decode(data, 0, Limits(amf_string_bytes=5))[0]) == 5
        with pytest.raises(LimitExceeded):
            codec.decode(data, 0, Limits(amf_string_bytes=4))


@given(st.lists(amf0_values.values, max_size=4))
def test_any_amf0_values_round_trip(message: list[Any]) -> None:
    assert same(decode_all(amf0.encode(*message)), message)


@given(st.lists(amf3_values.values, max_size=3))
def test_any_amf3_value_round_trips(message: list[Any]) -> None:
    data = amf3.encode(message)
    decoded, end = amf3.decode(data)
    assert end == len(data)
    assert same(decoded, message)
    assert amf3.encode(decoded) == data


def decoded_or_refused(codec: Any, data: bytes, limits: Limits) -> None:
    """What is read can be written again, but for what AMF3 has and AMF0 can't say."""
    try:
        values = decode_all(data, 0, limits) if codec is amf0 else [amf3.decode(data, 0, limits)[0]]
    except RemoteProtocolError:
        return
    with suppress(*([LocalProtocolError] if codec is amf0 and b"\x11" in data else [])):
        codec.encode(*values)


@both
@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_refused(codec: Any, data: bytes) -> None:
    decoded_or_refused(codec, data, Limits())


@pytest.mark.parametrize(("codec", "values"), [(amf0, amf0_values.values), (amf3, amf3_values.values)], ids=["0", "3"])
@given(st.data())
def test_any_damage_is_decoded_or_refused(codec: Any, values: st.SearchStrategy[Any], draw: st.DataObject) -> None:
    data = bytearray(codec.encode(draw.draw(values)))
    for _ in range(draw.draw(st.integers(1, 4))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    decoded_or_refused(codec, bytes(data), Limits(amf_depth=8, amf_elements=100, amf_string_bytes=100))


# --- AMF3 alone ---


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
