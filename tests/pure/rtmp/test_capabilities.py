"""What `connect` says of an end: every property and flag of the tables, and what hostile values come to."""

from dataclasses import replace
from enum import IntFlag
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp import Limits, ServerConnection, events
from ingest.rtmp.amf import UNDEFINED, Amf3, amf0
from ingest.rtmp.capabilities import (
    NO_CAPABILITIES,
    RELAY_CAPABILITIES,
    Capabilities,
    CapsEx,
    FourCcInfo,
    read_capabilities,
)
from tests.pure.rtmp.pair import SERVER_NONCE
from tests.recordings import from_client
from tests.rtmp_client import decode_all

FLAGS: list[tuple[type[IntFlag], dict[str, int]]] = [
    (FourCcInfo, {"CAN_DECODE": 1, "CAN_ENCODE": 2, "CAN_FORWARD": 4}),
    (CapsEx, {"RECONNECT": 1, "MULTITRACK": 2, "MOD_EX": 4, "TIMESTAMP_NANO_OFFSET": 8}),
]
"""The tables of the specifications."""

PROPERTIES: list[tuple[str, Any, str, Any]] = [
    ("swfUrl", "file://C:/FlvPlayer.swf", "swf_url", "file://C:/FlvPlayer.swf"),
    ("pageUrl", "http://somehost/sample.html", "page_url", "http://somehost/sample.html"),
    ("fpad", True, "fpad", True),
    ("objectEncoding", 3.0, "object_encoding", 3),
    ("audioCodecs", 4071.0, "audio_codecs", 4071),
    ("videoCodecs", 252.0, "video_codecs", 252),
    ("videoFunction", 1.0, "video_function", 1),
    ("fourCcList", ["av01", "vp09", "hvc1", ".mp3"], "fourcc_list", ("av01", "vp09", "hvc1", ".mp3")),
    ("fourCcList", ["*"], "fourcc_list", ("*",)),
    ("videoFourCcInfoMap", {"*": 4.0, "vp09": 3.0}, "video_fourcc_info", {"*": 4, "vp09": 3}),
    ("audioFourCcInfoMap", {"Opus": 7.0}, "audio_fourcc_info", {"Opus": 7}),
    ("capsEx", 3.0, "caps_ex", 3),
    ("capsEx", 0.0, "caps_ex", 0),
    ("audioCodecs", 0.0, "audio_codecs", 0),
    ("capsEx", 4294967295.0, "caps_ex", 0xFFFFFFFF),
]
"""Name and value on the wire, field, and its value."""

FLAG_PROPERTIES = [("audioCodecs", "audio_codecs"), ("videoCodecs", "video_codecs"), ("capsEx", "caps_ex")]
INF, NAN = float("inf"), float("nan")
NUMBERLESS = [None, "4", "", True, -1.0, 4294967296.0, 1e300, NAN, INF, [4.0], {"a": 4.0}, UNDEFINED]

HOSTILE: list[tuple[str, Any]] = [
    *((name, value) for name, _ in [*FLAG_PROPERTIES, ("videoFunction", "")] for value in NUMBERLESS),
    *(("objectEncoding", value) for value in [0.0, 1.0, 2.0, 4.0, "3", None, NAN, True, [3.0]]),
    *(("fpad", value) for value in [False, 1.0, "true", None]),
    *((name, value) for name in ("swfUrl", "pageUrl") for value in [1.0, None, ["x"], {"a": "b"}, ""]),
    *(("fourCcList", value) for value in ["av01", 1.0, None, {"0": "av01"}, True]),
    *((f"{kind}FourCcInfoMap", value) for kind in ("video", "audio") for value in [["av01"], "av01", 4.0, None]),
]
"""Values that are none of the tables': they count as not said."""


@pytest.mark.parametrize(("kind", "table"), FLAGS, ids=lambda value: getattr(value, "__name__", ""))
def test_flag_values_match_the_specification(kind: type[IntFlag], table: dict[str, int]) -> None:
    assert {name: int(flag) for name, flag in kind.__members__.items()} == table


@pytest.mark.parametrize(("name", "value", "attribute", "expected"), PROPERTIES)
def test_each_property_is_read_and_written(name: str, value: Any, attribute: str, expected: Any) -> None:
    found = read_capabilities({name: value, "app": "live"})
    assert getattr(found, attribute) == expected
    assert type(getattr(found, attribute)) is type(expected)
    assert found == Capabilities(**{attribute: expected})
    assert found.properties() == {name: value}
    assert decode_all(amf0.encode(found.properties())) == [{name: value}]


def test_properties_in_amf3_are_read_like_those_in_amf0() -> None:
    """Whole numbers and arrays are types of their own there."""
    properties = {name: value for name, value, _, _ in PROPERTIES}
    (in_amf3,) = decode_all(amf0.encode(Amf3(properties | {"capsEx": 3, "fourCcList": ["*"]})))
    assert type(in_amf3["capsEx"]) is int
    assert read_capabilities(in_amf3) == read_capabilities(properties | {"capsEx": 3.0, "fourCcList": ["*"]})


