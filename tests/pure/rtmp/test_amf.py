"""AMF0 and AMF3 alike: vectors in both directions, references, limits, and properties that hold for all values."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp import LimitExceeded, Limits, LocalProtocolError, RemoteProtocolError
from ingest.rtmp.amf import UNSUPPORTED, Date, EcmaArray, Reference, TypedObject, amf0
from ingest.rtmp.amf.amf3 import Array, Dictionary, Externalizable, Items, Object, Vector, Xml
from tests.pure.rtmp.amf0 import test_amf0 as amf0_vectors
from tests.pure.rtmp.amf0.test_amf0 import amf0_values
from tests.pure.rtmp.amf3 import test_amf3 as amf3_vectors
from tests.pure.rtmp.amf3.test_amf3 import amf3, amf3_values, same
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


@given(st.lists(amf0_values, max_size=4))
def test_any_amf0_values_round_trip(message: list[Any]) -> None:
    assert same(decode_all(amf0.encode(*message)), message)


@given(st.lists(amf3_values, max_size=3))
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


@pytest.mark.parametrize(("codec", "values"), [(amf0, amf0_values), (amf3, amf3_values)], ids=["0", "3"])
@given(st.data())
def test_any_damage_is_decoded_or_refused(codec: Any, values: st.SearchStrategy[Any], draw: st.DataObject) -> None:
    data = bytearray(codec.encode(draw.draw(values)))
    for _ in range(draw.draw(st.integers(1, 4))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    decoded_or_refused(codec, bytes(data), Limits(amf_depth=8, amf_elements=100, amf_string_bytes=100))
