"""The validator of subtitles in WebVTT."""

from dataclasses import replace

import pytest

from tests.hls.playlist import Part, Segment
from tests.hls.segment_checks import Body, Subtitles

HEADER = "WEBVTT\nX-TIMESTAMP-MAP=LOCAL:00:00:00.000,MPEGTS:900000\n\n"
CUES = ("00:01.000 --> 00:01.300\nA text\n\n", "1\n00:00:01.300 --> 00:00:01.600 line:90%\nA text\nof two lines\n\n")


def good() -> Body:
    segment = Segment(7, "s0-7.vtt", 2.0, (Part("s0-7.0.vtt", 1.0), Part("s0-7.1.vtt", 1.0)))
    return Body(segment, (HEADER + "".join(CUES)).encode(), [(HEADER + cue).encode() for cue in CUES])


def whole(text: str) -> Body:
    return replace(good(), whole=text.encode(), parts=[])


def test_good_texts_have_no_fault() -> None:
    without_header = whole("".join(CUES))
    mapped = replace(without_header, segment=replace(without_header.segment, map_uri="header.vtt"))
    texts = [good(), whole(HEADER), whole((HEADER + CUES[0]).replace("\n", "\r\n")), mapped]
    assert Subtitles(texts).findings() == []


BAD = [
    ("vtt-header", whole("".join(CUES))),
    ("vtt-header", whole("WEBVTTX\n\n")),
    ("vtt-characters", replace(good(), whole=HEADER.encode() + b"\xff", parts=[])),
    ("vtt-timed", whole(HEADER + "00:02.000 --> 00:01.000\nBack\n\n")),
    ("vtt-timed", whole(HEADER + "00:02 --> 00:03\nWithout milliseconds\n\n")),
    ("vtt-same-cues", replace(good(), whole=(HEADER + CUES[0]).encode())),
]


@pytest.mark.parametrize(("name", "body"), BAD)
def test_each_check_finds_its_fault(name: str, body: Body) -> None:
    assert [finding.name for finding in Subtitles([body]).findings()] == [name]


def test_every_check_has_a_bad_text() -> None:
    assert set(Subtitles.rules()) == {name for name, _ in BAD}
