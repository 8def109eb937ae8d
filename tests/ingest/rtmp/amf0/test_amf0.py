"""AMF0: vectors in both directions, limits, references, and properties that hold for all values."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp import LimitExceeded, Limits, LocalProtocolError, RemoteProtocolError
from ingest.rtmp.amf import amf0
from ingest.rtmp.amf.amf0 import UNSUPPORTED, Amf3, Date, EcmaArray, Reference, TypedObject
from tests.ingest.rtmp.amf0.strategies import same, values
from tests.ingest.rtmp.amf0.vectors import BOTH_WAYS, ONE_WAY, REFUSED, Vector


def ids(vectors: list[Any]) -> list[str]:
    return [vector[0] for vector in vectors]


@pytest.mark.parametrize("vector", BOTH_WAYS + ONE_WAY, ids=ids(BOTH_WAYS + ONE_WAY))
def test_decode(vector: Vector) -> None:
    _, value, data = vector
    decoded, end = amf0.decode(data)
    assert (decoded, type(decoded)) == (value, type(value))
    assert end == len(data)


@pytest.mark.parametrize("vector", BOTH_WAYS, ids=ids(BOTH_WAYS))
def test_encode(vector: Vector) -> None:
    _, value, data = vector
    assert amf0.encode(value) == data


ENDED = [vector for vector in BOTH_WAYS + ONE_WAY if vector[0] != "ECMA array without an end"]


@pytest.mark.parametrize("vector", ENDED, ids=ids(ENDED))
def test_what_follows_is_left_alone(vector: Vector) -> None:
    _, value, data = vector
    assert amf0.decode_all(b"\x05" + data + b"\x01\x01") == [None, value, True]
    assert amf0.decode(b"\xff\xff" + data, 2) == (value, len(data) + 2)


@pytest.mark.parametrize("vector", BOTH_WAYS + ONE_WAY, ids=ids(BOTH_WAYS + ONE_WAY))
def test_a_cut_value_is_refused(vector: Vector) -> None:
    _, value, data = vector
    step = max(1, len(data) // 200)
    for end in range(0, len(data), step):
        try:
            decoded, _ = amf0.decode(data[:end])
        except RemoteProtocolError:
            continue
        assert isinstance(value, EcmaArray), "only an ECMA array may lack its end"
        assert decoded == {name: item for name, item in value.items() if name in decoded}


@pytest.mark.parametrize(("name", "data"), REFUSED, ids=ids(REFUSED))
def test_refused(name: str, data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        amf0.decode(data)


def test_every_marker_has_a_vector() -> None:
    """The table of section 2.1."""
    assert {vector[-1][0] for vector in BOTH_WAYS + ONE_WAY} == set(range(0x12)) - {0x04, 0x07, 0x09, 0x0E}
    assert {data[0] for _, data in REFUSED if data} >= {0x04, 0x07, 0x09, 0x0E}


def test_a_whole_message() -> None:
    data = amf0.encode("connect", 1, {"app": "live"}, None)
    assert amf0.decode_all(data) == ["connect", 1.0, {"app": "live"}, None]
    assert amf0.decode_all(b"") == []


def test_integers_and_tuples_are_taken() -> None:
    assert amf0.decode_all(amf0.encode(3, -(2**40), (1, "a"))) == [3.0, -(2.0**40), [1.0, "a"]]


def test_subclasses_are_encoded_as_their_base() -> None:
    class Name(str):
        __slots__ = ()

    assert amf0.encode(Name("a")) == amf0.encode("a")


@pytest.mark.parametrize(
    "value",
    [object(), b"bytes", 10**400, "\ud800", {"a" * 65536: 1}, Date(0.0, 40_000), Reference(0), {1, 2}],
    ids=["object", "bytes", "number", "surrogate", "long name", "zone", "reference", "set"],
)
def test_what_amf0_cannot_say(value: Any) -> None:
    with pytest.raises(LocalProtocolError):
        amf0.encode(value)


class TestReferences:
    def test_the_same_object_again_is_written_as_a_reference(self) -> None:
        point = {"x": 1.0}
        data = amf0.encode([point, point])
        assert data == bytes.fromhex("0a00000002 03 0001 78 003ff0000000000000 000009 070001")
        first, second = amf0.decode(data)[0]
        assert first is second

    def test_equal_objects_are_written_out(self) -> None:
        first, second = amf0.decode(amf0.encode([{"x": 1.0}, {"x": 1.0}]))[0]
        assert first == second
        assert first is not second

    def test_an_object_that_holds_itself(self) -> None:
        loop: dict[str, Any] = {}
        loop["self"] = loop
        data = amf0.encode(loop)
        decoded, _ = amf0.decode(data)
        assert decoded == {"self": Reference(0)}
        assert amf0.encode(decoded) == data

    def test_one_to_what_encloses_it_holds_in_another_place(self) -> None:
        inner: dict[str, Any] = {}
        inner["self"] = inner
        decoded = amf0.decode_all(amf0.encode(["first"], [inner]))[1]
        assert decoded == [{"self": Reference(1)}]
        assert amf0.decode_all(amf0.encode(decoded)) == [decoded]

    @pytest.mark.parametrize("before", [[], {}, EcmaArray(), TypedObject("P")], ids=repr)
    def test_levels_leave_out_what_is_finished(self, before: Any) -> None:
        value = [before, {"me": Reference(1)}]
        assert amf0.decode(amf0.encode(value))[0] == value

    def test_they_reach_over_the_whole_message(self) -> None:
        shared = ["a"]
        assert amf0.decode_all(amf0.encode("call", shared, {"again": shared})) == ["call", ["a"], {"again": ["a"]}]

    def test_what_they_stand_for_counts(self) -> None:
        """Each array holds the one before twice: 40 lines would stand for 2^40 values."""
        value: list[Any] = []
        levels = [value]
        for _ in range(40):
            value = [value, value]
            levels.append(value)
        data = amf0.encode(*levels)
        assert len(data) < 1000
        with pytest.raises(LimitExceeded):
            amf0.decode_all(data)

    def test_texts_that_they_stand_for_count(self) -> None:
        """A short message can't stand for megabytes of text."""
        note = ["x" * 60_000]
        assert amf0.decode_all(amf0.encode(*[note] * 17)) == [note] * 17
        with pytest.raises(LimitExceeded):
            amf0.decode_all(amf0.encode(*[note] * 19))


