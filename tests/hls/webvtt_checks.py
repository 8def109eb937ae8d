"""What holds for the bytes of subtitles in WebVTT: their segments and their parts."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from tests.hls.checks import Check
from tests.hls.segment_checks import Body

HEADER: Final = re.compile(r"\ufeff?WEBVTT(?:[ \t][^\n]*)?(?:\n|$)")
STAMP: Final = r"(?:\d{2,}:)?[0-5]\d:[0-5]\d\.\d{3}"
MAP: Final = re.compile(rf"X-TIMESTAMP-MAP=(?:LOCAL:{STAMP},MPEGTS:\d+|MPEGTS:\d+,LOCAL:{STAMP})")
TIMES: Final = re.compile(rf"({STAMP})[ \t]+-->[ \t]+({STAMP})(?:[ \t].*)?")


def files(found: Sequence[Body]) -> Iterator[tuple[Body, str, str]]:
    """(its segment, name, text) of all that was fetched."""
    for body in found:
        parts = [
            (f"part {body.segment.msn}.{place}", data) for place, data in enumerate(body.parts) if data is not None
        ]
        whole = [(f"segment {body.segment.msn}", body.whole)] if body.whole is not None else []
        for name, data in [*parts, *whole]:
            yield body, name, re.sub(r"\r\n?", "\n", data.decode("utf-8", "replace"))


def blocks(text: str) -> list[list[str]]:
    return [block.strip("\n").split("\n") for block in re.split(r"\n{2,}", text.strip("\n")) if block]


def cues(text: str) -> list[tuple[str, ...]]:
    return [tuple(block) for block in blocks(text) if any("-->" in line for line in block[:2])]


def seconds(stamp: str) -> float:
    *hours, minute, second = stamp.split(":")
    return (int(hours[0]) if hours else 0) * 3600 + int(minute) * 60 + float(second)


def header(found: Sequence[Body]) -> Iterator[str]:
    for body, name, text in files(found):
        if not HEADER.match(text) and not body.segment.map_uri:
            yield f"{name} begins with {text[:20]!r}, and has no map"


def characters(found: Sequence[Body]) -> Iterator[str]:
    for _, name, text in files(found):
        if "\ufffd" in text:
            yield f"{name} is not in UTF-8"


def timestamp_map(found: Sequence[Body]) -> Iterator[str]:
    for _, name, text in files(found):
        first = blocks(text)[:1]
        if HEADER.match(text) and not any(MAP.fullmatch(line) for line in first[0][1:]):
            yield f"{name} has no X-TIMESTAMP-MAP in its header"


def timed(found: Sequence[Body]) -> Iterator[str]:
    for _, name, text in files(found):
        for cue in cues(text):
            line = next(each for each in cue if "-->" in each)
            times = TIMES.fullmatch(line)
            if times is None or seconds(times[1]) >= seconds(times[2]):
                yield f"{name} has a cue of {line!r}"


def same_cues(found: Sequence[Body]) -> Iterator[str]:
    for body in found:
        parts = [data.decode("utf-8", "replace") for data in body.parts if data is not None]
        if body.whole is None or not parts or len(parts) < len(body.segment.parts):
            continue
        if [cue for part in parts for cue in cues(part)] != cues(body.whole.decode("utf-8", "replace")):
            yield f"segment {body.segment.msn} has other cues than its parts"


WEBVTT: list[Check[Sequence[Body]]] = [
    Check("vtt-header", "3.1.4", "Each begins with the header of WebVTT, or has an EXT-X-MAP", header),
    Check("vtt-characters", "WebVTT 4.1", "It is in UTF-8", characters),
    Check(
        "vtt-map", "3.1.4", "The header has an X-TIMESTAMP-MAP, with nothing blank before it", timestamp_map, "should"
    ),
    Check("vtt-timed", "WebVTT 4.1", "Each cue has times, and ends after it began", timed),
    Check("vtt-same-cues", "3.2", "A segment has its parts' cues, and no others", same_cues),
]
