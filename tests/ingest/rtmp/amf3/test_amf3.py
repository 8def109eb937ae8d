"""AMF3: vectors in both directions, limits, references, and properties that hold for all values."""

from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp import LimitExceeded, Limits, LocalProtocolError, RemoteProtocolError
from ingest.rtmp.amf import amf0, amf3
from ingest.rtmp.amf.amf3 import Date, Dictionary, Externalizable, Items, Object, Reference, Vector, Xml
from tests.ingest.rtmp.amf3.strategies import same, values
from tests.ingest.rtmp.amf3.vectors import BOTH_WAYS, ONE_WAY, REFUSED, Case, h
from tests.ingest.rtmp.amplified import u29

VECTORS = BOTH_WAYS + ONE_WAY


def ids(vectors: list[Any]) -> list[str]:
    return [vector[0] for vector in vectors]


@pytest.mark.parametrize("vector", VECTORS, ids=ids(VECTORS))
def test_decode(vector: Case) -> None:
    _, value, data = vector
    decoded, end = amf3.decode(data)
    assert decoded == value
    assert same(decoded, value)
    assert end == len(data)


@pytest.mark.parametrize("vector", BOTH_WAYS, ids=ids(BOTH_WAYS))
def test_encode(vector: Case) -> None:
    _, value, data = vector
    assert amf3.encode(value) == data


@pytest.mark.parametrize("vector", VECTORS, ids=ids(VECTORS))
def test_what_surrounds_it_is_left_alone(vector: Case) -> None:
    _, value, data = vector
    assert amf3.decode(b"\xff\xff" + data + b"\x03", 2) == (value, len(data) + 2)


@pytest.mark.parametrize("vector", VECTORS, ids=ids(VECTORS))
def test_a_cut_value_is_refused(vector: Case) -> None:
    _, _, data = vector
    for end in range(len(data)):
        with pytest.raises(RemoteProtocolError):
            amf3.decode(data[:end])