class TestAmf3:
    """The switch to AMF3 for one value (section 3.1)."""

    VALUE: dict[str, Any] = {"name": "name", "number": 3, "bytes": b"\x00", "list": [None]}

    def test_a_value(self) -> None:
        data = amf0.encode(Amf3([1, "a"]))
        assert data == bytes.fromhex("11 09 05 01 04 01 06 03 61")
        assert amf0.decode(data) == ([1, "a"], len(data))

    def test_amf0_goes_on_after_it(self) -> None:
        message = ["call", 2.0, {"x": Amf3(self.VALUE), "y": 1.0}, Amf3(None), [Amf3(0.5)], True]
        decoded = amf0.decode_all(amf0.encode(*message))
        assert decoded == ["call", 2.0, {"x": self.VALUE, "y": 1.0}, None, [0.5], True]

    def test_tables_are_those_of_the_message(self) -> None:
        """As BlazeDS, Red5 and Py3AMF have it; those of AMF0 are others."""
        data = amf0.encode(Amf3(self.VALUE), self.VALUE["list"], Amf3(self.VALUE), Amf3("name"))
        assert data.endswith(bytes.fromhex("11 0a 00  11 06 00"))
        first, amf0_list, second, name = amf0.decode_all(data)
        assert first is second
        assert amf0_list == [None]
        assert name == "name"

    def test_references_to_enclosing_values_count_from_the_switch(self) -> None:
        loop: dict[str, Any] = {}
        loop["self"] = loop
        decoded, _ = amf0.decode(amf0.encode([[Amf3(loop)]]))
        assert decoded == [[{"self": Reference(0)}]]
        assert amf0.decode(amf0.encode([[Amf3(decoded[0][0])]]))[0] == decoded

    def test_limits_hold_for_both_together(self) -> None:
        limits = Limits(amf_depth=4, amf_elements=9)
        assert amf0.decode(amf0.encode([[Amf3([[]])]]), 0, limits)[0] == [[[[]]]]
        with pytest.raises(LimitExceeded):
            amf0.decode(amf0.encode([[Amf3([[[]]])]]), 0, limits)
        with pytest.raises(LimitExceeded):
            amf0.decode_all(amf0.encode(None, None, Amf3([None, None]), Amf3([None, None])), 0, limits)

    def test_what_amf3_cannot_say(self) -> None:
        with pytest.raises(LocalProtocolError):
            amf0.encode(Amf3(UNSUPPORTED))


class TestLimits:
    def test_depth(self) -> None:
        limits = Limits(amf_depth=3)
        assert amf0.decode(amf0.encode([[[]]]), 0, limits)[0] == [[[]]]
        with pytest.raises(LimitExceeded):
            amf0.decode(amf0.encode([[[[]]]]), 0, limits)

    def test_depth_by_default_is_safe_for_a_very_deep_message(self) -> None:
        with pytest.raises(LimitExceeded):
            amf0.decode(b"\x0a\x00\x00\x00\x01" * 10_000)
        with pytest.raises(LimitExceeded):
            amf0.decode(b"\x03\x00\x01a" * 10_000)

    def test_elements(self) -> None:
        limits = Limits(amf_elements=4)
        assert amf0.decode(amf0.encode([None, None, None]), 0, limits)[0] == [None] * 3
        with pytest.raises(LimitExceeded):
            amf0.decode(amf0.encode([None, None, None, None]), 0, limits)

    @pytest.mark.parametrize("data", [b"\x02\x00\x05abcde", b"\x0c\x00\x00\x00\x05abcde", b"\x0f\x00\x00\x00\x05abcde"])
    def test_string_length(self, data: bytes) -> None:
        assert amf0.decode(data, 0, Limits(amf_string_bytes=5))[0] == "abcde"
        with pytest.raises(LimitExceeded):
            amf0.decode(data, 0, Limits(amf_string_bytes=4))


@given(st.lists(values, max_size=4))
def test_what_is_encoded_is_decoded(message: list[Any]) -> None:
    decoded = amf0.decode_all(amf0.encode(*message))
    assert all(same(*pair) for pair in zip(message, decoded, strict=True))


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    try:
        decoded = amf0.decode_all(data)
    except RemoteProtocolError:
        return
    try:
        amf0.encode(*decoded)
    except LocalProtocolError:
        assert b"\x11" in data, "only AMF3 has values that AMF0 can't say"


@given(values, st.data())
def test_any_damage_is_decoded_or_refused(value: Any, draw: st.DataObject) -> None:
    data = bytearray(amf0.encode(value))
    for _ in range(draw.draw(st.integers(1, 4))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    try:
        amf0.decode_all(bytes(data))
    except RemoteProtocolError:
        return
