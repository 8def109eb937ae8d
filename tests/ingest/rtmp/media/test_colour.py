"""Metadata frames: colour and HDR."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp import amf0, amf3
from ingest.rtmp.media.colour import (
    MAX_METADATA_BYTES,
    ColourConfig,
    ColourInfo,
    LightLevel,
    MasteringDisplay,
    read_colour,
    read_metadata,
    write_colour,
)

HDR10 = ColourInfo(
    ColourConfig(10, 9, 16, 9),
    LightLevel(400.0, 1000.0),
    MasteringDisplay(0.708, 0.292, 0.17, 0.797, 0.131, 0.046, 0.3127, 0.329, 1000.0, 0.005),
)


def body(value: Any, name: Any = "colorInfo") -> bytes:
    return amf0.encode(name) + amf0.encode(value)


def test_hdr10() -> None:
    assert read_metadata(write_colour(HDR10)) == {
        "colorInfo": {
            "colorConfig": {
                "bitDepth": 10.0,
                "colorPrimaries": 9.0,
                "transferCharacteristics": 16.0,
                "matrixCoefficients": 9.0,
            },
            "hdrCll": {"maxFall": 400.0, "maxCLL": 1000.0},
            "hdrMdcv": {
                "redX": 0.708,
                "redY": 0.292,
                "greenX": 0.17,
                "greenY": 0.797,
                "blueX": 0.131,
                "blueY": 0.046,
                "whitePointX": 0.3127,
                "whitePointY": 0.329,
                "maxLuminance": 1000.0,
                "minLuminance": 0.005,
            },
        }
    }
    assert read_colour(write_colour(HDR10)) == HDR10
    assert HDR10.hdr == "PQ"
    assert ColourInfo(ColourConfig(transfer=18)).hdr == "HLG"
    assert ColourInfo(ColourConfig(transfer=1)).hdr is None


@pytest.mark.parametrize("value", [amf0.UNDEFINED, {}, None, amf0.EcmaArray()])
def test_a_reset(value: Any) -> None:
    found = read_colour(body(value))
    assert found
    assert found.is_reset
    assert found.hdr is None
    assert write_colour(found) == body(amf0.UNDEFINED)


@pytest.mark.parametrize(
    ("group", "name", "value"),
    [
        ("colorConfig", "transferCharacteristics", 256.0),
        ("colorConfig", "transferCharacteristics", 16.5),
        ("colorConfig", "bitDepth", "10"),
        ("colorConfig", "bitDepth", True),
        ("hdrCll", "maxCLL", float("inf")),
        ("hdrCll", "maxFall", float("nan")),
        ("hdrCll", "maxFall", 0.0),
        ("hdrMdcv", "redX", 0.75),
        ("hdrMdcv", "minLuminance", 6.0),
        ("unknown", "maxFall", 1.0),
    ],
)
def test_impossible_figures_are_left_out(group: str, name: str, value: Any) -> None:
    found = read_colour(body({group: {name: value}}))
    assert found == ColourInfo()


def test_amf3_says_the_same() -> None:
    """By the switch within AMF0; its whole numbers are integers."""
    given = {"colorConfig": {"bitDepth": 10, "transferCharacteristics": 18}, "hdrCll": {"maxFall": 400, "maxCLL": 0.5}}
    found = read_colour(amf0.encode("colorInfo") + b"\x11" + amf3.encode(given))
    assert found == ColourInfo(ColourConfig(10, transfer=18), LightLevel(400.0, 0.5))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        body({}, "other"),
        body("PQ"),
        body({}, 1.0),
        amf0.encode("colorInfo"),
        body({})[:-1],
        b"\x11" * 4,
        b"\x03" * 99,
    ],
)
def test_no_colour(text: bytes) -> None:
    assert read_colour(text) is None


def test_the_last_of_a_name_counts() -> None:
    first, second = body({"colorConfig": {"bitDepth": 8}}), body({"colorConfig": {"bitDepth": 10}})
    assert read_colour(first + body(1, "more") + second) == ColourInfo(ColourConfig(10))


def test_long_metadata_are_not_read() -> None:
    assert read_metadata(body("x" * MAX_METADATA_BYTES)) is None


@given(st.binary(max_size=200))
def test_no_body_is_too_strange(rest: bytes) -> None:
    read_colour(rest)
    read_colour(amf0.encode("colorInfo") + rest)