@pytest.mark.parametrize(("name", "data"), REFUSED, ids=ids(REFUSED))
def test_refused(name: str, data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        amf3.decode(data)


def test_every_marker_has_a_vector() -> None:
    """Section 3.1."""
    assert {data[0] for _, _, data in BOTH_WAYS} == set(range(0x12))


@pytest.mark.parametrize("value", [2**28, -(2**28) - 1, 2**40])
def test_integers_of_more_than_29_bits_are_doubles(value: int) -> None:
    assert amf3.encode(value) == amf3.encode(float(value))
    assert amf3.decode(amf3.encode(value))[0] == value


def test_types_that_are_taken_for_others() -> None:
    assert amf3.encode((1, "a")) == amf3.encode([1, "a"])
    assert amf3.encode(Date(5.0, 60)) == amf3.encode(Date(5.0))
    assert amf3.encode(amf0.EcmaArray({"a": 1})) == amf3.encode({"a": 1})


@pytest.mark.parametrize(
    "value",
    [
        object(),
        amf0.UNSUPPORTED,
        10**400,
        "\ud800",
        Xml("\ud800"),
        {"": 1},
        amf3.Array([], {"": 1}),
        Object("P", {}, sealed="x"),
        Object("P", {"x": 1}),
        Externalizable("P", 1),
        Vector(Items.INT, [2**31]),
        Vector(Items.UINT, [-1]),
        Vector(Items.DOUBLE, [10**400]),
        Vector(Items.INT, ["a"]),
        Date(10**400),
        Reference(0),
        [Reference(1)],
        [Reference(-1)],
    ],
    ids=lambda value: f"{type(value).__name__}-{value!r}"[:40].partition(" at 0x")[0],
)
def test_what_amf3_cannot_say(value: Any) -> None:
    with pytest.raises(LocalProtocolError):
        amf3.encode(value)


def test_the_name_of_an_unknown_class_is_not_quoted() -> None:
    """It may be whatever the peer likes, a stream key too."""
    with pytest.raises(RemoteProtocolError, match="externalizable") as refused:
        amf3.decode(h("0a 07 0d") + b"secret" + h("01"))
    assert "secret" not in str(refused.value)


class TestReferences:
    @pytest.mark.parametrize(
        "value",
        [{"x": 1}, [1], Object("P"), Date(1.0), Xml("<a/>"), b"abc", Vector(Items.INT), Dictionary([(1, 2)])],
        ids=repr,
    )
    def test_the_same_value_again(self, value: Any) -> None:
        first, second = amf3.decode(amf3.encode([value, value]))[0]
        assert first is second
        assert first == value

    def test_equal_values_are_written_out(self) -> None:
        first, second = amf3.decode(amf3.encode([{"x": 1}, {"x": 1}]))[0]
        assert first == second
        assert first is not second

    def test_an_object_that_holds_itself(self) -> None:
        loop: dict[str, Any] = {}
        loop["self"] = [loop]
        data = amf3.encode(loop)
        decoded, _ = amf3.decode(data)
        assert decoded == {"self": [Reference(0)]}
        assert amf3.encode(decoded) == data

    @pytest.mark.parametrize(
        "before",
        [
            [],
            {},
            Object("P"),
            Externalizable("flex.messaging.io.ObjectProxy"),
            Vector(Items.INT),
            Vector(Items.OBJECT),
            Dictionary(),
        ],
        ids=repr,
    )
    def test_levels_leave_out_what_is_finished(self, before: Any) -> None:
        value = [before, {"me": Reference(1)}]
        assert amf3.decode(amf3.encode(value))[0] == value

    @pytest.mark.parametrize("codec", [amf0, amf3], ids=["AMF0", "AMF3"])
    def test_one_into_what_is_gone_cannot_be_written(self, codec: Any) -> None:
        """As of a member that came twice, see the vectors: who writes what a peer sent has to reckon with it."""
        with pytest.raises(LocalProtocolError):
            codec.encode({"a": None, "c": [Reference(2)]})

    def test_tables_are_shared_by_the_values_of_one_encoder(self) -> None:
        shared = {"name": "name"}
        data = amf3.encode(shared, shared, "name")
        decoder = amf3.Decoder(data, 0, Limits(), 10)
        first, second, name = (decoder.value(0) for _ in range(3))
        assert first is second
        assert (first, name) == (shared, "name")

    def test_what_they_stand_for_counts(self) -> None:
        """Each array holds the one before twice: 40 lines would stand for 2^40 values."""
        value: list[Any] = []
        for _ in range(40):
            value = [value, value]
        data = amf3.encode(value)
        assert len(data) < 250
        with pytest.raises(LimitExceeded):
            amf3.decode(data, 0, Limits(amf_depth=50))

    @pytest.mark.parametrize(
        "value",
        ["x" * 6400, b"x" * 6400, Xml("x" * 6400), ["x" * 6400], Vector(Items.INT, [0] * 100)],
        ids=["string", "bytes", "XML", "array", "vector"],
    )
    def test_what_is_long_counts_by_its_length(self, value: Any) -> None:
        limits = Limits(amf_elements=1000)
        assert amf3.decode(amf3.encode([value] * 9), 0, limits)[0] == [value] * 9
        with pytest.raises(LimitExceeded):
            amf3.decode(amf3.encode([value] * 11), 0, limits)

    @pytest.mark.parametrize("class_name", ["", "n" * 640, "\U0001f600" * 160], ids=["none", "long", "wide"])
    @pytest.mark.parametrize("sealed", [[], ["n" * 640], ["\U0001f600" * 160], ["n" * 32] * 2], ids=repr)
    def test_traits_count_by_the_bytes_of_all_their_names(self, class_name: str, sealed: list[str]) -> None:
        """By each object that refers to them."""
        names = [name.encode() for name in (class_name, *sealed)]
        traits = u29(len(sealed) << 4 | 3) + b"".join(u29(len(name) << 1 | 1) + name for name in names)
        nothing = b"\x01" * len(sealed)
        data = b"\x09\x07\x01\x0a" + traits + nothing + 2 * (b"\x0a\x01" + nothing)
        cost = 1 + 3 + len(sealed) + 3 * len(sealed) + 2 * (sum(map(len, names)) // 64)
        first, *_ = amf3.decode(data, 0, Limits(amf_elements=cost))[0]
        assert first.traits == amf3.Traits(class_name, tuple(sealed))
        with pytest.raises(LimitExceeded):
            amf3.decode(data, 0, Limits(amf_elements=cost - 1))

    def test_texts_count_by_bytes_not_by_characters(self) -> None:
        text = "\U0001f600" * 16
        data = amf3.encode([text, text])
        assert amf3.decode(data, 0, Limits(amf_elements=4))[0] == [text, text]
        with pytest.raises(LimitExceeded):
            amf3.decode(data, 0, Limits(amf_elements=3))


class TestLimits:
    @pytest.mark.parametrize(
        "nested",
        [
            lambda value: [value],
            lambda value: amf3.Array([], {"a": value}),
            lambda value: {"a": value},
            lambda value: Object("P", {"a": value}, sealed="a"),
            lambda value: Externalizable("flex.messaging.io.ObjectProxy", value),
            lambda value: Vector(Items.OBJECT, [value]),
            lambda value: Dictionary([(value, None)]),
        ],
        ids=["array", "associative", "object", "sealed", "externalizable", "vector", "dictionary"],
    )
    def test_depth(self, nested: Any) -> None:
        value = nested(nested(nested(None)))
        assert amf3.decode(amf3.encode(value), 0, Limits(amf_depth=3))[0] == value
        with pytest.raises(LimitExceeded):
            amf3.decode(amf3.encode(nested(value)), 0, Limits(amf_depth=3))

    @pytest.mark.parametrize("data", [h("09 03 01"), h("0a 0b 01 03 61"), h("10 03 00 01"), h("11 03 00")])
    def test_depth_by_default_is_safe_for_a_very_deep_message(self, data: bytes) -> None:
        with pytest.raises(LimitExceeded):
            amf3.decode(data * 10_000)

    @pytest.mark.parametrize(
        "value",
        [
            [None] * 9,
            Vector(Items.INT, [0] * 9),
            Vector(Items.OBJECT, [None] * 9),
            Dictionary([(None, None)] * 4),
        ],
        ids=["array", "int vector", "object vector", "dictionary"],
    )
    def test_elements(self, value: Any) -> None:
        count = 1 + sum(2 if isinstance(item, tuple) else 1 for item in value)
        assert amf3.decode(amf3.encode(value), 0, Limits(amf_elements=count))[0] == value
        with pytest.raises(LimitExceeded):
            amf3.decode(amf3.encode(value), 0, Limits(amf_elements=count - 1))

    def test_names_of_sealed_members_count(self) -> None:
        """They are kept with the traits, one byte of the message each."""
        data = h("0a a343 01") + b"\x01" * 0x123 + b"\x01" * 0x123
        with pytest.raises(LimitExceeded):
            amf3.decode(data, 0, Limits(amf_elements=0x123))

    @pytest.mark.parametrize("marker", [0x06, 0x07, 0x0B, 0x0C])
    def test_length(self, marker: int) -> None:
        data = bytes([marker]) + b"\x0babcde"
        assert len(amf3.decode(data, 0, Limits(amf_string_bytes=5))[0]) == 5
        with pytest.raises(LimitExceeded):
            amf3.decode(data, 0, Limits(amf_string_bytes=4))

    def test_time_grows_with_the_bytes_at_most(self) -> None:
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


@given(st.lists(values, max_size=3))
def test_what_is_encoded_is_decoded(message: list[Any]) -> None:
    data = amf3.encode(message)
    decoded, end = amf3.decode(data)
    assert end == len(data)
    assert same(decoded, message)
    assert amf3.encode(decoded) == data


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    try:
        decoded, _ = amf3.decode(data)
    except RemoteProtocolError:
        return
    amf3.encode(decoded)


@given(values, st.data())
def test_any_damage_is_decoded_or_refused(value: Any, draw: st.DataObject) -> None:
    data = bytearray(amf3.encode(value))
    for _ in range(draw.draw(st.integers(1, 4))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    try:
        decoded, _ = amf3.decode(bytes(data), 0, Limits(amf_depth=8, amf_elements=100, amf_string_bytes=100))
    except RemoteProtocolError:
        return
    amf3.encode(decoded)