@pytest.mark.parametrize(("name", "attribute"), FLAG_PROPERTIES)
def test_each_flag_is_read(name: str, attribute: str) -> None:
    for bit in range(32):
        assert getattr(read_capabilities({name: float(1 << bit)}), attribute) == 1 << bit


@pytest.mark.parametrize(("name", "value"), HOSTILE, ids=repr)
def test_invalid_property_values_count_as_absent(name: str, value: Any) -> None:
    assert read_capabilities({name: value}) == NO_CAPABILITIES


def test_invalid_fourccs_are_left_out() -> None:
    found = read_capabilities(
        {
            "fourCcList": ["av01", "av1", "toolong", "", 4.0, None, ["hvc1"], "\u00e4bcd", "hvc1", "*"],
            "videoFourCcInfoMap": {"av01": 1.0, "x": 1.0, "hvc1": "1", "vp09": -1.0, "vp08": float("nan")},
        }
    )
    assert found.fourcc_list == ("av01", "hvc1", "*")
    assert found.video_fourcc_info == {"av01": FourCcInfo.CAN_DECODE}


def test_no_more_of_a_list_or_map_is_read_than_the_limit() -> None:
    names = [f"{number:04}" for number in range(2000)]
    found = read_capabilities({"fourCcList": names, "audioFourCcInfoMap": dict.fromkeys(names, 1.0)}, Limits(fourccs=3))
    assert found.fourcc_list == tuple(names[:3])
    assert list(found.audio_fourcc_info or ()) == names[:3]
    assert len(read_capabilities({"fourCcList": names}).fourcc_list or ()) == Limits().fourccs == 64


values = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers(-(2**28), 2**28)
    | st.text(max_size=5)
    | st.sampled_from(("av01", "Opus", "*", UNDEFINED)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4) | st.just("*"), inner, max_size=4),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([name for name, *_ in PROPERTIES]), values))
def test_any_properties_are_read_without_an_error(properties: dict[str, Any]) -> None:
    found = read_capabilities(properties)
    assert read_capabilities(found.properties()) == found
    assert amf0.encode(found.properties())
    assert isinstance(found.enhanced, bool)


@pytest.mark.parametrize(
    ("properties", "enhanced"),
    [
        ({}, False),
        ({"audioCodecs": 4071.0, "videoCodecs": 252.0, "videoFunction": 1.0}, False),
        ({"fourCcList": []}, True),
        ({"videoFourCcInfoMap": {}}, True),
        ({"audioFourCcInfoMap": {}}, True),
        ({"capsEx": 0.0}, True),
        ({"capsEx": "1"}, False),
    ],
)
def test_enhanced_rtmp_client_is_recognised_by_its_connect_properties(
    properties: dict[str, Any], enhanced: bool
) -> None:
    assert read_capabilities(properties).enhanced is enhanced


GSTREAMER_AND_FFMPEG = Capabilities(audio_codecs=4071, video_codecs=252, video_function=1)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ffmpeg-play", GSTREAMER_AND_FFMPEG),
        ("gst-rtmp2src-play", GSTREAMER_AND_FFMPEG),
        ("rtmpdump-play", replace(GSTREAMER_AND_FFMPEG, audio_codecs=3191)),
        ("ffmpeg-publish", NO_CAPABILITIES),
        ("gst-rtmpsink-publish", NO_CAPABILITIES),
        ("ffmpeg9-publish-hevc-aac", Capabilities(fourcc_list=("hvc1", "av01", "vp09"))),
        ("obs-publish", Capabilities(swf_url="rtmp://127.0.0.1:51935/live")),
    ],
)
def test_capabilities_of_recorded_clients_are_read(name: str, expected: Capabilities) -> None:
    server = ServerConnection(nonce=SERVER_NONCE)
    found = server.receive_data(from_client(name))
    assert [event.capabilities for event in found if isinstance(event, events.ConnectRequested)] == [expected]


def test_unknown_flag_values_leave_nothing_in_the_flag_classes() -> None:
    """A class of flags keeps each value that it was ever asked for."""
    kinds = [kind for kind, _ in FLAGS]

    def kept() -> int:
        return sum(len(kind._value2member_map_) for kind in kinds)

    before = kept()
    for value in range(2**31, 2**31 + 1000):
        flags = float(value)
        by_fourcc = {"av01": flags, "*": flags + 0.5}
        properties = {name: flags for name, _ in FLAG_PROPERTIES} | {"videoFunction": flags}
        found = read_capabilities({**properties, "videoFourCcInfoMap": by_fourcc, "audioFourCcInfoMap": by_fourcc})
        assert found.properties()["capsEx"] == found.audio_codecs == value
    assert kept() == before


def test_our_server_forwards_everything() -> None:
    assert RELAY_CAPABILITIES.properties() == {
        "fourCcList": ["*"],
        "videoFourCcInfoMap": {"*": 4},
        "audioFourCcInfoMap": {"*": 4},
        "capsEx": 15,
    }


def test_urls_are_left_out_of_the_repr_of_capabilities() -> None:
    """They may hold a key."""
    found = read_capabilities({"swfUrl": "rtmp://host/live?key=secret", "pageUrl": "http://host/?token=secret"})
    assert "secret" not in repr(found)
